"""Rows of declared columns from whatever Python code gives for a record.

Runs on executors. Invariant: a value becomes exactly itself in its column, or is refused: nothing is cut off
or turned into something else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.types as pt


class UnfitRowError(Exception):
    """What the user's code gave is no row of the declared columns."""


class RowMaker:
    """Makes rows of one schema from what users give."""

    def __init__(self, schema: pa.Schema, *, gives_values: bool) -> None:
        self._schema = schema
        self._names: list[str] = schema.names
        self._gives_values = gives_values
        self._checks = [_check_of(field.type) for field in schema]

    def rows(self, given: Any) -> list[tuple[Any, ...]]:
        """The rows in what a deserializer gave for one record.

        Raises:
            UnfitRowError: it is no row.
        """
        if given is None:
            return []
        if isinstance(given, (list, Iterator)):
            return [self._row(one) for one in given if one is not None]
        return [self._row(given)]

    def _row(self, given: Any) -> tuple[Any, ...]:
        if self._gives_values:
            return (given,)
        names = getattr(given, "__fields__", None)  # PySpark's Row, where it was made with names
        if isinstance(given, tuple) and isinstance(names, (list, tuple)):
            given = dict(zip(names, given, strict=True))
        if dataclasses.is_dataclass(given) and not isinstance(given, type):
            given = {field.name: getattr(given, field.name) for field in dataclasses.fields(given)}
        if isinstance(given, Mapping):
            return self._by_name(given)
        if isinstance(given, tuple):
            if len(given) != len(self._names):
                raise UnfitRowError(
                    f"the deserializer gave a tuple of {len(given)} values for {len(self._names)} columns"
                )
            return given
        raise UnfitRowError(
            f"the deserializer gave a {type(given).__name__}; a row is a tuple, mapping, Row or dataclass, "
            "and several rows are a list or iterator of them"
        )

    def _by_name(self, given: Mapping[Any, Any]) -> tuple[Any, ...]:
        if given.keys() - set(self._names):
            unknown = sorted(map(str, given.keys() - set(self._names)))
            raise UnfitRowError(f"the deserializer gave columns that are not declared: {', '.join(unknown)}")
        return tuple(given.get(name) for name in self._names)

    def batch(self, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
        """The rows as Arrow.

        Raises:
            UnfitRowError: a value is not of its column's type.
        """
        columns: Iterable[Sequence[Any]] = zip(*rows, strict=True) if rows else [()] * len(self._names)
        arrays = [
            _array(column, field, check)
            for column, field, check in zip(columns, self._schema, self._checks, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def problem(self, row: tuple[Any, ...]) -> str | None:
        """Why a row does not fit, if it does not."""
        try:
            self.batch([row])
        except UnfitRowError as error:
            return str(error)
        return None

    def fitted(self, given: Any) -> pa.RecordBatch:
        """What a batch-wise deserializer gave, with exactly the declared schema.

        Raises:
            UnfitRowError: it does not fit.
        """
        if isinstance(given, pa.Table):
            given = given.combine_chunks().to_batches() or [self.batch([])]
            given = given[0]
        if not isinstance(given, pa.RecordBatch):
            raise UnfitRowError(f"the deserializer gave a {type(given).__name__}, not an Arrow RecordBatch")
        if sorted(given.schema.names) != sorted(self._names):
            raise UnfitRowError(
                f"the deserializer gave the columns {', '.join(given.schema.names)}; declared are "
                f"{', '.join(self._names)}"
            )
        arrays = [_cast(given.column(field.name), field) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _array(values: Sequence[Any], field: pa.Field, check: Callable[[Any], None] | None) -> pa.Array:
    try:
        if check is not None:
            for value in values:
                check(value)
        made = pa.array(values, field.type)
    except (pa.ArrowException, TypeError, ValueError, LookupError, OverflowError, AttributeError) as error:
        raise UnfitRowError(f"column '{field.name}' is {field.type}: {error}") from None
    _check_nulls(made, field)
    return made


def _check_of(kind: pa.DataType) -> Callable[[Any], None] | None:
    """What refuses values that Arrow would cut off in silence: fractions, and times of dates."""
    if pt.is_integer(kind):
        return _check_integer
    if pt.is_date(kind):
        return _check_date
    if pt.is_list(kind):
        return _check_of_items(_check_of(kind.value_type))
    if pt.is_map(kind):
        both = (_check_of(kind.key_type), _check_of(kind.item_type))
        entries = _check_of_items(_check_of_fields(dict(enumerate(both))))
        return lambda value: entries(value.items() if isinstance(value, Mapping) else value)
    if pt.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return _check_of_fields({field.name: _check_of(field.type) for field in fields})
    return None


def _check_integer(value: Any) -> None:
    if value is not None and not hasattr(value, "__index__"):
        raise TypeError(f"a {type(value).__name__} is no integer")


def _check_date(value: Any) -> None:
    if isinstance(value, datetime):
        raise TypeError("a datetime is no date")


def _check_of_items(check: Callable[[Any], None] | None) -> Callable[[Any], None]:
    def check_all(values: Any) -> None:
        if check is not None and values is not None:
            for value in values:
                check(value)

    return check_all


def _check_of_fields(checks: Mapping[Any, Callable[[Any], None] | None]) -> Callable[[Any], None]:
    def check_all(row: Any) -> None:
        if row is None:
            return
        for at, (name, check) in enumerate(checks.items()):
            if check is not None:
                check(row.get(name) if isinstance(row, Mapping) else row[at])

    return check_all


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        made = column if column.type.equals(field.type) else column.cast(field.type)
    except pa.ArrowException as error:
        raise UnfitRowError(f"column '{field.name}' is {field.type}: {error}") from None
    _check_nulls(made, field)
    return made


def _check_nulls(made: pa.Array, field: pa.Field) -> None:
    if not field.nullable and made.null_count:
        raise UnfitRowError(f"column '{field.name}' is declared NOT NULL, and the deserializer gave None")
