"""penstock makes the connection of PySpark's worker processes to the JVM faster."""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from penstock.spark.map_rows import map_rows
from penstock.spark.process import begin

TASKS = 6


def need_tcp(spark: SparkSession) -> None:
    """Skip a test that looks at the connection of a worker, if Spark has been told to use no TCP for it."""
    if spark.conf.get("spark.python.unix.domain.socket.enabled", "false") == "true":
        pytest.skip("there is no TCP connection to the JVM")


def test_a_workers_connection_to_the_jvm_sends_at_once_and_is_watched(spark: SparkSession) -> None:
    need_tcp(spark)

    def state(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            begin.begin_task()
            found = begin._CONNECTION._socket
            assert found is not None
            row = {
                "peer": found.getpeername()[0],
                "at_once": found.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY),
                "watched": gc.callbacks.count(begin._CONNECTION.after_collection),
                "rows": batch.num_rows,
            }
            yield pa.RecordBatch.from_pylist(
                [row],
                schema=pa.schema(
                    {"peer": pa.string(), "at_once": pa.int32(), "watched": pa.int32(), "rows": pa.int32()}
                ),
            )

    # More tasks than can run at once, so that workers are used again. Each one must watch only once.
    found = spark.range(0, TASKS, 1, TASKS).mapInArrow(
        state, "peer STRING, at_once INT, watched INT, rows INT"
    )
    rows = found.collect()
    assert len(rows) == TASKS
    assert all(row["peer"] in {"127.0.0.1", "::1", "::ffff:127.0.0.1"} for row in rows)
    assert all(row["at_once"] for row in rows)
    assert {row["watched"] for row in rows} == {1}


def test_a_worker_that_never_reads_topics_is_prepared_too(spark: SparkSession) -> None:
    need_tcp(spark)

    def state(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            found = begin._CONNECTION._socket
            at_once = 0 if found is None else found.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            yield pa.RecordBatch.from_pylist([{"at_once": at_once}], pa.schema({"at_once": pa.int32()}))

    found = map_rows(spark.range(0, TASKS, 1, TASKS), state, "at_once INT").collect()
    assert [bool(row["at_once"]) for row in found] == [True] * TASKS
