"""Batch reads: the same rows as Spark's own Kafka source gives."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

from tests import judge
from tests.fix_broker import MakeTopic
from tests.records import CORNERS
from tests.spark.queries import in_order, positions, read_batch

# Some of the records have times long ago, or far from now.
ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1), "retention.ms": "-1"}


def on_each_partition(count: int) -> list[judge.Record]:
    return [
        judge.Record(record.value, record.key, record.headers, partition, timestamp_ms=record.timestamp_ms)
        for record in CORNERS
        for partition in range(count)
    ]


def both(spark: SparkSession, bootstrap: str, **options: str) -> tuple[list[Row], list[Row]]:
    given = {"kafka.bootstrap.servers": bootstrap, "includeHeaders": "true", **options}
    ours, sparks = read_batch(spark, "penstock", given), read_batch(spark, "kafka", given)
    assert ours.schema == sparks.schema
    return in_order(ours.collect()), in_order(sparks.collect())


@pytest.fixture
def three_topics(bootstrap: str, make_topic: MakeTopic) -> list[str]:
    """Two topics with all kinds of records in some of their partitions, and an empty one."""
    topics = [make_topic(3, config=ANY_TIME, suffix=f".{name}") for name in ("a", "b", "empty")]
    judge.produce(bootstrap, topics[0], *on_each_partition(2))
    judge.produce(bootstrap, topics[1], *on_each_partition(3))
    return topics


@pytest.mark.promise
@pytest.mark.parametrize("subscription", ["subscribe", "subscribePattern", "assign"])
def test_rows_are_those_of_sparks_own_source(
    spark: SparkSession, bootstrap: str, three_topics: list[str], subscription: str
) -> None:
    value = {
        "subscribe": ",".join(three_topics),
        "subscribePattern": re.escape(three_topics[0][:-1]) + "(a|empty)",
        "assign": json.dumps({three_topics[0]: [1, 2], three_topics[1]: [0]}),
    }[subscription]
    ours, sparks = both(spark, bootstrap, **{subscription: value})
    assert ours == sparks
    assert len(ours) == len(CORNERS) * {"subscribe": 5, "subscribePattern": 2, "assign": 2}[subscription]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_is_read(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, compression: str
) -> None:
    topic = make_topic(2, config=ANY_TIME)
    config = {"compression.type": compression, "linger.ms": 50}
    judge.produce(bootstrap, topic, *on_each_partition(2), config=config)
    ours, sparks = both(spark, bootstrap, subscribe=topic)
    assert ours == sparks
    assert len(ours) == 2 * len(CORNERS)


def test_log_append_time_is_told(spark: SparkSession, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(config={"message.timestamp.type": "LogAppendTime"})
    judge.produce(bootstrap, topic, b"1", b"2")
    ours, sparks = both(spark, bootstrap, subscribe=topic)
    assert ours == sparks
    assert {row.timestampType for row in ours} == {1}


@pytest.mark.promise
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_transactions_are_seen_as_the_isolation_level_says(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, isolation: str
) -> None:
    topic = make_topic()
    for number, is_committed in enumerate([True, False, True, False]):
        values = [b"%d-%d" % (number, i) for i in range(5)]
        judge.produce_in_transaction(
            bootstrap, topic, *values, transactional_id=f"{topic}-{number}", is_committed=is_committed
        )
    ours, sparks = both(spark, bootstrap, subscribe=topic, **{"kafka.isolation.level": isolation})
    assert ours == sparks
    assert len(ours) == (10 if isolation == "read_committed" else 20)


@pytest.mark.promise
def test_offsets_bound_the_read(spark: SparkSession, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    judge.produce(
        bootstrap, topic, *(judge.Record(b"v", partition=part) for part in (0, 1) for _ in range(10))
    )
    bounds = {
        "startingOffsets": json.dumps({topic: {"0": 3, "1": -2}}),
        "endingOffsets": json.dumps({topic: {"0": -1, "1": 4}}),
    }
    ours, sparks = both(spark, bootstrap, subscribe=topic, **bounds)
    assert ours == sparks
    wanted = [(topic, 0, offset) for offset in range(3, 10)] + [(topic, 1, offset) for offset in range(4)]
    assert positions(ours) == wanted


@pytest.mark.parametrize("limit", [{"minPartitions": "5"}, {"maxRecordsPerPartition": "7"}])
def test_splits_are_divided_among_tasks(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, limit: dict[str, str]
) -> None:
    topic = make_topic(2)
    judge.produce(
        bootstrap, topic, *(judge.Record(b"v", partition=part) for part in (0, 1) for _ in range(20))
    )
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **limit}
    rows = read_batch(spark, "penstock", given)
    assert positions(rows.collect()) == [(topic, part, offset) for part in (0, 1) for offset in range(20)]
    assert rows.rdd.getNumPartitions() >= 5


def test_flinks_dialect_reads_the_same(spark: SparkSession, bootstrap: str, three_topics: list[str]) -> None:
    flinks = {
        "properties.bootstrap.servers": bootstrap,
        "topic": ";".join(three_topics),
        "scan.include-headers": "true",
    }
    ours = in_order(read_batch(spark, "penstock", flinks).collect())
    assert ours == both(spark, bootstrap, subscribe=",".join(three_topics))[1]


def test_only_the_columns_of_a_given_schema_are_read(
    spark: SparkSession, bootstrap: str, three_topics: list[str]
) -> None:
    reader: Any = spark.read.format("penstock").option("kafka.bootstrap.servers", bootstrap)
    reader = reader.option("subscribe", three_topics[1])
    rows = reader.schema(
        "offset LONG, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, value BINARY"
    ).load()
    assert rows.columns == ["offset", "headers", "value"]
    whole, _ = both(spark, bootstrap, subscribe=three_topics[1])
    expected = [(row.offset, row.headers, row.value) for row in whole]
    assert sorted(map(repr, rows.collect())) == sorted(
        repr(Row(offset=offset, headers=headers, value=value)) for offset, headers, value in expected
    )


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        ("value STRING", "expected binary for value, got string"),
        ("key BINARY, payload BINARY", "there is no column payload"),
        (
            StructType([StructField("partition", IntegerType()), StructField("partition", IntegerType())]),
            "twice",
        ),
        ("value BINARY NOT NULL", "value may be null"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, schema: Any, complaint: str
) -> None:
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": make_topic()}
    rows = spark.read.format("penstock").options(**options).schema(schema).load()
    with pytest.raises(Exception, match=complaint):
        rows.collect()


def test_more_records_than_fit_into_one_batch_of_rows(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    count = 150_000
    config = {"compression.type": "lz4", "linger.ms": 100}
    records = (judge.Record(b"%d" % n, partition=n % 2) for n in range(count))
    judge.produce(bootstrap, topic, *records, config=config)
    rows = read_batch(spark, "penstock", {"kafka.bootstrap.servers": bootstrap, "subscribe": topic})
    result = rows.selectExpr(
        "count(*) AS records",
        "count(DISTINCT partition, offset) AS offset_count",
        "sum(CAST(value AS STRING)) AS sum",
    ).first()
    assert result is not None
    assert (result.records, result.offset_count, result["sum"]) == (count, count, count * (count - 1) // 2)
