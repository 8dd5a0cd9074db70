"""Speed on several PySparks in one run: `python -m tests.versions 4.0.1 4.1.4 4.3.0 --speed`.

`python -m benchmarks` runs in the environment of each version, one after the other. Compare only figures of
one run, on a machine that does nothing else.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.versions.environments import ROOT
from tests.versions.run import say

CASES = ("raw-read-noop", "json-aggregate", "write-at-least-once")
NEEDED = ("confluent-kafka", "prometheus-client", "fastavro")
_RESULTS = ROOT / "benchmarks" / "results"


def run(pythons: Mapping[str, Path], records: int, rounds: int) -> None:
    """Measure each version, and print a table of medians in records a second."""
    rows = {version: _measured(version, python, records, rounds) for version, python in pythons.items()}
    say(f"| PySpark | {' | '.join(CASES)} |\n|---|{'---|' * len(CASES)}")
    for version, found in rows.items():
        say(f"| {version} | {' | '.join(f'{found[case] / 1e6:.2f} M/s' for case in CASES)} |")


def _measured(version: str, python: Path, records: int, rounds: int) -> dict[str, int]:
    name = f"spark-{version}"
    sizes = ["--records", str(records), "--rounds", str(rounds)]
    command = [str(python), "-m", "benchmarks", "--cases", *CASES, "--measures", *sizes, "--name", name]
    try:
        subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
        cases = json.loads((_RESULTS / f"{name}.json").read_text())["cases"]
    finally:
        for file in _RESULTS.glob(f"{name}.*"):
            file.unlink()
    return {case: cases[case]["penstock"]["records_per_s"] for case in CASES}
