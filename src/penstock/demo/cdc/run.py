"""Run `penstock demo cdc` from an empty machine to two checked tables.

Runs on the driver. Invariant: when it returns, the broker, the Spark session and all its folders are gone,
also when a step fails.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from penstock.demo.cdc.check import Rows, Verdict, carriers_of, check_carriers, check_departures
from penstock.demo.cdc.history import Debezium, changes, record_batches
from penstock.demo.cdc.pipeline import follow_carriers, follow_departures, read_departures
from penstock.demo.flights import load_flights
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
from penstock.targets import ParquetTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = 31
TOPIC = "airports.public.departures"
PARTITION_COUNT = 2
ROWS_PER_BATCH = 25_000


@dataclass(frozen=True)
class Outcome:
    """What the demo has done.

    Attributes:
        counts: how many messages of each kind there were.
        verdicts: one for each table.
        carriers: the rows of the table in Parquet.
    """

    counts: Counter[str]
    verdicts: tuple[Verdict, ...]
    carriers: Rows


def run_cdc_demo(console: Console | None = None) -> Outcome:
    """Start a broker, send the history of a month, keep two tables, check and show them.

    Raises:
        PenstockError: a step failed, or a table differs from the true one.
    """
    console = console or Console()
    console.print("[bold]penstock demo cdc[/]: PostgreSQL's changes -> Kafka -> tables, on real flights")
    flights = flights_of(DAYS)
    with (
        progress_bars(console) as progress,
        tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder,
        broker(progress) as bootstrap_servers,
    ):
        make_topics(bootstrap_servers, PARTITION_COUNT, TOPIC)
        counts = send(bootstrap_servers, TOPIC, flights, progress)
        with small_spark(progress, Path(folder)) as spark:
            outcome = keep_tables(spark, bootstrap_servers, TOPIC, flights, counts, Path(folder), progress)
    _show(console, outcome)
    return outcome


def flights_of(days: int) -> pa.Table:
    """Return the flights of the first days of 2013."""
    flights = load_flights()
    end = dt.date(2013, 1, 1) + dt.timedelta(days=days)
    day = pc.add(pc.multiply(flights["month"], 100), flights["day"])
    return flights.filter(pc.less(day, end.month * 100 + end.day))


def send(bootstrap_servers: str, topic: str, flights: pa.Table, progress: Progress) -> Counter[str]:
    """Write Debezium's messages of the flights into a topic, and return how many of each kind."""
    debezium = Debezium()
    bar = progress.add_task("Sending Debezium's messages", total=None, note="")
    fill(bootstrap_servers, topic, record_batches(debezium.messages(changes(flights))), progress, bar)
    return debezium.counts


def keep_tables(
    spark: SparkSession,
    bootstrap_servers: str,
    topic: str,
    flights: pa.Table,
    counts: Counter[str],
    folder: Path,
    progress: Progress,
) -> Outcome:
    """Run both queries to the end of the topic, one after the other, and compare their tables."""
    for title, start in (
        ("Keeping departures in SQLite", follow_departures),
        ("Keeping statistics in Parquet", follow_carriers),
    ):
        limits = limit_of_batch("scan.max-records-per-batch", ROWS_PER_BATCH)
        messages = read_departures(spark, bootstrap_servers, topic, limits)
        follow(start(messages, folder), progress, progress.add_task(title, total=None, note=""))
    with step(progress, "Comparing with the true tables"):
        files = ParquetTable(str(folder / "carriers")).paths()
        verdicts = (check_departures(folder / "airports.db", flights), check_carriers(files, flights))
        return Outcome(counts, verdicts, carriers_of(files))


def _show(console: Console, outcome: Outcome) -> None:
    told = ", ".join(f"{count:,} {kind}" for kind, count in outcome.counts.items())
    console.print(f"Debezium's messages: {told}")
    console.print(_carrier_table(outcome.carriers))
    wrong = [str(verdict) for verdict in outcome.verdicts if not verdict.is_right]
    if wrong:
        raise PenstockError(f"a table differs from the true one. {'; '.join(wrong)}")
    for verdict in outcome.verdicts:
        console.print(
            f"[green]Right:[/] {verdict.table} has {verdict.row_count:,} rows, each once and equal to a "
            "plain computation over the flights."
        )


def _carrier_table(carriers: Rows) -> Table:
    table = Table(title="Flights of January 2013 that were not cancelled (from the table in Parquet)")
    for heading in ("carrier", "flights", "destinations", "mean delay", "worst delay"):
        table.add_column(heading, justify="left" if heading == "carrier" else "right")
    for carrier, flights, departed, minutes, worst, destinations in carriers:
        mean = f"{minutes / departed:.1f} min"
        table.add_row(carrier, f"{flights:,}", str(destinations), mean, f"{worst:,} min")
    return table
