"""`temporal_join`: each row with the version of its key that was valid at the time of the row.

Runs on executors; made on the driver. Invariants: a row comes out once, when the watermark has passed
its time, so no version that is in time can change it. The watermark is the same in all partitions, because
each of them gets the clocks of all tasks.

Both inputs come as one. SIDE is 0 for a row, 1 for a version, 2 and 3 for the clocks: the latest times that a
task has seen in the rows and in the versions. It keeps the rows that wait, the versions from the one on that
is valid at the watermark, and the clocks.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from penstock.changelog.operators.base import Find, Step, check_collisions, check_not_null, with_nullable
from penstock.changelog.operators.join import SIDE, Names, On, keys_in, named_columns, paired
from penstock.changelog.operators.ordering import groups_of, rank, same_as_before
from penstock.changelog.row_kinds import (
    DELETE,
    INSERT,
    ROW_KIND,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Kinds,
    kind_column,
    kinds_of,
)
from penstock.errors import RowError
from penstock.state.columns import (
    Hashes,
    Integers,
    Mask,
    equal_columns,
    hash_columns,
    keys_of,
    mask_of,
    one_array,
    parts_of,
    sorted_rows,
    state_rows,
)
from penstock.state.reserved import CLOCKS, RESERVED, WAITING, reserved

CLOCK = "#clock"
"""The latest time that a task has seen, in microseconds; of clocks only."""
ROW, VERSION, ROW_CLOCK, VERSION_CLOCK = range(4)
_COUNT, _GONE = "#count", "#gone"
_NEVER = -(2**63)


@dataclass(frozen=True)
class TemporalJoin:
    """The operator.

    Attributes:
        columns: SIDE, the keys, the columns of rows and of versions, CLOCK.
        times: the columns with the time of a row and of a version, both timestamps.
        names: the names of the output, each with the columns that give it.
        how: "left" emits rows without a version too.
        delay_us: how much later than the latest time rows and versions may come.
        is_bounded: whether one batch has everything, so that no row waits.
        on: the names of each key in the rows and in the versions.
        has_whole_updates: whether -U and +U of an update are always in one batch.
    """

    columns: pa.Schema
    times: tuple[str, str]
    names: Names
    how: Literal["inner", "left"]
    delay_us: int
    is_bounded: bool = False
    on: On = ()
    has_whole_updates: bool = False
    name: str = "temporal_join"
    version: int = 1
    has_parts: bool = True
    remembers_deleted: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        return keys_in(self.columns)

    @property
    def arguments(self) -> str:
        return json.dumps({"keys": self.keys, "on": self.on, "times": self.times})

    @property
    def kept_columns(self) -> pa.Schema:
        return pa.schema([*with_nullable(self.columns), (_COUNT, pa.int64()), (_GONE, pa.bool_())])

    @property
    def out_columns(self) -> pa.Schema:
        return named_columns(self.columns, self.names)

    def step(self, batch: pa.Table, find: Find, now_ms: int) -> Step:
        """Return the rows of one batch that the watermark has passed, and the rows to keep."""
        kinds = kinds_of(one_array(batch.column(ROW_KIND)))
        side = one_array(batch.column(SIDE)).to_numpy()
        rows = batch.select(self.columns.names).cast(self._nullable)
        known = find(RESERVED)
        clocks = self._clocks(known, rows.filter(pa.array(side >= ROW_CLOCK)))
        # A batch that has everything has no late rows: nothing was forgotten before it.
        before = _NEVER if self.is_bounded else self._watermark(clocks[0])
        after = self._watermark(clocks[1])
        waiting = self._waiting(known, rows.filter(pa.array(side == ROW)), kinds[side == ROW])
        is_ready = _times(waiting.rows, self.times[0]) <= after
        ready = waiting.take(is_ready)
        new, is_gone = self._changes(rows.filter(pa.array(side == VERSION)), kinds[side == VERSION])
        versions = self._versions(ready.rows, new, is_gone, find)
        out = self._out(ready, versions, before)
        kept = [
            self._kept_waiting(waiting, is_ready, now_ms),
            self._kept_versions(versions, after, now_ms),
            self._kept_clocks(clocks[1], now_ms),
        ]
        return Step(out, sorted_rows(pa.concat_tables(kept)))

    @property
    def _nullable(self) -> pa.Schema:
        return with_nullable(self.columns)

    def _clocks(self, reserved: pa.Table, new: pa.Table) -> tuple[list[int], list[int]]:
        """Return the latest times of rows and versions, before and after the batch."""
        clocks = []
        known: dict[int, int] = {ROW_CLOCK: _NEVER, VERSION_CLOCK: _NEVER}
        for table in (reserved, new):
            sides, times = (table.column(name).to_pylist() for name in (SIDE, CLOCK))
            for side, time in zip(sides, times, strict=True):
                if side in known and time is not None:
                    known[side] = max(known[side], time)
            clocks.append([known[ROW_CLOCK], known[VERSION_CLOCK]])
        return clocks[0], clocks[1]

    def _watermark(self, clocks: list[int]) -> int:
        """Return the time up to which no row and no version is expected any more."""
        if self.is_bounded:
            return 2**63 - 1
        latest = min(clocks)
        return latest if latest == _NEVER else latest - self.delay_us - 1

    def _waiting(self, reserved: pa.Table, new: pa.Table, kinds: Kinds) -> _WaitingRows:
        """Return the rows that wait and those of the batch, each once."""
        if np.any(kinds != INSERT):
            raise RowError(
                "temporal_join takes append-only rows, and got an update or a delete among them. "
                "Nothing of this batch was written. Use `join` for rows that change.",
                column=ROW_KIND,
            )
        check_not_null(new, [self.times[0]], "the time of a row")
        old = reserved.filter(pa.array(one_array(reserved.column(SIDE)).to_numpy() == ROW))
        table = pa.concat_tables([old.select(self.columns.names), new])
        parts = Hashes.joined(parts_of(old), hash_columns(new, self.columns.names))
        before = np.concatenate([one_array(old.column(_COUNT)).to_numpy(), np.zeros(new.num_rows, np.int64)])
        change = np.concatenate([np.zeros(old.num_rows, np.int64), np.ones(new.num_rows, np.int64)])
        order = parts.order()
        is_first = parts.take(order).starts()
        check_collisions(table.take(pa.array(order)), self.columns.names, ~is_first)
        firsts = np.flatnonzero(is_first)
        at = order[firsts]
        before, change = (
            np.add.reduceat(each[order], firsts) if len(firsts) else each for each in (before, change)
        )
        return _WaitingRows(table.take(pa.array(at)), parts.take(at), before, before + change)

    def _changes(self, rows: pa.Table, kinds: Kinds) -> tuple[pa.Table, Mask]:
        """Return the rows that say which version a key has, and which of them say that it has none.

        A -U says nothing beside the +U of its key. If a key has more -U than +U, and updates are whole, an
        update has given its row another key. Then the newest -U end it, as a -D does.
        """
        is_before = kinds == UPDATE_BEFORE
        is_end = kinds == DELETE
        if is_before.any() and self.has_whole_updates:
            groups, keys = groups_of(hash_columns(rows, self.keys))
            excess = np.bincount(groups[is_before], minlength=len(keys))
            excess -= np.bincount(groups[kinds == UPDATE_AFTER], minlength=len(keys))
            times = one_array(rows.column(self.times[1])).cast(pa.int64()).fill_null(_NEVER).to_numpy()
            order = np.lexsort((~times, ~is_before, groups))  # the newest -U first
            within = np.arange(len(order)) - np.searchsorted(groups[order], groups[order])
            ends = np.empty(len(order), bool)
            ends[order] = within < excess[groups[order]]
            is_end |= is_before & ends
        stays = ~is_before | is_end
        return rows.filter(pa.array(stays)), is_end[stays]

    def _versions(self, ready: pa.Table, new: pa.Table, is_gone: Mask, find: Find) -> _Versions:
        """Return the versions of the keys of ready rows and new versions, by key and time, each once."""
        time = self.times[1]
        check_not_null(new, [time], "the time of a version")
        has_key = np.ones(new.num_rows, bool)
        for name in self.keys:
            has_key &= one_array(new.column(name)).is_valid().to_numpy(zero_copy_only=False)
        new, is_gone = new.filter(pa.array(has_key)), is_gone[has_key]
        new_keys = hash_columns(new, self.keys)
        wanted = Hashes.joined(new_keys, hash_columns(ready, self.keys))
        old = find(groups_of(wanted)[1])
        rows = pa.concat_tables([old.select(self.columns.names), new])
        keys = Hashes.joined(keys_of(old), new_keys)
        gone = np.concatenate([mask_of(old.column(_GONE)), is_gone])
        is_new = np.arange(rows.num_rows) >= old.num_rows
        groups, _ = groups_of(keys)
        times = _times(rows, time)
        # At one time the row of a later batch counts.
        order = np.lexsort((gone, is_new, times, groups))
        check_collisions(rows.take(pa.array(order)), self.keys, same_as_before([groups[order]]))
        repeated = same_as_before([groups[order], times[order]])
        self._check_ties(rows, order, repeated & is_new[order] & np.append(False, is_new[order][:-1]), gone)
        counts = np.append(~repeated[1:], True)[: len(order)]
        at = order[counts]
        return _Versions(rows.take(pa.array(at)), keys.take(at), times[at], gone[at], is_new[at])

    def _check_ties(self, rows: pa.Table, order: Integers, is_tie: Mask, gone: Mask) -> None:
        """Raise RowError if a batch has two different versions of a key at one time."""
        indices = order[np.flatnonzero(is_tie)]
        before = order[np.flatnonzero(is_tie) - 1]
        names = [name for name in self.columns.names if rows.schema.field(name).type != pa.null()]
        here, earlier = (rows.take(pa.array(each)) for each in (indices, before))
        if not (equal_columns(here, earlier, names) & (gone[indices] == gone[before])).all():
            where = here.select([self.times[1]]).slice(0, 1).to_pylist()[0]
            raise RowError(
                f"Two different versions of a key, or a version and its -D, have the same time: {where}. It "
                "is unknown which is newer. Nothing of this batch was written. Use a finer time. A -D must "
                "have the time of the deletion, and not that of the version that it deletes.",
                columns=list(self.times),
            )

    def _out(self, ready: _WaitingRows, versions: _Versions, watermark: int) -> pa.Table:
        """Return the rows with their versions.

        Args:
            ready: the rows.
            versions: of their keys.
            watermark: before the batch. A row that is not after it is late: it sees only the version that was
                valid at the watermark, and newer ones, because older ones may be deleted already.
        """
        count = len(versions.times)
        keys = Hashes.joined(versions.keys, hash_columns(ready.rows, self.keys))
        groups, _ = groups_of(keys)
        times = np.concatenate([versions.times, _times(ready.rows, self.times[0])])
        is_row = np.arange(len(times)) >= count
        order = np.lexsort((is_row, times, groups))
        both = pa.concat_tables([versions.rows, ready.rows])
        check_collisions(both.take(pa.array(order)), self.keys, same_as_before([groups[order]]))
        # The index in the order of the last version of the same key that is not after the row.
        indices = np.arange(len(order))
        last = np.maximum.accumulate(np.where(is_row[order], -1, indices))
        ordered = groups[order]
        in_key = (last >= 0) & (ordered[np.maximum(last, 0)] == ordered)
        floor = np.full(int(groups.max(initial=-1)) + 1, -1)
        is_floor = ~is_row[order] & (times[order] <= watermark)
        floor[ordered[is_floor]] = indices[is_floor]
        found = np.where(in_key & (last >= floor[ordered]), order[np.maximum(last, 0)], -1)
        rows = np.flatnonzero(is_row[order])
        left, right = order[rows], found[rows]
        right[(right >= 0) & np.append(versions.gone, False)[np.minimum(right, count)]] = -1
        has_null = np.zeros(len(left), bool)
        for name in self.keys:
            has_null |= one_array(both.column(name)).is_null().to_numpy(zero_copy_only=False)[left]
        right[has_null] = -1
        counts = ready.after[left - count]
        if self.how == "inner":
            counts = np.where(right >= 0, counts, 0)
        left, right = np.repeat(left, counts), np.repeat(right, counts)
        kinds = kind_column(np.full(len(left), INSERT, np.int8))
        return pa.Table.from_arrays([*paired(both, self.names, left, right), kinds], schema=self.out_columns)

    def _kept_waiting(self, waiting: _WaitingRows, is_ready: Mask, now_ms: int) -> pa.Table:
        changed = np.flatnonzero(np.where(is_ready, waiting.before > 0, waiting.after != waiting.before))
        rows = waiting.rows.take(pa.array(changed)).append_column(_COUNT, pa.array(waiting.after[changed]))
        return self._state(
            rows.append_column(_GONE, pa.nulls(len(changed), pa.bool_())),
            reserved(WAITING, len(changed)),
            is_ready[changed],
            now_ms,
            waiting.parts.take(changed),
        )

    def _kept_versions(self, versions: _Versions, watermark: int, now_ms: int) -> pa.Table:
        """Return new versions, and as deleted those that no row can need any more."""
        groups, _ = groups_of(versions.keys)
        indices = np.arange(len(groups))
        passed = versions.times <= watermark
        newest = np.full(int(groups.max(initial=-1)) + 1, -1)
        newest[groups[passed]] = indices[passed]
        is_old = indices < newest[groups]
        changed = np.flatnonzero(is_old | versions.is_new)
        rows = versions.rows.take(pa.array(changed))
        rows = rows.append_column(_COUNT, pa.nulls(len(changed), pa.int64()))
        return self._state(
            rows.append_column(_GONE, pa.array(versions.gone[changed])),
            versions.keys.take(changed),
            is_old[changed],
            now_ms,
            hash_columns(rows, [self.times[1]]),
        )

    def _kept_clocks(self, clocks: list[int], now_ms: int) -> pa.Table:
        rows = [
            {SIDE: side, CLOCK: time}
            for side, time in zip((ROW_CLOCK, VERSION_CLOCK), clocks, strict=True)
            if time != _NEVER
        ]
        table = pa.Table.from_pylist(rows, self.kept_columns)
        parts = hash_columns(table, [SIDE])
        return self._state(table, reserved(CLOCKS, len(rows)), np.zeros(len(rows), bool), now_ms, parts)

    def _state(self, rows: pa.Table, keys: Hashes, deleted: Mask, now_ms: int, parts: Hashes) -> pa.Table:
        return state_rows(rows.cast(self.kept_columns), keys, deleted, now_ms, parts)


@dataclass(frozen=True)
class _WaitingRows:
    """Rows that wait, each once, with their numbers before and after the batch."""

    rows: pa.Table
    parts: Hashes
    before: Integers
    after: Integers

    def take(self, mask: Mask) -> _WaitingRows:
        rows = self.rows.filter(pa.array(mask))
        return _WaitingRows(rows, self.parts.take(mask), self.before[mask], self.after[mask])


@dataclass(frozen=True)
class _Versions:
    """Versions by key and time, each once. One that is gone says that the key is deleted from its time on."""

    rows: pa.Table
    keys: Hashes
    times: Integers
    gone: Mask
    is_new: Mask


def _times(rows: pa.Table, name: str) -> Integers:
    """Return a column of timestamps in microseconds. They are not null in the rows that are asked for."""
    times: Integers = rank(one_array(rows.column(name)))
    return times
