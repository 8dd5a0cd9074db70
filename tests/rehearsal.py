"""A short life of a Spark driver: Java writes the classes that it has loaded into an archive (`quick_jvm`).

Run as `python -m tests.rehearsal FOLDER`. It loads what most tests need: a batch write, an aggregation, a
stream from topic to topic.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.devbroker import DevCluster
from tests import judge
from tests.fix_spark import end_jvm, spark_settings


def main(folder: Path) -> None:
    builder: Any = SparkSession.builder
    # The environment has the flags to make an archive; those here would use an older one.
    settings = {**spark_settings(folder), "spark.driver.extraJavaOptions": ""}
    for key, value in settings.items():
        builder = builder.config(key, value)
    with DevCluster() as cluster:
        spark: SparkSession = builder.getOrCreate()
        _copy(spark, cluster.bootstrap_servers, folder)
        spark.stop()
    end_jvm()


def _copy(spark: SparkSession, bootstrap: str, folder: Path) -> None:
    for topic in ("rows", "copy"):
        judge.create_topic(bootstrap, topic, partitions=2)
    options = {"kafka.bootstrap.servers": bootstrap}
    rows = spark.range(100).select(F.to_json(F.struct("id")).alias("value"))
    rows.write.format("penstock").options(**options, topic="rows").mode("append").save()
    read = spark.read.format("penstock").options(**options, subscribe="rows").load()
    read.groupBy("partition").count().orderBy("partition").collect()
    stream = spark.readStream.format("penstock").options(**options, subscribe="rows")
    copied = stream.option("startingOffsets", "earliest").load().select("key", "value")
    copy = copied.writeStream.format("penstock").options(**options, topic="copy")
    copy = copy.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    copy.start().awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
