"""`join` with a time to live: each row of a side is forgotten when it was not written for so long.

Runs on executors; made on the driver. A row that was forgotten finds no new partners, and nothing is said of
its pairs downstream. Invariants, as in Flink:

- A row that goes and is not known was forgotten. Its pairs with rows that are known go with it. Downstream
  may not have such a pair, if its other row came later.
- A row of a side that comes without partners too (an outer, semi or anti join) remembers how many partners
  it has been given. So it comes without a partner only if downstream has none of its pairs.
- A row that an event has touched and not changed gives its pairs again, so that later operators keep them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.changelog.operators.base import Find
from penstock.changelog.operators.counted import count_rows
from penstock.changelog.operators.join import SIDE, Join, JoinRows
from penstock.state.columns import Integers, Mask

_PARTNERS = "#partners"
_REMEMBERS = {
    "inner": (),
    "left": (0,),
    "right": (1,),
    "full": (0, 1),
    "semi": (0,),
    "anti": (0,),
}
"""The sides whose rows remember their number of partners."""


@dataclass(frozen=True)
class _Numbers:
    """Numbers of the rows of a batch, by their indices.

    Attributes:
        was: how often downstream has the row: once if it was forgotten and goes.
        known: whether it was kept.
        reached: the partners that are known or go.
        partners: the partners that were known before the batch.
        given: the partners that downstream has seen, before and after it.
    """

    was: Integers
    known: Mask
    reached: Integers
    partners: Integers
    given: tuple[Integers, Integers]


@dataclass(frozen=True)
class JoinWithTtl(Join):
    """The operator. Its rows have a time to live."""

    @property
    def kept_columns(self) -> pa.Schema:
        columns = super().kept_columns
        return columns.append(pa.field(_PARTNERS, pa.int64())) if _REMEMBERS[self.how] else columns

    def _rows(self, new: pa.Table, signs: Integers, find: Find) -> JoinRows:
        carried = _PARTNERS if _REMEMBERS[self.how] else None
        return count_rows(JoinRows, new, signs, self.keys, find, within=SIDE, carried=carried)

    def _numbers(self, rows: JoinRows) -> _Numbers:
        every = np.arange(len(rows.before))
        after = np.maximum(rows.after, 0)
        was = rows.before + np.maximum(-rows.after, 0)
        known = rows.before > 0
        old, new = (rows.of_others(counts, every) for counts in (rows.before, after))
        change = rows.of_others(rows.after - rows.before, every)
        reached = rows.of_others(was, every)
        given = np.where(known, np.maximum(rows.carried, old), reached)
        is_more = after > was
        later = np.where(known & ~is_more, np.maximum(given + change, new), new)
        return _Numbers(was, known, reached, old, (given, later))

    def _out(self, rows: JoinRows) -> pa.Table:
        numbers, after = self._numbers(rows), np.maximum(rows.after, 0)
        found = [] if self.how in ("semi", "anti") else [self._pairs(rows, numbers, after)]
        for side in _REMEMBERS[self.how]:
            indices = np.flatnonzero(rows.side == side)
            none = np.full(len(indices), -1)
            before, now = self._alone(numbers, after, indices)
            change, again = now - before, np.where(rows.touched[indices] & (now == before), now, 0)
            ones = (indices, none) if side == 0 else (none, indices)
            found.append((*ones, change, again))
        left, right, change, again = (np.concatenate(each) for each in zip(*found, strict=True))
        return self._named(rows.table, left, right, change, rows.group, again)

    def _pairs(self, rows: JoinRows, numbers: _Numbers, after: Integers) -> tuple[Integers, ...]:
        """Return the pairs of rows of the batch, how their number changes, and how often they come again."""
        left, right = rows.pairs_of(rows.touched)
        ones, others = numbers.was[left], numbers.was[right]
        for side, row, other in ((0, left, right), (1, right, left)):
            if side in _REMEMBERS[self.how]:
                # Downstream has seen no partner of this row but those that are known.
                seen_all = numbers.known[row] & (numbers.given[0][row] <= numbers.partners[row])
                known = np.where(seen_all, rows.before[other], numbers.was[other])
                ones, others = (
                    (ones, np.minimum(others, known)) if side == 0 else (np.minimum(ones, known), others)
                )
        before, now = ones * others, after[left] * after[right]
        return left, right, now - before, np.where(now == before, now, 0)

    def _alone(self, numbers: _Numbers, after: Integers, indices: Integers) -> tuple[Integers, Integers]:
        """Return how often rows are there alone (semi join: not alone), before and after the batch."""
        was, now = numbers.was[indices], after[indices]
        given, later = (each[indices] for each in numbers.given)
        # The row comes once more, with no partner now. The earlier ones keep their forgotten partners.
        has_others = (now > was) & (given > numbers.partners[indices]) & numbers.known[indices] & (later == 0)
        if self.how == "semi":
            return np.where(has_others, 0, was * (given > 0)), now * (later > 0)
        before, there = np.where(has_others | (given == 0), was, 0), now * (later == 0)
        if self.how != "anti":
            # A row goes whose partners were all forgotten: it goes as one without a partner, as in Flink.
            has_lost_all = (given > 0) & (numbers.reached[indices] == 0) & ~has_others
            before = np.where(has_lost_all, np.maximum(was - now, 0) + there, before)
        return before, there

    def _kept(self, rows: JoinRows, now_ms: int) -> pa.Table:
        numbers, after = self._numbers(rows), np.maximum(rows.after, 0)
        changed = (rows.before != after) | (rows.touched & (after > 0))
        remembers = np.isin(rows.side, _REMEMBERS[self.how])
        met = rows.of_others(rows.touched.astype(np.int64), np.arange(len(after))) > 0
        changed |= remembers & met & (after > 0)
        carried = None
        if _REMEMBERS[self.how]:
            given = np.where(remembers, numbers.given[1], 0)
            carried = pa.table({_PARTNERS: pa.array(given, pa.int64())})
        return replace(rows, after=after).to_keep(now_ms, changed, carried)
