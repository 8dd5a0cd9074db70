"""Run the demo from an empty machine to a checked table.

Runs on the driver. Invariant: when it returns, the broker, the Spark session and all its folders are gone,
also when a step fails.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from penstock.client.cluster.topics import NewTopic, create_topics
from penstock.client.net.connection import connections_for
from penstock.client.settings import connection_settings
from penstock.demo.check import Verdict, compare, expected_delays
from penstock.demo.flights import flight_records, load_flights
from penstock.demo.pipeline import WATERMARK_DELAY_DAYS, daily_delays, read_flights, write_delays
from penstock.devbroker import DevCluster
from penstock.errors import PenstockError
from penstock.options.parse import parse_write
from penstock.sink.writer import write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

INPUT_TOPIC = "flights"
OUTPUT_TOPIC = "carrier-delays"
PARTITION_COUNT = 4
ROWS_PER_BATCH = 100_000
_LOG_SETTINGS = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.console.type = Console
appender.console.name = stderr
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n
"""


def run_demo(console: Console | None = None) -> Verdict:
    """Start a broker, load the flights, run the streaming job, check and show its output.

    Raises:
        PenstockError: a step failed, or the output differs from the plain computation.
    """
    console = console or Console()
    console.print("[bold]penstock demo[/]: Kafka -> Spark -> Kafka, on 336,776 real flights")
    flights = load_flights()
    with _progress(console) as progress, tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
        with _step(progress, "Starting Apache Kafka"):
            cluster = DevCluster()
            cluster.start()
        try:
            values = _run_on(cluster.bootstrap_servers, flights, Path(folder), progress)
        finally:
            with _step(progress, "Stopping Apache Kafka"):
                cluster.stop()
    verdict = compare(values, expected_delays(flights, dt.timedelta(days=WATERMARK_DELAY_DAYS)))
    _show(console, values, verdict)
    return verdict


def _run_on(bootstrap_servers: str, flights: pa.Table, folder: Path, progress: Progress) -> list[bytes]:
    _load(bootstrap_servers, flights, progress)
    with _step(progress, "Starting Spark"):
        spark = _start_spark(folder)
    try:
        stream = daily_delays(read_flights(spark, bootstrap_servers, INPUT_TOPIC, ROWS_PER_BATCH))
        query = write_delays(stream, bootstrap_servers, OUTPUT_TOPIC, str(folder / "checkpoint"))
        _follow(query, flights.num_rows, progress)
        with _step(progress, "Reading the output topic back"):
            return _read_back(spark, bootstrap_servers)
    finally:
        spark.stop()


def _load(bootstrap_servers: str, flights: pa.Table, progress: Progress) -> None:
    options = {"kafka.bootstrap.servers": bootstrap_servers, "topic": INPUT_TOPIC}
    config = parse_write(options).sink
    connections = connections_for(connection_settings(config.properties, client_id="penstock-demo"))
    # Record timestamps are from 2013: Kafka's default retention of a week would delete the records at once.
    topic = NewTopic(PARTITION_COUNT, configs={"retention.ms": "-1"})
    create_topics(connections, {INPUT_TOPIC: topic, OUTPUT_TOPIC: topic})
    bar = progress.add_task("Loading flights into Kafka", total=flights.num_rows, note="")

    def counted() -> Iterator[pa.RecordBatch]:
        for batch in flight_records(flights, PARTITION_COUNT):
            yield batch
            progress.advance(bar, batch.num_rows)

    started = time.monotonic()
    record_count = write_rows(config, counted())
    _finish(progress, bar, record_count, started)


def _start_spark(folder: Path) -> SparkSession:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - slow to import, and not needed before

    # Spark would take the `python3` of the path, which need not be the one that has penstock.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("penstock-demo").master("local[2]")
    (folder / "log4j2.properties").write_text(_LOG_SETTINGS)
    os.environ["SPARK_CONF_DIR"] = str(folder)
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _follow(query: StreamingQuery, row_count: int, progress: Progress) -> None:
    """Shows the query's progress until it has read all rows and stopped by itself."""
    bar = progress.add_task("Streaming delays per carrier and day", total=row_count, note="")
    started = time.monotonic()
    rows_of_batch: dict[int, int] = {}
    while True:
        is_finished = query.awaitTermination(1)
        rows_of_batch.update((p.batchId, p.numInputRows) for p in query.recentProgress)
        progress.update(bar, completed=sum(rows_of_batch.values()))
        if is_finished:
            break
    _finish(progress, bar, sum(rows_of_batch.values()), started)


def _read_back(spark: SparkSession, bootstrap_servers: str) -> list[bytes]:
    rows = (
        spark.read.format("penstock")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", OUTPUT_TOPIC)
        .load()
        .select("value")
        .collect()
    )
    return [bytes(row.value) for row in rows]


def _show(console: Console, values: list[bytes], verdict: Verdict) -> None:
    console.print(_carrier_table(values))
    if not verdict.is_right:
        message = (
            f"the stream's output differs from the plain computation: {len(verdict.missing)} rows missing, "
            f"{len(verdict.repeated)} repeated, {len(verdict.different)} with other numbers"
        )
        raise PenstockError(message)
    console.print(
        f"[green]Right:[/] {verdict.expected_count:,} rows (carrier and day), each once, "
        "equal to a plain computation over the same flights."
    )


def _carrier_table(values: list[bytes]) -> Table:
    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    worst: dict[str, tuple[float, str]] = {}
    for value in values:
        row = json.loads(value)
        for index, name in enumerate(("flights", "departed", "delay_minutes", "late")):
            totals[row["carrier"]][index] += row[name]
        if row["departed"]:
            mean_of_day = (row["delay_minutes"] / row["departed"], row["day"])
            worst[row["carrier"]] = max(worst.get(row["carrier"], mean_of_day), mean_of_day)
    table = Table(title="Departure delays from New York, 2013 (read back from Kafka)")
    for heading in ("carrier", "flights", "mean delay", "late by > 15 min", "worst day"):
        table.add_column(heading, justify="left" if heading == "carrier" else "right")
    for carrier, (count, departed, minutes, late) in sorted(totals.items(), key=lambda item: -item[1][0]):
        mean, day = worst[carrier]
        table.add_row(
            carrier,
            f"{count:,}",
            f"{minutes / departed:.1f} min",
            f"{late / departed:.0%}",
            f"{day} ({mean:.0f} min)",
        )
    return table


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:<36}"),
        BarColumn(bar_width=16),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        console=console,
    )


def _finish(progress: Progress, bar: TaskID, rows: int, started: float) -> None:
    rate = rows / max(time.monotonic() - started, 1e-3)
    progress.update(bar, completed=rows, note=f"{rate:,.0f} records/s")


@contextmanager
def _step(progress: Progress, description: str) -> Iterator[None]:
    bar = progress.add_task(description, total=1, note="")
    yield
    progress.advance(bar, 1)
