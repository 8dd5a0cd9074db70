"""Run the demo from an empty machine to a checked table.

Runs on the driver. Invariant: when it returns, the broker, the Spark session and all its folders are gone,
also when a step fails.
"""

from __future__ import annotations

import datetime as dt
import json
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from penstock.demo.check import Verdict, compare, expected_delays
from penstock.demo.flights import flight_records, load_flights
from penstock.demo.pipeline import WATERMARK_DELAY_DAYS, daily_delays, read_flights, write_delays
from penstock.demo.stage import (
    broker,
    fill,
    follow,
    limit_of_batch,
    make_topics,
    progress_bars,
    small_spark,
    step,
)
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INPUT_TOPIC = "flights"
OUTPUT_TOPIC = "carrier-delays"
PARTITION_COUNT = 4
ROWS_PER_BATCH = 100_000


def run_demo(console: Console | None = None) -> Verdict:
    """Start a broker, load the flights, run the streaming job, check and show its output.

    Raises:
        PenstockError: a step failed, or the output differs from the plain computation.
    """
    console = console or Console()
    console.print("[bold]penstock demo[/]: Kafka -> Spark -> Kafka, on 336,776 real flights")
    flights = load_flights()
    with (
        progress_bars(console) as progress,
        tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder,
        broker(progress) as bootstrap_servers,
    ):
        values = _run_on(bootstrap_servers, flights, Path(folder), progress)
    verdict = compare(values, expected_delays(flights, dt.timedelta(days=WATERMARK_DELAY_DAYS)))
    _show(console, values, verdict)
    return verdict


def _run_on(bootstrap_servers: str, flights: pa.Table, folder: Path, progress: Progress) -> list[bytes]:
    make_topics(bootstrap_servers, PARTITION_COUNT, INPUT_TOPIC, OUTPUT_TOPIC)
    bar = progress.add_task("Loading flights into Kafka", total=flights.num_rows, note="")
    fill(bootstrap_servers, INPUT_TOPIC, flight_records(flights, PARTITION_COUNT), progress, bar)
    with small_spark(progress, folder) as spark:
        limits = limit_of_batch("maxOffsetsPerTrigger", ROWS_PER_BATCH)
        stream = daily_delays(read_flights(spark, bootstrap_servers, INPUT_TOPIC, limits))
        query = write_delays(stream, bootstrap_servers, OUTPUT_TOPIC, str(folder / "checkpoint"))
        title = "Streaming delays per carrier and day"
        follow(query, progress, progress.add_task(title, total=flights.num_rows, note=""))
        with step(progress, "Reading the output topic back"):
            return _read_back(spark, bootstrap_servers)


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
