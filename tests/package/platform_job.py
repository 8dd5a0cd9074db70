"""A job for `tests.package.platforms`: it says which Pythons run it, and copies rows exactly once.

Runs by spark-submit in the Python under test, which has no tests. Arguments: brokers, source topic, target
topic, folder.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

ROWS = 1000


def python_of_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import sys  # noqa: PLC0415 - on the executor

    import pyspark  # noqa: PLC0415

    import penstock  # noqa: PLC0415

    for _ in batches:
        pass
    found = f"{sys.executable}, penstock in {penstock.__path__[0]}, PySpark {pyspark.__version__}"
    yield pa.RecordBatch.from_pydict({"found": [found]})


def main(brokers: str, source: str, target: str, folder: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    sys.stdout.write(f"driver: {sys.executable}\n")
    tasks: Any = spark.range(0, 8, 1, 8).mapInArrow(python_of_task, "found STRING")
    for row in sorted(tasks.distinct().collect()):
        sys.stdout.write(f"executors: {row.found}\n")
    options = {"kafka.bootstrap.servers": brokers}
    rows = spark.range(ROWS).selectExpr("CAST(id AS STRING) AS value")
    rows.write.format("penstock").options(**options).option("topic", source).mode("append").save()
    reader = spark.readStream.format("penstock").options(**options).option("subscribe", source)
    writer = reader.option("startingOffsets", "earliest").load().writeStream.format("penstock")
    exactly_once = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": target}
    query = (
        writer.options(**options, **exactly_once)
        .option("topic", target)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    progress: Any = query.lastProgress
    sys.stdout.write(f"progress: {progress['sources'][0]['description']}\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
