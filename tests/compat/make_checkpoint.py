"""Record the checkpoint of a plain read (`record.py`).

Two batches: the first begins at the latest offsets, so its offset carries the start. The second has a limit
and stops inside the topic. A later version must read exactly the records that are left.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.devbroker import DevCluster
from tests import judge

TOPIC = "compat"
PARTITIONS = 2
OLD, NEW, READ = 3, 10, 8
"""Records per topic partition before the query starts and after; records of all that the batch reads."""


def values(partition: int, first: int, count: int) -> list[judge.Record]:
    return [
        judge.Record(value=b"%d/%d" % (partition, number), partition=partition)
        for number in range(first, first + count)
    ]


def fill(bootstrap: str, first: int, count: int) -> None:
    for partition in range(PARTITIONS):
        judge.produce(bootstrap, TOPIC, *values(partition, first, count))


def record(checkpoint: Path) -> None:
    """Record a checkpoint in a folder."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    shutil.rmtree(checkpoint, ignore_errors=True)
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    with DevCluster() as cluster:
        judge.create_topic(cluster.bootstrap_servers, TOPIC, partitions=PARTITIONS)
        fill(cluster.bootstrap_servers, 0, OLD)
        for count in (0, NEW):
            fill(cluster.bootstrap_servers, OLD, count)
            query = (
                spark.readStream.format("penstock")
                .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
                .option("subscribe", TOPIC)
                .option("maxOffsetsPerTrigger", READ)
                .load()
                .writeStream.format("noop")
                .option("checkpointLocation", str(checkpoint))
                .start()
            )
            query.processAllAvailable() if not count else _until_first_batch(query)
            query.stop()
    spark.stop()
    for crc in checkpoint.rglob("*.crc"):
        crc.unlink()


def _until_first_batch(query) -> None:  # type: ignore[no-untyped-def]  # StreamingQuery differs between classic and Connect
    while query.isActive and not any(progress.numInputRows for progress in query.recentProgress):
        query.awaitTermination(1)
