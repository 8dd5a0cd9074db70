"""A write without a data source, as on Spark 3.5, whose tasks failed: their messages are lost."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import Any

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from penstock.options.parse import parse_write
from penstock.spark._exactly_once import ExactlyOnceWriter
from tests.unit.fake_driver import driver, expected, run_tasks
from tests.unit.sink_cluster import SinkCluster

OPTIONS = {
    "kafka.bootstrap.servers": "broker:9092",
    "topic": "t",
    "sink.delivery-guarantee": "exactly-once",
    "sink.transactional-id-prefix": "app",
    "sink.query-id": "q",
    "sink.batch-id": "0",
}


def begun_writer(cluster: SinkCluster, monkeypatch: pytest.MonkeyPatch) -> tuple[ExactlyOnceWriter, Any]:
    """Return a writer that was sent to its tasks, and its mandate."""
    monkeypatch.setattr(ExactlyOnceWriter, "_driver_side", driver(cluster))
    columns = StructType([StructField("value", StringType())])
    writer = ExactlyOnceWriter(parse_write(OPTIONS).sink, columns, overwrite=False)
    return writer, pickle.loads(pickle.dumps(writer))._mandate  # noqa: S301 - made here


def test_transactions_of_a_failed_batch_are_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = SinkCluster()
    writer, mandate = begun_writer(cluster, monkeypatch)
    run_tasks(cluster, mandate, 0)
    assert cluster.open_ids()
    writer.abandon()
    assert not cluster.open_ids()
    side = driver(cluster)
    side.commit(run_tasks(cluster, side.recover(), 0))
    assert Counter(cluster.committed) == expected(range(1))


def test_a_newer_driver_keeps_the_prefix_when_tasks_of_an_older_one_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = SinkCluster()
    writer, _ = begun_writer(cluster, monkeypatch)
    newer = driver(cluster)
    reports = run_tasks(cluster, newer.recover(), 0)
    writer.abandon()
    newer.commit(reports)
    assert Counter(cluster.committed) == expected(range(1))


def test_a_writer_that_no_task_got_leaves_all_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = SinkCluster()
    newer = driver(cluster)
    reports = run_tasks(cluster, newer.recover(), 0)
    monkeypatch.setattr(ExactlyOnceWriter, "_driver_side", driver(cluster))
    columns = StructType([StructField("value", StringType())])
    ExactlyOnceWriter(parse_write(OPTIONS).sink, columns, overwrite=False).abandon()
    newer.commit(reports)
    assert Counter(cluster.committed) == expected(range(1))
