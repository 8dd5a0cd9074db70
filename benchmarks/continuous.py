"""Latency of continuous queries: `python -m benchmarks.continuous --rate 1000 10000 --interval-ms 10 20 50`.

A producer (librdkafka) writes 100-byte records at a rate. The query copies them exactly-once. A consumer
(librdkafka, read_committed) takes the time from the call that produces a record until its copy is there. One
line of JSON for each rate, interval and number of lanes, in milliseconds.

`--beside` measures in one run also Flink SQL (exactly-once at several checkpoint intervals, and
at-least-once), our query with micro-batches, and throughput, and ends with tables in Markdown. `--quick`
takes a few minutes. `--throughput` leaves out the latencies.
`--brokers 3` has three brokers, and three copies of each record.
`--rotation` measures the same load with producer ids that wear out on the way, and without.

Invariant: every produced record is seen exactly once, or the run ends. Two numbers that differ by less than a
third mean little on a machine that does anything else.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from pyspark.sql import SparkSession

from benchmarks import continuous_beside as beside
from benchmarks import continuous_rotation as rotation
from benchmarks.flink import FlinkSession
from benchmarks.latency import measure
from penstock.devbroker import DevCluster


def main(arguments: Sequence[str]) -> None:
    """Measure each rate with each interval."""
    given = _arguments(arguments)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {"spark.driver.memory": "2g", "spark.ui.enabled": "false", "spark.log.level": "ERROR"}
    settings["spark.ui.showConsoleProgress"] = "false"
    builder: Any = SparkSession.builder.master("local[2,4]")
    spark = builder.config(map=settings).getOrCreate()
    with ExitStack() as stack:
        with _compiled_well():
            cluster = stack.enter_context(DevCluster(given.brokers))
        flink = None
        if given.beside:
            flink = stack.enter_context(closing(FlinkSession(cluster.bootstrap_servers)))
        scene = beside.Scene(spark, cluster.bootstrap_servers, flink)
        found = []
        if given.rotation:
            _rotate(scene, given)
        for rate in [] if given.rotation else given.rate:
            for system in _systems(given):
                with beside.copying(scene, system) as topics:
                    late = measure(
                        scene.bootstrap, *topics, rate, given.seconds, given.warm_up_s, system.kinds
                    )
                found.append({"rate": rate, **system.as_json(), **late})
                _say(found[-1])
        if given.beside:
            speeds = []
            for each in beside.throughput(scene, given.records, given.rounds):
                speeds.append(each)
                _say(each)
            sys.stdout.write(beside.tables(found, speeds, given.brokers))
    spark.stop()


@contextmanager
def _compiled_well() -> Iterator[None]:
    """Let a JVM that is started here compile as on a server. A development broker is set to start quickly."""
    os.environ["_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=4 -Xmx1g"
    try:
        yield
    finally:
        del os.environ["_JAVA_OPTIONS"]


def _rotate(scene: beside.Scene, given: argparse.Namespace) -> None:
    for rate in given.rate:
        for interval_ms in given.interval_ms:
            system = beside.System(beside.CONTINUOUS, beside.EXACTLY_ONCE, interval_ms)
            load = {"rate": rate, "seconds": given.seconds, "warm_up_s": given.warm_up_s}
            for line in rotation.compared(scene, system, load, given.rounds):
                _say({"rate": rate, **system.as_json(), **line})


def _systems(given: argparse.Namespace) -> list[beside.System]:
    ours = [
        beside.System(beside.CONTINUOUS, beside.EXACTLY_ONCE, interval_ms, lanes)
        for interval_ms in given.interval_ms
        for lanes in given.lanes
    ]
    return [*ours, *beside.others(given.checkpoint_ms)] if given.beside else ours


def _say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.continuous",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--rate", type=int, nargs="+")
    parser.add_argument("--interval-ms", type=int, nargs="+")
    parser.add_argument("--lanes", type=int, nargs="+", default=[1])
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--warm-up-s", type=float)
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    parser.add_argument("--beside", action="store_true", help="beside Flink and our micro-batches")
    parser.add_argument("--checkpoint-ms", type=int, nargs="+", help="intervals of Flink's checkpoints")
    parser.add_argument("--records", type=int, help="of the measurement of throughput")
    parser.add_argument(
        "--rounds", type=int, help="of throughput, after one to warm up; of each kind with --rotation"
    )
    parser.add_argument("--throughput", action="store_true", help="as --beside, but without latencies")
    parser.add_argument("--rotation", action="store_true", help="with ids that wear out, and without")
    parser.add_argument("--quick", action="store_true", help="with --beside: fewer rates and intervals")
    given = parser.parse_args(arguments)
    if given.rotation and (given.beside or given.throughput or given.brokers > 1):
        parser.error("--rotation is a run of its own, on one broker")
    given.beside |= given.throughput
    usual: dict[str, Any] = {"rate": [1_000], "interval_ms": [10, 20, 50, 100], "seconds": 10.0}
    usual |= {"checkpoint_ms": [10, 50, 100, 1_000], "records": 4_000_000, "rounds": 2, "warm_up_s": 5.0}
    if given.rotation:
        usual |= {"interval_ms": [20], "rounds": 3, "warm_up_s": 15.0, "seconds": 20.0}
    if given.beside:
        usual |= {"rate": [1_000, 10_000, 100_000], "seconds": 15.0}
    if given.quick:
        usual |= {"rate": [1_000, 10_000], "interval_ms": [20], "checkpoint_ms": [10, 100]}
        usual |= {"seconds": 6.0, "records": 2_000_000}
    if given.throughput:
        usual |= {"rate": []}
    for name, value in usual.items():
        if getattr(given, name) is None:
            setattr(given, name, value)
    return given


if __name__ == "__main__":
    main(sys.argv[1:])
