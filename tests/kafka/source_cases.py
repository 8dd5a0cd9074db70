"""What tests of the source share: records, committed offsets, and options in both dialects."""

from __future__ import annotations

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as JudgePartition
from confluent_kafka.admin import NewPartitions

from tests import judge
from tests.judge import Record
from tests.kafka.source_runs import Row
from tests.waiting import PATIENCE_S


def positions(rows: list[Row]) -> dict[int, list[int]]:
    """Return the offsets of the rows, by partition."""
    found: dict[int, list[int]] = {}
    for row in rows:
        found.setdefault(row.partition, []).append(row.offset)
    return found


def collect(rows: list[Row], more: list[Row]) -> int:
    """Add rows to those that were read before. Return how many there are."""
    rows += more
    return len(rows)


def produce(bootstrap: str, topic: str, count: int, partition: int = 0) -> None:
    """Write records `0`, `1`, ... to a partition."""
    judge.produce(bootstrap, topic, *(Record(b"%d" % n, partition=partition) for n in range(count)))


def commit(bootstrap: str, group_id: str, topic: str, offsets: dict[int, int]) -> None:
    """Commit offsets of a group as another consumer would."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group_id})
    wanted = [JudgePartition(topic, partition, offset) for partition, offset in offsets.items()]
    consumer.commit(offsets=wanted, asynchronous=False)
    consumer.close()


def committed(bootstrap: str, group_id: str, topic: str, partitions: int = 1) -> dict[int, int]:
    """Return the committed offsets that librdkafka sees, without partitions that have none."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group_id})
    found = consumer.committed([JudgePartition(topic, n) for n in range(partitions)], timeout=PATIENCE_S)
    consumer.close()
    return {entry.partition: entry.offset for entry in found if entry.offset >= 0}


def add_partition(bootstrap: str, topic: str) -> None:
    """Give a topic a second partition."""
    admin = judge.admin(bootstrap)  # held: its futures never end once it is collected
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(PATIENCE_S)
    judge.wait_for_leaders(bootstrap, topic, 2)


def flink(bootstrap: str, topic: str, **more: str) -> dict[str, str]:
    """Return options in Flink's dialect. `__` in a name stands for `-`, and `_` for `.`."""
    options = {"properties.bootstrap.servers": bootstrap, "topic": topic}
    return {**options, **{key.replace("__", "-").replace("_", "."): text for key, text in more.items()}}


def spark(bootstrap: str, topic: str, **more: str) -> dict[str, str]:
    """Return options in Spark's dialect."""
    return {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **more}
