"""Find rows of PostgreSQL that exchange their keys: the end of an old row after the new row of its key.

Runs on executors; pure. With a deferrable primary key a transaction may make row 1 row 2, and row 2 row 1.
Debezium then writes the new row of key 2 before the end of its old row. A copy that takes the last change of
a key loses the new row.

Invariant: only what the messages prove is found. They are of one transaction and have the same columns, the
end has the later position in the database's log (so it is not one that Debezium sends again), and a column
has another value in the old row that ends. That value counts only if the column may be null and has no
default: of other columns Debezium makes up a value where the database does not send the old row
(`REPLICA IDENTITY DEFAULT`). If the columns changed between the messages, the database itself may have given
the same row other values: ADD COLUMN with a default that is dropped at once, or ALTER COLUMN TYPE.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.cdc._envelope import row_fields
from penstock.errors import SchemaError
from penstock.state.columns import hash_columns, is_hashable

TRANSACTION, POSITION = "txId", "lsn"
"""The fields of `source` in messages of PostgreSQL."""


class Origin(NamedTuple):
    """What a message says of its change.

    Attributes:
        transaction: that made the change; None: unknown.
        position: in the log of the database; None: unknown. It rises within a transaction.
        proves: columns whose old value is the true one, if it is not null.
        columns: a text that is the same if the columns of two messages are.
    """

    transaction: int | None = None
    position: int | None = None
    proves: frozenset[str] = frozenset()
    columns: str = ""


class Exchanged(NamedTuple):
    """The new row of a key, and the end of its old row: indices of rows."""

    new: int
    end: int


def origin_of(source: Any, schema: Mapping[str, Any]) -> Origin:
    """Return what a message says of its change. A source of an unexpected form says nothing.

    Args:
        source: the field of this name in the message; None if it has none.
        schema: of the message, in the JSON of Kafka Connect.
    """
    try:
        fields = row_fields(schema)
    except SchemaError:
        return Origin()
    proves = {str(one["field"]) for one in fields if one.get("optional") and one.get("default") is None}
    transaction, position = (_number(source, name) for name in (TRANSACTION, POSITION))
    return Origin(transaction, position, frozenset(proves), json.dumps(fields, sort_keys=True))


def _number(source: Any, name: str) -> int | None:
    found = source.get(name) if isinstance(source, Mapping) else None
    return found if isinstance(found, int) else None


def first_exchanged(
    rows: pa.RecordBatch, row_kinds: pa.Array, keys: Sequence[str], origin: Callable[[int], Origin]
) -> Exchanged | None:
    """Return the first two rows of one key that show an exchange.

    Args:
        rows: in their order, without nulls in the keys.
        row_kinds: of the rows.
        keys: the primary key.
        origin: of the message of a row.
    """
    names = [one.name for one in rows.schema if one.nullable and one.name not in keys]
    for pair in _suspects(rows, _last_two(rows, row_kinds, keys), names):
        new, end = (rows.slice(index, 1).to_pylist()[0] for index in pair)
        if any(new[name] != end[name] for name in keys):
            continue  # their hashes are equal by chance
        others = {name for name in names if end[name] is not None and not _is_equal(new[name], end[name])}
        if others and _is_proven(origin(pair.new), origin(pair.end), others):
            return pair
    return None


def _suspects(rows: pa.RecordBatch, pairs: Sequence[Exchanged], names: Sequence[str]) -> Iterator[Exchanged]:
    """Yield the pairs that may differ in one of these columns."""
    if not pairs:
        return
    new, end = (rows.take(pa.array(indices)) for indices in zip(*pairs, strict=True))
    may_differ = np.zeros(len(pairs), np.bool_)
    for name in names:
        is_given = end.column(name).is_valid()
        if is_hashable(end.column(name).type):
            is_other = pc.fill_null(pc.not_equal(new.column(name), end.column(name)), True)
            is_given = pc.and_(is_given, is_other)
        may_differ |= is_given.to_numpy(zero_copy_only=False)
    yield from (pairs[at] for at in np.flatnonzero(may_differ).tolist())


def _last_two(rows: pa.RecordBatch, row_kinds: pa.Array, keys: Sequence[str]) -> list[Exchanged]:
    """Return the last two rows of each key whose rows end with a new row and -D."""
    is_end, is_new = (
        pc.is_in(row_kinds, value_set=pa.array(found)).to_numpy(zero_copy_only=False)
        for found in (["-D"], ["+I", "+U"])
    )
    if not is_end.any() or not is_new.any():
        return []
    hashes = hash_columns(pa.Table.from_batches([rows]), keys).high
    order = np.argsort(hashes, kind="stable")
    sorted_hashes = hashes[order]
    is_last = np.append(sorted_hashes[1:] != sorted_hashes[:-1], True)[1:]
    follows = sorted_hashes[1:] == sorted_hashes[:-1]
    wanted = is_last & follows & is_end[order[1:]] & is_new[order[:-1]]
    return [Exchanged(int(order[at]), int(order[at + 1])) for at in np.flatnonzero(wanted)]


def _is_equal(left: Any, right: Any) -> bool:
    return bool(left == right or (left != left and right != right))  # noqa: PLR0124 - NaN


def _is_proven(new: Origin, end: Origin, others: set[str]) -> bool:
    if new.transaction is None or new.transaction != end.transaction or not others & end.proves:
        return False
    if new.columns != end.columns:
        return False
    return new.position is not None and end.position is not None and end.position > new.position
