"""Compute the demo's statistics without Kafka and Spark, and compare the streaming job's output with them.

Runs on the driver. Invariant: it shares no code with the streaming job.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

LATE_MINUTES = 15
Key = tuple[str, str]
Numbers = tuple[int, int, int, int]


@dataclass(frozen=True)
class Verdict:
    """The result of comparing the stream's output with the plain computation."""

    expected_count: int
    missing: tuple[Key, ...]
    repeated: tuple[Key, ...]
    different: tuple[Key, ...]

    @property
    def is_right(self) -> bool:
        """Return True when every expected row arrived once with the right numbers, and no other row."""
        return not (self.missing or self.repeated or self.different)


def expected_delays(flights: pa.Table, watermark_delay: dt.timedelta) -> dict[Key, Numbers]:
    """Return (day, carrier) -> (flights, departed, delay minutes, late) for each day that can be finished.

    A day is finished when the watermark (newest event time less the delay) has passed its end. Later days
    could still change, so a stream in append mode holds them back.
    """
    totals: dict[Key, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    days = pc.strftime(flights["event_time"], format="%Y-%m-%d").to_pylist()
    carriers = flights["carrier"].to_pylist()
    for day, carrier, delay in zip(days, carriers, flights["dep_delay"].to_pylist(), strict=True):
        numbers = totals[day, carrier]
        numbers[0] += 1
        if delay is not None:
            numbers[1] += 1
            numbers[2] += delay
            numbers[3] += delay > LATE_MINUTES
    watermark = pc.max(flights["event_time"]).as_py() - watermark_delay
    last_finished = (watermark - dt.timedelta(days=1)).strftime("%Y-%m-%d")
    return {key: (n[0], n[1], n[2], n[3]) for key, n in totals.items() if key[0] <= last_finished}


def compare(values: Iterable[bytes], expected: dict[Key, Numbers]) -> Verdict:
    """Compare the JSON values of the output topic with `expected`."""
    seen: dict[Key, list[Numbers]] = defaultdict(list)
    for value in values:
        row = json.loads(value)
        numbers = (row["flights"], row["departed"], row["delay_minutes"], row["late"])
        seen[row["day"], row["carrier"]].append(numbers)
    return Verdict(
        expected_count=len(expected),
        missing=tuple(sorted(expected.keys() - seen.keys())),
        repeated=tuple(sorted(key for key, rows in seen.items() if len(rows) > 1)),
        different=tuple(sorted(key for key, rows in seen.items() if expected.get(key) != rows[0])),
    )
