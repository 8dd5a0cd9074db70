"""Run `make bench`: one run, one broker, the same topics, systems in turn, medians after warm-ups.

Figures differ between machines and from hour to hour. Compare only ratios within one run. `--check` ends with
an error if a bound of `bounds.json` is missed. FLINK=1 adds Flink SQL.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import ExitStack, closing
from dataclasses import replace

from rich.console import Console

from benchmarks import (
    exactly_once,
    harness,
    machine,
    metrics_cost,
    micro_batches,
    planning,
    report,
    streaming,
)
from benchmarks.cases import CASES
from benchmarks.changelogs import decode, many_keys, normalize
from benchmarks.flink import FlinkSession
from benchmarks.inputs import INPUTS, OUTPUT_TOPIC, fill
from benchmarks.systems import PENSTOCK, Bench, prepared

MEASURES = (
    "streams",
    "shortest-trigger",
    "exactly-once-10s-batches",
    "planning",
    "micro-batches",
    "metrics-cost",
    "changelog-formats",
    "changelogs",
)
STREAMS, SHORTEST, EXACTLY_ONCE, PLANNING, MICRO_BATCHES, METRICS_COST, FORMATS, CHANGELOGS = MEASURES
PLANNED_PARTITIONS = 2_000
BATCHES, SMALL_BATCHES = 3, 20
STATE_KEYS = 1_000_000
CHANGES = 1_000_000


def main() -> None:
    arguments = _arguments()
    console = Console()
    with_flink = os.environ.get("FLINK", "0") not in {"", "0"}
    with ExitStack() as stack:
        settings = _spark_settings(arguments)
        spark, bootstrap_servers = stack.enter_context(prepared(settings))
        flink = None
        if with_flink:
            flink = stack.enter_context(closing(FlinkSession(bootstrap_servers, arguments.jvm_options)))
        bench = Bench(spark, bootstrap_servers, "", OUTPUT_TOPIC, arguments.records, flink)
        run = report.Run(
            {**machine.describe(with_flink=with_flink), **settings},
            {"records": arguments.records, "rounds": arguments.rounds},
        )
        _measure_cases(bench, run, arguments, console)
        _measure_others(bench, run, arguments, console)
    path = report.save(run, arguments.name)
    report.show(run, console)
    console.print(f"written: {path}, and .json and .svg beside it")
    if arguments.check:
        _check(run, console)


def _check(run: report.Run, console: Console) -> None:
    for each in report.unmeasured_bounds(run):
        console.print(f"[yellow]not measured, so not held to its bound: {each}[/]")
    missed = report.missed_bounds(run)
    for each in missed:
        console.print(f"[red]{each}[/]")
    sys.exit(1 if missed else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--cases", nargs="*", choices=list(CASES), default=list(CASES), metavar="CASE")
    parser.add_argument("--measures", nargs="*", choices=MEASURES, default=list(MEASURES), metavar="MEASURE")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=8_000_000)
    parser.add_argument("--jvm-options", default="", help="for the JVMs of Spark and of Flink")
    parser.add_argument("--spark-conf", nargs="*", default=[], metavar="KEY=VALUE", help="settings of Spark")
    parser.add_argument("--name", default="latest", help="of the files in benchmarks/results")
    parser.add_argument("--check", action="store_true", help="hold the run to bounds.json")
    return parser.parse_args()


def _spark_settings(arguments: argparse.Namespace) -> dict[str, str]:
    settings = dict(each.split("=", 1) for each in arguments.spark_conf)
    if arguments.jvm_options:
        settings["spark.driver.extraJavaOptions"] = arguments.jvm_options
    return settings


def _measure_cases(bench: Bench, run: report.Run, arguments: argparse.Namespace, console: Console) -> None:
    filled: set[str] = set()
    for name in arguments.cases:
        case = CASES[name]
        if not case.is_generated and case.input_topic not in filled:
            console.print(f"filling {case.input_topic}")
            fill(bench.bootstrap_servers, case.input_topic, arguments.records)
            filled.add(case.input_topic)
        count = INPUTS[case.input_topic].count(arguments.records)
        own = replace(bench, input_topic=case.input_topic, record_count=count)
        run.cases[name] = harness.measure_case(name, case, own, arguments.rounds, console.print)
        report.save(run, arguments.name)  # saved now, because a later measure may fail


def _measure_others(bench: Bench, run: report.Run, arguments: argparse.Namespace, console: Console) -> None:
    rounds, found = arguments.rounds, run.measures
    if STREAMS in arguments.measures:
        systems = streaming.everybody(with_flink=bench.flink_session is not None)
        found |= streaming.measure(bench, systems, rounds, streaming.Durations(), console.print)
    if SHORTEST in arguments.measures:
        found |= streaming.measure_shortest_trigger(bench, rounds, streaming.Durations(), console.print)
    if EXACTLY_ONCE in arguments.measures:
        figures = exactly_once.measure(bench, seconds=10.0, rounds=rounds, small_batches=20).figures()
        found[EXACTLY_ONCE] = {PENSTOCK: figures}
        console.print(f"{EXACTLY_ONCE}: {figures}")
    if PLANNING in arguments.measures:
        seconds = planning.measure(bench.bootstrap_servers, PLANNED_PARTITIONS, rounds)
        planned = {f"{name}_s": round(each, 3) for name, each in seconds.items()}
        found[f"planning-{PLANNED_PARTITIONS}-topic-partitions"] = {PENSTOCK: planned}
        console.print(f"{PLANNING}: {planned}")
    if MICRO_BATCHES in arguments.measures:
        found |= micro_batches.measure(bench, 1, BATCHES, console.print)
    if METRICS_COST in arguments.measures:
        found |= metrics_cost.measure(bench, rounds, SMALL_BATCHES, console.print)
    if FORMATS in arguments.measures:
        found |= decode.measure(bench, rounds, CHANGES, console.print)
    if CHANGELOGS in arguments.measures:
        found[normalize.MEASURE] = normalize.measure(bench, rounds)
        found[many_keys.MEASURE] = many_keys.measure(bench.spark, STATE_KEYS)
        for name in (normalize.MEASURE, many_keys.MEASURE):
            console.print(f"{name}: {found[name]}")


if __name__ == "__main__":
    main()
