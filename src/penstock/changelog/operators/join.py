"""`join`: the rows of two changelogs with equal keys, as a changelog.

Runs on executors; made on the driver. Invariant: downstream has exactly the join of the rows that are there
now on both sides; equal rows count as often as they are there.

Both inputs come as one: the column SIDE says which one a row belongs to. It keeps all rows of both sides with
the number of times that each is there, because any of them may go or find a partner. A row with a null in its
keys has no partner, so it is not kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.changelog.operators.base import Find, Step, missing_row, with_nullable
from penstock.changelog.operators.counted import CountedRows, count_rows, counted_columns
from penstock.changelog.row_kinds import DELETE, INSERT, NAMES, ROW_KIND, kind_column, signs_of
from penstock.state.columns import Integers, Mask, hash_columns, one_array

SIDE = "#side"
"""0 for a row of the left side, 1 for one of the right side."""
KEY, LEFT, RIGHT = "#key ", "#left ", "#right "
"""Before the names of columns: the keys by number, and the columns of each side."""

Names = tuple[tuple[str, tuple[str, ...]], ...]
On = tuple[tuple[str, str], ...]
How = Literal["inner", "left", "right", "full", "semi", "anti"]
HOWS: tuple[str, ...] = get_args(How)


@dataclass(frozen=True)
class Join:
    """The operator.

    Attributes:
        columns: SIDE, the keys, the columns of the left side and those of the right side. Columns of the
            other side are null.
        how: the kind of join. "semi" and "anti" are the left rows with and without a partner.
        names: the names of the output. Each has the columns that give it, of which the first not null counts.
            A key has one value in both rows.
        on: the left and the right name of each key.
    """

    columns: pa.Schema
    how: How
    names: Names
    on: On = ()
    name: str = "join"
    version: int = 1
    has_parts: bool = True
    remembers_deleted: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        return keys_in(self.columns)

    @property
    def arguments(self) -> str:
        """Return the arguments that decide what it keeps. Another `how` would need what was not emitted."""
        return json.dumps({"keys": self.keys, "on": self.on, "how": self.how})

    @property
    def kept_columns(self) -> pa.Schema:
        return counted_columns(self.columns)

    @property
    def out_columns(self) -> pa.Schema:
        return named_columns(self.columns, self.names)

    def step(self, batch: pa.Table, find: Find, now_ms: int) -> Step:
        """Return the changes of one batch and the rows to keep."""
        signs = signs_of(batch)
        new = batch.select(self.columns.names).cast(with_nullable(self.columns))
        has_key = np.ones(new.num_rows, bool)
        for name in self.keys:
            has_key &= pc.is_valid(one_array(new.column(name))).to_numpy(zero_copy_only=False)
        alone = self._without_key(new.filter(pa.array(~has_key)), signs[~has_key])
        rows = self._rows(new.filter(pa.array(has_key)), signs[has_key], find)
        out = _deletes_first(pa.concat_tables([alone, self._out(rows)]))
        return Step(out, self._kept(rows, now_ms))

    def _kept(self, rows: JoinRows, now_ms: int) -> pa.Table:
        return rows.to_keep(now_ms)

    def _without_key(self, rows: pa.Table, signs: Integers) -> pa.Table:
        """Return the changes by rows with a null in their keys, which have no partner."""
        parts = hash_columns(rows, rows.column_names)
        order = parts.order()
        firsts = np.flatnonzero(parts.take(order).starts())
        if len(firsts):  # a row that one batch inserts and deletes is not an unmatched row
            signs, rows = np.add.reduceat(signs[order], firsts), rows.take(pa.array(order[firsts]))
        is_left = one_array(rows.column(SIDE)).to_numpy() == 0
        wanted = is_left & (self.how in ("left", "full", "anti")) | ~is_left & (self.how in ("right", "full"))
        indices = np.flatnonzero(wanted)
        left, right = (np.where(is_left[indices] == is_it, indices, -1) for is_it in (True, False))
        return self._named(rows, left, right, signs[indices])

    def _rows(self, new: pa.Table, signs: Integers, find: Find) -> JoinRows:
        """Return the rows of all keys of the batch, each once, with their numbers before and after it."""
        rows = count_rows(JoinRows, new, signs, self.keys, find, within=SIDE)
        if np.any(rows.after < 0):
            raise missing_row()
        return rows

    def _out(self, rows: JoinRows) -> pa.Table:
        left: list[Integers] = []
        right: list[Integers] = []
        change: list[Integers] = []
        if self.how not in ("semi", "anti"):
            pairs = rows.pairs_of(rows.before != rows.after)
            left, right = [pairs[0]], [pairs[1]]
            change = [
                rows.after[left[0]] * rows.after[right[0]] - rows.before[left[0]] * rows.before[right[0]]
            ]
        for side, hows in ((0, ("left", "full", "semi", "anti")), (1, ("right", "full"))):
            if self.how in hows:
                indices = np.flatnonzero(rows.side == side)
                alone = [each == 0 for each in rows.partners(indices)]
                if self.how == "semi":
                    alone = [~each for each in alone]
                none = np.full(len(indices), -1)
                left.append(indices if side == 0 else none)
                right.append(none if side == 0 else indices)
                change.append(rows.after[indices] * alone[1] - rows.before[indices] * alone[0])
        empty = [np.empty(0, np.int64)]
        ones, others, changes = (np.concatenate([*empty, *each]) for each in (left, right, change))
        return self._named(rows.table, ones, others, changes, rows.group)

    def _named(
        self,
        rows: pa.Table,
        left: Integers,
        right: Integers,
        change: Integers,
        group: Integers | None = None,
        again: Integers | None = None,
    ) -> pa.Table:
        """Return rows of the output: -D as often as a change is negative, then +I as often as it is positive.

        Args:
            rows: the rows of both sides.
            left: the index of the left row of each pair; -1 for none.
            right: the index of the right row.
            change: how often the pair comes, or goes.
            group: the number of the key of each row. It orders the rows of a kind.
            again: how often the pair goes and comes besides; None for never.
        """
        more = np.zeros(len(change), np.int64) if again is None else again
        gone, come = np.maximum(-change, 0) + more, np.maximum(change, 0) + more
        pairs = np.concatenate([np.repeat(np.arange(len(change)), each) for each in (gone, come)])
        comes = np.arange(len(pairs)) >= gone.sum()
        if group is not None:
            order = np.lexsort((pairs, group[np.maximum(left, right)[pairs]], comes))
            pairs, comes = pairs[order], comes[order]
        arrays = paired(rows, self.names, left[pairs], right[pairs])
        kinds = np.where(comes, INSERT, DELETE).astype(np.int8)
        return pa.Table.from_arrays([*arrays, kind_column(kinds)], schema=self.out_columns)


def _deletes_first(out: pa.Table) -> pa.Table:
    """Return all -D before all +I.

    A row may move to another key, and a target may have another key than the join. Its +I must be the last.
    """
    comes = pc.equal(out.column(ROW_KIND), NAMES[INSERT])
    return pa.concat_tables([out.filter(pc.invert(comes)), out.filter(comes)])


def keys_in(columns: pa.Schema) -> tuple[str, ...]:
    """Return the columns that are equal in both inputs."""
    return tuple(name for name in columns.names if name.startswith(KEY))


def named_columns(columns: pa.Schema, names: Names) -> pa.Schema:
    """Return the columns of the output of these names, and the row kind."""
    fields = [pa.field(name, columns.field(sources[0]).type) for name, sources in names]
    return pa.schema([*fields, pa.field(ROW_KIND, pa.string(), nullable=False)])


def paired(rows: pa.Table, names: Names, left: Integers, right: Integers) -> list[pa.Array]:
    """Return the columns of pairs of rows.

    Args:
        rows: the rows of both sides.
        names: each column of the output, and the columns that give it, of which the first not null counts.
        left: the index of the left row of each pair; -1 for none.
        right: the index of the right row.
    """
    arrays = []
    for _, sources in names:
        found = []
        for source in sources:
            indices = np.where(left < 0, right, left) if source.startswith(KEY) else left
            indices = right if source.startswith(RIGHT) else indices
            taken = one_array(rows.column(source)).take(pa.array(indices, mask=indices < 0))
            found.append(taken.cast(rows.schema.field(sources[0]).type))
        arrays.append(pc.coalesce(*found) if len(found) > 1 else found[0])
    return arrays


class JoinRows(CountedRows):
    """The rows of all keys of a batch, sorted by key and side, with their numbers before and after it."""

    @property
    def side(self) -> Integers:
        sides: Integers = one_array(self.table.column(SIDE)).to_numpy().astype(np.int64)
        return sides

    def partners(self, indices: Integers) -> Iterator[Integers]:
        """Yield how many rows of the other side these rows have, before and after the batch."""
        for counts in (self.before, self.after):
            yield self.of_others(counts, indices)

    def of_others(self, counts: Integers, indices: Integers) -> Integers:
        """Return the sum of `counts` over the rows of the other side, for each of these rows."""
        group, other = self.group, 1 - self.side[indices]
        totals = np.zeros(2 * len(self.before), np.int64)
        np.add.at(totals, 2 * group + self.side, counts)
        found: Integers = totals[2 * group[indices] + other]
        return found

    def pairs_of(self, changed: Mask) -> tuple[Integers, Integers]:
        """Return the indices of the rows of each pair of which at least one row is `changed`."""
        first = self._pairs(changed, np.ones(len(changed), bool))
        second = self._pairs(~changed, changed)
        return np.concatenate([first[0], second[0]]), np.concatenate([first[1], second[1]])

    def _pairs(self, left: Mask, right: Mask) -> tuple[Integers, Integers]:
        """Return all pairs of these left rows with these right rows of their key."""
        group = self.group
        left_at = np.flatnonzero(left & (self.side == 0))
        right_at = np.flatnonzero(right & (self.side == 1))
        start = np.searchsorted(group[right_at], group[left_at], "left")
        counts = np.searchsorted(group[right_at], group[left_at], "right") - start
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.repeat(left_at, counts), right_at[np.repeat(start, counts) + within]
