"""A function of `foreachBatch` that changes its prefix, there and back, while Spark repeats batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.devbroker import DevCluster
from penstock.spark.write_batch import write_batch
from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.test_exactly_once import open_transactions

DEATH = "the driver dies before Spark's commit log"


class Job:
    """Copies lines of files to a topic; started with one checkpoint under one prefix or another."""

    def __init__(self, spark: SparkSession, broker: DevCluster, target: str, folder: Path) -> None:
        self._spark = spark
        self._broker = broker
        self._target = target
        self._checkpoint = folder / "checkpoint"
        self._source = folder / "source"
        self._source.mkdir()
        self._line_count = 0

    def fill(self) -> None:
        """Give it one more line to copy."""
        (self._source / f"{self._line_count}.txt").write_text(f"{self._line_count}\n")
        self._line_count += 1

    def run(self, prefix: str, *, dies: bool = False) -> None:
        """Read all there is. With `dies` it ends after the commit of a batch, before Spark notes it."""
        options = {
            "kafka.bootstrap.servers": self._broker.bootstrap_servers,
            "topic": self._target,
            "sink.delivery-guarantee": "exactly-once",
            "sink.transactional-id-prefix": prefix,
        }
        writer = self._spark.readStream.text(str(self._source)).writeStream
        query = (
            writer.foreachBatch(_function(options, dies=dies))
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120), "the query does not end by itself"

    def dies(self, prefix: str) -> None:
        """Write a batch that Spark will repeat."""
        noted = self._noted()
        with pytest.raises(Exception, match=DEATH):
            self.run(prefix, dies=True)
        assert self._noted() == noted, "Spark shall repeat the batch"

    def is_refused(self, prefix: str, *, holder: str) -> None:
        """Repeat a batch that is written under another prefix."""
        words = rf"PrefixChangedError: .* is finished under sink\.transactional-id-prefix={holder} "
        with pytest.raises(Exception, match=words):
            self.run(prefix)

    def _noted(self) -> set[str]:
        return {file.name for file in (self._checkpoint / "commits").glob("[0-9]*")}

    def check(self, *prefixes: str) -> None:
        """Every line is in the target once, in order, and no transaction is open."""
        found = [record.value for record in judge.consume_all(self._broker.bootstrap_servers, self._target)]
        assert found == [b"%d" % number for number in range(self._line_count)]
        for prefix in prefixes:
            assert open_transactions(self._broker, f"{prefix}-") == []


def _function(options: dict[str, str], *, dies: bool) -> Callable[[Any, int], None]:
    def write(rows: Any, batch_id: int) -> None:
        write_batch(rows, batch_id, options)
        if dies:
            raise RuntimeError(DEATH)

    return write


def test_a_prefix_changed_there_and_back_doubles_no_batch(
    spark: SparkSession, broker: DevCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    target = make_topic(1)
    one, other = f"{target}-one", f"{target}-other"
    job = Job(spark, broker, target, tmp_path)
    job.fill()
    job.dies(one)  # batch 0
    job.is_refused(other, holder=one)
    job.run(one)
    job.fill()
    job.dies(other)  # batch 1: the query has moved
    job.is_refused(one, holder=other)  # though it knows the query, and was asked about it before
    job.run(other)
    job.fill()
    job.run(one)  # batch 2: it has come back
    job.check(one, other)
