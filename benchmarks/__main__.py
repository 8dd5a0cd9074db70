"""`make bench`: one run, one broker, the same topics, systems in turn, medians after a warm-up.

Figures move from machine to machine and from hour to hour; only the ratios of one run mean something.
`--check` ends with an error when a ratio of `bounds.json` is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession
from rich.console import Console

from benchmarks import report, usage
from benchmarks.cases import CASES, Case
from benchmarks.inputs import INPUTS, OUTPUT_TOPIC, PARTITION_COUNT, fill, make_topic, order
from benchmarks.systems import Bench, spark_session
from penstock.devbroker import DevCluster

KEY_BYTES = 8


def main() -> None:
    arguments = _arguments()
    console = Console()
    with prepared() as (spark, bootstrap_servers):
        results = _measure(spark, bootstrap_servers, arguments, console)
    path = report.save(results)
    report.show(results, console)
    console.print(f"written: {path}")
    missed = report.missed_bounds(results) if arguments.check else []
    for each in missed:
        console.print(f"[red]{each}[/]")
    sys.exit(1 if missed else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--cases", nargs="*", choices=list(CASES), default=list(CASES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--check", action="store_true", help="hold the run to bounds.json")
    return parser.parse_args()


@contextmanager
def prepared() -> Iterator[tuple[SparkSession, str]]:
    """A broker with the output topic, and a Spark session."""
    with DevCluster() as cluster:
        make_topic(cluster.bootstrap_servers, OUTPUT_TOPIC, PARTITION_COUNT)
        spark = spark_session()
        try:
            yield spark, cluster.bootstrap_servers
        finally:
            spark.stop()


def _measure(
    spark: SparkSession, bootstrap_servers: str, arguments: argparse.Namespace, console: Console
) -> report.Results:
    filled: set[str] = set()
    results: report.Results = {}
    for name in arguments.cases:
        case = CASES[name]
        if case.input_topic not in filled:
            console.print(f"filling {case.input_topic}")
            fill(bootstrap_servers, case.input_topic, arguments.records)
            filled.add(case.input_topic)
        count = INPUTS[case.input_topic].count(arguments.records)
        bench = Bench(spark, bootstrap_servers, case.input_topic, OUTPUT_TOPIC, count)
        results[name] = _measure_case(name, case, bench, arguments.rounds, console)
    return results


def _measure_case(
    name: str, case: Case, bench: Bench, rounds: int, console: Console
) -> dict[str, report.Measured]:
    size = len(order(1_000_000, INPUTS[case.input_topic].padding)) + KEY_BYTES
    found = {
        system: report.Measured(bench.record_count, bench.record_count * size) for system in case.systems
    }
    for number in range(rounds + 1):
        for system, measured in found.items():
            before = usage.snapshot()
            usage.reset_peaks(before)
            started = time.perf_counter()
            case.run(bench, system)
            took = time.perf_counter() - started
            after = usage.snapshot()
            measured.cpu_s = usage.cpu_seconds(before, after)
            measured.peak_memory_mb = usage.peak_memory_mb(after)
            if number:
                measured.seconds.append(took)
            console.print(f"{name} {system} {number or 'warm-up'}: {took:.2f} s")
    return found


if __name__ == "__main__":
    main()
