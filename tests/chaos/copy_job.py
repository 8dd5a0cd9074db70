"""A streaming copy from topic to topic, as a process of its own that a test can kill.

It prints `batch <id>` when a batch is finished, so that a test can wait for progress, and `done` at the end.
"""

from __future__ import annotations

import argparse
import os

from pyspark.sql import SparkSession

from penstock.cli.quick_start.python import quick_python
from tests import quick_jvm
from tests.chaos.said_batches import say_batches


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "source", "target", "checkpoint", "scratch"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--per-trigger", type=int, default=5_000)
    parser.add_argument("--drain", action="store_true", help="read what there is, then stop")
    parser.add_argument("--option", action="append", default=[], help="key=value for the source")
    arguments = parser.parse_args()
    spark = _session(arguments.scratch)
    query = _start(spark, arguments)
    say_batches(query)
    spark.stop()


def _session(scratch: str) -> SparkSession:
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": f"{scratch}/warehouse",
        "spark.local.dir": scratch,
        "spark.log.level": "ERROR",
        "spark.task.maxFailures": "4",
        "spark.driver.extraJavaOptions": quick_jvm.OPTIONS,
    }
    os.environ["PYSPARK_PYTHON"] = quick_python()
    builder = SparkSession.builder.appName("penstock-chaos").master("local[2,4]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _start(spark: SparkSession, arguments: argparse.Namespace):  # type: ignore[no-untyped-def]  # StreamingQuery differs between classic and Connect
    reader = (
        spark.readStream.format("penstock")
        .option("kafka.bootstrap.servers", arguments.bootstrap)
        .option("subscribe", arguments.source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", arguments.per_trigger)
    )
    for item in arguments.option:
        key, _, value = item.partition("=")
        reader = reader.option(key, value)
    writer = (
        reader.load()
        .select("key", "value")
        .writeStream.format("penstock")
        .option("kafka.bootstrap.servers", arguments.bootstrap)
        .option("topic", arguments.target)
        .option("checkpointLocation", arguments.checkpoint)
    )
    if arguments.drain:
        writer = writer.trigger(availableNow=True)
    return writer.start()


if __name__ == "__main__":
    main()
