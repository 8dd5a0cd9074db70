"""Each Python listing of docs/from-flink-older.md runs against the real broker."""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as JudgesTopicPartition
from pyspark.sql import DataFrame, SparkSession

from penstock.devbroker import DevCluster
from tests import judge
from tests.spark.queries import stopped

PAGE = Path(__file__).parents[3] / "docs" / "from-flink-older.md"
LISTINGS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
TEXTS = {"1700000000000", "1700000000001"}
READ_FROM = {"myTopic": (23, 31, 43)}


def values(stream: DataFrame, checkpoint: Path) -> set[str]:
    found: set[str] = set()

    def take(batch: DataFrame, _: int) -> None:
        found.update(row.value for row in batch.collect())

    writer = stream.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(take)
    with stopped(writer.trigger(availableNow=True).start()) as query:
        assert query.awaitTermination(120)
    return found


def committed_at_start(bootstrap: str, group_id: str, topic: str) -> None:
    client = Consumer({"bootstrap.servers": bootstrap, "group.id": group_id})
    client.commit(offsets=[JudgesTopicPartition(topic, 0, 0)], asynchronous=False)
    client.close()


def fill(bootstrap: str, names: dict[str, str]) -> set[str]:
    """Fill the topics that are read. Return the texts that `myTopic` has from the offsets of its listing."""
    for name in ("topic", "input"):
        judge.produce(bootstrap, names[name], *(text.encode() for text in sorted(TEXTS)))
    records = [
        judge.Record(b"%d-%d" % (partition, n), partition=partition)
        for partition, start in enumerate(READ_FROM["myTopic"])
        for n in range(start + 1)
    ]
    judge.produce(bootstrap, names["myTopic"], *records)
    return {f"{partition}-{start}" for partition, start in enumerate(READ_FROM["myTopic"])}


def test_every_java_listing_has_a_python_listing() -> None:
    text = PAGE.read_text()
    blocks = re.findall(r"```(java|python|xml|bash)\n", text)
    pairs = list(zip(blocks[::2], blocks[1::2], strict=True))
    assert set(pairs) == {("java", "python"), ("xml", "bash")}
    assert len(LISTINGS) == 11


@pytest.mark.parametrize("code", LISTINGS, ids=range(len(LISTINGS)))
def test_a_listing_runs(code: str, spark: SparkSession, broker: DevCluster, tmp_path: Path) -> None:
    bootstrap = broker.bootstrap_servers
    unique = uuid.uuid4().hex[:8]
    names = {name: f"{name}-{unique}" for name in ("topic", "my-topic", "myTopic", "input")}
    for name, topic in names.items():
        judge.create_topic(bootstrap, topic, partitions=3 if name == "myTopic" else 1)
    group_id = f"listing-{unique}"
    from_offsets = fill(bootstrap, names)
    committed_at_start(bootstrap, group_id, names["topic"])
    code = code.replace("localhost:9092", bootstrap).replace('"test"', f'"{group_id}"')
    code = code.replace('"/tmp/', f'"{tmp_path}/')
    code = re.sub(r'"(topic|my-topic|myTopic)"', lambda found: f'"{names[found[1]]}"', code)
    given = (
        spark.readStream.format("penstock")
        .options(**{"properties.bootstrap.servers": bootstrap, "topic": names["input"]})
        .load()
        .selectExpr("CAST(value AS STRING) AS value")
    )
    scope: dict[str, Any] = {"spark": spark, "stream": given}

    exec(compile(code, "listing", "exec"), scope)  # noqa: S102 - running the listings is the point

    if (query := scope.get("query")) is not None:
        with stopped(query):
            query.processAllAvailable()
            rows = sum(progress.numInputRows for progress in query.recentProgress)
            assert rows == len(TEXTS)
    if "my-topic" in code.replace(unique, ""):
        copied = judge.consume_until(bootstrap, names["my-topic"], len(TEXTS))
        assert {(record.value or b"").decode() for record in copied} == TEXTS
    elif "query" not in scope:
        assert scope["stream"] is not given
        wanted = from_offsets if names["myTopic"] in code else TEXTS
        assert values(scope["stream"], tmp_path / "read") == wanted
