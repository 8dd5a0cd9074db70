"""Rows that wait for the watermark, and the clock that it follows: what `over` and `sessions` share.

Runs on executors. Invariants: the watermark is the same in all partitions, because each of them gets the
clocks of all tasks. A row that is not late is kept until the operator lets it out, which it does once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.changelog.operators.base import Find, check_not_null, with_nullable
from penstock.changelog.operators.join import SIDE
from penstock.changelog.operators.ordering import rank
from penstock.changelog.operators.temporal_join import CLOCK, ROW, ROW_CLOCK
from penstock.changelog.row_kinds import INSERT, ROW_KIND, Kinds, kinds_of
from penstock.errors import RowError
from penstock.state.columns import Hashes, Integers, Mask, hash_values, one_array, state_rows
from penstock.state.reserved import CLOCKS, NUMBER, RESERVED, WAITING, reserved

NEVER, END = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class TimedBatch:
    """What an operator has when a batch has come.

    Attributes:
        waiting: the rows that waited and those of the batch that are not late. Their order is not known.
        numbers: of these rows.
        is_old: which of them waited before the batch.
        before: the watermark before the batch.
        after: the watermark after it.
        clock: the latest time.
    """

    waiting: pa.Table
    numbers: Integers
    is_old: Mask
    before: int
    after: int
    clock: int


class WaitingRows:
    """The rows that wait, for an operator with these attributes.

    Attributes:
        columns: SIDE, CLOCK and those of the user.
        time: the column with the time of a row, a timestamp.
        order_by: columns that order rows of one time.
        delay_us: how much later than the latest time rows may come.
        is_bounded: whether one batch has everything, so that no row waits.
        name: of the function.
    """

    columns: pa.Schema
    time: str
    order_by: tuple[str, ...]
    delay_us: int
    is_bounded: bool
    name: str

    @property
    def kept_columns(self) -> pa.Schema:
        return pa.schema([*with_nullable(self.columns), pa.field(NUMBER, pa.int64())])

    @property
    def columns_of_user(self) -> list[pa.Field]:
        return [field for field in self.columns if field.name not in (SIDE, CLOCK)]

    def arrived(self, batch: pa.Table, find: Find) -> TimedBatch:
        """Return the rows that wait when a batch has come, and the watermarks."""
        kinds = kinds_of(one_array(batch.column(ROW_KIND)))
        side = one_array(batch.column(SIDE)).to_numpy()
        rows = batch.select(self.columns.names).cast(with_nullable(self.columns))
        known = find(RESERVED)
        clocks = self._clocks(known, rows.filter(pa.array(side == ROW_CLOCK)))
        before, after = map(self._watermark, clocks)
        new = self._in_time(rows.filter(pa.array(side == ROW)), kinds[side == ROW], before)
        waiting, numbers = self._waiting(known, new)
        is_old = np.arange(waiting.num_rows) < waiting.num_rows - new.num_rows
        return TimedBatch(waiting, numbers, is_old, before, after, clocks[1])

    def kept(self, arrived: TimedBatch, changed: Mask, is_ready: Mask, now_ms: int) -> list[pa.Table]:
        """Return the rows of the state that wait from now on, and as deleted those that are out; the clock.

        Args:
            arrived: the rows that waited and those of the batch.
            changed: which of them to return.
            is_ready: whether each is out.
            now_ms: the time of the batch.
        """
        waiting = self._kept_waiting(arrived, changed, is_ready[changed], now_ms)
        return [waiting, self._kept_clock(arrived.clock, now_ms)]

    def is_in_time(self, rows: pa.Table, watermark: int) -> Mask:
        """Return which new rows are not late."""
        found: Mask = times_of(rows, self.time) > watermark
        return found

    def _clocks(self, reserved: pa.Table, new: pa.Table) -> tuple[int, int]:
        """Return the latest time before and after the batch."""
        found = [NEVER]
        for table in (reserved, new):
            sides, times = (table.column(name).to_pylist() for name in (SIDE, CLOCK))
            known = [time for side, time in zip(sides, times, strict=True) if side == ROW_CLOCK]
            found.append(max([found[-1], *(time for time in known if time is not None)]))
        return found[1], found[2]

    def _watermark(self, clock: int) -> int:
        """Return the time up to which no row is expected any more."""
        if self.is_bounded:
            return END
        return clock if clock == NEVER else clock - self.delay_us - 1

    def _in_time(self, new: pa.Table, kinds: Kinds, watermark: int) -> pa.Table:
        if np.any(kinds != INSERT):
            raise RowError(
                f"{self.name} takes append-only rows, and got an update or a delete among them. "
                "Nothing of this batch was written. Use `aggregate` for rows that change.",
                column=ROW_KIND,
            )
        check_not_null(new, [self.time, *self.order_by], "the time of a row, or in its order")
        if self.is_bounded:
            return new
        return new.filter(pa.array(self.is_in_time(new, watermark)))

    def _waiting(self, reserved: pa.Table, new: pa.Table) -> tuple[pa.Table, Integers]:
        """Return the rows that wait and those of the batch, and their numbers. Their order is not known."""
        old = reserved.filter(pa.array(one_array(reserved.column(SIDE)).to_numpy() == ROW))
        hashes = hash_values(new)
        new = new.take(pa.array(np.lexsort((hashes.low, hashes.high))))
        known = one_array(old.column(NUMBER)).to_numpy(zero_copy_only=False).astype(np.int64)
        numbers = np.concatenate([known, int(known.max(initial=-1)) + 1 + np.arange(new.num_rows)])
        return pa.concat_tables([old.select(self.columns.names), new]), numbers

    def _kept_waiting(self, arrived: TimedBatch, changed: Mask, is_out: Mask, now_ms: int) -> pa.Table:
        rows, numbers = arrived.waiting.filter(pa.array(changed)), arrived.numbers[changed]
        count = rows.num_rows
        columns = {name: rows.column(name) for name in self.columns.names}
        columns[NUMBER] = pa.array(numbers)
        arrays = [columns.get(field.name, pa.nulls(count, field.type)) for field in self.kept_columns]
        parts = Hashes(np.zeros(count, np.uint64), numbers.astype(np.uint64))
        table = pa.Table.from_arrays(arrays, schema=self.kept_columns)
        return state_rows(table, reserved(WAITING, count), is_out, now_ms, parts)

    def _kept_clock(self, clock: int, now_ms: int) -> pa.Table:
        """Return the clock as a row of the state."""
        rows = [{SIDE: ROW_CLOCK, CLOCK: clock}] if clock != NEVER else []
        table = pa.Table.from_pylist(rows, self.kept_columns)
        return state_rows(table, reserved(CLOCKS, len(rows)), np.zeros(len(rows), bool), now_ms)


def times_of(rows: pa.Table, name: str) -> Integers:
    """Return a column of timestamps in microseconds, none of which is null."""
    times: Integers = rank(one_array(rows.column(name)))
    return times
