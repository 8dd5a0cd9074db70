"""A streaming copy with exactly-once delivery, as a process of its own that a test can kill.

With `--middle` it is two queries: source to middle, and middle, read committed, to target. With `--states` it
normalizes and aggregates the records on the way (`tests/chaos/chain.py`). It prints
`batch <id>` when a batch of the last query is finished, and `done` at the end; an error ends it.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import subprocess
import sys
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from penstock.cli.quick_start.python import quick_python
from penstock.flink.legacy import (
    FlinkKafkaConsumer,
    FlinkKafkaProducer,
    KeyedDeserializationSchema,
    KeyedSerializationSchema,
    Semantic,
)
from penstock.spark.versions import PLANS_WITH_LIMITS
from tests import quick_jvm
from tests.chaos.chain import chain_of

POLL_S = 0.2


class KeyAndValue(KeyedDeserializationSchema):
    """Rows of key and value."""

    def deserialize(
        self, message_key: bytes | None, message: bytes | None, topic: str, partition: int, offset: int
    ) -> Any:
        return message_key, message

    def get_produced_type(self) -> str:
        return "key BINARY, value BINARY"


class KeyAndValueBytes(KeyedSerializationSchema):
    """Records of rows of key and value."""

    def serialize_key(self, element: Row) -> bytes | None:
        return None if element.key is None else bytes(element.key)

    def serialize_value(self, element: Row) -> bytes | None:
        return None if element.value is None else bytes(element.value)


@dataclasses.dataclass(frozen=True)
class Copy:
    """One query from topic to topic. It is the same on every start and in every process."""

    bootstrap: str
    source: str
    target: str
    prefix: str
    checkpoint: str
    per_trigger: int = 1_000
    timeout_ms: int | None = None
    is_deterministic: bool = True
    shuffle_partition_count: int | None = None
    format: str = "penstock"
    is_older: bool = False
    """Whether the copy uses FlinkKafkaConsumer and FlinkKafkaProducer."""
    states: str | None = None
    """A folder for the states of operators over changelogs, which then stand between source and sink."""

    def rows(self, spark: SparkSession, *, drains: bool = False) -> DataFrame:
        read = (
            spark.readStream.format("penstock")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("subscribe", self.source)
            .option("startingOffsets", "earliest")
            .options(**self._limit("maxOffsetsPerTrigger", drains=drains))
            .option("kafka.isolation.level", "read_committed")
            .option("scan.pack-small-ranges", "false")  # a task and a transaction for each topic partition
            .load()
        )
        if self.states is not None:
            return chain_of(read, self.states)
        value = F.col("value") if self.is_deterministic else F.concat("value", F.lit(b"-"), F.expr("uuid()"))
        rows = read.select("key", value.alias("value"))
        count = self.shuffle_partition_count
        return rows if count is None else rows.repartition(count, "key")

    def start(self, spark: SparkSession, *, drains: bool) -> StreamingQuery:
        """Start the query. With `drains` it ends when it has read all records."""
        if self.is_older:
            return self._start_older(spark, drains=drains)
        writer = (
            self.rows(spark, drains=drains)
            .writeStream.format(self.format)
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("topic", self.target)
            .option("sink.delivery-guarantee", "exactly-once")
            .option("sink.transactional-id-prefix", self.prefix)
            .option("checkpointLocation", self.checkpoint)
        )
        if self.timeout_ms is not None:
            writer = writer.option("kafka.transaction.timeout.ms", self.timeout_ms)
        if drains:
            writer = writer.trigger(availableNow=True)
        return writer.start()

    def _start_older(self, spark: SparkSession, *, drains: bool) -> StreamingQuery:
        servers = {"bootstrap.servers": self.bootstrap}
        consumer = FlinkKafkaConsumer(
            self.source, KeyAndValue(), {**servers, "isolation.level": "read_committed"}
        )
        consumer.set_start_from_earliest()
        for option, value in self._limit("scan.max-records-per-batch", drains=drains).items():
            consumer.set_option(option, value)
        consumer.set_option("scan.pack-small-ranges", "false")
        producer = FlinkKafkaProducer(self.target, KeyAndValueBytes(), servers, None, Semantic.EXACTLY_ONCE)
        producer.set_transactional_id_prefix(self.prefix)
        trigger = {"availableNow": True} if drains else None
        return producer.write_stream(consumer.load(spark), self.checkpoint, trigger=trigger)

    def _limit(self, option: str, *, drains: bool) -> dict[str, str]:
        """Return the limit of a batch. Spark before 4.2 takes none with the trigger availableNow."""
        if drains and not PLANS_WITH_LIMITS:
            return {}
        return {option: str(self.per_trigger), "scan.trigger": "processing-time"}

    def as_arguments(self) -> list[str]:
        """For a process that runs this copy."""
        return [
            f"--{name.replace('_', '-')}={value}"
            for name, value in dataclasses.asdict(self).items()
            if value is not None
        ]


def main() -> None:
    parser = argparse.ArgumentParser()
    for field in dataclasses.fields(Copy):
        parser.add_argument(f"--{field.name.replace('_', '-')}")
    parser.add_argument("--scratch", required=True)
    parser.add_argument("--middle", help="a topic between two queries")
    parser.add_argument("--master", default="local[2,4]")
    parser.add_argument("--conf", action="append", default=[], help="key=value for Spark")
    parser.add_argument("--connect", action="store_true", help="be a client of a Spark Connect server")
    parser.add_argument("--drain", action="store_true", help="read what there is, then stop")
    arguments = parser.parse_args()
    copies = _copies(arguments)
    more = dict(each.split("=", 1) for each in arguments.conf)
    start = connect_session if arguments.connect else spark_session
    spark = start(arguments.master, arguments.scratch, more)
    if copies[0].format != "penstock":
        from tests.chaos.fault_points import FaultyDataSource  # noqa: PLC0415 - its import arms the fault

        spark.dataSource.register(FaultyDataSource)
    queries: list[Any] = []
    # Before Spark 4.2 a run with availableNow that repeats a batch reads no new records.
    run_count = 1 if PLANS_WITH_LIMITS or not arguments.drain else 2
    for copy in [each for each in copies for _ in range(run_count)]:
        queries.append(copy.start(spark, drains=arguments.drain))
        if arguments.drain:
            _follow(queries[-1])
    while not arguments.drain:
        for query in queries:
            query.awaitTermination(POLL_S)
        _say_progress(queries[-1])
    say("done")
    spark.stop()


def _copies(arguments: argparse.Namespace) -> list[Copy]:
    given = {field.name: getattr(arguments, field.name) for field in dataclasses.fields(Copy)}
    given = {name: value for name, value in given.items() if value is not None}
    for name in ("per_trigger", "timeout_ms", "shuffle_partition_count"):
        if name in given:
            given[name] = int(given[name])
    given["is_deterministic"] = given.get("is_deterministic", "True") == "True"
    given["is_older"] = given.get("is_older", "False") == "True"
    whole = Copy(**given)
    if arguments.middle is None:
        return [whole]
    return [
        dataclasses.replace(
            whole,
            target=arguments.middle,
            prefix=f"{whole.prefix}-first",
            checkpoint=f"{whole.checkpoint}-first",
        ),
        dataclasses.replace(whole, source=arguments.middle),
    ]


def spark_session(master: str, scratch: str, more: dict[str, str]) -> SparkSession:
    """Start Spark for a job that a test kills."""
    os.environ["PYSPARK_PYTHON"] = quick_python()
    builder = SparkSession.builder.master(master)
    for key, value in _settings(scratch, more).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def connect_session(master: str, scratch: str, more: dict[str, str]) -> SparkSession:
    """Start a Spark Connect server, which ends with this process, and be its client."""
    os.environ["PYSPARK_PYTHON"] = quick_python()
    settings = {"spark.master": master, **_settings(scratch, more)}
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.connect_server", *(f"{k}={v}" for k, v in settings.items())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    url = server.stdout.readline().strip()
    assert url.startswith("sc://"), "the Connect server did not start"
    return SparkSession.builder.remote(url).getOrCreate()


def _settings(scratch: str, more: dict[str, str]) -> dict[str, str]:
    return {
        "spark.app.name": "penstock-chaos",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": quick_jvm.OPTIONS,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{scratch}/warehouse",
        "spark.local.dir": scratch,
        "spark.log.level": "ERROR",
        **more,
    }


def _follow(query: Any) -> None:
    while not query.awaitTermination(POLL_S):
        _say_progress(query)


_said = -1


def _say_progress(query: StreamingQuery) -> None:
    global _said  # noqa: PLW0603  # one process, one last query
    progress = query.lastProgress
    if progress is not None and progress.batchId > _said:
        _said = progress.batchId
        say(f"batch {_said}")


def say(line: str) -> None:
    """Print a line that the test waits for."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
