"""Judge what a soak has sampled: what grows, and whether each record came once and in order.

Pure. Invariants: memory of the judge does not grow with the run; a process that was replaced by another one
is a failure of its own, because its figures begin at 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WARM_UP_SHARE = 0.25
"""The part of a run in which buffers and caches may fill."""


@dataclass(frozen=True)
class Limit:
    """How much a figure may grow.

    Attributes:
        an_hour: by the line of least squares.
        at_least: growth over the whole run that is never a failure: a figure moves a little in any run.
    """

    an_hour: float
    at_least: float


def slope_an_hour(seconds: Sequence[float], values: Sequence[float]) -> float:
    """Return the growth in an hour of the line of least squares."""
    count = len(seconds)
    mean_s, mean = sum(seconds) / count, sum(values) / count
    spread = sum((at - mean_s) ** 2 for at in seconds)
    together = sum((at - mean_s) * (value - mean) for at, value in zip(seconds, values, strict=True))
    return 3_600 * together / spread if spread else 0.0


def after_warm_up(seconds: Sequence[float]) -> int:
    """Return the index of the first sample that counts."""
    begin_s = seconds[0] + WARM_UP_SHARE * (seconds[-1] - seconds[0])
    return next(index for index, at in enumerate(seconds) if at >= begin_s)


def grows(seconds: Sequence[float], values: Sequence[float], limit: Limit) -> bool:
    """Return whether a figure grows by more than its limit, after the warm-up."""
    first = after_warm_up(seconds)
    if len(seconds) - first < 3:
        return False
    seconds, values = seconds[first:], values[first:]
    slope = slope_an_hour(seconds, values)
    hours = (seconds[-1] - seconds[0]) / 3_600
    return slope > limit.an_hour and slope * hours > limit.at_least


class EachOnceInOrder:
    """Takes the numbers of records, each in the order of its key. `number % keys` is the key of a record.

    Args:
        keys: how many keys there are.
    """

    def __init__(self, keys: int) -> None:
        self._next = list(range(keys))
        self.wrong: list[str] = []
        """The first faults."""
        self.count = 0

    def take(self, number: int) -> None:
        """Take the next record of its key."""
        keys = len(self._next)
        wanted = self._next[number % keys]
        self.count += 1
        if number != wanted and len(self.wrong) < 10:
            what = "doubled, or behind its successor" if number < wanted else f"{wanted} is missing before it"
            self.wrong.append(f"record {number}: {what}")
        self._next[number % keys] = max(wanted, number + keys)

    def end(self, written: int) -> None:
        """Look whether the last records of each key have come, of so many that were written."""
        keys = len(self._next)
        for key, wanted in enumerate(self._next):
            behind = key + keys * max(0, -(-(written - key) // keys))
            if wanted != behind:
                got = wanted - keys if wanted > key else "none"
                self.wrong.append(f"key {key}: expected {behind - keys} as its last record, got {got}")
