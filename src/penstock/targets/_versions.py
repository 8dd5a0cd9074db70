"""The versions of each key of a history table, computed from the versions that are there and new changes.

Pure; runs on the driver. Of the changes of a key at one time the last one counts. Invariant: the versions of
a key depend only on its changes, their order and their times, and not on how the changes were divided into
batches. It holds for all changes but these three, because the table has versions and no deletes:

- A delete that ends no version is forgotten after its batch. An older row that comes in a later batch stays
  current. `Found.forgotten` counts such deletes.
- If -D and +I of one time come again, and in two batches, the -D alone is an error: a row begins at its time.
- A -U is left out only if the next row of its key in its batch is a +U. Else it is a delete at its own time.
  So the batch decides if its +U is another record, or if another row takes the key by a +U.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as kinds

from penstock.changelog.row_kinds import INSERT, UPDATE_AFTER, UPDATE_BEFORE, Kinds
from penstock.errors import RowError
from penstock.state.columns import one_array
from penstock.targets.all_rows import codes_of
from penstock.targets.batch import DELETED

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Names:
    """The columns of a history table.

    Attributes:
        keys: the primary key of the changelog.
        time: the column of the changelog with the time of a change.
        valid_from: when a version begins.
        valid_to: when it ends; null if it is current.
        is_current: whether it is.
    """

    keys: tuple[str, ...]
    time: str
    valid_from: str
    valid_to: str
    is_current: str


class _Events(NamedTuple):
    """What is known to have happened: a row of each element."""

    key: Numbers
    time: Numbers
    is_upsert: Flags
    row: Numbers

    def take(self, indices: npt.NDArray[np.int64] | Flags) -> _Events:
        return _Events(self.key[indices], self.time[indices], self.is_upsert[indices], self.row[indices])


class Found(NamedTuple):
    """What a batch makes of the versions.

    Attributes:
        versions: those that are new or have another end, with the column `DELETED`.
        forgotten: how many deletes end no version, so that the table will not know of them.
    """

    versions: pa.Table
    forgotten: int


def changed_versions(before: pa.Table, changes: pa.Table, row_kinds: Kinds, names: Names) -> Found:
    """Return the versions that are new or have another end.

    Args:
        before: all versions of the keys of the changes.
        changes: rows of the changelog, those of a key in their order.
        row_kinds: their kinds.
        names: of the columns.

    Raises:
        RowError: a change has no time, or a delete has the time of the row that it deletes.
    """
    _check_times(changes, names)
    rows = pa.concat_tables([before.select(changes.column_names).cast(changes.schema), changes])
    key = codes_of(rows.select(list(names.keys)))
    events = _last_of_each_time(_events(before, rows, key, row_kinds, names), names)
    next_at = np.append(events.time[1:], 0)
    is_last = np.append(events.key[1:] != events.key[:-1], True)[: len(events.key)]
    next_at, is_last = next_at[: len(events.key)], is_last.astype(bool)
    is_changed = events.is_upsert & _differs(before, events, next_at, is_last, names)
    times = rows.column(names.time)
    ends = pa.array(next_at[is_changed], mask=is_last[is_changed])
    columns = {
        name: rows.column(name).take(pa.array(events.row[is_changed])) for name in changes.column_names
    }
    columns |= {
        names.valid_from: columns[names.time],
        names.valid_to: _as_times(ends, times.type),
        names.is_current: pa.array(is_last[is_changed]),
        DELETED: pa.array(np.zeros(int(is_changed.sum()), bool)),
    }
    is_ending = np.append(False, events.is_upsert[:-1] & ~is_last[:-1])[: len(events.key)]
    return Found(pa.table(columns), int((~events.is_upsert & ~is_ending).sum()))


def _check_times(changes: pa.Table, names: Names) -> None:
    if changes.column(names.time).null_count:
        raise RowError(
            f"Expected a value in column '{names.time}', which has the time of a change, got null. Nothing "
            "of this batch was written. Fill the column, or name another one as `time`.",
            column=names.time,
        )


def _events(before: pa.Table, rows: pa.Table, key: Numbers, row_kinds: Kinds, names: Names) -> _Events:
    """Return the events of a table and of changes, in the order in which they came."""
    count = before.num_rows
    starts = _as_numbers(rows.column(names.time))
    ends = before.column(names.valid_to)
    is_ended = ends.is_valid().to_numpy()
    ended = np.flatnonzero(is_ended)
    # A version that ends where none begins was deleted. If one begins there, this event comes before it.
    deletes = _Events(
        key[ended], _as_numbers(ends)[ended], np.zeros(len(ended), bool), np.full(len(ended), -1, np.int64)
    )
    inserts = _Events(key[:count], starts[:count], np.ones(count, bool), np.arange(count))
    new = np.arange(count, rows.num_rows)
    new = new[~_is_followed(key[count:], row_kinds)]
    is_upsert = np.isin(row_kinds[new - count], (INSERT, UPDATE_AFTER))
    changes = _Events(key[new], starts[new], is_upsert, new)
    return _Events(*(np.concatenate(each) for each in zip(deletes, inserts, changes, strict=True)))


def _is_followed(key: Numbers, row_kinds: Kinds) -> Flags:
    """Return which rows are a -U whose key has its +U next. Such an old row says nothing.

    Before a +I it is a delete: the update has changed the key, and another row has taken it since.
    """
    order = np.argsort(key, kind="stable")
    has_next = np.append(key[order][1:] == key[order][:-1], False)[: len(order)].astype(bool)
    next_kinds = np.append(row_kinds[order][1:], UPDATE_BEFORE)[: len(order)]
    found = np.zeros(len(order), bool)
    found[order] = (row_kinds[order] == UPDATE_BEFORE) & has_next & (next_kinds == UPDATE_AFTER)
    return found


def _last_of_each_time(events: _Events, names: Names) -> _Events:
    """Return the event of each key and time that counts, by key and time."""
    arrival = np.arange(len(events.key))
    found = events.take(np.lexsort((arrival, events.time, events.key)))
    is_next_other = (found.key[1:] != found.key[:-1]) | (found.time[1:] != found.time[:-1])
    is_last = np.append(is_next_other, True)[: len(found.key)].astype(bool)
    group = np.cumsum(np.append(False, is_last[:-1])[: len(found.key)].astype(np.int64))
    has_upsert = np.zeros(int(is_last.sum()), bool)
    np.logical_or.at(has_upsert, group, found.is_upsert)
    last = found.take(is_last)
    count = int((has_upsert & ~last.is_upsert).sum())
    if count:
        raise RowError(
            f"{count} deletes have the same value in column '{names.time}' as the row that they delete, so "
            "it is unknown how long the row was valid. Nothing of this batch was written. Name a column as "
            "`time` that differs between the changes of a key, such as the offset of the record. If the rows "
            "come from normalize, take it away: its deletes have the values, and the time, of the old row.",
            column=names.time,
            count=count,
        )
    return last


def _differs(before: pa.Table, events: _Events, next_at: Numbers, is_last: Flags, names: Names) -> Flags:
    """Return which events are not versions of the table with the same end."""
    if not before.num_rows:
        return np.ones(len(events.key), bool)
    row = np.where(events.is_upsert & (events.row < before.num_rows), events.row, 0)
    is_old = events.is_upsert & (events.row < before.num_rows)
    ends = before.column(names.valid_to)
    was_last, was_at = ends.is_null().to_numpy()[row], _as_numbers(ends)[row]
    is_same_end = (was_last & is_last) | (~was_last & ~is_last & (was_at == next_at))
    differs: Flags = ~(is_old & is_same_end)
    return differs


def _as_numbers(times: pa.ChunkedArray) -> Numbers:
    """Return times as integers in their order; 0 for null."""
    values = one_array(times)
    if kinds.is_date32(values.type):
        values = values.cast(pa.int32())
    found: Numbers = values.cast(pa.int64()).fill_null(0).to_numpy()
    return found


def _as_times(numbers: pa.Array, kind: pa.DataType) -> pa.Array:
    if kinds.is_date32(kind):
        return numbers.cast(pa.int32()).cast(kind)
    return numbers.cast(kind)
