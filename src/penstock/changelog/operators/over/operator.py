"""`over`: each row with aggregates of the rows of its key before it, in the order of their times.

Runs on executors; made on the driver. Invariants: a row comes out once, when the watermark has passed its
time, so no row that is in time can come before it later. A row is late, and dropped, if the watermark of an
earlier batch has passed its time. The watermark is the same in all partitions, because each of them gets the
clocks of all tasks.

It keeps the rows that wait, the clock, and for each key what later rows need: its last rows, or one row that
all of them are folded into.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from penstock.changelog.operators.base import Find, Step, check_collisions, with_nullable
from penstock.changelog.operators.join import SIDE
from penstock.changelog.operators.ordering import groups_of, groups_of_kept, ranks, same_as_before
from penstock.changelog.operators.over.calls import NUMBERS, OverCall
from penstock.changelog.operators.over.frames import Frames, starts_by_time, starts_of_peers, stops_of_peers
from penstock.changelog.operators.over.parts import TIMES, Part, is_folded, out_type, parts_of, result
from penstock.changelog.operators.waiting import NEVER, WaitingRows, times_of
from penstock.changelog.row_kinds import INSERT, ROW_KIND, kind_column
from penstock.state.columns import (
    Hashes,
    Integers,
    Mask,
    hash_columns,
    hash_values,
    keys_of,
    one_array,
    sorted_rows,
    state_rows,
)
from penstock.state.reserved import NUMBER

_PAST, _FOLDED = 4, 5
"""In SIDE: a row that is out, and one that all earlier rows of its key are folded into."""


@dataclass(frozen=True)
class Over(WaitingRows):
    """The operator.

    Attributes:
        columns: SIDE, CLOCK and those of the user.
        keys: rows with equal keys are aggregated together.
        time: the column with the time of a row, a timestamp.
        order_by: columns that order rows of one time, after which their values do.
        calls: the aggregates.
        frame: "rows" counts rows, "range" compares times. Rows of one time are in each other's range.
        preceding: how many rows or microseconds before a row count; None for all.
        delay_us: how much later than the latest time rows may come.
        is_bounded: whether one batch has everything, so that no row waits.
    """

    columns: pa.Schema
    keys: tuple[str, ...]
    time: str
    order_by: tuple[str, ...]
    calls: tuple[OverCall, ...]
    frame: Literal["rows", "range"]
    preceding: int | None
    delay_us: int
    is_bounded: bool = False
    name: str = "over"
    version: int = 1
    has_parts: bool = True
    remembers_deleted: bool = False

    @property
    def arguments(self) -> str:
        """Return the arguments that decide what it keeps."""
        calls = sorted((call.function, call.column or "", call.offset) for call in self.calls)
        return json.dumps(
            {
                "keys": self.keys,
                "time": self.time,
                "order_by": self.order_by,
                "calls": calls,
                "frame": self.frame,
                "preceding": self.preceding,
            }
        )

    @property
    def kept_columns(self) -> pa.Schema:
        fields = [pa.field(part.name, part.type(self.columns)) for part in self._parts]
        return pa.schema([*with_nullable(self.columns), pa.field(NUMBER, pa.int64()), *fields])

    @property
    def out_columns(self) -> pa.Schema:
        calls = [pa.field(call.name, out_type(call, self.columns)) for call in self.calls]
        return pa.schema([*self.columns_of_user, *calls, pa.field(ROW_KIND, pa.string(), nullable=False)])

    @property
    def _parts(self) -> list[Part]:
        return parts_of(self.calls)

    def step(self, batch: pa.Table, find: Find, now_ms: int) -> Step:
        """Return the rows of one batch that the watermark has passed, and the rows to keep."""
        arrived = self.arrived(batch, find)
        is_ready = times_of(arrived.waiting, self.time) <= arrived.after
        ready = arrived.waiting.filter(pa.array(is_ready))
        out, past = self._aggregated(ready, find, arrived.after, now_ms)
        changed = is_ready == arrived.is_old  # out and kept before, or waits and was not kept
        kept = [*self.kept(arrived, changed, is_ready, now_ms), past]
        return Step(out, sorted_rows(pa.concat_tables(kept)))

    def _aggregated(
        self, ready: pa.Table, find: Find, watermark: int, now_ms: int
    ) -> tuple[pa.Table, pa.Table]:
        """Return the ready rows with their aggregates, and what their keys keep."""
        hashes = hash_columns(ready, self.keys)
        groups, keys = groups_of(hashes)
        kept = find(keys)
        old_groups = groups_of_kept(keys_of(kept), keys)
        first = self._order_of_past(kept, old_groups)
        order = self._order(ready, groups)
        ready, groups = ready.take(pa.array(order)), groups[order]
        past = kept.select(self.kept_columns.names).take(pa.array(first))
        all_groups = np.concatenate([old_groups[first], groups])
        merged = np.argsort(all_groups, kind="stable")
        rows = _Rows(
            pa.concat_tables([past, self._as_past(ready, groups)]).take(pa.array(merged)),
            all_groups[merged],
            (np.arange(len(merged)) >= past.num_rows)[merged],
            ready,
        )
        check_collisions(rows.table, self.keys, same_as_before([rows.groups]))
        starts = rows.group_starts()
        out = self._out(rows, self._frames(rows, starts), starts)
        return out, self._kept_past(rows, starts, keys, watermark, now_ms)

    def _order_of_past(self, kept: pa.Table, groups: Integers) -> Integers:
        numbers = one_array(kept.column(NUMBER)).to_numpy(zero_copy_only=False)
        is_row = one_array(kept.column(SIDE)).to_numpy() == _PAST
        return np.lexsort((numbers, is_row, groups))

    def _order(self, ready: pa.Table, groups: Integers) -> Integers:
        content = hash_values(ready)
        ties = ranks(ready, self.order_by)
        return np.lexsort((content.low, content.high, *reversed(ties), times_of(ready, self.time), groups))

    def _as_past(self, ready: pa.Table, groups: Integers) -> pa.Table:
        """Return rows in the columns of the state. They are in order, and have the numbers of their keys."""
        columns = {name: ready.column(name) for name in (*self.keys, self.time)}
        columns[SIDE] = pa.array(np.full(ready.num_rows, _PAST)).cast(self.columns.field(SIDE).type)
        for part in self._parts:
            columns[part.name] = part.of_rows(ready, part.type(self.columns))
        if Part(TIMES, None) in self._parts:
            is_first = starts_of_peers(groups, times_of(ready, self.time)) == np.arange(ready.num_rows)
            columns[Part(TIMES, None).name] = pa.array(is_first.astype(np.int64))
        arrays = [
            columns.get(field.name, pa.nulls(ready.num_rows, field.type)) for field in self.kept_columns
        ]
        return pa.Table.from_arrays(arrays, schema=self.kept_columns)

    def _frames(self, rows: _Rows, starts: Integers) -> Frames:
        at = np.flatnonzero(rows.is_new)
        own = starts[at]
        if self.frame == "rows":
            begin = own if self.preceding is None else np.maximum(own, at - self.preceding)
            return Frames(begin, at + 1, are_whole=self.preceding is None)
        times = _times_or(rows.table, self.time, NEVER)
        stops = stops_of_peers(rows.groups, times)[at]
        if self.preceding is None:
            return Frames(own, stops, are_whole=True)
        begin = starts_by_time(rows.groups, times, at, self.preceding)
        return Frames(begin, stops)

    def _out(self, rows: _Rows, frames: Frames, starts: Integers) -> pa.Table:
        folded = {
            part: part.fold(one_array(rows.table.column(part.name)), frames)
            for part in self._parts
            if is_folded(part)
        }
        found = [rows.new.column(field.name) for field in self.columns_of_user]
        for call in self.calls:
            kind = out_type(call, self.columns)
            if call.function == "lag":
                found.append(self._before(rows, starts, call))
            elif call.function in NUMBERS:
                found.append(self._number(rows, starts, call))
            else:
                found.append(result(call, folded, kind).cast(kind))
        kinds = kind_column(np.full(rows.new.num_rows, INSERT, np.int8))
        return pa.Table.from_arrays([*found, kinds], schema=self.out_columns)

    def _number(self, rows: _Rows, starts: Integers, call: OverCall) -> pa.Array:
        """Return the number of each new row in its key: rows of one time are out in one batch."""
        at = np.flatnonzero(rows.is_new)
        [part] = parts_of([call])
        stops = at
        if call.function == "rank":
            stops = starts_of_peers(rows.groups, _times_or(rows.table, self.time, NEVER))[at]
        return part.fold(one_array(rows.table.column(part.name)), Frames(starts[at], stops + 1))

    def _before(self, rows: _Rows, starts: Integers, call: OverCall) -> pa.Array:
        at = np.flatnonzero(rows.is_new)
        indices = at - call.offset
        outside = indices < starts[at]  # the row that others are folded into has no value
        values = one_array(rows.table.column(Part("lag", call.column).name))
        return values.take(pa.array(np.maximum(indices, 0), mask=outside))

    def _kept_past(
        self, rows: _Rows, starts: Integers, keys: Hashes, watermark: int, now_ms: int
    ) -> pa.Table:
        """Return what the keys keep, and as deleted what they do not need any more."""
        count = len(rows.groups)
        sides = one_array(rows.table.column(SIDE)).to_numpy()
        numbers = self._numbers(rows, starts)
        indices = np.arange(count)
        from_last = (np.append(np.flatnonzero(indices == starts), count)[1:])[rows.groups] - indices
        is_needed = from_last <= self._rows_back()
        if self.frame == "range" and self.preceding is not None:
            is_needed |= _times_or(rows.table, self.time, NEVER) > watermark - self.preceding
        is_needed &= sides == _PAST
        changed = np.flatnonzero(np.where(rows.is_new, is_needed, ~is_needed & (sides == _PAST)))
        table = self._with_numbers(rows.table, numbers).take(pa.array(changed))
        if self.preceding is None:
            table = self._counted_elsewhere(table)
        parts = Hashes(np.ones(len(changed), np.uint64), numbers[changed].astype(np.uint64))
        kept = state_rows(table, keys.take(rows.groups[changed]), ~is_needed[changed], now_ms, parts)
        if self.preceding is not None:
            return kept
        return pa.concat_tables([kept, self._kept_folded(rows, starts, numbers, keys, now_ms)])

    def _rows_back(self) -> int:
        """Return how many of its last rows a key keeps."""
        lags = [call.offset for call in self.calls if call.function == "lag"]
        of_frame = self.preceding if self.frame == "rows" and self.preceding is not None else 0
        return max([of_frame, *lags])

    def _kept_folded(
        self, rows: _Rows, starts: Integers, numbers: Integers, keys: Hashes, now_ms: int
    ) -> pa.Table:
        """Return the row of each key that all of its rows are folded into."""
        firsts = np.flatnonzero(np.arange(len(starts)) == starts)
        stops = np.append(firsts, len(starts))[1:]
        frames = Frames(firsts, stops, are_whole=True)
        last = rows.table.take(pa.array(stops - 1))
        columns = {name: last.column(name) for name in self.keys}
        columns[SIDE] = pa.array(np.full(len(firsts), _FOLDED)).cast(self.columns.field(SIDE).type)
        columns[NUMBER] = pa.array(numbers[stops - 1])
        for part in self._parts:
            if is_folded(part):
                columns[part.name] = part.fold(one_array(rows.table.column(part.name)), frames)
        arrays = [columns.get(field.name, pa.nulls(len(firsts), field.type)) for field in self.kept_columns]
        table = pa.Table.from_arrays(arrays, schema=self.kept_columns)
        return state_rows(table, keys.take(rows.groups[firsts]), np.zeros(len(firsts), bool), now_ms)

    def _counted_elsewhere(self, table: pa.Table) -> pa.Table:
        """Return rows that only `lag` reads, because they are folded into another row."""
        for part in self._parts:
            if is_folded(part):
                at = table.schema.get_field_index(part.name)
                nothing = part.neutral(part.type(self.columns), table.num_rows)
                table = table.set_column(at, table.schema.field(at), nothing)
        return table

    def _numbers(self, rows: _Rows, starts: Integers) -> Integers:
        """Return the number of each row of its key, counted from the first one that is known."""
        known = one_array(rows.table.column(NUMBER)).fill_null(-1).to_numpy().astype(np.int64)
        indices = np.arange(len(starts))
        # The last row that was there before has the highest number; rows of the batch follow it.
        last_old = np.maximum.accumulate(np.where(rows.is_new, -1, indices))
        has_old = last_old >= starts
        base = np.where(has_old, known[np.maximum(last_old, 0)], -1)
        after = indices - np.where(has_old, last_old, starts - 1)
        return np.where(rows.is_new, base + after, known)

    def _with_numbers(self, table: pa.Table, numbers: Integers) -> pa.Table:
        at = table.schema.get_field_index(NUMBER)
        return table.set_column(at, table.schema.field(at), pa.array(numbers))


@dataclass(frozen=True)
class _Rows:
    """The rows of all keys of a batch, by key and then in their order: those that are out, then new ones.

    Attributes:
        table: in the columns of the state.
        groups: the number of the key of each.
        is_new: whether it comes out in this batch.
        new: the new rows with the columns of the user, in the same order.
    """

    table: pa.Table
    groups: Integers
    is_new: Mask
    new: pa.Table

    def group_starts(self) -> Integers:
        """Return for each row the index of the first row of its key."""
        indices = np.arange(len(self.groups))
        is_first = np.ones(len(indices), bool)
        is_first[1:] = self.groups[1:] != self.groups[:-1]
        starts: Integers = np.maximum.accumulate(np.where(is_first, indices, 0))
        return starts


def _times_or(rows: pa.Table, name: str, missing: int) -> Integers:
    """Return a column of timestamps in microseconds, with `missing` for null."""
    times: Integers = one_array(rows.column(name)).cast(pa.int64()).fill_null(missing).to_numpy()
    return times
