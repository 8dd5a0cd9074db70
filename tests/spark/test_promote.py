"""`penstock promote` lets a changed job continue, and `rollback` the old one: each record once, in order."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.devbroker import DevCluster
from tests import judge
from tests.fix_broker import MakeTopic
from tests.kafka.promote_job import AFTER, BEFORE, killed_at
from tests.spark.test_exactly_once import open_transactions
from tests.spark.test_shadow import Job


def _changed(rows: DataFrame) -> DataFrame:
    return rows.withColumn("value", F.concat(F.col("value").cast("string"), F.lit("!")))


def _same(rows: DataFrame) -> DataFrame:
    return rows


class Run:
    """Runs a job with one code or the other, and remembers which has read each record."""

    def __init__(self, job: Job) -> None:
        self.job, self.count, self.read, self.changed = job, 0, 0, set[int]()

    def fill(self) -> None:
        self.job.fill(self.count, self.count + 10)
        self.count += 10

    def run(self, checkpoint: str, *, is_changed: bool) -> None:
        self.job.run(checkpoint, _changed if is_changed else _same)
        self.changed.update(range(self.read, self.count) if is_changed else ())
        self.read = self.count

    def is_refused(self, checkpoint: str, *, is_changed: bool) -> None:
        with pytest.raises(StreamingQueryException, match=r"QueryEndedError: .* has handed over"):
            self.run(checkpoint, is_changed=is_changed)

    def check(self) -> None:
        """Each record is there once, in order of each key, written by the code that had the prefix."""
        by_key: defaultdict[bytes | None, list[str]] = defaultdict(list)
        for record in judge.consume_all(self.job.servers, self.job.target):
            by_key[record.key].append((record.value or b"").decode())
        for key in range(7):
            numbers = range(key, self.count, 7)
            wanted = [f"{number}{'!' if number in self.changed else ''}" for number in numbers]
            assert by_key.pop(b"%d" % key) == wanted
        assert not by_key


def test_promote_and_rollback_killed_at_each_step(
    spark: SparkSession, broker: DevCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    job = Job(spark, broker, make_topic, tmp_path)
    run, prefix = Run(job), job.options["sink.transactional-id-prefix"]
    new, back = str(tmp_path / "new"), str(tmp_path / "back")
    for command, running, heir, is_changed in (
        ("promote", job.live, new, False),
        ("rollback", new, back, True),
    ):
        run.fill()
        run.run(running, is_changed=is_changed)
        place = job.servers, prefix, running, heir, command
        for step in BEFORE:
            killed_at(step, *place)
            run.fill()
            run.run(running, is_changed=is_changed)
        run.fill()
        for step in AFTER:
            killed_at(step, *place)
        run.is_refused(running, is_changed=is_changed)
        places = ["--prefix", prefix, "--checkpoint", running, "--to", heir]
        assert "Start the" in job.command([command, *places, "--yes"])
        run.run(heir, is_changed=not is_changed)
        run.fill()
        run.run(heir, is_changed=not is_changed)
    run.fill()
    run.is_refused(job.live, is_changed=False)
    run.is_refused(new, is_changed=True)
    run.run(back, is_changed=False)
    run.check()
    assert run.changed
    assert open_transactions(broker, f"{prefix}-") == []
