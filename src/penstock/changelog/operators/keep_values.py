"""`keep_values`: give a row that goes the values with which it came.

Runs on executors; made on the driver. Some columns have values that a second computation does not give again,
such as the time of the batch. Invariant: downstream sees each row go with the values with which it came.
Of rows that are equal in all other columns, the ones with the greatest values go first.

It keeps all rows with the number of times that each is there. With a time to live the rows of a key are
forgotten together. A row of it that goes later does nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.changelog.operators.base import Find, Step, check_collisions, missing_row, with_nullable
from penstock.changelog.operators.counted import CountedRows, count_rows, counted_columns
from penstock.changelog.operators.ordering import (
    descending,
    groups_of,
    ranks_with_nulls,
    same_as_before,
    sort,
)
from penstock.changelog.row_kinds import DELETE, INSERT, ROW_KIND, kind_column, signs_of
from penstock.state.columns import Integers, Mask, hash_columns


@dataclass(frozen=True)
class KeepValues:
    """The operator.

    Attributes:
        columns: of the input, without `row_kind`; none of them is nested.
        keys: rows that may be equal have equal keys.
        values: the columns whose values are kept.
        forgets: whether keys have a time to live.
    """

    columns: pa.Schema
    keys: tuple[str, ...]
    values: tuple[str, ...]
    forgets: bool = False
    name: str = "keep_values"
    version: int = 1
    has_parts: bool = True
    remembers_deleted: bool = False

    @property
    def arguments(self) -> str:
        return json.dumps({"keys": self.keys, "values": self.values})

    @property
    def kept_columns(self) -> pa.Schema:
        return counted_columns(self.columns)

    @property
    def out_columns(self) -> pa.Schema:
        return self.columns.append(pa.field(ROW_KIND, pa.string(), nullable=False))

    def __post_init__(self) -> None:
        assert self.keys and set(self.columns.names) > {*self.values}  # noqa: PT018, S101 - else all rows are one

    def step(self, batch: pa.Table, find: Find, now_ms: int) -> Step:
        """Return the changes of one batch and the rows to keep."""
        new, signs = batch.select(self.columns.names).cast(with_nullable(self.columns)), signs_of(batch)
        # A row that goes has other values here. It counts as nothing: `_gone` finds the row that it means.
        rows = count_rows(CountedRows, new, np.maximum(signs, 0), self.keys, find)
        after = rows.after - self._gone(rows, new.filter(pa.array(signs < 0)))
        rows = replace(rows, after=after)
        return Step(self._out(rows), rows.to_keep(now_ms, self._written(rows) if self.forgets else None))

    def _gone(self, rows: CountedRows, gone: pa.Table) -> Integers:
        """Return how often each row goes: those with the greatest values of the rows that `gone` means."""
        count = rows.table.num_rows
        others = [name for name in self.columns.names if name not in self.values]
        table = pa.concat_tables([rows.table.select(others), gone.select(others)])
        numbers, groups = groups_of(hash_columns(table, others))
        by_number = np.argsort(numbers, kind="stable")
        check_collisions(table.take(pa.array(by_number)), others, same_as_before([numbers[by_number]]))
        wanted = np.bincount(numbers[count:], minlength=len(groups))
        there = np.bincount(numbers[:count], weights=rows.after, minlength=len(groups))
        if not self.forgets:
            _check(gone.select(list(self.keys)), (wanted > there)[numbers[count:]])
        greatest = [descending(_dense(each)) for each in ranks_with_nulls(rows.table, self.values)]
        order = sort(numbers[:count], greatest)
        group, left = numbers[:count][order], rows.after[order]
        above = np.cumsum(left) - left
        first = np.flatnonzero(~same_as_before([group]))
        above -= np.repeat(above[first], np.diff(np.append(first, count)))
        found = np.empty(count, np.int64)
        found[order] = np.clip(wanted[group] - above, 0, left)
        return found

    def _written(self, rows: CountedRows) -> Mask:
        """Return the rows to keep: all of each key that has changed, so that they are forgotten together."""
        changed = rows.before != rows.after
        groups = rows.group
        of_group = np.zeros(int(groups.max(initial=-1)) + 1, bool)
        of_group[groups[rows.touched]] = True
        written: Mask = changed | (of_group[groups] & (rows.after > 0))
        return written

    def _out(self, rows: CountedRows) -> pa.Table:
        """Return -D for rows that go, then +I for rows that come."""
        change = rows.after - rows.before
        gone, come = np.maximum(-change, 0), np.maximum(change, 0)
        every = np.arange(len(change))
        index = np.concatenate([np.repeat(every, gone), np.repeat(every, come)])
        kinds = np.where(np.arange(len(index)) >= gone.sum(), INSERT, DELETE).astype(np.int8)
        out = rows.table.take(pa.array(index)).append_column(ROW_KIND, kind_column(kinds))
        return out.cast(self.out_columns)


def _check(keys: pa.Table, missing: Mask) -> None:
    """Raise RowError if a row goes that is not there."""
    if missing.any():
        first = keys.slice(int(np.flatnonzero(missing)[0]), 1).to_pylist()[0]
        raise missing_row(f": {int(missing.sum())} rows, the first with {first}")


def _dense(ranked: np.ndarray) -> Integers:
    """Return integers with the order of the numbers, so that the order can be reversed."""
    return np.unique(ranked, return_inverse=True)[1].astype(np.int64)
