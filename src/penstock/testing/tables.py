"""Compare tables: the rows of a DataFrame, those that changes leave, or the last ones of an upsert topic.

Runs in tests only. Invariant: rows are compared as a multiset, because Spark promises no order.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from penstock.testing.judge import HasAddress, committed_records
from penstock.testing.waiting import PATIENCE_S
from penstock.types import ROW_KIND

_SIGNS = {"+I": 1, "+U": 1, "-U": -1, "-D": -1}
_SHOWN = 10
_BOOLEAN, _NAN = object(), object()
"""Marks in keys. No value of a row is equal to them."""


class _Table(NamedTuple):
    """Rows, and the names of their columns, if they have names."""

    names: tuple[str, ...] | None
    rows: list[tuple[Any, ...]]


def assert_table_equals(table: Any, expected: Iterable[Any]) -> None:
    """Assert that a table has exactly the expected rows, each as often as it is expected, in any order.

    Args:
        table: a DataFrame of Spark, or a list of rows. A row is a dict, a tuple, a list or a `Row`. A stream
            runs until all records of its sources are read. If it has a column `row_kind`, the table is what
            its changes leave.
        expected: rows as dicts, which are compared by the names of their columns; or as tuples or lists.
            A nested struct is a dict, too, or a tuple. True is not 1, NULL equals NULL, NaN equals NaN, and
            1.0 equals 1 and Decimal("1.00"). Times are compared as Spark gives them to Python: a `datetime`
            without a zone. TIMESTAMP (TIMESTAMP_LTZ in SQL) shows the zone of this process, and not that of
            the Spark session. A `datetime` with a zone equals none of them.

    Raises:
        AssertionError: says which rows are missing, and which are too many.
        TypeError: some rows have names and others do not; or the table is a stream of Spark Connect.
    """
    wanted, found = _table(list(expected)), _table(table)
    names = _names(found, wanted)
    lost, surplus = _differences(_ordered(wanted, names), _ordered(found, names))
    problems = [_told(what, rows, names) for what, rows in (("missing", lost), ("too many", surplus)) if rows]
    if problems:
        raise AssertionError(
            f"Expected {len(wanted.rows)} rows, got {len(found.rows)}. " + " ".join(problems)
        )


def table_of(changes: Any, row_kind: str = ROW_KIND) -> list[dict[str, Any]]:
    """Return the rows that changes leave, as dicts without the kind of the row.

    Args:
        changes: a DataFrame of Spark, or a list of dicts or `Row`s, in their order. A stream is read until
            all records of its sources are read.
        row_kind: the column with +I, -U, +U or -D. Without it each row is added.

    Raises:
        AssertionError: a row is taken away that is not there.
    """
    left = _left(_collected(changes), row_kind)
    if left.names is None:
        raise TypeError("Expected rows with names: a DataFrame, or a list of dicts or Rows. Got tuples.")
    return [dict(zip(left.names, row, strict=True)) for row in left.rows]


def rows_left(changes: Any) -> list[tuple[Any, ...]]:
    """Return the rows that changes leave, as tuples: see `table_of`. Names may be there twice."""
    return _left(_collected(changes), ROW_KIND).rows


def upsert_table(
    brokers: HasAddress | str,
    topic: str,
    parse: Callable[[bytes], Mapping[str, Any]] = json.loads,
    *,
    timeout_s: float = PATIENCE_S,
) -> list[dict[str, Any]]:
    """Return the table that an upsert topic leaves: the last value of each key that is not deleted.

    The topic is read with `read_committed` up to its end, by librdkafka.

    Args:
        brokers: a cluster, or its addresses.
        topic: which one.
        parse: turns the bytes of a value into a row. The default reads JSON.
        timeout_s: how long to wait without progress.

    Raises:
        AssertionError: the end was not reached, for example because a transaction stays open; or one key is
            in two partitions, so it is unknown which record is the last one.
    """
    last: dict[bytes | None, tuple[int, bytes | None]] = {}
    for record in committed_records(brokers, topic, timeout_s=timeout_s):
        known = last.get(record.key)
        if known is not None and known[0] != record.partition:
            raise AssertionError(
                f"Key {record.key!r} of {topic} is in the partitions {known[0]} and {record.partition}. "
                "Expected each key in one partition."
            )
        last[record.key] = record.partition, record.value
    return [dict(parse(value)) for _, value in last.values() if value is not None]


def _table(rows: Any) -> _Table:
    """Return the rows of a table. Those of a stream are what its changes leave."""
    return _left(_collected(rows), ROW_KIND) if _is_stream(rows) else _collected(rows)


def _is_stream(rows: Any) -> bool:
    return bool(getattr(rows, "isStreaming", False))


def _collected(rows: Any) -> _Table:
    if _is_stream(rows):
        from penstock.testing.streams import collect_stream  # noqa: PLC0415 - it needs Spark

        return _Table(tuple(rows.columns), [tuple(row) for row in collect_stream(rows)])
    if hasattr(rows, "collect"):
        return _Table(tuple(rows.columns), [tuple(row) for row in rows.collect()])
    listed = list(rows)
    named = [_named(row) for row in listed]
    if named and all(row is not None for row in named):
        dicts = [row for row in named if row is not None]
        names = tuple(dict.fromkeys(name for row in dicts for name in row))
        for row in dicts:
            if missing := set(names) - row.keys():
                raise AssertionError(f"The row {row!r} has no column {', '.join(sorted(missing))}.")
        return _Table(names, [tuple(row[name] for name in names) for row in dicts])
    _check_kinds(listed)
    return _Table(None, [tuple(row) for row in listed])


def _check_kinds(rows: list[Any]) -> None:
    """Raise TypeError unless all rows are tuples, lists or `Row`s, which are compared by position."""
    for row in rows:
        if not isinstance(row, (tuple, list)):
            raise TypeError(
                f"Expected rows that are all dicts, or all tuples and lists. Got {row!r} among {len(rows)} "
                "rows that are not all dicts. Rows with and without names cannot be compared."
            )


def _named(row: Any) -> dict[str, Any] | None:
    """Return a row by the names of its columns; None if it has no names."""
    if isinstance(row, Mapping):
        return dict(row)
    fields = getattr(row, "__fields__", None)  # of a Row
    return None if fields is None else dict(zip(fields, row, strict=True))


def _left(changes: _Table, row_kind: str) -> _Table:
    """Return the rows that are there after all changes."""
    if changes.names is None or row_kind not in changes.names:
        return changes
    index = changes.names.index(row_kind)
    counts: Counter[Any] = Counter()
    samples: dict[Any, tuple[Any, ...]] = {}
    for change in changes.rows:
        kind, row = change[index], change[:index] + change[index + 1 :]
        if kind not in _SIGNS:
            raise AssertionError(f"Expected +I, -U, +U or -D in the column {row_kind}, got {kind!r}.")
        key = _key(row)
        counts[key] += _SIGNS[kind]
        samples.setdefault(key, row)
    # Changes of different keys come in any order, so only the sum counts.
    if gone := [samples[key] for key, count in counts.items() if count < 0]:
        raise AssertionError(_told("rows are taken away that are not there", gone, None))
    return _Table(_without(changes.names, row_kind), [samples[key] for key in counts.elements()])


def _without(names: Sequence[str], one: str) -> tuple[str, ...]:
    return tuple(name for name in names if name != one)


def _names(found: _Table, wanted: _Table) -> tuple[str, ...] | None:
    """Return the columns to compare, in the order of the expected rows.

    Raises:
        AssertionError: the table has other columns.
    """
    if found.names is None or wanted.names is None:
        return None
    if sorted(found.names) != sorted(wanted.names):
        raise AssertionError(f"Expected the columns {', '.join(wanted.names)}, got {', '.join(found.names)}.")
    return wanted.names


def _ordered(table: _Table, names: tuple[str, ...] | None) -> list[tuple[Any, ...]]:
    if names is None or table.names is None:
        return table.rows
    indices = [table.names.index(name) for name in names]
    return [tuple(row[index] for index in indices) for row in table.rows]


def _differences(
    wanted: list[tuple[Any, ...]], found: list[tuple[Any, ...]]
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Return the rows that are missing, and those that are too many."""
    return _surplus(wanted, found), _surplus(found, wanted)


