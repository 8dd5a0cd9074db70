"""The compared systems, and how each one reads and writes.

Invariants: all systems read and write the same topics. penstock and Spark's own connector use the same Spark
session. "spark tuned" is Spark's own connector with every setting that we know to make it faster. "penstock
tuned" declares the columns that the case needs, and removes the limit on the bytes of a written Arrow batch.
Flink has its own module.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version

from pyspark.sql import DataFrame, SparkSession
from tests.jars import spark_avro_jars, spark_kafka_connector_jars

from benchmarks import usage
from benchmarks.flink import FlinkSession
from benchmarks.inputs import OUTPUT_TOPIC, PARTITION_COUNT, make_topic
from penstock.devbroker import DevCluster

PENSTOCK = "penstock"
SPARK_DEFAULT = "spark default"
SPARK_TUNED = "spark tuned"
FLINK = "Flink SQL"
PENSTOCK_TUNED = "penstock tuned"
OURS = (PENSTOCK, PENSTOCK_TUNED)
SYSTEMS = (PENSTOCK, SPARK_DEFAULT, SPARK_TUNED)
CONFLUENT = "confluent-kafka alone"
ARROW = "Arrow transfer alone"
YARDSTICKS = (CONFLUENT, ARROW)

FORMAT = {**dict.fromkeys(OURS, "penstock"), SPARK_DEFAULT: "kafka", SPARK_TUNED: "kafka"}
_READ_TUNING = {
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.max.poll.records": "10000",
    # Spark asks for the end of a partition after a fetch at its end, which waits so long (default 500 ms).
    "kafka.fetch.max.wait.ms": "10",
}
_WRITE_TUNING = {"kafka.linger.ms": "20", "kafka.batch.size": str(256 << 10), "kafka.compression.type": "lz4"}
_UNBOUNDED_BATCHES = {"spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1)}
"""Without a limit, Spark does not ask for the size of the batch after each row for a Python sink."""
_OF_SPARK = frozenset({usage.SPARK_JVM, usage.BROKER})
_TAKING_PART = {
    SPARK_DEFAULT: _OF_SPARK,
    SPARK_TUNED: _OF_SPARK,
    ARROW: frozenset({usage.SPARK_JVM, usage.PYTHON_WORKERS}),
    FLINK: frozenset({usage.FLINK_JVM, usage.FLINK_CLIENT, usage.BROKER}),
    CONFLUENT: frozenset({usage.DRIVER, usage.BROKER}),
}
_READ_OPTIONS: Mapping[str, Mapping[str, str]] = {SPARK_TUNED: _READ_TUNING}
_WRITE_OPTIONS: Mapping[str, Mapping[str, str]] = {
    **{system: {"kafka.compression.type": "lz4"} for system in OURS},
    SPARK_TUNED: _WRITE_TUNING,
}


@dataclass(frozen=True)
class Bench:
    """The Spark session, broker and topics that a case uses."""

    spark: SparkSession
    bootstrap_servers: str
    input_topic: str
    output_topic: str
    record_count: int
    flink_session: FlinkSession | None = None

    @property
    def flink(self) -> FlinkSession:
        """Return Flink, in a run with FLINK=1."""
        assert self.flink_session is not None
        return self.flink_session


def taking_part(system: str) -> frozenset[str]:
    """Return the kinds of processes that do the system's work, without idle ones.

    A yardstick runs in this process. For the other systems this process only gives the orders.
    """
    return _TAKING_PART.get(system, _OF_SPARK | {usage.PYTHON_WORKERS})


def spark_session(settings: Mapping[str, str] | None = None) -> SparkSession:
    """Start a local Spark with its own Kafka connector and Avro beside penstock, and the user's settings."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    jars = ",".join(str(jar) for jar in (*spark_kafka_connector_jars(version("pyspark")), *spark_avro_jars()))
    given = {
        "spark.jars": jars,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": "4g",
        "spark.sql.shuffle.partitions": "2",
        **(settings or {}),
    }
    builder = SparkSession.builder.appName("penstock-bench").master("local[2]")
    for key, value in given.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


@contextmanager
def session_settings(spark: SparkSession, system: str) -> Iterator[None]:
    """Set Spark's settings for a system, for a while."""
    wanted = _UNBOUNDED_BATCHES if system in {PENSTOCK_TUNED, ARROW} else {}
    before = {key: spark.conf.get(key) for key in wanted}
    _set(spark, wanted)
    try:
        yield
    finally:
        _set(spark, before)


def _set(spark: SparkSession, settings: Mapping[str, str | None]) -> None:
    for key, value in settings.items():
        if value is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, value)


@contextmanager
def prepared(settings: Mapping[str, str] | None = None) -> Iterator[tuple[SparkSession, str]]:
    """Start a broker with the output topic, and a Spark session."""
    with DevCluster() as cluster:
        make_topic(cluster.bootstrap_servers, OUTPUT_TOPIC, PARTITION_COUNT)
        spark = spark_session(settings)
        try:
            yield spark, cluster.bootstrap_servers
        finally:
            spark.stop()


def read(
    bench: Bench,
    system: str,
    options: Mapping[str, str] | None = None,
    *,
    streaming: bool = False,
    declared: str = "",
) -> DataFrame:
    """Return the records of the input topic, with Spark's columns or the declared ones."""
    reader = bench.spark.readStream if streaming else bench.spark.read
    if system == PENSTOCK_TUNED:
        reader = reader.schema(declared)
    given = {
        "kafka.bootstrap.servers": bench.bootstrap_servers,
        "subscribe": bench.input_topic,
        **_READ_OPTIONS.get(system, {}),
        **(options or {}),
    }
    return reader.format(FORMAT[system]).options(**given).load()


def write_options(bench: Bench, system: str, **options: str) -> dict[str, str]:
    """Return the options of a write into the output topic."""
    return {
        "kafka.bootstrap.servers": bench.bootstrap_servers,
        "topic": bench.output_topic,
        **_WRITE_OPTIONS.get(system, {}),
        **options,
    }


def write(bench: Bench, system: str, rows: DataFrame, **options: str) -> None:
    """Append rows to the output topic."""
    rows.write.format(FORMAT[system]).options(**write_options(bench, system, **options)).mode("append").save()
