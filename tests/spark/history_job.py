"""Keep a history and a log of a Debezium topic in Delta tables, and die after the commit of a batch.

Run as `python -m tests.spark.history_job BOOTSTRAP TOPIC FOLDER KIND BATCH`, in a process of its own. BATCH
is the number of the batch after whose commit it dies, before Spark knows of it.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock.changelog import materialize
from penstock.targets import ChangeLogTable, DeltaTable, HistoryTable

KINDS = ("history", "log")


def target_of(folder: Path, kind: str) -> Any:
    table = DeltaTable(str(folder / kind))
    return HistoryTable(table, time="at") if kind == "history" else ChangeLogTable(table)


class Dying:
    """A target that dies after a batch."""

    def __init__(self, inner: Any, batch_id: int) -> None:
        self._inner = inner
        self._batch_id = batch_id

    def apply(self, batch: Any) -> bool:
        is_new: bool = self._inner.apply(batch)
        if batch.batch_id == self._batch_id:
            os.kill(os.getpid(), signal.SIGKILL)
        return is_new

    def all_rows(self, *arguments: Any) -> Any:
        return self._inner.all_rows(*arguments)

    def check(self, *arguments: Any) -> None:
        self._inner.check(*arguments)


def start(spark: SparkSession, bootstrap: str, topic: str, folder: Path, target: Any, kind: str) -> Any:
    changes = (
        spark.readStream.format("penstock")
        .schema("id BIGINT, name STRING, row_kind STRING, at TIMESTAMP")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("format", "debezium-json")
        .option("metadata.columns", "at = value.source.timestamp")
        .option("maxOffsetsPerTrigger", "40")
        .load()
    )
    writer = materialize(changes, ["id"], target).option("checkpointLocation", str(folder / f"{kind}-c"))
    return writer.trigger(availableNow=True).start()


def main(bootstrap: str, topic: str, folder: str, kind: str, batch_id: str) -> None:
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    target = Dying(target_of(Path(folder), kind), int(batch_id))
    start(spark, bootstrap, topic, Path(folder), target, kind).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