def _surplus(rows: list[tuple[Any, ...]], others: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    fitted = _fitted(rows, others)
    left = Counter(map(_key, _fitted(others, fitted)))
    surplus = []
    for row, key in zip(rows, map(_key, fitted), strict=True):
        if left[key]:
            left[key] -= 1
        else:
            surplus.append(row)
    return surplus


def _fitted(rows: list[tuple[Any, ...]], samples: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the rows with nested structs in the form that the samples have, so that they can be equal."""
    fit = _fields_fitter([each for each in samples if len(each) == len(samples[0])])
    return [fit(row) for row in rows]


def _fitter(samples: Sequence[Any]) -> Callable[[Any], Any]:
    """Return a function that gives a value the form that the samples have: see `_fields_fitter`."""
    sequences = [each for each in samples if isinstance(each, (list, tuple))]
    names = next((each for row in sequences if (each := getattr(row, "__fields__", None))), None)
    if names is not None:
        return _fields_fitter([row for row in sequences if len(row) == len(names)], tuple(names))
    maps = [each for each in samples if isinstance(each, Mapping)]
    if maps:
        of_value = _fitter([value for each in maps for value in each.values()])
        return lambda value: (
            {key: of_value(each) for key, each in value.items()} if isinstance(value, Mapping) else value
        )
    if sequences:
        of_each = _fitter([element for each in sequences for element in each])
        return lambda value: tuple(map(of_each, value)) if _is_unnamed(value) else value
    return lambda value: value


def _fields_fitter(
    rows: Sequence[Sequence[Any]], names: tuple[str, ...] | None = None
) -> Callable[[Any], Any]:
    """Return a function that gives a row, or a nested struct, the form of these.

    Args:
        rows: as long as one another.
        names: of the fields of a struct. A dict or `Row` is put into their order. If it has other names, it
            becomes a dict, which is equal to no `Row`.
    """
    columns = [_fitter(column) for column in zip(*rows, strict=True)]

    def fit(value: Any) -> Any:
        named = _named(value) if names is not None else None
        if named is not None and names is not None:
            if named.keys() != set(names):
                return named
            value = [named[name] for name in names]
        if not isinstance(value, (list, tuple)) or len(value) != len(columns):
            return value
        return tuple(of_field(each) for of_field, each in zip(columns, value, strict=True))

    return fit


def _is_unnamed(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and not hasattr(value, "__fields__")


def _key(value: Any) -> Any:
    """Return what two equal values have in common. It can be hashed."""
    if isinstance(value, bool):
        return _BOOLEAN, value
    if isinstance(value, float) and math.isnan(value):
        return _NAN
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, Mapping):
        return frozenset((_key(key), _key(each)) for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(_key, value))
    return value


def _told(what: str, rows: list[tuple[Any, ...]], names: tuple[str, ...] | None) -> str:
    shown = ", ".join(_shown(rows[:_SHOWN], names))
    more = ", ..." if len(rows) > _SHOWN else ""
    return f"{len(rows)} {what}: {shown}{more}."


def _shown(rows: list[tuple[Any, ...]], names: tuple[str, ...] | None) -> Iterator[str]:
    for row in rows:
        yield repr(row if names is None else dict(zip(names, row, strict=True)))
