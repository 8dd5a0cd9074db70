"""`top_n`: the first n rows of each group of a changelog, in an order, also with their ranks.

Runs on executors; made on the driver. Invariant: downstream has exactly the first n rows of each group, by
the order and then by the hash of the row, without the first ones that are skipped; equal rows count as often
as they are there. With ranks it has at most one row of each rank of a group.

It keeps all rows of each group with the number of times that each is there, because a row may leave the top.
Of append-only rows it keeps the top: a row that is below it never comes into it.
With a time to live a group is forgotten as a whole. A row of it that goes later does nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.changelog.operators.base import Find, Step, missing_row, with_nullable
from penstock.changelog.operators.candidates import candidates, taken
from penstock.changelog.operators.counted import CountedRows, count_rows, counted_columns
from penstock.changelog.operators.ordering import descending, ranks_with_nulls, sort
from penstock.changelog.row_kinds import (
    DELETE,
    INSERT,
    ROW_KIND,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    kind_column,
    signs_of,
)
from penstock.state.columns import Integers, Mask


@dataclass(frozen=True)
class TopN:
    """The operator.

    Attributes:
        columns: of the input, without `row_kind`; none of them is nested.
        keys: the groups.
        order_by: columns, and whether each is descending. Null is the lowest value.
        count: n.
        rank: the column of the output with the rank of a row, from 1; None for none.
        only_inserts: the input has no updates and no deletes.
        forgets: whether groups have a time to live.
        skipped: how many of the first n rows are left out, the first ones. They are kept like the others.
    """

    columns: pa.Schema
    keys: tuple[str, ...]
    order_by: tuple[tuple[str, bool], ...]
    count: int
    rank: str | None = None
    only_inserts: bool = False
    forgets: bool = False
    skipped: int = 0
    name: str = "top_n"
    version: int = 1
    has_parts: bool = True
    remembers_deleted: bool = False

    @property
    def arguments(self) -> str:
        """Return the arguments that decide what it keeps."""
        given: dict[str, object] = {"keys": self.keys, "order_by": self.order_by, "count": self.count}
        if self.rank is not None:
            given["rank"] = True
        if self.only_inserts:
            given["only_inserts"] = True
        if self.skipped:
            given["skipped"] = self.skipped
        return json.dumps(given)

    @property
    def kept_columns(self) -> pa.Schema:
        return counted_columns(self.columns)

    @property
    def out_columns(self) -> pa.Schema:
        ranked = [] if self.rank is None else [pa.field(self.rank, pa.int64(), nullable=False)]
        return pa.schema([*self.columns, *ranked, pa.field(ROW_KIND, pa.string(), nullable=False)])

    def step(self, batch: pa.Table, find: Find, now_ms: int) -> Step:
        """Return the changes of one batch and the rows to keep."""
        signs = signs_of(batch)
        new = batch.select(self.columns.names).cast(with_nullable(self.columns))
        if self.only_inserts:
            indices = candidates(new, self.keys, self.order_by, self.count)
            new, signs = taken(new, indices), signs[indices]
        rows = count_rows(CountedRows, new, signs, self.keys, find)
        if self.forgets:
            rows = replace(rows, after=np.maximum(rows.after, 0))
        self._check(rows.after, rows.table)
        starts = rows.keys.starts()
        order = self._order(rows.table, starts)
        before, after = (self._top(each[order], starts) for each in (rows.before, rows.after))
        if self.only_inserts:
            in_top = np.empty_like(order)
            in_top[order] = after.kept
            rows = replace(rows, after=in_top)
        kept = rows.to_keep(now_ms, self._written(rows) if self.forgets else None)
        if self.rank is None:
            return Step(self._without_ranks(rows.table, order, before, after), kept)
        return Step(self._with_ranks(rows.table, order, np.cumsum(starts), before, after), kept)

    def _top(self, counts: Integers, starts: Mask) -> _Top:
        """Return the tops of rows in their order.

        Args:
            counts: how often each row is there.
            starts: whether it is the first of its group.
        """
        above = np.cumsum(counts) - counts
        first = np.flatnonzero(starts)
        of_group = above - np.repeat(above[first], np.diff(np.append(first, len(counts))))
        kept, skipped = (np.clip(each - of_group, 0, counts) for each in (self.count, self.skipped))
        return _Top(np.maximum(of_group, self.skipped), kept - skipped, kept)

    def _written(self, rows: CountedRows) -> Mask:
        """Return the rows to keep: those that changed, and one of each group, which tells its time."""
        first = np.full(int(rows.group.max(initial=-1)) + 1, -1, np.int64)
        there = np.flatnonzero(rows.after > 0)[::-1]
        first[rows.group[there]] = there
        changed: Mask = rows.before != rows.after
        changed[first[first >= 0]] = True
        return changed

    def _check(self, after: Integers, rows: pa.Table) -> None:
        """Raise RowError if a row was taken away that was not there.

        Args:
            after: how often each row is there now.
            rows: the rows.
        """
        wrong = np.flatnonzero(after < 0)
        if len(wrong):
            first = rows.select(list(self.keys)).slice(int(wrong[0]), 1).to_pylist()[0]
            raise missing_row(f": {len(wrong)} rows, in a group with {first}")

    def _order(self, rows: pa.Table, starts: Mask) -> Integers:
        """Return the indices of rows in their order within each group.

        Args:
            rows: in the order of group and part. Of rows that are equal in `order_by`, that order stays.
            starts: whether a row is the first of its group.
        """
        ranked = ranks_with_nulls(rows, [name for name, _ in self.order_by])
        for index, (_, is_down) in enumerate(self.order_by):
            if is_down:
                ranked[index] = descending(ranked[index])
        return sort(np.cumsum(starts), ranked)

    def _without_ranks(self, rows: pa.Table, order: Integers, before: _Top, after: _Top) -> pa.Table:
        """Return -D for rows that leave the top, then +I for rows that come into it.

        A row may move to another group. Its +I must be the later one, because a target may have another key.
        """
        change = after.inside - before.inside
        gone, come = np.maximum(-change, 0), np.maximum(change, 0)
        indices = np.concatenate([np.repeat(order, gone), np.repeat(order, come)])
        kinds = np.where(np.arange(len(indices)) >= gone.sum(), INSERT, DELETE).astype(np.int8)
        out = rows.take(pa.array(indices)).append_column(ROW_KIND, kind_column(kinds))
        return out.cast(self.out_columns)

    def _with_ranks(
        self, rows: pa.Table, of_row: Integers, groups: Integers, before: _Top, after: _Top
    ) -> pa.Table:
        """Return -D for ranks that no row has now, -U and +U for ranks with another row, then +I.

        Args:
            rows: in any order.
            of_row: their indices in their order.
            groups: the number of the group of each of these, ascending.
            before: the tops before the batch.
            after: the tops after it.
        """
        (old, old_ranks), (new, new_ranks) = before.ranked(), after.ranked()
        width = 1 + max(old_ranks.max(initial=0), new_ranks.max(initial=0))
        old_keys, new_keys = groups[old] * width + old_ranks, groups[new] * width + new_ranks
        # The ranks of each group ascend and have no gaps, so the keys of each top ascend.
        _, at_old, at_new = np.intersect1d(old_keys, new_keys, assume_unique=True, return_indices=True)
        is_same = old[at_old] == new[at_new]
        stage_of_old, stage_of_new = np.zeros(len(old), np.int8), np.full(len(new), 2, np.int8)
        stage_of_old[at_old], stage_of_new[at_new] = np.where(is_same, -1, 1), np.where(is_same, -1, 1)
        kinds = np.concatenate(
            [
                np.where(stage_of_old == 1, UPDATE_BEFORE, DELETE),
                np.where(stage_of_new == 1, UPDATE_AFTER, INSERT),
            ]
        ).astype(np.int8)
        stages = np.concatenate([stage_of_old, stage_of_new])
        order = np.lexsort((np.concatenate([old_keys, new_keys]), stages))  # stable: -U is before its +U
        order = order[stages[order] >= 0]
        out = rows.take(pa.array(of_row[np.concatenate([old, new])[order]]))
        ranks = pa.array(np.concatenate([old_ranks, new_ranks])[order])
        out = out.append_column(self.rank, ranks).append_column(ROW_KIND, kind_column(kinds[order]))
        return out.cast(self.out_columns)


@dataclass(frozen=True)
class _Top:
    """The first n rows of each group.

    Attributes:
        above: how many rows of the group stand before the first one of each row that is not skipped.
        inside: how many times each row is among the first n and not skipped.
        kept: how many times it is among the first n.
    """

    above: Integers
    inside: Integers
    kept: Integers

    def ranked(self) -> tuple[Integers, Integers]:
        """Return the index of the row of each rank, and the rank."""
        indices = np.repeat(np.arange(len(self.inside)), self.inside)
        within = np.arange(len(indices)) - np.repeat(np.cumsum(self.inside) - self.inside, self.inside)
        return indices, self.above[indices] + within + 1
