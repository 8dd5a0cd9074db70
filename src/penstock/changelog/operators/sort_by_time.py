"""`sort_by_time`: the rows of a stream in the order of their times, each when the watermark has passed it.

Runs on executors; made on the driver. Invariant: all rows are in one partition of the state, because SIDE is
their only key. A row comes out once, and no row that comes out later has an earlier time. A row is late, and
dropped, if the watermark of an earlier batch has passed its time.

It keeps the rows that wait, and the clock.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.changelog.operators.base import Find, Step
from penstock.changelog.operators.join import SIDE
from penstock.changelog.operators.ordering import descending, ranks_with_nulls
from penstock.changelog.operators.waiting import WaitingRows, times_of
from penstock.changelog.row_kinds import INSERT, ROW_KIND, kind_column
from penstock.state.columns import Integers, hash_values, sorted_rows


@dataclass(frozen=True)
class SortByTime(WaitingRows):
    """The operator.

    Attributes:
        columns: SIDE, CLOCK and those of the user.
        time: the column with the time of a row, a timestamp.
        then_by: columns that order rows of one time, each with whether it descends. Null is the lowest value.
            After them the values decide.
        delay_us: how much later than the latest time rows may come.
        is_bounded: whether one batch has everything, so that no row waits.
    """

    columns: pa.Schema
    time: str
    then_by: tuple[tuple[str, bool], ...]
    delay_us: int
    is_bounded: bool = False
    keys: tuple[str, ...] = (SIDE,)
    order_by: tuple[str, ...] = ()
    name: str = "sort_by_time"
    version: int = 1
    has_parts: bool = True
    remembers_deleted: bool = False

    @property
    def arguments(self) -> str:
        return json.dumps({"time": self.time})

    @property
    def out_columns(self) -> pa.Schema:
        return pa.schema([*self.columns_of_user, pa.field(ROW_KIND, pa.string(), nullable=False)])

    def step(self, batch: pa.Table, find: Find, now_ms: int) -> Step:
        """Return the rows of one batch that the watermark has passed, and the rows to keep."""
        arrived = self.arrived(batch, find)
        is_ready = times_of(arrived.waiting, self.time) <= arrived.after
        changed = is_ready == arrived.is_old  # out and kept before, or waits and was not kept
        out = self._out(arrived.waiting.filter(pa.array(is_ready)))
        return Step(out, sorted_rows(pa.concat_tables(self.kept(arrived, changed, is_ready, now_ms))))

    def _out(self, ready: pa.Table) -> pa.Table:
        names = [field.name for field in self.columns_of_user]
        rows = ready.select(names).take(pa.array(self._order(ready)))
        kinds = kind_column(np.full(rows.num_rows, INSERT, np.int8))
        return rows.append_column(ROW_KIND, kinds).cast(self.out_columns)

    def _order(self, ready: pa.Table) -> Integers:
        content = hash_values(ready)
        ranked = ranks_with_nulls(ready, [name for name, _ in self.then_by])
        ties = [
            descending(each) if is_down else each
            for each, (_, is_down) in zip(ranked, self.then_by, strict=True)
        ]
        return np.lexsort((content.low, content.high, *reversed(ties), times_of(ready, self.time)))
