"""Deserializers of `KafkaSource.builder()` on real Spark, classic and Connect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.flink import (
    ArrowDeserializationSchema,
    ConsumerRecord,
    JSONKeyValueDeserializationSchema,
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
    KafkaOffsetsInitializer,
    KafkaRecordDeserializationSchema,
    KafkaSource,
    KafkaSourceBuilder,
    SimpleStringSchema,
)
from penstock.flink._functions import RecordPart
from tests import judge
from tests.fix_broker import MakeTopic

VALUES = [b'{"id": 0, "tags": ["a", "b"]}', b'{"id": 1, "tags": []}', b"not JSON", None]


@pytest.fixture
def topic(bootstrap: str, make_topic: MakeTopic) -> str:
    topic = make_topic(1, config={"retention.ms": "-1"})  # the records are of 2023
    records = [
        judge.Record(
            key=b"%d" % n, value=value, headers=[("n", b"%d" % n)], timestamp_ms=1_700_000_000_000 + n
        )
        for n, value in enumerate(VALUES)
    ]
    judge.produce(bootstrap, topic, *records, config={"linger.ms": 50})
    return topic


@pytest.fixture
def builder(bootstrap: str, topic: str) -> KafkaSourceBuilder:
    source = KafkaSource.builder().set_bootstrap_servers(bootstrap).set_topics(topic)
    return source.set_bounded(KafkaOffsetsInitializer.latest())


class Tags(KafkaRecordDeserializationSchema):
    """A row for each tag, with everything else that the record has."""

    def open(self) -> None:
        import json  # noqa: PLC0415 - what `open` is for

        self.loads = json.loads

    def deserialize(self, record: ConsumerRecord) -> Any:
        if record.value is None:
            return None
        tags = self.loads(record.value)["tags"]
        return [(tag, record.key, dict(record.headers)["n"], record.offset, record.timestamp) for tag in tags]


class Sizes(ArrowDeserializationSchema):
    """Arrow in, Arrow out."""

    def deserialize_batch(self, records: pa.RecordBatch) -> pa.RecordBatch:
        sizes = pc.binary_length(records.column("value"))
        return pa.RecordBatch.from_pydict({"size": sizes, "offset": records.column("offset")})

    def get_produced_type(self) -> str:
        return "offset BIGINT NOT NULL, size INT"


def test_values_as_text_and_as_json(spark: SparkSession, builder: KafkaSourceBuilder, topic: str) -> None:
    texts = builder.set_value_only_deserializer(SimpleStringSchema()).build().load(spark)
    assert texts.columns == ["value"]
    assert [row.value for row in texts.collect()] == [value and value.decode() for value in VALUES]


def test_json_rows_skip_what_is_not_json(spark: SparkSession, builder: KafkaSourceBuilder) -> None:
    schema = JsonRowDeserializationSchema.builder().type_info("id BIGINT, tags ARRAY<STRING>").build()
    builder.set_value_only_deserializer(schema).set_option("scan.on-decode-error", "skip")
    rows = builder.build().load(spark).collect()
    assert [(row.id, row.tags) for row in rows] == [(0, ["a", "b"]), (1, [])]


@pytest.mark.promise
def test_a_deserializer_of_the_user_makes_rows_of_whole_records(
    spark: SparkSession, builder: KafkaSourceBuilder, topic: str, tmp_path: Path
) -> None:
    builder.set_deserializer(
        Tags(), produced_type="tag STRING, key BINARY, header BINARY, offset BIGINT, at BIGINT"
    )
    with pytest.raises(
        PySparkException, match=f"topic {topic}, partition 0, offset 2: record: .*JSONDecodeError"
    ):
        builder.build().load(spark).collect()
    builder.set_option("scan.on-decode-error", "skip").set_unbounded(KafkaOffsetsInitializer.latest())
    stream = builder.build().load(spark)
    query = stream.writeStream.format("memory").queryName(f"tags_{topic.replace('-', '_')}")
    started = query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert started.awaitTermination(120)
    found = [tuple(row) for row in spark.table(started.name).orderBy("tag").collect()]
    assert found == [(tag, b"0", b"0", 0, 1_700_000_000_000) for tag in ("a", "b")]


def test_batches_and_json_text_with_connect(
    connect_spark: Any, builder: KafkaSourceBuilder, topic: str
) -> None:
    rows = builder.set_deserializer(Sizes()).build().load(connect_spark).collect()
    assert [tuple(row) for row in rows] == [
        (offset, None if value is None else len(value)) for offset, value in enumerate(VALUES)
    ]


def test_rows_are_written_as_json_with_their_nulls(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(1, None, "x")], "id INT, `a.b` STRING, c STRING")
    written = {
        "all": JsonRowSerializationSchema.builder().build(),
        "some": JsonRowSerializationSchema.builder().with_type_info("`a.b` STRING, id STRING").build(),
    }
    columns = [schema.column(rows, RecordPart.VALUE).alias(name) for name, schema in written.items()]
    [found] = rows.select(columns).collect()
    assert found.all == '{"id":1,"a.b":null,"c":"x"}'
    assert found.some == '{"a.b":null,"id":"1"}'


def test_rows_are_written_as_json_with_connect(connect_spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)  # as where there is no classic session
    rows = connect_spark.range(1).selectExpr("1 AS id", "'x' AS c")
    some = JsonRowSerializationSchema.builder().with_type_info("c STRING, id STRING").build()
    [found] = rows.select(some.column(rows, RecordPart.VALUE).alias("some")).collect()
    assert found.some == '{"c":"x","id":"1"}'


def test_json_text_with_its_offset(spark: SparkSession, builder: KafkaSourceBuilder, topic: str) -> None:
    builder.set_deserializer(JSONKeyValueDeserializationSchema(True))
    builder.set_option("scan.on-decode-error", "skip")
    rows = builder.build().load(spark).selectExpr("key", "get_json_object(value, '$.id')", "metadata.*")
    assert [tuple(row) for row in rows.collect()] == [
        ("0", "0", 0, topic, 0),
        ("1", "1", 1, topic, 0),
        ("3", None, 3, topic, 0),
    ]
