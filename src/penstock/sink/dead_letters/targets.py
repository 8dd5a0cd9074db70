"""Where dead letters go: the topic partition of each, and what its topic does to old records.

Runs on the machine of `penstock dead-letters`. Invariants: a record goes into the topic partition that it
came from, as long as the topic has it; a record that its topic would delete at once is an error.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.client.cluster.log_offsets import describe_topics
from penstock.client.cluster.rights import Operation, check_topics
from penstock.client.net.connection import KafkaConnections
from penstock.client.transactions.limits import topic_config
from penstock.codec import murmur2_partitions
from penstock.errors import RowError, UnknownTopicOrPartitionError
from penstock.sink.dead_letters.found import DeadLetter
from penstock.sink.exactly_once.decision import now_ms
from penstock.types import TopicPartition

_SETTINGS = ("cleanup.policy", "retention.ms", "message.timestamp.type")


@dataclass(frozen=True, slots=True)
class _Target:
    partition_count: int
    retention_ms: int | None
    """None: it deletes no records by their own time, or this user may not ask."""


class Targets:
    """The topics that dead letters go into.

    Args:
        connections: to the cluster.
        name: of the topic for all of them; None: that of each record.
        is_new_time: the records get the time at which they are written.
    """

    def __init__(self, connections: KafkaConnections, name: str | None, *, is_new_time: bool) -> None:
        self._connections = connections
        self._name, self._is_new_time = name, is_new_time
        self._known: dict[str, _Target] = {}

    def place(self, letter: DeadLetter) -> TopicPartition:
        """Return the topic partition for a dead letter.

        Raises:
            UnknownTopicOrPartitionError: the topic does not exist.
            AuthorizationError: this user may not write it.
            RowError: the topic deletes records of that time.
        """
        topic, partition = letter.origin.topic, letter.origin.partition
        name = self._name or topic
        target = self._known.get(name)
        if target is None:
            target = self._known[name] = self._describe(name, letter)
        if not self._is_new_time:
            _check_age(letter, name, target)
        if name == topic and partition < target.partition_count:
            return TopicPartition(name, partition)
        chosen = murmur2_partitions(pa.array([letter.key], pa.binary()), target.partition_count)[0].as_py()
        return TopicPartition(name, partition % target.partition_count if chosen < 0 else chosen)

    def _describe(self, name: str, letter: DeadLetter) -> _Target:
        effect = "Dead letters cannot be put back into it now."
        check_topics(self._connections, [name], [Operation.WRITE], effect, may_be_missing=True)
        described = describe_topics(self._connections, [name])
        if name not in described:
            raise UnknownTopicOrPartitionError(
                f"Topic {name!r} does not exist, so {letter} was not put back. Name another topic with "
                "--into.",
                topic=name,
            )
        config = topic_config(self._connections, name, _SETTINGS) or {}
        is_deleted = "delete" in (config.get("cleanup.policy") or "")
        has_own_times = config.get("message.timestamp.type") == "CreateTime"
        retention_ms = int(config.get("retention.ms") or -1)
        is_by_time = is_deleted and has_own_times and retention_ms >= 0
        return _Target(len(described[name].partitions), retention_ms if is_by_time else None)


def _check_age(letter: DeadLetter, name: str, target: _Target) -> None:
    at_ms, kept_ms = letter.origin.timestamp_ms, target.retention_ms
    if kept_ms is None or at_ms + kept_ms > now_ms():
        return
    raise RowError(
        f"The record of {letter} has the time {at_ms} (ms since 1970), and topic {name} deletes records that "
        f"are older than retention.ms = {kept_ms}. It would be deleted at once. Nothing more was put back. "
        "Add --new-time, so that the records get the present time, or raise retention.ms of the topic.",
        **letter.place._asdict(),
        offset=letter.offset,
    )
