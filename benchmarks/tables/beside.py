"""As many queries as topics, beside one query for all of them: processor time and memory at equal rates.

Each measure is a run of `topics` in a process of its own. The broker and the producer are not counted. With
some numbers of topics there is a line through the points of each way, by least squares. What the lines say of
more topics than were measured is an extrapolation, and has that name.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.tables.topics import WAYS

_MEASURED = ("cores", "memory_mb")


def measure(counts: Sequence[int], load: Mapping[str, float], extrapolated: int) -> Iterator[dict[str, Any]]:
    """Yield the figures of each run, those of both ways at each number of topics, and the lines.

    Args:
        counts: numbers of topics.
        load: the other options of `topics`, by name.
        extrapolated: for which number of topics the lines are asked.

    Raises:
        CalledProcessError: a run has failed. Its error is on stderr.
    """
    found: dict[str, dict[int, dict[str, Any]]] = {way: {} for way in WAYS}
    for count in counts:
        for way in WAYS:
            found[way][count] = _run(way, count, load)
            yield found[way][count]
        one, each = (found[way][count] for way in WAYS)
        ratios = {name: round(one[name] / each[name], 3) for name in _MEASURED}
        yield {"topics": count, "one_query_takes_of_each": ratios}
    if len(counts) > 1:
        yield {
            "extrapolated_topics": extrapolated,
            **{way: {name: _line(found[way], name, extrapolated) for name in _MEASURED} for way in WAYS},
        }


def _run(way: str, count: int, load: Mapping[str, float]) -> dict[str, Any]:
    options = [f"--{name}={value:g}" for name, value in load.items()]
    command = [sys.executable, "-m", "benchmarks.tables", "topics", way, f"--topics={count}", *options]
    shown = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, Any] = json.loads(shown.splitlines()[-1])
    return found


def _line(points: Mapping[int, Mapping[str, Any]], name: str, at: int) -> dict[str, float]:
    """Return the line through the points: what each topic adds, and what it gives at a number of topics."""
    counts = np.array([*points])
    slope, start = np.polyfit(counts, [points[count][name] for count in points], 1)
    return {
        "start": round(start, 3),
        "a_topic": round(slope, 4),
        "extrapolated": round(start + slope * at, 2),
    }
