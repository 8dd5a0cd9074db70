"""`KafkaSink.builder()`, partitioners and Update mode on real Spark, judged by an independent consumer."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import SparkContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import penstock
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import connection_settings
from penstock.client.transactions.steps import Transactions
from penstock.devbroker import DevCluster
from penstock.errors import CheckpointError, RowError
from penstock.flink import (
    ByteArraySchema,
    DeliveryGuarantee,
    KafkaPartitioner,
    KafkaRecordSerializationSchema,
    KafkaSink,
    SerializationSchema,
    SimpleStringSchema,
)
from penstock.options.config import KafkaProperties
from penstock.spark.write_batch import query_id_of_checkpoint
from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.queries import stopped
from tests.spark.test_exactly_once import open_transactions

TIMEOUT_S = 300


class ValueAsText(SerializationSchema):
    """A user's own."""

    def __init__(self, prefix: bytes) -> None:
        self.prefix = prefix

    def serialize(self, element: Row) -> bytes | None:
        return None if element["number"] == 13 else self.prefix + b"%d" % element["number"]


class ByNumber(KafkaPartitioner):
    """A user's own: even numbers to the first partition, odd ones to the last, by whole batches."""

    def partition(
        self,
        record: Mapping[str, Any],
        key: bytes | None,
        value: bytes | None,
        target_topic: str,
        partitions: Sequence[int],
    ) -> int:
        return partitions[-int((value or b"0")[-1:]) % 2]

    def partition_batch(self, rows: pa.RecordBatch, target_topic: str, partitions: Sequence[int]) -> pa.Array:
        odd = [int((value or b"0")[-1:]) % 2 for value in rows["value"].to_pylist()]
        return pa.array([partitions[-1] if is_odd else partitions[0] for is_odd in odd])


def topic_of(row: Row) -> str:
    topic: str = row["target"]
    return topic


def headers_of(row: Row) -> dict[str, bytes | str | None]:
    return {"number": str(row["number"]), "none": None}


def orders(spark: Any, target: str, count: int = 40, tasks: int = 4) -> DataFrame:
    rows: DataFrame = spark.range(0, count, 1, tasks).selectExpr(
        "id AS number",
        "CAST(id % 5 AS STRING) AS customer",
        f"IF(id % 2 = 0, '{target}', '{target}-odd') AS target",
        "timestamp_millis(1700000000000 + id) AS at",
    )
    return rows


def everything(broker: DevCluster, topic: str) -> Any:
    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic_selector(topic_of)
        .set_key_serialization_schema(SimpleStringSchema(column="customer"))
        .set_value_serialization_schema(ValueAsText(b"order "))
        .set_header_provider(headers_of)
        .set_timestamp_column("at")
        .set_partitioner(ByNumber())
        .build()
    )
    return (
        KafkaSink.builder()
        .set_bootstrap_servers(broker.bootstrap_servers)
        .set_record_serializer(serializer)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(f"test-{topic}")
        .set_parallelism(2)
        .build()
    )


def assert_everything_is_there(broker: DevCluster, topic: str) -> None:
    for name, first in ((topic, 0), (f"{topic}-odd", 1)):
        found = judge.consume_all(broker.bootstrap_servers, name)
        assert sorted(record.headers[0][1] or b"" for record in found) == sorted(
            b"%d" % n for n in range(first, 40, 2)
        )
        for record in found:
            number = int(dict(record.headers)["number"] or b"")
            assert record.value == (None if number == 13 else b"order %d" % number)
            assert record.key == b"%d" % (number % 5)
            assert dict(record.headers)["none"] is None
            assert record.timestamp_ms == 1_700_000_000_000 + number
            assert record.partition == (0 if number % 2 == 0 or number == 13 else 2)


@pytest.fixture
def two_topics(broker: DevCluster, make_topic: MakeTopic) -> str:
    """Two topics of three partitions; the second has `-odd` at the end of its name."""
    keeps = {"retention.ms": "-1"}  # the records are of 2023
    topic = make_topic(3, config=keeps)
    judge.create_topic(broker.bootstrap_servers, f"{topic}-odd", partitions=3, config=keeps)
    return topic


@pytest.mark.promise
def test_everything_a_sink_can_say(spark: SparkSession, broker: DevCluster, two_topics: str) -> None:
    topic = two_topics
    sink = everything(broker, topic)
    assert sink.records(orders(spark, topic)).rdd.getNumPartitions() == 2
    sink.write(orders(spark, topic))
    assert_everything_is_there(broker, topic)


def test_through_connect(
    connect_spark: Any, broker: DevCluster, two_topics: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)  # as where there is no classic session
    everything(broker, two_topics).write(orders(connect_spark, two_topics))
    assert_everything_is_there(broker, two_topics)


def records_of(rows: DataFrame, key: Any, value: Any) -> DataFrame:
    builder = KafkaRecordSerializationSchema.builder().set_topic("t").set_value_serialization_schema(value)
    return builder.set_key_serialization_schema(key).build().records(rows)


