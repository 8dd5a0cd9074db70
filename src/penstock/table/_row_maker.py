"""Rows of declared columns from the objects that a user's deserializer returns.

Runs on executors. Invariant: a value is stored in its column unchanged, or is refused: nothing is cut off
or turned into something else.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from penstock.formats.decimals import exact_cast
from penstock.table._row_values import check_cast, check_of, path_of_null

_NOT_TEXT = re.compile(r"Expected bytes, got a '(.+)' object")
"""Arrow's message for a value that is neither text nor bytes, in a column of text or bytes."""


class UnfitRowError(Exception):
    """The user's code returned something that is not a row of the declared columns."""


class RowMaker:
    """Makes rows of one schema from the objects that a deserializer returns."""

    def __init__(self, schema: pa.Schema, *, gives_values: bool) -> None:
        self._schema = schema
        self._names: list[str] = schema.names
        self._gives_values = gives_values
        self._checks = [check_of(field.type) for field in schema]

    def rows(self, given: Any) -> list[tuple[Any, ...]]:
        """Return the rows in the object that a deserializer returned for one record.

        Raises:
            UnfitRowError: the object is not a row.
        """
        if given is None:
            return []
        if isinstance(given, (list, Iterator)):
            return [self._row(one) for one in given if one is not None]
        return [self._row(given)]

    def _row(self, given: Any) -> tuple[Any, ...]:
        if self._gives_values:
            return (given,)
        names = getattr(given, "__fields__", None)  # of a PySpark Row that was made with names
        if isinstance(given, tuple) and isinstance(names, (list, tuple)):
            given = dict(zip(names, given, strict=True))
        if dataclasses.is_dataclass(given) and not isinstance(given, type):
            given = {field.name: getattr(given, field.name) for field in dataclasses.fields(given)}
        if isinstance(given, Mapping):
            return self._by_name(given)
        if isinstance(given, tuple):
            if len(given) != len(self._names):
                raise UnfitRowError(
                    f"expected a tuple of {len(self._names)} values, got {len(given)} from the deserializer"
                )
            return given
        raise UnfitRowError(
            "expected a tuple, mapping, Row or dataclass for a row, or a list or iterator of these for "
            f"several rows, got {type(given).__name__} from the deserializer"
        )

    def _by_name(self, given: Mapping[Any, Any]) -> tuple[Any, ...]:
        if given.keys() - set(self._names):
            unknown = sorted(map(str, given.keys() - set(self._names)))
            raise UnfitRowError(f"the deserializer gave columns that are not declared: {', '.join(unknown)}")
        return tuple(given.get(name) for name in self._names)

    def batch(self, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
        """Return the rows in Arrow. Raises UnfitRowError if a value is not of its column's type."""
        columns: Iterable[Sequence[Any]] = zip(*rows, strict=True) if rows else [()] * len(self._names)
        arrays = [
            _array(column, field, check)
            for column, field, check in zip(columns, self._schema, self._checks, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def problem(self, row: tuple[Any, ...]) -> str | None:
        """Return why a row does not fit, None if it fits."""
        try:
            self.batch([row])
        except UnfitRowError as error:
            return str(error)
        return None

    def fitted(self, given: Any) -> pa.RecordBatch:
        """Return the batch that a deserializer of batches returned, with exactly the declared schema.

        Raises:
            UnfitRowError: the batch does not fit.
        """
        if isinstance(given, pa.Table):
            batches = given.combine_chunks().to_batches() or [self.batch([])]
            if len(batches) > 1:
                raise UnfitRowError("the deserializer gave a table that is too large for one batch")
            given = batches[0]
        if not isinstance(given, pa.RecordBatch):
            raise UnfitRowError(
                f"expected an Arrow RecordBatch, got {type(given).__name__} from the deserializer"
            )
        if sorted(given.schema.names) != sorted(self._names):
            raise UnfitRowError(
                f"expected the columns {', '.join(self._names)}, got {', '.join(given.schema.names)} from "
                "the deserializer"
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
        reason = _NOT_TEXT.sub(r"expected str or bytes, got \1", str(error))
        raise UnfitRowError(f"column '{field.name}' is {field.type}: {reason}") from None
    _check_nulls(made, field)
    return made


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        check_cast(column.type, field.type)
        made = column if column.type.equals(field.type) else exact_cast(column, field.type)
        if pt.is_float32(field.type) and pt.is_float64(column.type):
            _check_overflow(column, made)
    except (pa.ArrowException, TypeError) as error:
        raise UnfitRowError(f"column '{field.name}' is {field.type}: {error}") from None
    _check_nulls(made, field)
    return made


def _check_overflow(doubles: pa.Array, floats: pa.Array) -> None:
    if not pc.is_inf(floats).equals(pc.is_inf(doubles)):
        raise TypeError("a double is too large")


def _check_nulls(made: pa.Array, field: pa.Field) -> None:
    path = path_of_null(made, field, field.name)
    if path is not None:
        raise UnfitRowError(f"column '{path}' is declared NOT NULL, and the deserializer gave None")
