"""Compare the rows of two tables: their number and a digest, and then the rows that differ, by their keys.

Runs anywhere, and changes nothing. Each table is read once for its digest, and once more if something
differs. Each row goes into one of 65,536 buckets by the hash of its key, so memory does not grow with the
tables: buckets with equal sums have equal rows, and of those that differ only so many are looked at as fit.
Invariant: "equal" is said only of columns that were read on both sides, with the same types. Maps are
equal if their entries are, in any order, because two right jobs may write them in different orders.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.errors import MaterializeError, OptionError
from penstock.state.columns import hash_columns, hash_values

_BUCKETS = 1 << 16
_KEPT_MAX = 100_000
"""How many rows of each side are looked at one by one, if no bucket has more."""
_SHOWN_MAX = 20


class Rows(NamedTuple):
    """The rows of a table at one moment.

    Attributes:
        schema: of the table.
        keys: its primary key.
        read: reads them; may be called again.
    """

    schema: pa.Schema
    keys: tuple[str, ...]
    read: Callable[[], Iterable[pa.RecordBatch]]


class RowChange(NamedTuple):
    """A key that only one of the two tables has, or has more often, or whose rows differ.

    `kind`: "only-live", "only-shadow", "more-often" or "changed". `columns`: those that differ, if it is
    changed. `times`: how many rows of the running job's table and of the shadow have the key. A whole table
    has each key once, so more of them mean that something else has written into it.
    """

    kind: str
    key: dict[str, Any]
    columns: tuple[str, ...] = ()
    times: tuple[int, int] = (1, 1)

    @property
    def text(self) -> str:
        """Return a sentence about it."""
        key = ", ".join(f"{name} = {_shown(value)}" for name, value in self.key.items())
        if self.kind == "changed":
            names = ", ".join(self.columns)
            return f"The row with {key} differs in {names}."
        if self.kind == "more-often":
            live, shadow = self.times
            sides = f"{live:,} in the table of the running job, {shadow:,} in that of the shadow"
            return f"Rows with {key}: {sides}."
        who = "running job" if self.kind == "only-live" else "shadow"
        return f"Only the table of the {who} has the row with {key}."

    def to_json(self) -> dict[str, Any]:
        """Return plain values, for programs."""
        key = {name: _shown(value) for name, value in self.key.items()}
        times = dict(zip(("live", "shadow"), self.times, strict=True))
        return {"kind": self.kind, "key": key, "columns": list(self.columns), "times": times}


@dataclass(frozen=True)
class TablesCompared:
    """What was found.

    Attributes:
        columns: that were compared.
        not_compared: sentences about columns that only one table has, or that have other types.
        counts: the rows of the running job's table and of the shadow.
        digests: of the compared columns.
        is_equal: all columns were compared, and all rows are equal.
        rows: some that differ.
        has_more: more rows differ than those.
    """

    columns: tuple[str, ...]
    not_compared: tuple[str, ...]
    counts: tuple[int, int]
    digests: tuple[str, str]
    is_equal: bool
    rows: tuple[RowChange, ...] = ()
    has_more: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return plain values, for programs."""
        return {
            "columns": list(self.columns),
            "not_compared": list(self.not_compared),
            "row_counts": list(self.counts),
            "digests": list(self.digests),
            "rows": [each.to_json() for each in self.rows],
            "has_more_rows": self.has_more,
        }


class _Sums:
    """What is known of the rows of one table, bucket by bucket."""

    def __init__(self) -> None:
        self.sizes = np.zeros(_BUCKETS, np.int64)
        self.high, self.low = (np.zeros(_BUCKETS, np.uint64) for _ in range(2))

    def add(self, rows: pa.Table, columns: Sequence[str], keys: Sequence[str]) -> None:
        buckets = _buckets_of(rows, keys)
        hashes = hash_values(rows.select(columns), maps_have_order=False)
        np.add.at(self.sizes, buckets, 1)
        np.add.at(self.high, buckets, hashes.high)
        np.add.at(self.low, buckets, hashes.low)

    @property
    def row_count(self) -> int:
        return int(self.sizes.sum())

    @property
    def digest(self) -> str:
        high, low = (int(each.sum(dtype=np.uint64)) for each in (self.high, self.low))
        return f"{self.row_count}-{high:016x}-{low:016x}"


def compare_rows(live: Rows, shadow: Rows, columns: Sequence[str] | None = None) -> TablesCompared:
    """Compare the rows of two tables.

    Args:
        live: of the running job.
        shadow: of the changed job.
        columns: that are compared beside the keys; None: all.

    Raises:
        OptionError: a table does not have one of the columns.
        MaterializeError: the tables have other keys.
    """
    _check_keys(live, shadow)
    names, not_compared = _columns(live, shadow, columns)
    sums = _Sums(), _Sums()
    for side, found in zip((live, shadow), sums, strict=True):
        for rows in _tables(side, names):
            found.add(rows, names, live.keys)
    one, two = sums
    differs = (one.sizes != two.sizes) | (one.high != two.high) | (one.low != two.low)
    changes = list(_changes(live, shadow, names, _chosen(np.flatnonzero(differs), one.sizes + two.sizes)))
    return TablesCompared(
        tuple(names),
        tuple(not_compared),
        (one.row_count, two.row_count),
        (one.digest, two.digest),
        not (differs.any() or not_compared),
        tuple(changes[:_SHOWN_MAX]),
        len(changes) > _SHOWN_MAX,
    )