def test_schemas_find_their_columns(spark: SparkSession) -> None:
    rows = spark.sql("SELECT 'k' AS key, 'ä' AS value, X'00FF' AS `raw bytes`, 1 AS n")
    text = records_of(rows, SimpleStringSchema(), SimpleStringSchema("utf-16be"))
    assert [tuple(row) for row in text.collect()] == [(bytearray("ä".encode("utf-16-be")), "k")]
    other = records_of(rows, F.col("n").cast("string"), ByteArraySchema("raw bytes"))
    assert [tuple(row) for row in other.collect()] == [(bytearray(b"\x00\xff"), "1")]
    only = records_of(rows.select("value"), SimpleStringSchema(), SimpleStringSchema())
    assert [tuple(row) for row in only.collect()] == [("ä", "ä")]


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (SimpleStringSchema(), "does not know which column holds the value. The columns are n, raw"),
        (SimpleStringSchema(column="m"), "no column m. The columns are n, raw"),
        (SimpleStringSchema(column="n"), r"writes a string column, but n is int.*Cast it"),
        (SimpleStringSchema(column="raw"), "writes a string column, but raw is binary"),
        (ByteArraySchema("n"), "writes a binary column, but n is int"),
    ],
)
def test_columns_that_do_not_fit_a_schema_are_named(spark: SparkSession, schema: Any, says: str) -> None:
    rows = spark.sql("SELECT 1 AS n, X'00' AS raw")
    with pytest.raises(RowError, match=says):
        records_of(rows, schema, schema)


@pytest.mark.parametrize("partitioner", ["fixed", "round-robin"])
def test_each_task_has_numbers_of_its_own(
    spark: SparkSession, broker: DevCluster, make_topic: MakeTopic, partitioner: str
) -> None:
    topic = make_topic(3)
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": topic}
    rows = spark.range(0, 30, 1, 3).select(
        F.concat_ws(":", F.spark_partition_id(), F.col("id")).alias("value")
    )
    write = rows.write.format("penstock").options(**options).option("sink.partitioner", partitioner)
    write.mode("append").save()
    tasks_of: defaultdict[int | None, list[bytes]] = defaultdict(list)
    for record in judge.consume_all(broker.bootstrap_servers, topic):
        tasks_of[record.partition].append((record.value or b"").split(b":")[0])
    assert {number: len(tasks) for number, tasks in tasks_of.items()} == {0: 10, 1: 10, 2: 10}
    kinds = {len(set(tasks)) for tasks in tasks_of.values()}
    assert kinds == ({1} if partitioner == "fixed" else {3})


def counts(spark: Any, broker: DevCluster, source: str) -> DataFrame:
    """How often each word came so far, as `word=count`."""
    words = (
        spark.readStream.format("penstock")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
    )
    counted: DataFrame = words.selectExpr("CAST(value AS STRING) AS word").groupBy("word").count()
    return counted.selectExpr("concat_ws('=', word, count) AS text", "word")


def counting_sink(broker: DevCluster, topic: str) -> KafkaSink:
    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(topic)
        .set_key_serialization_schema(SimpleStringSchema(column="word"))
        .set_value_serialization_schema(SimpleStringSchema(column="text"))
        .build()
    )
    return (
        KafkaSink.builder()
        .set_bootstrap_servers(broker.bootstrap_servers)
        .set_record_serializer(serializer)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(f"test-{topic}")
        .build()
    )


NOW = {"availableNow": True}


def forget_commit(checkpoint: Path, batch_id: int) -> None:
    """As if the driver had died after the write and before Spark's own commit log."""
    (checkpoint / "commits" / f"{batch_id}").unlink()
    (checkpoint / "commits" / f".{batch_id}.crc").unlink(missing_ok=True)


def seen(broker: DevCluster, topic: str) -> Counter[bytes | None]:
    return Counter(record.value for record in judge.consume_all(broker.bootstrap_servers, topic))


