"""Measure Flink's SQL on Spark beside Flink: `python -m benchmarks.sql`. It takes about 6 minutes.

The same scripts over the same topics, by penstock and by Flink 2.3, in turn in one run: records a second of a
filter, a window aggregate and a Top-N over bounded streams, and the time to the first row of a small script,
of a new process (`penstock sql job.sql`; Flink with a mini cluster in its process) and of a warm session. All
rows are compared with those that the scripts must give. Medians after warm-ups; a script that takes more than
70 s in all has fewer rounds. Both systems have two tasks at once, and their times contain their planning. To
see quickly that it works: `--records 20000 --rounds 1 --warm-ups 0`, about 2 minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from contextlib import ExitStack, closing
from typing import Any

from rich.console import Console

from benchmarks import machine, report
from benchmarks.flink import FlinkSession
from benchmarks.measured import Measured
from benchmarks.sql.first_rows import measure_first_rows
from benchmarks.sql.runs import SqlBench, measure_script
from benchmarks.sql.scripts import SCRIPTS
from benchmarks.systems import FLINK, PENSTOCK, prepared
from penstock.cli.quick_start.python import quick_python

FIRST_ROW = "first-row"
CASES = (*SCRIPTS, FIRST_ROW)
_RATES = ("script", "system", "records/s", "penstock is", "seconds", "of these the job alone", "CPU s")
_FIRST = ("first row", "system", "seconds", "penstock is")


def main() -> None:
    arguments = _arguments()
    # Python's processes keep what they compile, as after an installation by pip.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.setdefault("PYSPARK_PYTHON", quick_python())  # as `penstock sql` starts Spark
    console = Console()
    found: dict[str, dict[str, Measured]] = {}
    first: dict[str, dict[str, list[float]]] = {}
    with ExitStack() as stack:
        spark, servers = stack.enter_context(prepared())
        flink = stack.enter_context(closing(FlinkSession(servers)))
        bench = SqlBench(spark, servers, flink)
        for name in SCRIPTS:
            if name in arguments.cases:
                found[name] = measure_script(
                    name, bench, arguments.records, arguments.rounds, arguments.warm_ups, console.print
                )
        if FIRST_ROW in arguments.cases:
            first = measure_first_rows(bench, arguments.rounds, console.print)
    net_s = {name: statistics.median(times) for name, times in bench.net_s.items()}
    _save(arguments.name, found, first, net_s, rounds=arguments.rounds)
    console.print(report.RESULTS.joinpath(f"{arguments.name}.md").read_text(), markup=False, soft_wrap=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sql", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cases", nargs="*", choices=CASES, default=list(CASES), metavar="CASE")
    parser.add_argument("--records", type=int, default=2_000_000, help="the Top-N reads a quarter of them")
    parser.add_argument("--rounds", type=int, default=3, help="of all systems in turn")
    parser.add_argument("--warm-ups", type=int, default=2, help="rounds before, which do not count")
    parser.add_argument("--name", default="sql", help="of the files in benchmarks/results")
    return parser.parse_args()


def _save(
    name: str,
    found: dict[str, dict[str, Measured]],
    first: dict[str, dict[str, list[float]]],
    net_s: dict[str, float],
    *,
    rounds: int,
) -> None:
    described = machine.describe(with_flink=True)
    raw: dict[str, Any] = {
        "machine": described,
        "rounds": rounds,
        "scripts": {
            script: {system: measured.as_json() for system, measured in systems.items()}
            for script, systems in found.items()
        },
        "flink_job_alone_s": net_s,
        "first_row_s": first,
    }
    report.RESULTS.joinpath(f"{name}.json").write_text(json.dumps(raw, indent=2) + "\n")
    lines = [
        "# What `python -m benchmarks.sql` measured",
        "",
        *report.described(described),
        f"- medians of up to {rounds} rounds, the systems in turn, after warm-ups; equal rows in each round",
        "",
        *report.markdown_table(_RATES, _rate_rows(found, net_s)),
        "",
        *report.markdown_table(_FIRST, _first_rows(first)),
    ]
    report.RESULTS.joinpath(f"{name}.md").write_text("\n".join([*lines, ""]))


def _rate_rows(found: dict[str, dict[str, Measured]], net_s: dict[str, float]) -> list[tuple[str, ...]]:
    return [
        (
            script if system == PENSTOCK else "",
            system,
            f"{measured.records_per_s:,.0f}",
            "" if system == PENSTOCK else f"{report.ratio(systems, system):.2f}x",
            f"{measured.median_s:.2f}",
            f"{net_s[script]:.2f}" if system == FLINK else "",
            ", ".join(f"{kind} {spent:.1f}" for kind, spent in measured.cpu_s.items()),
        )
        for script, systems in found.items()
        for system, measured in systems.items()
    ]


def _first_rows(first: dict[str, dict[str, list[float]]]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for kind, systems in first.items():
        medians = {system: statistics.median(times) for system, times in systems.items()}
        for system, median_s in medians.items():
            ratio = "" if system == PENSTOCK else f"{median_s / medians[PENSTOCK]:.2f}x"
            rows.append((kind if system == PENSTOCK else "", system, f"{median_s:.2f}", ratio))
    return rows


if __name__ == "__main__":
    main()
