"""What a run found: as JSON, as a table, as a plot, and held to `bounds.json`.

Invariant: everything shown is computed from the times in the JSON file; figures of two runs are never mixed.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
from rich.console import Console
from rich.table import Table

from benchmarks.systems import PENSTOCK, SPARK_DEFAULT, SPARK_TUNED

RESULTS = Path(__file__).parent / "results"
BOUNDS = Path(__file__).parent / "bounds.json"
_COLORS = {PENSTOCK: "#2f6f4f", SPARK_DEFAULT: "#c9a227", SPARK_TUNED: "#b5651d"}
_OTHER_COLOR = "#9aa5b1"


@dataclass
class Measured:
    """One system in one case."""

    record_count: int
    byte_count: int
    seconds: list[float] = field(default_factory=list)
    cpu_s: dict[str, float] = field(default_factory=dict)
    peak_memory_mb: dict[str, float] = field(default_factory=dict)

    @property
    def median_s(self) -> float:
        """Of the timed rounds."""
        return statistics.median(self.seconds)

    def as_json(self) -> dict[str, Any]:
        """Rates beside the raw times; processor seconds and memory are of the last round."""
        return {
            "records": self.record_count,
            "median_s": round(self.median_s, 3),
            "records_per_s": round(self.record_count / self.median_s),
            "mb_per_s": round(self.byte_count / self.median_s / 1e6, 1),
            "seconds": [round(each, 3) for each in self.seconds],
            "cpu_s": self.cpu_s,
            "peak_memory_mb": {kind: round(peak) for kind, peak in self.peak_memory_mb.items()},
        }


Results = dict[str, dict[str, Measured]]


def ratio(systems: dict[str, Measured], other: str) -> float | None:
    """How many times as fast as `other` penstock was."""
    if other not in systems or PENSTOCK not in systems:
        return None
    return systems[other].median_s / systems[PENSTOCK].median_s


def save(results: Results) -> Path:
    """Write `results/latest.json` and `results/latest.svg`."""
    machine = {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "pyspark": pyspark.__version__,
        "pyarrow": pa.__version__,
        "platform": platform.platform(),
    }
    cases = {
        case: {system: measured.as_json() for system, measured in systems.items()}
        for case, systems in results.items()
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "latest.json"
    path.write_text(json.dumps({"machine": machine, "cases": cases}, indent=2) + "\n")
    (RESULTS / "latest.svg").write_text(plot(results))
    return path


def show(results: Results, console: Console) -> None:
    """A table of medians; the JSON file has processor seconds and memory of each kind of process."""
    table = Table(title="Medians")
    for heading in ("case", "system", "M records/s", "MB/s", "penstock is", "CPU s", "worker MB"):
        table.add_column(heading)
    for case, systems in results.items():
        for system, measured in systems.items():
            found = ratio(systems, system)
            table.add_row(
                case if system == PENSTOCK else "",
                system,
                f"{measured.record_count / measured.median_s / 1e6:.2f}",
                f"{measured.byte_count / measured.median_s / 1e6:.0f}",
                "" if system == PENSTOCK or found is None else f"{found:.2f}x",
                f"{sum(measured.cpu_s.values()):.1f}",
                f"{measured.peak_memory_mb.get('Python workers', 0):.0f}",
            )
    console.print(table)


def plot(results: Results) -> str:
    """Bars of million records a second, as SVG."""
    bars = [
        (case if system == PENSTOCK else "", system, measured.record_count / measured.median_s / 1e6)
        for case, systems in results.items()
        for system, measured in systems.items()
    ]
    widest = max((rate for _, _, rate in bars), default=1.0)
    lines, y = [], 30
    for case, system, rate in bars:
        y += 12 if case else 0
        width = 420 * rate / widest
        color = _COLORS.get(system, _OTHER_COLOR)
        lines += [
            f'<text x="10" y="{y + 12}" font-weight="bold">{escape(case)}</text>',
            f'<text x="300" y="{y + 12}" text-anchor="end">{escape(system)}</text>',
            f'<rect x="310" y="{y}" width="{width:.1f}" height="15" fill="{color}"/>',
            f'<text x="{315 + width:.1f}" y="{y + 12}">{rate:.2f}</text>',
        ]
        y += 19
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="800" height="{y + 20}" '
        'font-family="sans-serif" font-size="12"><text x="10" y="18">Million records a second, median</text>'
    )
    return "\n".join([head, *lines, "</svg>", ""])


def missed_bounds(results: Results) -> list[str]:
    """Each ratio of `bounds.json` that was measured and is not reached."""
    bounds: dict[str, dict[str, float]] = json.loads(BOUNDS.read_text())["ratios"]
    missed = []
    for case, wanted in bounds.items():
        for other, least in wanted.items():
            found = ratio(results.get(case, {}), other)
            if found is not None and found < least:
                missed.append(f"{case}: {found:.2f}x of {other}, at least {least}x wanted")
    return missed
