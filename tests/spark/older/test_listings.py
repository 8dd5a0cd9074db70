"""Each Python listing of docs/from-flink-older.md runs against the real broker.

Some run at the same time, each with a group and a target topic of its own: the start of a query takes longer
than everything that it does here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import uuid
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as JudgesTopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.devbroker import DevCluster
from tests import judge
from tests.spark.queries import QUERY_TIMEOUT_S, stopped

PAGE = Path(__file__).parents[3] / "docs" / "from-flink-older.md"
LISTINGS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
TEXTS = ["1700000000000", "1700000000001"]
STARTS = (23, 31, 43)
"""Where the listing with specific offsets starts, for each partition of `myTopic`."""

AT_THE_SAME_TIME = 3
"""More would only wait for the processor: Spark gives a Python process 10 s to start."""


@dataclasses.dataclass
class Listing:
    """A listing with names of its own, and the variables that it leaves."""

    number: int
    code: str
    target: str
    scope: dict[str, Any]

    @property
    def has_query(self) -> bool:
        return "query" in self.scope

    @property
    def writes(self) -> bool:
        return self.target in self.code


class Scene:
    """The topics of the listings on one broker."""

    def __init__(self, bootstrap: str, spark: SparkSession, folder: Path) -> None:
        self.bootstrap, self.spark, self.folder = bootstrap, spark, folder
        self.unique = uuid.uuid4().hex[:8]
        self.names = {name: f"{name}-{self.unique}" for name in ("topic", "myTopic", "input")}

    def fill(self) -> None:
        for name, topic in self.names.items():
            judge.create_topic(self.bootstrap, topic, partitions=len(STARTS) if name == "myTopic" else 1)
        for name in ("topic", "input"):
            judge.produce(self.bootstrap, self.names[name], *(text.encode() for text in TEXTS))
        records = [
            judge.Record(b"%d-%d" % (partition, n), partition=partition)
            for partition, start in enumerate(STARTS)
            for n in range(start + 1)
        ]
        judge.produce(self.bootstrap, self.names["myTopic"], *records)

    def run(self, number: int, code: str) -> Listing:
        """Run a listing. Its group stands at the first record of `topic`."""
        group_id, target = f"test-{self.unique}-{number}", f"my-topic-{self.unique}-{number}"
        if '"test"' in code:
            commit_start(self.bootstrap, group_id, self.names["topic"])
        if '"my-topic"' in code:
            judge.create_topic(self.bootstrap, target, partitions=1)
        code = code.replace("localhost:9092", self.bootstrap).replace('"test"', f'"{group_id}"')
        code = code.replace('"/tmp/', f'"{self.folder}/{number}-').replace('"my-topic"', f'"{target}"')
        code = re.sub(r'"(topic|myTopic)"', lambda found: f'"{self.names[found[1]]}"', code)
        scope: dict[str, Any] = {"spark": self.spark, "stream": self.given()}
        exec(compile(code, f"listing {number}", "exec"), scope)  # noqa: S102 - running them is the point
        return Listing(number, code, target, scope)

    def given(self) -> DataFrame:
        """Return the stream that the listings of producers write."""
        options = {"properties.bootstrap.servers": self.bootstrap, "topic": self.names["input"]}
        rows = self.spark.readStream.format("penstock").options(**options).load()
        return rows.selectExpr("CAST(value AS STRING) AS value")


def commit_start(bootstrap: str, group_id: str, topic: str) -> None:
    client = Consumer({"bootstrap.servers": bootstrap, "group.id": group_id})
    client.commit(offsets=[JudgesTopicPartition(topic, 0, 0)], asynchronous=False)
    client.close()


def values_of_streams(listings: list[Listing], checkpoint: Path) -> dict[int, list[str]]:
    """Read the streams of listings that start no query, with one query."""
    found: dict[int, list[str]] = {each.number: [] for each in listings}

    def take(batch: DataFrame, _: int) -> None:
        for row in batch.collect():
            found[row.number].append(row.value)

    parts = [each.scope["stream"].select("value", F.lit(each.number).alias("number")) for each in listings]
    writer = reduce(DataFrame.union, parts).writeStream.option("checkpointLocation", str(checkpoint))
    with stopped(writer.foreachBatch(take).trigger(availableNow=True).start()) as query:
        assert query.awaitTermination(QUERY_TIMEOUT_S)
    return {number: sorted(values) for number, values in found.items()}


@pytest.mark.long
def test_every_listing_runs(spark: SparkSession, broker: DevCluster, tmp_path: Path) -> None:
    scene = Scene(broker.bootstrap_servers, spark, tmp_path)
    scene.fill()
    listings = list(enumerate(LISTINGS))
    done = []
    for first in range(0, len(listings), AT_THE_SAME_TIME):
        done += run_together(scene, listings[first : first + AT_THE_SAME_TIME])
    only_read = [each for each in done if not each.has_query]
    found = values_of_streams(only_read, tmp_path / "read")
    for each in only_read:
        specific = [f"{partition}-{start}" for partition, start in enumerate(STARTS)]
        assert found[each.number] == (specific if scene.names["myTopic"] in each.code else TEXTS)
    assert (len(done), len(only_read)) == (11, 4)
    assert sum(each.writes for each in done) == 4


def run_together(scene: Scene, listings: list[tuple[int, str]]) -> list[Listing]:
    with contextlib.ExitStack() as queries:
        done = []
        for number, code in listings:
            done.append(scene.run(number, code))
            if done[-1].has_query:
                queries.enter_context(stopped(done[-1].scope["query"]))
        for each in done:
            if each.has_query:
                check_query(scene, each)
    return done


def check_query(scene: Scene, listing: Listing) -> None:
    query = listing.scope["query"]
    query.processAllAvailable()
    assert sum(progress.numInputRows for progress in query.recentProgress) == len(TEXTS)
    if listing.writes:
        copied = judge.consume_until(scene.bootstrap, listing.target, len(TEXTS))
        assert sorted((record.value or b"").decode() for record in copied) == TEXTS
    if "CustomWatermarkEmitter" in listing.code:
        check_event_times(scene, listing)


def check_event_times(scene: Scene, listing: Listing) -> None:
    """The texts are the event times, and the delay is the drift of 1 min plus the 10 s of the listing."""
    column = listing.scope["stream"].schema["event_time"]
    assert column.metadata["spark.watermarkDelayMs"] == 70_000
    newest = [progress.eventTime.get("max") for progress in listing.scope["query"].recentProgress]
    assert "2023-11-14T22:13:20.001Z" in newest
    rows = listing.scope["my_consumer"].set_start_from_earliest().load_batch(scene.spark)
    times = rows.selectExpr("value", "CAST(unix_millis(event_time) AS STRING) AS ms").collect()
    assert sorted((row.value, row.ms) for row in times) == [(text, text) for text in TEXTS]
