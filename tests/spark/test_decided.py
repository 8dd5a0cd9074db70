"""A write that is decided and cannot be finished says so, and the next write does not double it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.devbroker import DevCluster
from tests.fix_broker import MakeTopic
from tests.spark import silent_end
from tests.spark.test_exactly_once import assert_once, copy_query, numbers, write_options


@pytest.fixture(params=["spark", "connect_spark"])
def either_spark(request: pytest.FixtureRequest) -> Any:
    """Classic and Connect."""
    return request.getfixturevalue(request.param)


def test_a_batch_write_that_is_decided_says_so(
    either_spark: Any, broker: DevCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    options = write_options(broker, topic)
    silent_end.register(either_spark)
    rows = either_spark.range(0, 100, 1, 3).selectExpr("CAST(id AS STRING) AS value")
    with pytest.raises(
        Exception, match=r"DecidedError: Batch write .* is decided, .*was not answered"
    ) as raised:
        rows.write.format(silent_end.FORMAT).options(**options).mode("append").save()
    assert "Do not run it again" in str(raised.value)
    command = f"--prefix test-{topic} --bootstrap-server {broker.bootstrap_servers} --yes`"
    assert f"`penstock transactions recover {command}" in str(raised.value)
    # The next write with the prefix finishes it, and writes its own rows.
    more = either_spark.range(100, 110, 1, 1).selectExpr("CAST(id AS STRING) AS value")
    more.write.format("penstock").options(**options).mode("append").save()
    assert_once(broker, topic, 110)


@pytest.mark.promise
def test_a_batch_of_a_stream_that_is_decided_says_so(
    spark: SparkSession, broker: DevCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, topic = make_topic(1), make_topic(1, suffix="-copy")
    numbers(spark, 50).write.format("penstock").options(
        **{"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": source}
    ).mode("append").save()
    silent_end.register(spark)
    writer = copy_query(spark, broker, source, write_options(broker, topic), tmp_path)
    failing = writer.trigger(availableNow=True).format(silent_end.FORMAT).start()
    with pytest.raises(Exception, match=r"DecidedError: Batch 0 of query .* is decided, .*Restart the query"):
        failing.awaitTermination(120)
    assert writer.format("penstock").start().awaitTermination(120)
    assert_once(broker, topic, 50)


def test_a_named_batch_write_can_be_run_again(
    spark: SparkSession, broker: DevCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    options = {**write_options(broker, topic), "sink.write-id": "load-2026-11-22"}
    silent_end.register(spark)
    rows = numbers(spark, 100)
    with pytest.raises(
        Exception, match=r"DecidedError: .*load-2026-11-22 .*again with the same sink\.write-id"
    ):
        rows.write.format(silent_end.FORMAT).options(**options).mode("append").save()
    for _ in range(2):
        rows.write.format("penstock").options(**options).mode("append").save()
    assert_once(broker, topic, 100)
    with pytest.raises(Exception, match=r"TransactionsInDoubtError: .*load-2026-11-22 .*not what is written"):
        numbers(spark, 101).write.format("penstock").options(**options).mode("append").save()
    assert_once(broker, topic, 100)
