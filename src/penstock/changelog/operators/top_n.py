"""`top_n`: the first n rows of each group of a changelog, in an order.

Runs on executors; made on the driver. Invariant: downstream has exactly the first n rows of each group, by
the order and then by the hash of the row; equal rows count as often as they are there.

It keeps all rows of each group with the number of times that each is there, because a row may leave the top.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.changelog.operators.base import Find, Step, check_not_null, with_nullable
from penstock.changelog.operators.counted import CountedRows, count_rows, counted_columns
from penstock.changelog.operators.ordering import ranks
from penstock.changelog.row_kinds import DELETE, INSERT, ROW_KIND, kind_column, signs_of
from penstock.errors import RowError
from penstock.state.columns import Hashes, Places


@dataclass(frozen=True)
class TopN:
    """The operator.

    Attributes:
        columns: of the input, without `row_kind`; none of them is nested.
        keys: the groups.
        order_by: columns, and whether each is descending. Never null.
        count: n.
    """

    columns: pa.Schema
    keys: tuple[str, ...]
    order_by: tuple[tuple[str, bool], ...]
    count: int
    name: str = "top_n"
    version: int = 1
    has_parts: bool = True
    remembers_deleted: bool = False

    @property
    def arguments(self) -> str:
        """Return the arguments that decide what it keeps."""
        return json.dumps({"keys": self.keys, "order_by": self.order_by, "count": self.count})

    @property
    def kept_columns(self) -> pa.Schema:
        """Return the columns that it keeps."""
        return counted_columns(self.columns)

    @property
    def out_columns(self) -> pa.Schema:
        """Return the columns of the output."""
        return self.columns.append(pa.field(ROW_KIND, pa.string(), nullable=False))

    def step(self, batch: pa.Table, find: Find, now_ms: int) -> Step:
        """Return the changes of one batch and the rows to keep."""
        check_not_null(batch, [name for name, _ in self.order_by], "in order_by")
        new = batch.select(self.columns.names).cast(with_nullable(self.columns))
        rows = count_rows(CountedRows, new, signs_of(batch), self.keys, find)
        after = self._checked(rows.after, rows.table)
        return Step(self._out(rows.table, rows.keys, rows.parts, rows.before, after), rows.to_keep(now_ms))

    def _checked(self, after: Places, rows: pa.Table) -> Places:
        """Return how often each row is there now.

        Raises:
            RowError: a row was taken away that was not there.
        """
        wrong = np.flatnonzero(after < 0)
        if len(wrong):
            raise RowError(
                f"A -U or -D takes away a row that is not there: {len(wrong)} rows, in a group with "
                f"{rows.select(list(self.keys)).slice(int(wrong[0]), 1).to_pylist()[0]}. Nothing of this "
                "batch was written. The input is not a correct changelog: put `normalize` before this "
                "operator.",
            )
        return after

    def _out(self, rows: pa.Table, keys: Hashes, parts: Hashes, before: Places, after: Places) -> pa.Table:
        """Return -D for rows that leave the top, then +I for rows that come into it.

        A row may move to another group. Its +I must be the later one, because a target may have another key.
        """
        ranked = ranks(rows, [name for name, _ in self.order_by])
        dense = [np.unique(values, return_inverse=True)[1] for values in ranked]
        ranked = [-v if is_down else v for v, (_, is_down) in zip(dense, self.order_by, strict=True)]
        order = np.lexsort((parts.low, parts.high, *reversed(ranked), keys.low, keys.high))
        starts = keys.take(order).starts()
        change = self._in_top(after[order], starts) - self._in_top(before[order], starts)
        gone, come = np.maximum(-change, 0), np.maximum(change, 0)
        places = np.concatenate([np.repeat(order, gone), np.repeat(order, come)])
        kinds = np.where(np.arange(len(places)) >= gone.sum(), INSERT, DELETE).astype(np.int8)
        out = rows.take(pa.array(places)).append_column(ROW_KIND, kind_column(kinds))
        return out.cast(self.out_columns)

    def _in_top(self, counts: Places, starts: np.ndarray) -> Places:
        """Return how many of each row are among the first n of its group."""
        above = np.cumsum(counts) - counts
        first = np.flatnonzero(starts)
        of_group = above - np.repeat(above[first], np.diff(np.append(first, len(counts))))
        inside: Places = np.clip(self.count - of_group, 0, counts)
        return inside
