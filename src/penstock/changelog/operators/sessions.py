"""`sessions`: each row with its session: the rows of a key that follow one another without a long gap.

Runs on executors; made on the driver. Invariants: a row comes out once, when the watermark has passed the end
of its session, so no row that is in time can make the session longer. A row is late, and dropped, if the
watermark of an earlier batch has passed the end of the session that it would be in.

It keeps the rows of sessions that are not over, and the clock.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.changelog.operators.base import Find, Step, check_collisions
from penstock.changelog.operators.ordering import groups_of, same_as_before
from penstock.changelog.operators.waiting import WaitingRows, times_of
from penstock.changelog.row_kinds import INSERT, ROW_KIND, kind_column
from penstock.state.columns import Integers, Mask, hash_columns, hash_values, sorted_rows


@dataclass(frozen=True)
class Sessions(WaitingRows):
    """The operator.

    Attributes:
        columns: SIDE, CLOCK and those of the user.
        keys: rows with equal keys are in one session, if no two of them that follow one another are apart by
            more than `gap_us`.
        time: the column with the time of a row, a timestamp.
        gap_us: a session ends so long after its last row.
        names: of the new columns with the beginning and the end of the session.
        delay_us: how much later than the latest time rows may come.
        is_bounded: whether one batch has everything, so that no row waits.
    """

    columns: pa.Schema
    keys: tuple[str, ...]
    time: str
    gap_us: int
    names: tuple[str, str]
    delay_us: int
    is_bounded: bool = False
    order_by: tuple[str, ...] = ()
    name: str = "sessions"
    version: int = 1
    has_parts: bool = True
    remembers_deleted: bool = False

    @property
    def arguments(self) -> str:
        return json.dumps({"keys": self.keys, "time": self.time, "gap_us": self.gap_us})

    @property
    def out_columns(self) -> pa.Schema:
        kind = self.columns.field(self.time).type
        times = [pa.field(name, kind, nullable=False) for name in self.names]
        return pa.schema([*self.columns_of_user, *times, pa.field(ROW_KIND, pa.string(), nullable=False)])

    def is_in_time(self, rows: pa.Table, watermark: int) -> Mask:
        """Return all rows: whether one is late depends on the rows that wait."""
        return np.ones(rows.num_rows, bool)

    def step(self, batch: pa.Table, find: Find, now_ms: int) -> Step:
        """Return the rows of one batch whose sessions are over, and the rows to keep."""
        arrived = self.arrived(batch, find)
        order, start, stop = self._sessions(arrived.waiting)
        is_late = (stop <= arrived.before) & (not self.is_bounded)
        is_over = (stop <= arrived.after) & ~is_late
        ready = order[is_over[order]]
        out = self._out(arrived.waiting.take(pa.array(ready)), start[ready], stop[ready])
        changed = ~is_late & (is_over == arrived.is_old)  # out and kept before, or waits and was not kept
        kept = self.kept(arrived, changed, is_over, now_ms)
        return Step(out, sorted_rows(pa.concat_tables(kept)))

    def _sessions(self, rows: pa.Table) -> tuple[Integers, Integers, Integers]:
        """Return the order of rows by key and time, and beginning and end of the session of each row."""
        times = times_of(rows, self.time)
        groups, _ = groups_of(hash_columns(rows, self.keys))
        content = hash_values(rows.select([field.name for field in self.columns_of_user]))
        order = np.lexsort((content.low, content.high, times, groups))
        ordered = rows.take(pa.array(order))
        check_collisions(ordered, self.keys, same_as_before([groups[order]]))
        is_first = np.ones(len(order), bool)
        is_first[1:] = (np.diff(groups[order]) != 0) | (np.diff(times[order]) > self.gap_us)
        firsts = np.flatnonzero(is_first)
        lasts = np.append(firsts, len(order))[1:] - 1
        number = np.cumsum(is_first) - 1
        start, stop = (np.empty(len(order), np.int64) for _ in range(2))
        start[order] = times[order][firsts][number]
        stop[order] = times[order][lasts][number] + self.gap_us
        return order, start, stop

    def _out(self, rows: pa.Table, start: Integers, stop: Integers) -> pa.Table:
        columns = [rows.column(field.name) for field in self.columns_of_user]
        kind = self.columns.field(self.time).type
        times = [pa.array(each, pa.int64()).cast(kind) for each in (start, stop)]
        kinds = kind_column(np.full(rows.num_rows, INSERT, np.int8))
        return pa.Table.from_arrays([*columns, *times, kinds], schema=self.out_columns)