@pytest.mark.promise
def test_update_mode_writes_each_result_once_although_a_batch_comes_again(
    spark: SparkSession, broker: DevCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, topic = make_topic(2), make_topic(2, suffix="-counts")
    write = counting_sink(broker, topic).for_each_batch()
    fails_behind_batch = [0, 1]

    def write_and_fail(rows: DataFrame, batch_id: int) -> None:
        write(rows, batch_id)
        if batch_id in fails_behind_batch:  # as a driver that dies before Spark's commit log
            fails_behind_batch.remove(batch_id)
            raise RuntimeError("died behind the write")

    def run() -> str | None:
        stream = counts(spark, broker, source).writeStream.outputMode("update").foreachBatch(write_and_fail)
        query = stream.option("checkpointLocation", str(tmp_path)).trigger(**NOW).start()
        with stopped(query):
            try:
                assert query.awaitTermination(TIMEOUT_S)
            except StreamingQueryException as error:
                return str(error)
        return None

    judge.produce(broker.bootstrap_servers, source, b"a", b"b", b"a")
    assert "died behind the write" in (run() or "")
    assert seen(broker, topic) == Counter([b"a=2", b"b=1"])
    judge.produce(broker.bootstrap_servers, source, b"a", b"c")
    assert "died behind the write" in (run() or "")  # batch 0 again, then batch 1
    assert run() is None
    assert seen(broker, topic) == Counter([b"a=2", b"b=1", b"a=3", b"c=1"])
    assert open_transactions(broker, f"test-{topic}-") == []


def test_a_new_checkpoint_is_another_query(
    spark: SparkSession, broker: DevCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, topic = make_topic(1), make_topic(1, suffix="-counts")
    judge.produce(broker.bootstrap_servers, source, b"a", b"b")
    for run in range(2):
        query = counting_sink(broker, topic).write_stream(
            counts(spark, broker, source), str(tmp_path / str(run)), trigger=NOW, output_mode="update"
        )
        with stopped(query):
            assert query.awaitTermination(TIMEOUT_S)
    assert seen(broker, topic) == Counter([b"a=1", b"b=1"] * 2)


def test_a_checkpoint_that_is_not_there_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=f"could not be read from {tmp_path}/none/metadata"):
        query_id_of_checkpoint(spark, f"{tmp_path}/none/")
    (tmp_path / "metadata").write_text('{"name": "q"}')
    with pytest.raises(CheckpointError, match="KeyError: 'id'"):
        query_id_of_checkpoint(spark, str(tmp_path))


def test_update_mode_through_connect(
    connect_spark: Any, broker: DevCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, topic = make_topic(1), make_topic(1, suffix="-counts")
    judge.produce(broker.bootstrap_servers, source, b"a", b"b", b"a")
    sink = counting_sink(broker, topic)
    for run in range(2):
        query = sink.write_stream(
            counts(connect_spark, broker, source), str(tmp_path), trigger=NOW, output_mode="update"
        )
        with stopped(query):
            assert query.awaitTermination(TIMEOUT_S)
        if run == 0:
            forget_commit(tmp_path, 0)
    assert seen(broker, topic) == Counter([b"a=2", b"b=1"])


def test_complete_mode_writes_the_whole_result_with_each_batch_once(
    spark: SparkSession, broker: DevCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, topic = make_topic(1), make_topic(1, suffix="-counts")
    sink = counting_sink(broker, topic)

    def run() -> None:
        query = sink.write_stream(
            counts(spark, broker, source), str(tmp_path), trigger=NOW, output_mode="complete"
        )
        with stopped(query):
            assert query.awaitTermination(TIMEOUT_S)

    judge.produce(broker.bootstrap_servers, source, b"a", b"b")
    run()
    judge.produce(broker.bootstrap_servers, source, b"b")
    run()
    forget_commit(tmp_path, 1)
    run()
    assert seen(broker, topic) == Counter([b"a=1", b"b=1", b"a=1", b"b=2"])


def test_a_second_write_of_a_batch_is_not_taken_for_its_repetition(
    spark: SparkSession, broker: DevCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, topic = make_topic(1), make_topic(1, suffix="-counts")
    options = {
        "properties.bootstrap.servers": broker.bootstrap_servers,
        "topic": topic,
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": f"test-{topic}",
    }

    def write_twice(rows: DataFrame, batch_id: int) -> None:
        values = rows.select(F.col("text").alias("value"))
        penstock.write_batch(values, batch_id, options)
        penstock.write_batch(values, batch_id, options)

    judge.produce(broker.bootstrap_servers, source, b"a")
    stream = counts(spark, broker, source).writeStream.outputMode("update").foreachBatch(write_twice)
    query = stream.option("checkpointLocation", str(tmp_path)).trigger(**NOW).start()
    with stopped(query), pytest.raises(Exception, match="was already written under the transactional id pre"):
        query.awaitTermination(TIMEOUT_S)
    assert seen(broker, topic) == Counter([b"a=1"])


def test_empty_tasks_have_no_producer(spark: SparkSession, broker: DevCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    options = {
        "properties.bootstrap.servers": broker.bootstrap_servers,
        "topic": topic,
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": f"test-{topic}",
    }
    rows = spark.range(0, 200, 1, 200).where("id % 80 = 7").select(F.col("id").cast("string").alias("value"))
    assert rows.rdd.getNumPartitions() == 200
    rows.write.format("penstock").options(**options).mode("append").save()
    assert seen(broker, topic) == Counter([b"7", b"87", b"167"])
    # The cluster knows by the transactional id who opened a producer.
    names = {f"test-{topic}-{task}-0": task for task in range(200)}
    properties = KafkaProperties((("bootstrap.servers", broker.bootstrap_servers),))
    with closing(KafkaConnections(connection_settings(properties, client_id="judge"))) as connections:
        described = Transactions(connections).describe(list(names))
    assert {names[name] for name, found in described.items() if found is not None} == {7, 87, 167}
