"""A stream that makes changes of files of upserts, as a process of its own that a test can kill.

It prints `batch <id>` when a batch is finished, and `done` at the end.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock import changelog
from tests import quick_jvm
from tests.chaos.said_batches import say_batches

COLUMNS = "k BIGINT, v BIGINT, at BIGINT, row_kind STRING"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--partitions", type=int, default=3)
    arguments = parser.parse_args()
    folder = Path(arguments.folder)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName("penstock-state-hunt").master("local[2,4]")
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "scratch"),
        "spark.log.level": "ERROR",
        "spark.speculation": "true",
        "spark.driver.extraJavaOptions": quick_jvm.OPTIONS,
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    rows = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    changes = changelog.normalize(
        rows, ["k"], order_by=["at"], state=str(folder / "state"), partitions=arguments.partitions
    )
    start = changes.writeStream.format("parquet").option("path", str(folder / "out"))
    start = start.option("checkpointLocation", str(folder / "checkpoint"))
    query: Any = start.trigger(availableNow=True).start()
    say_batches(query)
    spark.stop()


if __name__ == "__main__":
    main()
