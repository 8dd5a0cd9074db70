"""The streaming query of the soak, as a process of its own that can be killed.

It writes each batch to a folder of its own. A repeated batch replaces its folder. So all folders together
hold what the query read according to its checkpoint. It prints `batch <id>` when a batch is in the commit
log, and `done` at the end.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tests.chaos.copy_job import _session
from tests.chaos.said_batches import say_batches

TRIGGER = "1 second"


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "topic", "group", "folder"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--drain", action="store_true", help="read what there is, then stop")
    arguments = parser.parse_args()
    spark = _session(f"{arguments.folder}/scratch")
    query = _start(spark, arguments)
    say_batches(query)
    spark.stop()


def _start(spark: SparkSession, arguments: argparse.Namespace):  # type: ignore[no-untyped-def]  # StreamingQuery differs between classic and Connect
    options = {
        "properties.bootstrap.servers": arguments.bootstrap,
        "properties.group.id": arguments.group,
        "properties.isolation.level": "read_committed",
        "topic": arguments.topic,
        "scan.startup.mode": "earliest-offset",
        "scan.topic-partition-discovery.interval": "5 s",
        "scan.max-records-per-batch": "20000",
        "scan.max-records-per-split": "3000",
    }
    batches = Path(arguments.folder) / "batches"

    def write(batch: DataFrame, batch_id: int) -> None:
        batch.write.mode("overwrite").parquet(str(batches / str(batch_id)))

    records = spark.readStream.format("penstock").options(**options).load()
    columns = records.select("partition", "offset", "value")
    writer = columns.writeStream.foreachBatch(write)
    writer = writer.option("checkpointLocation", f"{arguments.folder}/checkpoint")
    trigger = writer.trigger(availableNow=True) if arguments.drain else writer.trigger(processingTime=TRIGGER)
    return trigger.start()


if __name__ == "__main__":
    main()
