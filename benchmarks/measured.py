"""The measurements of a run, and figures computed from them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.usage import Spent


@dataclass
class Measured:
    """The measurements of one system in one case."""

    record_count: int
    byte_count: int
    seconds: list[float] = field(default_factory=list)
    spent: list[Spent] = field(default_factory=list)

    def add(self, seconds: float, spent: Spent) -> None:
        """Add one timed round."""
        self.seconds.append(seconds)
        self.spent.append(spent)

    @property
    def median_s(self) -> float:
        """Return the median seconds of the timed rounds."""
        return statistics.median(self.seconds)

    @property
    def records_per_s(self) -> float:
        """Return records a second, by the median."""
        return self.record_count / self.median_s

    @property
    def mb_per_s(self) -> float:
        """Return million bytes of keys and values a second, uncompressed, by the median."""
        return self.byte_count / self.median_s / 1e6

    @property
    def cpu_s(self) -> dict[str, float]:
        """Return processor seconds of each kind of process, medians of the timed rounds."""
        return _medians(each.cpu_s for each in self.spent)

    @property
    def peak_memory_mb(self) -> dict[str, float]:
        """Return the memory of the largest process of each kind in any timed round."""
        kinds = sorted({kind for each in self.spent for kind in each.peak_memory_mb})
        return {kind: max(each.peak_memory_mb.get(kind, 0.0) for each in self.spent) for kind in kinds}

    def as_json(self) -> dict[str, Any]:
        """Return the rates and the raw times."""
        return {
            "records": self.record_count,
            "median_s": round(self.median_s, 3),
            "records_per_s": round(self.records_per_s),
            "mb_per_s": round(self.mb_per_s, 1),
            "seconds": [round(each, 3) for each in self.seconds],
            "cpu_s": {kind: round(spent, 2) for kind, spent in self.cpu_s.items()},
            "peak_memory_mb": {kind: round(peak) for kind, peak in self.peak_memory_mb.items()},
        }


Cases = dict[str, dict[str, Measured]]
"""Measurements by case and system."""

Measures = dict[str, dict[str, dict[str, float]]]
"""Figures other than throughput, by measure and system. Their names end with the unit."""


def _medians(rounds: Iterable[dict[str, float]]) -> dict[str, float]:
    found = list(rounds)
    kinds = sorted({kind for each in found for kind in each})
    return {kind: statistics.median(each.get(kind, 0.0) for each in found) for kind in kinds}
