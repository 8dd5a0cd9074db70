"""Find rows of PostgreSQL that exchange their keys: an end that is not that of the newest row of its key.

Runs on driver and executors; pure. With a deferrable primary key a transaction may make row 1 row 2, and
row 2 row 1. Debezium then writes the new row of key 2 before the end of its old row. A copy that takes the
last change of a key loses the new row.

A key may have several rows within a transaction. PostgreSQL needs `REPLICA IDENTITY FULL` to update such a
table, so each end says which row it ends. So the rows of a key that a transaction has made, and has not
ended, are known. If the last change of the key is an end, and one of them is left, the copy would lose it.

Invariants: only changes of one transaction are compared. A change counts if its position in the database's
log is after the one before, because Debezium sends changes again after its death. An end without its old row
(another `REPLICA IDENTITY`) ends the rows of its key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.changelog.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

Words = npt.NDArray[np.uint64]
Events = npt.NDArray[np.void]
"""Of the type `EVENTS`."""

EVENTS = np.dtype(
    [
        ("transaction", "<i8"),
        ("key", "<u8"),
        ("row", "<u8"),
        ("kind", "i1"),
        ("is_whole", "?"),
        ("position", "<i8"),
        ("offset", "<i8"),
        ("is_last", "?"),
    ]
)
"""Rows of transactions, in the order of their topic partition. `key` and `row` are hashes. `is_whole` says
of an old row that the database has sent it, `is_last` that the topic partition has no change of the key in a
later transaction in the same task."""
MOST_ROWS = 1_000_000
"""New rows of one transaction that are remembered between two batches."""


class Open(NamedTuple):
    """The newest transaction of a topic partition, which may go on.

    Attributes:
        transaction: of the database.
        position: of its newest change in the database's log.
        keys: hashes of the keys of the rows that it has made and not ended, 64 bits each, low byte first.
        rows: hashes of these rows, in the same form.
        is_cut: whether it has more of them than are remembered.
    """

    transaction: int
    position: int
    keys: bytes = b""
    rows: bytes = b""
    is_cut: bool = False


class ExchangeError(Exception):
    """Rows have exchanged their keys, or it is unknown whether they have.

    Attributes:
        offset: of the end that deletes the row in the copy.
        is_known: whether they have.
    """

    def __init__(self, offset: int, *, is_known: bool = True) -> None:
        super().__init__(offset, is_known)
        self.offset = offset
        self.is_known = is_known


Event = tuple[int, int, bool, int]
"""Row, kind, whether an old row is whole, and position."""


class Left(NamedTuple):
    """What is left of a key after changes of one transaction.

    Attributes:
        rows: that the transaction has made and not ended.
        has_ended: whether the last change is an end.
        is_unknown: whether that end names a row that the transaction has not made here.
    """

    rows: list[int]
    has_ended: bool
    is_unknown: bool


def left_of(rows: Iterable[int], events: Iterable[Event]) -> Left:
    """Return what is left of a key.

    Args:
        rows: that the transaction has made before, and not ended.
        events: all of this key.
    """
    left, newest, last, is_unknown = list(rows), -1, INSERT, False
    for row, kind, is_whole, position in events:
        is_second = kind == UPDATE_AFTER and last == UPDATE_BEFORE and position == newest
        if position <= newest and not is_second:
            continue  # sent again
        if kind == INSERT or is_second:
            left.append(row)
        elif kind == UPDATE_AFTER:  # without its old row
            left = [row]
        elif row in left:
            left.remove(row)
            is_unknown = False
        else:
            is_unknown = is_whole
            left = left if is_whole else []
        newest, last = position, kind
    return Left(left, last == DELETE, is_unknown)


def of_keys(events: Events) -> Iterator[tuple[int, Events]]:
    """Yield each key of events with its own, in their order."""
    order, starts = _groups(events["key"])
    for begin, end in pairwise([*starts.tolist(), len(order)]):
        of_key = events[order[begin:end]]
        yield int(of_key["key"][0]), of_key


def events_in(of_key: Events) -> Iterator[Event]:
    """Yield the events of one key for `left_of`."""
    columns = (of_key[name].tolist() for name in ("row", "kind", "is_whole", "position"))
    return zip(*columns, strict=True)


def followed(known: Open | None, events: Events) -> Open | None:
    """Return the newest transaction after the events of the next part of its topic partition.

    Args:
        known: the newest transaction before it; None for none.
        events: of the first and the last transaction of the part.

    Raises:
        ExchangeError: an end deletes a row that lives.
    """
    for transaction in dict.fromkeys(events["transaction"][_changes(events["transaction"])].tolist()):
        if known is None or known.transaction != transaction:
            known = Open(transaction, -1)
        of_one = events[events["transaction"] == transaction]
        known = _with(known, of_one[_is_after(known, of_one)])
    return known


def _is_after(known: Open, events: Events) -> Any:
    """Return which events Debezium does not send again.

    A change of a key is an end and a new row at one position. COPY may insert several rows at one position.
    """
    found = events["position"] > known.position
    is_made = (events["position"] == known.position) & (events["kind"] == INSERT)
    if is_made.any():
        old_keys, old_rows = (np.frombuffer(each, "<u8").tolist() for each in (known.keys, known.rows))
        made = set(zip(old_keys, old_rows, strict=True))
        for at in np.flatnonzero(is_made).tolist():
            found[at] = (int(events["key"][at]), int(events["row"][at])) not in made
    return found


def _with(known: Open, events: Events) -> Open:
    """Return a transaction after more of its events."""
    if not len(events):
        return known
    keys = events["key"]
    old_keys, old_rows = (np.frombuffer(each, "<u8") for each in (known.keys, known.rows))
    is_simple, simple = _simple(keys, events["kind"])
    is_simple &= ~np.isin(keys, old_keys)
    simple &= is_simple
    made = [(keys[simple], events["row"][simple])]
    rest = events[~is_simple]
    is_met = np.isin(old_keys, rest["key"])
    made.append((old_keys[~is_met], old_rows[~is_met]))
    made.append(_made_of(rest, _by_key(old_keys[is_met], old_rows[is_met]), is_cut=known.is_cut))
    if known.is_cut:
        _check_cut(events[is_simple])
    all_keys, all_rows = (np.concatenate(each)[:MOST_ROWS] for each in zip(*made, strict=True))
    is_cut = known.is_cut or sum(len(each) for each, _ in made) > MOST_ROWS
    newest = int(events["position"].max())
    as_keys, as_rows = (each.astype("<u8").tobytes() for each in (all_keys, all_rows))
    return Open(known.transaction, newest, as_keys, as_rows, is_cut)


def _by_key(keys: Words, rows: Words) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for key, row in zip(keys.tolist(), rows.tolist(), strict=True):
        found.setdefault(key, []).append(row)
    return found


def _made_of(events: Events, before: Mapping[int, list[int]], *, is_cut: bool) -> tuple[Words, Words]:
    """Return keys and rows that are left of the keys of events."""
    found: list[tuple[int, int]] = []
    for key, of_key in of_keys(events):
        left = left_of(before.get(key, []), events_in(of_key))
        is_unknown = is_cut and left.is_unknown
        if left.has_ended and (left.rows or is_unknown) and is_last(of_key):
            raise ExchangeError(offset_of_end(of_key), is_known=not is_unknown)
        found += [(key, row) for row in left.rows]
    keys, rows = zip(*found, strict=True) if found else ((), ())
    return np.array(keys, np.uint64), np.array(rows, np.uint64)


def is_last(of_key: Events) -> bool:
    """Return whether the key of events has no later change."""
    return bool(of_key["is_last"][-1])


def offset_of_end(of_key: Events) -> int:
    """Return the offset of the last end among the events of a key."""
    return int(of_key["offset"][of_key["kind"] == DELETE][-1])


def _check_cut(events: Events) -> None:
    """Raise ExchangeError for an end of a row that the transaction may have made and that is forgotten."""
    is_end = (events["kind"] == DELETE) & events["is_whole"] & events["is_last"]
    if is_end.any():
        raise ExchangeError(int(events["offset"][is_end][0]), is_known=False)


def _simple(keys: Words, kinds: npt.NDArray[np.int8]) -> tuple[Any, Any]:
    """Return which events are of keys with at most one new row, which comes last; and which are this row."""
    order, starts = _groups(keys)
    is_new = np.isin(kinds[order], [INSERT, UPDATE_AFTER])
    counts = np.add.reduceat(is_new, starts, dtype=np.int64)
    ends = np.append(starts[1:], len(order)) - 1
    of_key = (counts == 0) | ((counts == 1) & is_new[ends])
    is_simple, is_row = np.empty(len(order), np.bool_), np.zeros(len(order), np.bool_)
    is_simple[order] = np.repeat(of_key, np.diff(np.append(starts, len(order))))
    is_row[order[ends]] = is_new[ends]
    return is_simple, is_row


def _groups(keys: Words) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the order of equal keys side by side, and where each begins in it."""
    order = np.argsort(keys, kind="stable")
    return order, np.flatnonzero(_changes(keys[order]))


def _changes(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which values differ from the one before."""
    return np.append(True, values[1:] != values[:-1])[: len(values)]
