"""Frames: the rows that each row sees, and folds over them.

Runs on executors. Invariants: a frame is not empty and lies within one group; a fold depends on the rows and
their order only, to the last bit; a sum that does not fit into its type is an error.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as kinds

from penstock.changelog.operators.ordering import rank
from penstock.changelog.operators.sums import overflow
from penstock.state.columns import Integers

_WIDE = decimal.Context(prec=80)
_LOW_HALF = 0xFFFFFFFF
_MOST = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Frames:
    """Frames over rows that are sorted by group.

    Attributes:
        starts: the index of the first row of each frame.
        stops: the index after the last row of each frame.
        are_whole: whether each frame begins with its group, and each group has a frame.
    """

    starts: Integers
    stops: Integers
    are_whole: bool = False

    def counts(self, numbers: Integers) -> Integers:
        """Return the sum of small integers in each frame."""
        sums = np.concatenate([[0], np.cumsum(numbers)])
        counts: Integers = sums[self.stops] - sums[self.starts]
        return counts

    def sums(self, values: pa.Array) -> pa.Array:
        """Return the sum of each frame, in the type of the values, of which none is null.

        Raises:
            RowError: a sum does not fit into its type.
        """
        if kinds.is_decimal(values.type):
            return self._decimals(values)
        numbers = values.to_numpy(zero_copy_only=False)
        if kinds.is_floating(values.type):
            return pa.array(self._floats(numbers))
        high = self.counts(numbers >> 32)
        low = self.counts(numbers & _LOW_HALF)
        high += low >> 32
        if np.any((high >= 2**31) | (high < -(2**31))):
            raise overflow(values.type)
        return pa.array((high << 32) | (low & _LOW_HALF))

    def _decimals(self, values: pa.Array) -> pa.Array:
        """Add with Python's integers: Arrow's sums of decimals wrap around."""
        scale = values.type.scale
        numbers = [int(_WIDE.scaleb(each, scale)) for each in values.to_pylist()]
        sums = [0]
        for each in numbers:
            sums.append(sums[-1] + each)
        found = [
            _WIDE.scaleb(decimal.Decimal(sums[stop] - sums[start]), -scale)
            for start, stop in zip(self.starts.tolist(), self.stops.tolist(), strict=True)
        ]
        try:
            return pa.array(found, values.type)
        except (pa.ArrowInvalid, decimal.InvalidOperation) as error:
            raise overflow(values.type) from error

    def _floats(self, numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Add the numbers of each frame in their order: a difference of two sums would lose digits."""
        if not self.are_whole:
            padded = np.append(numbers, 0.0)
            indices = np.stack([self.starts, self.stops], axis=1).ravel()
            return np.add.reduceat(padded, indices)[::2] if len(indices) else np.empty(0)
        sums = np.empty(len(numbers))
        edges = np.unique(np.append(self.starts, len(numbers)))
        with np.errstate(over="ignore", invalid="ignore"):
            for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
                np.cumsum(numbers[start:stop], out=sums[start:stop])
        found: npt.NDArray[np.float64] = sums[self.stops - 1]
        return found

    def least(self, values: pa.Array, *, is_most: bool) -> pa.Array:
        """Return the lowest value of each frame, or the highest. Null values do not count."""
        valid = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        some, first, dense = np.unique(
            rank(values.take(pa.array(valid))), return_index=True, return_inverse=True
        )
        ranks = np.full(len(values), _MOST)
        ranks[valid] = len(some) - dense if is_most else dense
        found = self._lowest(ranks)
        is_null = found == _MOST
        number = np.where(is_null, 0, len(some) - found if is_most else found)
        indices = valid[first[number]] if len(some) else np.zeros(len(found), np.int64)
        return values.take(pa.array(indices, mask=is_null))

    def _lowest(self, ranks: Integers) -> Integers:
        """Return the lowest number of each frame, from those of spans of 1, 2, 4, ... rows."""
        lengths = self.stops - self.starts
        levels = np.frexp(lengths.astype(np.float64))[1] - 1
        found = np.empty(len(lengths), np.int64)
        spans = ranks
        for level in range(int(levels.max(initial=-1)) + 1):
            if level:
                half = 1 << (level - 1)
                spans = np.minimum(spans[:-half], spans[half:])
            at = np.flatnonzero(levels == level)
            found[at] = np.minimum(spans[self.starts[at]], spans[self.stops[at] - (1 << level)])
        return found

    def first(self, values: pa.Array) -> pa.Array:
        """Return the first value of each frame that is not null."""
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        after = np.where(valid, np.arange(len(valid)), len(valid))
        after = np.minimum.accumulate(after[::-1])[::-1]
        indices = after[self.starts] if len(valid) else self.starts
        return values.take(pa.array(indices, mask=indices >= self.stops))

    def last(self, values: pa.Array) -> pa.Array:
        """Return the last value of each frame that is not null."""
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        before = np.maximum.accumulate(np.where(valid, np.arange(len(valid)), -1))
        indices = before[self.stops - 1] if len(valid) else self.stops
        return values.take(pa.array(indices, mask=indices < self.starts))


def starts_by_time(groups: Integers, times: Integers, at: Integers, range_us: int) -> Integers:
    """Return for some rows the index of the first row of their group that is not more than `range_us` older.

    Args:
        groups: of all rows, ascending.
        times: of all rows in microseconds, ascending within a group.
        at: the indices of the rows.
        range_us: a duration.
    """
    lowest = times[at] - range_us
    both, dense = np.unique(np.concatenate([times, lowest]), return_inverse=True)
    width = len(both) + 1
    keys = groups * width + dense[: len(times)]
    found: Integers = np.searchsorted(keys, groups[at] * width + dense[len(times) :], side="left")
    return found


def starts_of_peers(groups: Integers, times: Integers) -> Integers:
    """Return for each row the index of the first row of its group that has the same time."""
    is_first = np.ones(len(groups), bool)
    is_first[1:] = (groups[1:] != groups[:-1]) | (times[1:] != times[:-1])
    starts: Integers = np.maximum.accumulate(np.where(is_first, np.arange(len(groups)), 0))
    return starts


def stops_of_peers(groups: Integers, times: Integers) -> Integers:
    """Return for each row the index after the last row of its group that has the same time."""
    count = len(groups)
    if not count:
        return groups
    is_last = np.append((groups[1:] != groups[:-1]) | (times[1:] != times[:-1]), True)
    lasts = np.flatnonzero(is_last)
    stops: Integers = lasts[np.searchsorted(lasts, np.arange(count))] + 1
    return stops
