"""`deduplicate`: keep the first or the last row of each key, of append-only rows.

Runs on executors; made on the driver. Invariant: downstream has for each key the row with the lowest (or
highest) sort key (its values in `order_by`) of all rows so far.

It keeps, for each key: the row that it emitted last.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from penstock.changelog.operators.base import Find, Step, check_collisions, with_nullable
from penstock.changelog.operators.candidates import candidates, joined, taken
from penstock.changelog.operators.ordering import (
    descending,
    groups_of,
    ranks_with_nulls,
    same_as_before,
    sort,
)
from penstock.changelog.row_kinds import (
    INSERT,
    ROW_KIND,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    has_row_kind,
    kind_column,
    kinds_of,
)
from penstock.errors import RowError
from penstock.state.columns import (
    Hashes,
    Integers,
    hash_columns,
    hash_values,
    keys_of,
    one_array,
    state_rows,
)


@dataclass(frozen=True)
class Deduplicate:
    """The operator.

    Attributes:
        columns: of the input, without `row_kind`.
        keys: rows with equal keys are the same row.
        order_by: says which row of a key is first. Null is before all values.
        keep: which row of a key stays. Of two rows with the same sort key it is the one that came in an
            earlier batch; within a batch the values decide.
    """

    columns: pa.Schema
    keys: tuple[str, ...]
    order_by: tuple[str, ...]
    keep: Literal["first", "last"] = "first"
    name: str = "deduplicate"
    version: int = 1
    has_parts: bool = False
    remembers_deleted: bool = False

    @property
    def arguments(self) -> str:
        return json.dumps({"keys": self.keys, "order_by": self.order_by, "keep": self.keep})

    @property
    def kept_columns(self) -> pa.Schema:
        return with_nullable(self.columns)

    @property
    def out_columns(self) -> pa.Schema:
        return self.columns.append(pa.field(ROW_KIND, pa.string(), nullable=False))

    def step(self, batch: pa.Table, find: Find, now_ms: int) -> Step:
        """Return the changes of one batch and the rows to keep."""
        _check_inserts(batch)
        new = batch.select(self.columns.names).cast(self.kept_columns)
        order_by = [(name, self.keep == "last") for name in self.order_by]
        new = taken(new, candidates(new, self.keys, order_by, 1))
        hashes = hash_columns(new, self.keys)
        kept = find(groups_of(hashes)[1])
        old = keys_of(kept)
        rows = joined(kept.select(self.columns.names), new)
        is_new = np.arange(rows.num_rows) >= kept.num_rows
        groups, keys = groups_of(Hashes.joined(old, hashes))
        order = self._order(rows, groups, is_new)
        ordered = groups[order]
        by_key = rows.select(list(self.keys)).take(pa.array(order))
        check_collisions(by_key, self.keys, same_as_before([ordered]))
        winners = order[~same_as_before([ordered])]  # by group
        old_of = np.full(len(keys), -1, np.int64)
        old_of[groups[: kept.num_rows]] = np.arange(kept.num_rows)
        changed = np.flatnonzero(is_new[winners])
        out = _changes(rows, old_of[changed], winners[changed])
        values = rows.take(pa.array(winners[changed]))
        deleted = np.zeros(len(changed), bool)
        return Step(out.cast(self.out_columns), state_rows(values, keys.take(changed), deleted, now_ms))

    def _order(self, rows: pa.Table, groups: Integers, is_new: np.ndarray) -> Integers:
        """Return the order in which the row that stays is the first of its group."""
        ranked = ranks_with_nulls(rows, self.order_by)
        if self.keep == "last":
            ranked = [descending(values) for values in ranked]
        order = sort(groups, ranked, is_new)
        if not same_as_before([each[order] for each in (groups, *ranked, is_new)]).any():
            return order
        content = hash_values(rows)
        return sort(groups, ranked, is_new, content.high, content.low)


def _check_inserts(batch: pa.Table) -> None:
    if has_row_kind(batch.column_names) and np.any(kinds_of(one_array(batch.column(ROW_KIND))) != INSERT):
        raise RowError(
            "deduplicate takes append-only rows, and got an update or a delete. Nothing of this "
            "batch was written. Use normalize for rows that change.",
            column=ROW_KIND,
        )


def _changes(rows: pa.Table, old: Integers, new: Integers) -> pa.Table:
    """Return +I for each new row without an old one (-1), else -U and +U."""
    counts = 1 + (old >= 0)
    is_second = np.zeros(int(counts.sum()), bool)
    is_second[np.cumsum(counts) - 1] = True
    indices = np.where(is_second, np.repeat(new, counts), np.repeat(old, counts))
    is_update = np.repeat(old >= 0, counts)
    kinds = np.where(is_update, np.where(is_second, UPDATE_AFTER, UPDATE_BEFORE), INSERT).astype(np.int8)
    return rows.take(pa.array(indices)).append_column(ROW_KIND, kind_column(kinds))
