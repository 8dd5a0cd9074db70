"""`write_batch` without a data source, as on Spark 3.5: the same records, once, none of a failed batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.devbroker import DevCluster
from penstock.errors import PenstockError
from penstock.spark import versions
from penstock.spark._mapped_write import save
from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.test_changed_prefix import Job
from tests.spark.test_exactly_once import open_transactions


def options_of(broker: DevCluster, topic: str, batch_id: int = 0) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "topic": topic,
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": f"{topic}-p",
        "sink.query-id": "the-query",
        "sink.batch-id": str(batch_id),
    }


def test_a_repeated_batch_is_there_once_and_a_failed_one_not_at_all(
    spark: SparkSession, broker: DevCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    rows = spark.range(0, 40, 1, 3).selectExpr("CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value")
    failing = rows.withColumn("value", F.expr("if(key = '39', raise_error('no more'), value)"))
    with pytest.raises(Exception, match="no more"):
        save(failing.coalesce(1), options_of(broker, topic))
    assert open_transactions(broker, f"{topic}-p-") == []
    with pytest.raises(Exception, match="no more"):
        save(
            failing, options_of(broker, topic)
        )  # the other tasks may still open a transaction: see the next test
    for batch_id in (0, 0, 1):
        save(rows, options_of(broker, topic, batch_id))
    found = [record.value or b"" for record in judge.consume_all(broker.bootstrap_servers, topic)]
    assert sorted(map(int, found)) == sorted([*range(40), *range(40)])
    assert open_transactions(broker, f"{topic}-p-") == []


def test_what_a_task_opens_after_its_batch_failed_is_aborted_by_the_next_batch(
    spark: SparkSession, broker: DevCluster, make_topic: MakeTopic
) -> None:
    """The driver does not wait for tasks that Spark still stops. The record stands for what one writes."""
    topic, server = make_topic(1), broker.bootstrap_servers
    rows = spark.range(0, 10, 1, 2).selectExpr("CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value")
    with pytest.raises(Exception, match="no more"):
        save(rows.withColumn("value", F.expr("raise_error('no more')")), options_of(broker, topic))
    late = judge.transactional_producer(server, f"{topic}-p-1-4")
    late.begin_transaction()
    late.produce(topic, b"late")
    judge.flush(late)
    assert open_transactions(broker, f"{topic}-p-") == [f"{topic}-p-1-4"]

    save(rows, options_of(broker, topic))

    assert open_transactions(broker, f"{topic}-p-") == []
    found = [record.value or b"" for record in judge.consume_all(server, topic)]
    assert sorted(map(int, found)) == [*range(10)]


def test_records_are_those_of_the_data_source(
    spark: SparkSession, broker: DevCluster, make_topic: MakeTopic
) -> None:
    ours, mapped = make_topic(1), make_topic(1, suffix="-mapped")
    at = "timestamp_millis(1767225600123 + id)"
    rows = spark.range(0, 5, 1, 1).selectExpr(
        "id", f"{at} AS at", f"named_struct('t', {at}, 'd', DATE'2026-02-03') AS s", f"array({at}) AS a"
    )
    servers = {"kafka.bootstrap.servers": broker.bootstrap_servers, "format": "json"}
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        rows.write.format("penstock").options(**servers, topic=ours).mode("append").save()
        save(rows, {**servers, "topic": mapped})
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    values: list[list[Any]] = [
        [json.loads(record.value or b"") for record in judge.consume_all(broker.bootstrap_servers, topic)]
        for topic in (ours, mapped)
    ]
    assert len(values[0]) == 5
    assert values[1] == values[0]


def test_a_missing_topic_is_said_before_a_task_starts(spark: SparkSession, broker: DevCluster) -> None:
    with pytest.raises(PenstockError, match=r"absent-here.* does not exist"):
        save(spark.range(1).selectExpr("CAST(id AS STRING) AS value"), options_of(broker, "absent-here"))


def test_a_stream_that_dies_writes_each_line_once(
    spark: SparkSession,
    broker: DevCluster,
    make_topic: MakeTopic,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(versions, "HAS_SOURCES", False)
    target = make_topic(1)
    job = Job(spark, broker, target, tmp_path)
    for _ in range(3):
        job.fill()
        job.dies(f"{target}-p")
        job.run(f"{target}-p")
    job.check(f"{target}-p")
