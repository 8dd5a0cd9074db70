"""A changed job runs as a shadow of a running one, and `penstock shadow compare` names what differs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.cli.verify import DIFFERS, NOT_ALL_PROVABLE, PROVEN
from penstock.devbroker import DevCluster
from penstock.spark.write_batch import write_batch
from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.test_exactly_once import open_transactions, write_options

Change = Callable[[DataFrame], DataFrame]


class Job:
    """Copies a topic; a change of it may run with another checkpoint."""

    def __init__(
        self,
        spark: SparkSession,
        broker: DevCluster,
        make_topic: MakeTopic,
        folder: Path,
        *,
        partitions: int = 2,
    ) -> None:
        self._spark, self._folder = spark, folder
        self.servers = broker.bootstrap_servers
        self.source, self.target, self.beside = make_topic(partitions), make_topic(2), make_topic(2)
        self.options = write_options(broker, self.target)
        self.live = str(folder / "live")

    def fill(self, first: int, end: int) -> None:
        """Give it some more records."""
        records = [(b"%d" % (number % 7), b"%d" % number) for number in range(first, end)]
        judge.produce(self.servers, self.source, *records)

    def rows(self, **options: str) -> DataFrame:
        reader = self._spark.readStream.format("penstock").option("kafka.bootstrap.servers", self.servers)
        reader = reader.options(**options)
        read = reader.option("subscribe", self.source).option("startingOffsets", "earliest").load()
        return read.select("key", "value")

    def run(self, checkpoint: str, change: Change = lambda rows: rows, **options: str) -> None:
        writer = change(self.rows()).writeStream.format("penstock").options(**{**self.options, **options})
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        assert query.awaitTermination(120), "the query does not end by itself"

    def shadow(self, name: str, *more: str) -> str:
        """Make the checkpoint of a shadow. Return its folder."""
        folder = str(self._folder / name)
        prefix = self.options["sink.transactional-id-prefix"]
        places = ["--live-checkpoint", self.live, "--shadow-checkpoint", folder, "--topic", self.beside]
        self.command(["shadow", "create", "--prefix", prefix, *places, *more])
        return folder

    def compare(self, folder: str) -> tuple[int, dict[str, Any]]:
        command = [
            "shadow",
            "compare",
            "--shadow-checkpoint",
            folder,
            "--live-checkpoint",
            self.live,
            "--json",
        ]
        result = CliRunner().invoke(app, [*command, "-b", self.servers])
        return result.exit_code, json.loads(result.stdout)

    def command(self, arguments: list[str]) -> str:
        result = CliRunner().invoke(app, [*arguments, "-b", self.servers], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout

    def seen(self, topic: str) -> list[bytes | None]:
        return [record.value for record in judge.consume_all(self.servers, topic)]


@pytest.fixture
def job(spark: SparkSession, broker: DevCluster, make_topic: MakeTopic, tmp_path: Path) -> Job:
    """A job that has written three batches."""
    made = Job(spark, broker, make_topic, tmp_path)
    for number in range(3):
        made.fill(number * 20, number * 20 + 20)
        made.run(made.live)
    return made


@pytest.mark.promise
def test_a_shadow_repeats_batches_and_what_differs_is_named(job: Job, broker: DevCluster) -> None:
    live = [b"%d" % number for number in range(60)]
    folder = job.shadow("same", "--from-batch", "1")
    assert job.compare(folder)[0] == NOT_ALL_PROVABLE, "it has not run"
    job.run(folder, lambda rows: rows.repartition(3))  # with the options of the running job
    code, found = job.compare(folder)
    (group,) = found["groups"]
    assert (code, group["outcome"], group["live"]["record_count"]) == (PROVEN, "equal", 40)
    assert (group["live"]["batches"], group["shadow"]["batches"]) == ([1, 2], [1, 1])
    assert sorted(map(int, filter(None, job.seen(job.beside)))) == list(range(20, 60))
    assert sorted(job.seen(job.target), key=lambda each: int(each or b"")) == live, "the shadow wrote beside"

    def change(rows: DataFrame) -> DataFrame:
        value = F.when(F.col("value") == "33", F.lit("other")).otherwise(F.col("value").cast("string"))
        return rows.where("value != '44'").withColumn("value", value)

    folder = job.shadow("changed", "--from-batch", "1")
    job.run(folder, change)
    code, found = job.compare(folder)
    (group,) = found["groups"]
    assert (code, group["outcome"]) == (DIFFERS, "differs")
    assert (group["live"]["record_count"], group["shadow"]["record_count"]) == (40, 39)
    rows = {each["kind"]: each for each in group["rows"]}
    assert rows.keys() == {"changed", "only-live"}
    assert (rows["changed"]["key"], rows["only-live"]["key"]) == (str(33 % 7), str(44 % 7))
    for kind, side, topic, value in (
        ("changed", "live", job.target, b"33"),
        ("changed", "shadow", job.beside, b"other"),
        ("only-live", "live", job.target, b"44"),
    ):
        place = rows[kind][side]
        assert place["topic"] == topic
        records = judge.consume_all(job.servers, topic)
        at = [
            each.value
            for each in records
            if (each.partition, each.offset) == (place["partition"], place["offset"])
        ]
        assert at == [value]
    assert open_transactions(broker, job.options["sink.transactional-id-prefix"]) == []


def test_a_shadow_that_writes_nothing_differs_and_later_batches_are_aligned(job: Job) -> None:
    folder = job.shadow("silent", "--from-batch", "0")
    job.run(folder, lambda rows: rows.where("value = 'never'"))
    code, found = job.compare(folder)
    assert (code, [each["outcome"] for each in found["groups"]]) == (DIFFERS, ["differs"])
    assert {each["kind"] for each in found["groups"][0]["rows"]} == {"only-live"}
    assert found["groups"][0]["more_rows"]
    folder = job.shadow("later", "--to-batch", "1")
    for first in (60, 70):
        job.fill(first, first + 10)
        job.run(folder)
        job.run(job.live)
    code, found = job.compare(folder)
    assert (code, found["notes"]) == (PROVEN, [])
    # The shadow has read batches 2 and 3 of the running job in one.
    assert [(each["live"]["batches"], each["shadow"]["batches"]) for each in found["groups"]] == [
        ([0, 1], [1, 1]),
        ([2, 3], [2, 2]),
        ([4, 4], [3, 3]),
    ]


def test_a_shadow_never_writes_where_the_running_job_writes(job: Job) -> None:
    folder, before = job.shadow("wrong", "--from-batch", "2"), job.seen(job.target)
    with pytest.raises(StreamingQueryException, match="A shadow has one topic"):
        job.run(folder, topic=job.source)
    with pytest.raises(StreamingQueryException, match="has to write exactly-once"):
        job.run(folder, lambda rows: rows, **{"sink.delivery-guarantee": "at-least-once"})

    def in_function(options: dict[str, str], folder: str) -> None:
        writer = job.rows().writeStream.foreachBatch(lambda rows, number: write_batch(rows, number, options))
        query = writer.option("checkpointLocation", folder).trigger(availableNow=True).start()
        query.awaitTermination(120)

    # The function knows nothing of the checkpoint, but the decision log knows the query.
    with pytest.raises(StreamingQueryException, match=r"QueryEndedError: .* is a shadow of query"):
        in_function(job.options, folder)
    other = {**job.options, "sink.transactional-id-prefix": f"{job.target}-other"}
    with pytest.raises(StreamingQueryException, match=r"QueryEndedError: .* is a shadow of query"):
        in_function(other, folder)
    assert job.seen(job.target) == before
    in_function({**other, "topic": job.beside}, folder)
    assert sorted(map(int, filter(None, job.seen(job.beside)))) == list(range(40, 60))
    job.fill(60, 70)
    job.run(job.live)
    assert len(job.seen(job.target)) == 70
