"""Failing queries, whose output a test reads as a user would.

Run as `python -m tests.spark.shown_errors_job FOLDER BOOTSTRAP TOPIC CLOSED_PORT`. The topic has JSON with
`id` and `amount`. Each query writes a line with its name before it, and its error as Python shows an error
that is not caught.
"""

from __future__ import annotations

import sqlite3
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import penstock
from penstock.changelog import aggregate, materialize
from penstock.targets import SqlTable
from tests.fix_spark import spark_settings

BEGIN = "-- "
PATIENCE_S = 60


def say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def main(folder: Path, bootstrap: str, topic: str, closed_port: str) -> None:
    builder = SparkSession.builder
    for key, value in spark_settings(folder).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    everything = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    away = {"kafka.bootstrap.servers": f"127.0.0.1:{closed_port}", "kafka.default.api.timeout.ms": "4000"}
    target = SqlTable("counts", lambda: sqlite3.connect(folder / "counts.db"), "sqlite")

    def read(fields: str, **options: str) -> Any:
        chosen = {**everything, "format": "json", **options}
        return spark.readStream.format("penstock").schema(fields).options(**chosen).load()

    def run(writer: Any, checkpoint: str) -> None:
        checkpoint_location = str(folder / checkpoint)
        query = writer.option("checkpointLocation", checkpoint_location).trigger(availableNow=True).start()
        try:
            query.awaitTermination(PATIENCE_S)
        finally:
            say(f"why: {penstock.explain_failure(query)}")
            query.stop()

    def counted(checkpoint: str) -> None:
        rows = read("id BIGINT")
        counts = aggregate(rows, ["id"], {"n": "count(*)"}, state=str(folder / "state"), partitions=1)
        run(materialize(counts, ["id"], target), checkpoint)

    failing: dict[str, Callable[[], object]] = {
        "no broker": lambda: run(read("id BIGINT", **away).writeStream.format("noop"), "no-broker"),
        "misspelt topic": lambda: run(
            read("id BIGINT", subscribe=f"{topic[:-2]}sr").writeStream.format("noop"), "misspelt"
        ),
        "state": lambda: counted("second"),
        "table": lambda: run(materialize(read("id BIGINT, n BIGINT"), ["id"], target), "third"),
        "wrong type": lambda: run(read("id BIGINT, amount INT").writeStream.format("noop"), "wrong-type"),
        "wrong type in a batch": lambda: (
            spark.read.format("penstock")
            .schema("id BIGINT, amount INT")
            .options(**everything, format="json")
            .load()
            .collect()
        ),
    }
    counted("first")
    for name, run_it in failing.items():
        say(f"{BEGIN}{name}")
        try:
            run_it()
        except Exception:  # noqa: BLE001 - shows it as Python does
            traceback.print_exc()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:5])
