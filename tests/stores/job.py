"""A query with its state on a store: `python -m tests.stores.job FOLDER STATE TABLE`. Its driver is killed.

It normalizes the files of FOLDER/in. Its rows go to files, of which Spark's sink commits each batch once. A
second query keeps a Parquet table on the store. "batch N" is printed after each batch.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from penstock import changelog
from penstock.cli.quick_start.python import quick_python
from penstock.targets import ParquetTable
from tests.fix_spark import spark_settings
from tests.spark.queries import QUERY_TIMEOUT_S
from tests.spark.test_changelog import read_batches


class Printing(StreamingQueryListener):
    """Prints each batch."""

    def onQueryStarted(self, event: Any) -> None:
        """Print nothing."""

    def onQueryProgress(self, event: Any) -> None:
        """Print the number of the batch."""
        print("batch", event.progress.batchId, flush=True)  # noqa: T201 - read by the parent

    def onQueryTerminated(self, event: Any) -> None:
        """Print nothing."""


def main(folder: Path, state: str, table: str) -> None:
    """Run both queries to the end of the input."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = quick_python()
    builder: Any = SparkSession.builder
    for key, value in spark_settings(folder / "spark").items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.streams.addListener(Printing())

    def normalized(location: str) -> Any:
        stream = read_batches(spark, folder / "in")
        return changelog.normalize(stream, ["k"], order_by=["at"], state=location, partitions=3)

    files = normalized(state).writeStream.format("parquet").option("path", str(folder / "out"))
    files = files.option("checkpointLocation", str(folder / "out-checkpoint"))
    query = files.trigger(availableNow=True).start()
    assert query.awaitTermination(QUERY_TIMEOUT_S)
    changes = normalized(state.replace("/state", "/state-of-table", 1)).drop("at")
    writer = changelog.materialize(changes, ["k"], ParquetTable(table, bucket_count=2))
    writer = writer.option("checkpointLocation", str(folder / "table-checkpoint"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(QUERY_TIMEOUT_S)
    print("done", flush=True)  # noqa: T201 - read by the parent


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
