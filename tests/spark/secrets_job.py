"""Working and failing jobs whose passwords are references; a test searches all that they print and keep.

Run as `python -m tests.spark.secrets_job FOLDER` with addresses in the environment. Everything tells as much
as it can: penstock's log at DEBUG, Spark's event log, explained plans, progress, errors with tracebacks.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Any

from tests.fix_spark import spark_settings

LOG_TOPIC = "decisions-of-copy"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def login(reference: str) -> dict[str, str]:
    return {
        "properties.bootstrap.servers": os.environ["TEST_SERVERS"],
        "properties.security.protocol": "SASL_SSL",
        "properties.sasl.mechanism": "PLAIN",
        "properties.sasl.jaas.config": f'{MODULE} required username="alice" password="{reference}";',
        "properties.ssl.truststore.location": os.environ["TEST_TRUST"],
        "properties.ssl.truststore.password": "${env:TEST_STORE_PASSWORD}",
        "properties.default.api.timeout.ms": "20000",
    }


def copy(spark: Any, options: dict[str, str], folder: Path) -> Any:
    """Copy a topic, exactly once, and return the query when it has ended."""
    rows = spark.readStream.format("penstock").options(**options, topic=os.environ["TEST_TOPIC"])
    rows = rows.option("scan.startup.mode", "earliest-offset").load().select("key", "value")
    rows.explain(True)
    writer = rows.writeStream.format("penstock").options(**options, topic=os.environ["TEST_COPY"])
    writer = writer.option("sink.delivery-guarantee", "exactly-once")
    writer = writer.option("sink.transactional-id-prefix", "copy").option("sink.commit-log.topic", LOG_TOPIC)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def fail(spark: Any, wrong: str, folder: Path) -> None:
    """Run a job that cannot log in, and show all of its error."""
    try:
        copy(spark, login(wrong), folder / "wrong")
    except Exception:  # noqa: BLE001  # whatever is shown is searched
        traceback.print_exc()
        print("failed as it must")  # noqa: T201


def main(folder: Path) -> None:
    """Run the jobs."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - lazy

    builder: Any = SparkSession.builder
    (folder / "events").mkdir()
    settings = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": (folder / "events").as_uri()}
    for key, value in {**spark_settings(folder), **settings}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    query = copy(spark, login("${env:TEST_PASSWORD}"), folder)
    print(query.recentProgress)  # noqa: T201 - what is searched
    rows = spark.read.format("penstock").options(
        **login("${env:TEST_PASSWORD}"), topic=os.environ["TEST_COPY"]
    )
    print(rows.load().count())  # noqa: T201 - what is searched
    for wrong in ("${env:TEST_WRONG_PASSWORD}", "${env:TEST_NOT_SET}"):
        fail(spark, wrong, folder)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
