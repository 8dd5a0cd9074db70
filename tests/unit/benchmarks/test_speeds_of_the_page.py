"""The first table of docs/performance.md has the figures of the newest run."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
CASES = {
    "read and aggregate": "raw-read-aggregate",
    "JSON to columns": "json-aggregate",
    "write": "write-at-least-once",
    "Kafka to Kafka": "kafka-to-kafka",
}


def times(case: str, system: str) -> str:
    """Return how many times as fast a system is as Spark's own connector when that is tuned."""
    measured = json.loads((ROOT / "benchmarks/results/latest.json").read_text())["cases"][case]
    return f"{measured[system]['records_per_s'] / measured['spark tuned']['records_per_s']:.1f}x"


def test_the_table_of_speeds_has_the_figures_of_the_newest_run() -> None:
    table = (
        (ROOT / "docs/performance.md")
        .read_text()
        .partition("| | penstock | Flink |\n")[2]
        .partition("\n\n")[0]
    )
    shown = dict(re.findall(r"^\| ([^|-]*) \| (.*) \|$", table, re.MULTILINE))
    expected = {
        name: f"{times(case, 'penstock')} | {times(case, 'Flink SQL')}" for name, case in CASES.items()
    }
    tuned = times("kafka-to-kafka", "penstock tuned")
    expected["Kafka to Kafka"] = expected["Kafka to Kafka"].replace(" |", f", with settings {tuned} |")
    assert shown == expected