def _check_keys(live: Rows, shadow: Rows) -> None:
    kinds = ([each.schema.field(name).type for name in each.keys] for each in (live, shadow))
    if live.keys != shadow.keys or next(kinds) != next(kinds):
        raise MaterializeError(
            f"Expected the primary key {', '.join(live.keys)} in the table of the shadow, as in that of the "
            f"running job and of the same types, got {', '.join(shadow.keys)}. Nothing was compared: rows "
            "are paired by their keys."
        )


def _columns(live: Rows, shadow: Rows, wanted: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """Return the columns that can be compared, and sentences about the others."""
    sides = ("running job", live.schema), ("shadow", shadow.schema)
    for name in wanted or ():
        for who, schema in sides:
            if name not in schema.names:
                raise OptionError(
                    f"Expected columns of both tables for --columns, but the table of the {who} has no "
                    f"column {name}. It has {', '.join(schema.names)}. Nothing was compared.",
                    option="--columns",
                    value=name,
                )
    names, others = list[str](), list[str]()
    for name in dict.fromkeys([*live.schema.names, *shadow.schema.names]):
        if wanted is not None and name not in (*wanted, *live.keys):
            continue
        found = [schema.field(name).type for _, schema in sides if name in schema.names]
        if len(found) < len(sides):
            who = next(who for who, schema in sides if name in schema.names)
            others.append(f"Only the table of the {who} has the column {name}.")
        elif found[0] != found[1]:
            others.append(
                f"The column {name} has type {found[0]} in the table of the running job and {found[1]} in "
                "that of the shadow."
            )
        else:
            names.append(name)
    return names, others


def _tables(rows: Rows, columns: Sequence[str]) -> Iterator[pa.Table]:
    for batch in rows.read():
        if batch.num_rows:
            yield pa.Table.from_batches([batch]).select(columns)


def _buckets_of(rows: pa.Table, keys: Sequence[str]) -> Any:
    return (hash_columns(rows, keys).high % np.uint64(_BUCKETS)).astype(np.int64)


def _chosen(buckets: Any, sizes: Any) -> Any:
    """Return which buckets are looked at: the small ones, as many as fit, and at least one."""
    chosen, kept = np.zeros(_BUCKETS, bool), 0
    for bucket in buckets[np.argsort(sizes[buckets], kind="stable")].tolist():
        kept += int(sizes[bucket])
        if kept > _KEPT_MAX and chosen.any():
            break
        chosen[bucket] = True
    return chosen


def _changes(live: Rows, shadow: Rows, columns: Sequence[str], chosen: Any) -> Iterator[RowChange]:
    """Yield the rows of some buckets that differ."""
    if not chosen.any():
        return
    ours, theirs = (_by_key(each, columns, live.keys, chosen) for each in (live, shadow))
    for key in dict.fromkeys([*ours, *theirs]):
        one, two = ours.get(key, []), theirs.get(key, [])
        named, times = _named(live.keys, (one or two)[0]), (len(one), len(two))
        if not one or not two:
            yield RowChange("only-live" if one else "only-shadow", named, (), times)
        elif len(one) != len(two):
            yield RowChange("more-often", named, (), times)
        elif differing := _differing(one, two, columns):
            yield RowChange("changed", named, differing, times)


def _differing(
    one: Sequence[dict[str, Any]], two: Sequence[dict[str, Any]], columns: Sequence[str]
) -> tuple[str, ...]:
    """Return the columns in which rows with one key differ. Usually there is one row on each side."""

    def shown(rows: Sequence[dict[str, Any]], *names: str) -> list[str]:
        return sorted(repr([row[name] for name in names]) for row in rows)

    if shown(one, *columns) == shown(two, *columns):
        return ()
    return tuple(name for name in columns if shown(one, name) != shown(two, name)) or tuple(columns)


def _by_key(
    rows: Rows, columns: Sequence[str], keys: Sequence[str], chosen: Any
) -> dict[tuple[str, ...], list[dict[str, Any]]]:
    found: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for each in _tables(rows, columns):
        wanted = each.filter(pa.array(chosen[_buckets_of(each, keys)]))
        for values in zip(*map(_values, wanted.columns), strict=True):
            row = dict(zip(columns, values, strict=True))
            found.setdefault(tuple(repr(row[name]) for name in keys), []).append(row)
    return found


def _values(column: pa.ChunkedArray) -> list[Any]:
    try:
        found = list(column.to_pylist())
    except (OverflowError, ValueError):
        found = [_value(each) for each in column]
    return [_in_order(each, column.type) for each in found] if pa.types.is_nested(column.type) else found


def _in_order(value: Any, kind: Any) -> Any:
    """Return a value with the entries of its maps in one order. A stand-in of `_value` stays as it is."""
    if isinstance(value, dict):
        return {name: _in_order(each, kind.field(name).type) for name, each in value.items()}
    if not isinstance(value, list):
        return value
    if pa.types.is_map(kind):
        entries = [(_in_order(one, kind.key_type), _in_order(two, kind.item_type)) for one, two in value]
        return sorted(entries, key=repr)
    return [_in_order(each, kind.value_type) for each in value]


def _value(scalar: pa.Scalar) -> Any:
    """Return a value. One that Python does not have, such as a time in the year 10000, has a stand-in."""
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        if pa.types.is_temporal(scalar.type):
            return f"{scalar.value} as {scalar.type}"
        hashes = hash_values(pa.table({"": pa.array([scalar], scalar.type)}), maps_have_order=False)
        return f"digest {int(hashes.high[0]):016x}-{int(hashes.low[0]):016x}"


def _named(keys: Sequence[str], row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in keys}


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    return json.dumps(value) if isinstance(value, str) else str(value)
