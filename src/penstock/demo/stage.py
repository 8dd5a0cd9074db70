"""What both demos need: a broker, topics with records, a small Spark, and bars that show the progress.

Runs on the driver. Invariant: what a context manager here starts has ended when it is left, also after an
error.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from penstock.client.cluster.topics import NewTopic, create_topics
from penstock.client.net.connection import connections_for
from penstock.client.settings import connection_settings
from penstock.devbroker import DevCluster
from penstock.options.parse import parse_write
from penstock.sink.writer import write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_LOG_SETTINGS = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.console.type = Console
appender.console.name = stderr
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n
"""


@contextmanager
def broker(progress: Progress) -> Iterator[str]:
    """Run a broker, and give its address."""
    with step(progress, "Starting Apache Kafka"):
        cluster = DevCluster()
        cluster.start()
    try:
        yield cluster.bootstrap_servers
    finally:
        with step(progress, "Stopping Apache Kafka"):
            cluster.stop()


@contextmanager
def small_spark(progress: Progress, folder: Path) -> Iterator[SparkSession]:
    """Run a local Spark with two cores that logs errors only."""
    with step(progress, "Starting Spark"):
        spark = _start_spark(folder)
    try:
        yield spark
    finally:
        spark.stop()


def limit_of_batch(option: str, count: int) -> dict[str, str]:
    """Return the option that limits a batch. Spark before 4.2 takes none with the trigger availableNow."""
    from penstock.spark.versions import PLANS_WITH_LIMITS  # noqa: PLC0415 - slow to import, as above

    return {option: str(count)} if PLANS_WITH_LIMITS else {}


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


def make_topics(bootstrap_servers: str, partition_count: int, *topics: str) -> None:
    """Create topics that keep their records.

    The timestamps of the records may be from 2013: Kafka's default retention of a week would delete them at
    once.
    """
    config = parse_write({"kafka.bootstrap.servers": bootstrap_servers}).sink
    connections = connections_for(connection_settings(config.properties, client_id="penstock-demo"))
    topic = NewTopic(partition_count, configs={"retention.ms": "-1"})
    create_topics(connections, dict.fromkeys(topics, topic))


def fill(
    bootstrap_servers: str, topic: str, batches: Iterable[pa.RecordBatch], progress: Progress, bar: TaskID
) -> int:
    """Write rows of key and value into a topic, and return their number."""
    config = parse_write({"kafka.bootstrap.servers": bootstrap_servers, "topic": topic}).sink

    def counted() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            progress.advance(bar, batch.num_rows)

    started = time.monotonic()
    record_count = write_rows(config, counted())
    finish(progress, bar, record_count, started)
    return record_count


def follow(query: StreamingQuery, progress: Progress, bar: TaskID) -> None:
    """Show the query's progress until it has read all rows and stopped by itself."""
    started = time.monotonic()
    rows_of_batch: dict[int, int] = {}
    while True:
        is_finished = query.awaitTermination(1)
        rows_of_batch.update((p.batchId, p.numInputRows) for p in query.recentProgress)
        progress.update(bar, completed=sum(rows_of_batch.values()))
        if is_finished:
            break
    finish(progress, bar, sum(rows_of_batch.values()), started)


def progress_bars(console: Console) -> Progress:
    """Return the display of the steps."""
    return Progress(
        TextColumn("{task.description:<36}"),
        BarColumn(bar_width=16),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        console=console,
    )


def finish(progress: Progress, bar: TaskID, rows: int, started: float) -> None:
    rate = rows / max(time.monotonic() - started, 1e-3)
    progress.update(bar, total=rows, completed=rows, note=f"{rate:,.0f} records/s")


@contextmanager
def step(progress: Progress, description: str) -> Iterator[None]:
    bar = progress.add_task(description, total=1, note="")
    yield
    progress.advance(bar, 1)
