"""`make bench`: one run, one broker, the same topics, systems in turn, medians after a warm-up.

Figures move from machine to machine and from hour to hour; only the ratios of one run mean something.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from benchmarks.cases import CASES, PENSTOCK, SYSTEMS, Bench
from penstock.client.connection import connections_for
from penstock.client.properties import connection_settings
from penstock.client.topic_admin import NewTopic, create_topics
from penstock.devbroker import DevCluster
from penstock.devbroker.jars import spark_kafka_connector_jars
from penstock.options import parse_sink_options
from penstock.sink.writer import write_rows

RESULTS = Path(__file__).parent / "results"
PARTITION_COUNT = 4


def main() -> None:
    arguments = _arguments()
    console = Console()
    with DevCluster() as cluster:
        spark = spark_session()
        try:
            bench = prepare(spark, cluster.bootstrap_servers, arguments.records)
            seconds = _measure(bench, arguments.cases, arguments.rounds, console)
        finally:
            spark.stop()
    report = _report(seconds, arguments)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "latest.json").write_text(json.dumps(report, indent=2) + "\n")
    _show(report, console)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--cases", nargs="*", choices=list(CASES), default=list(CASES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=4_000_000)
    return parser.parse_args()


def spark_session() -> SparkSession:
    """A local Spark with its own Kafka connector beside ours."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    jars = ",".join(str(jar) for jar in spark_kafka_connector_jars())
    settings = {
        "spark.jars": jars,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": "4g",
    }
    builder = SparkSession.builder.appName("penstock-bench").master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def prepare(spark: SparkSession, bootstrap_servers: str, record_count: int) -> Bench:
    """Makes the topics and fills the input: JSON of about 107 bytes with 8-byte keys, lz4."""
    config = parse_sink_options(
        {
            "kafka.bootstrap.servers": bootstrap_servers,
            "kafka.compression.type": "lz4",
            "topic": "bench-input",
        }
    )
    connections = connections_for(connection_settings(config.properties, client_id="penstock-bench"))
    create_topics(connections, {name: NewTopic(PARTITION_COUNT) for name in ("bench-input", "bench-output")})
    write_rows(config, _input_rows(record_count))
    return Bench(spark, bootstrap_servers, "bench-input", "bench-output", record_count)


def _input_rows(record_count: int, batch_rows: int = 10_000) -> object:
    for first in range(0, record_count, batch_rows):
        ids = range(first, min(first + batch_rows, record_count))
        values = [
            f'{{"id":{i},"customer":"customer-{i % 9973:05d}","amount":{i % 977}.25,'
            f'"is_paid":{"true" if i % 2 else "false"},"note":"order {i % 31:02d} of the day"}}'.encode()
            for i in ids
        ]
        keys = [f"{i % 65536:08d}".encode() for i in ids]
        yield pa.RecordBatch.from_arrays([pa.array(keys), pa.array(values)], names=["key", "value"])


def _measure(
    bench: Bench, cases: list[str], rounds: int, console: Console
) -> dict[str, dict[str, list[float]]]:
    seconds: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for case in cases:
        for number in range(rounds + 1):
            for system in SYSTEMS:
                started = time.perf_counter()
                CASES[case](bench, system)
                took = time.perf_counter() - started
                if number:
                    seconds[case][system].append(took)
                console.print(f"{case} {system} {number or 'warm-up'}: {took:.2f} s")
    return seconds


def _report(seconds: dict[str, dict[str, list[float]]], arguments: argparse.Namespace) -> dict[str, object]:
    machine = {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "pyspark": pyspark.__version__,
        "pyarrow": pa.__version__,
        "platform": platform.platform(),
    }
    medians = {
        case: {system: statistics.median(times) for system, times in systems.items()}
        for case, systems in seconds.items()
    }
    return {"machine": machine, "records": arguments.records, "rounds": arguments.rounds, "median_s": medians}


def _show(report: dict[str, object], console: Console) -> None:
    medians = report["median_s"]
    records = report["records"]
    assert isinstance(medians, dict)
    assert isinstance(records, int)
    table = Table(title="Million records a second (median), and penstock's ratio")
    for heading in ("case", *SYSTEMS, *(f"vs {system}" for system in SYSTEMS[1:])):
        table.add_column(heading)
    for case, systems in medians.items():
        rates = [f"{records / systems[system] / 1e6:.2f}" for system in SYSTEMS]
        ratios = [f"{systems[system] / systems[PENSTOCK]:.2f}x" for system in SYSTEMS[1:]]
        table.add_row(case, *rates, *ratios)
    console.print(table)


if __name__ == "__main__":
    main()
