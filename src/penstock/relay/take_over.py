"""Let a continuous query continue where a stream with micro-batches stands: give its group the same offsets.

Runs on any machine that reaches the brokers. Invariants: the offsets of all topic partitions are in one
request, and an error names those that Kafka refused; the group never goes back; nothing is committed while a
continuous query is its member.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.client.cluster.log_offsets import CommittedOffset, commit_offsets, committed_notes
from penstock.client.cluster.membership import has_only_member
from penstock.client.cluster.metadata import cluster_view
from penstock.client.cluster.rights import Operation, check_topics
from penstock.client.net.connection import KafkaConnections
from penstock.errors import ClientError, OffsetOutOfRangeError, PenstockError, TopicPartitionsRemovedError
from penstock.relay.notes import plan_note
from penstock.types import TopicPartition

_NOTHING = "No offset was committed."


@dataclass(frozen=True)
class TakeOver:
    """Offsets of a stream that a consumer group is to have.

    Attributes:
        group_id: of the continuous query.
        positions: the next offset of each topic partition that the stream has read.
        topic_ids: the ids of the topics that the stream has read, where they are known.
    """

    group_id: str
    positions: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]

    def check(self, connections: KafkaConnections) -> dict[TopicPartition, CommittedOffset]:
        """Check that the group may have these offsets. Return those that it has now.

        Raises:
            ClientError: a continuous query is the group's member, or Kafka does not answer.
            AuthorizationError: a topic may not be read, or the group not described.
            UnknownTopicOrPartitionError: a topic does not exist.
            TopicPartitionsRemovedError: a topic was deleted and created again.
            OffsetOutOfRangeError: the group is further than the stream.
        """
        group_id = self.group_id
        if has_only_member(connections, group_id):
            raise ClientError(
                f"A continuous query is the member of the consumer group {group_id!r}, or was killed less "
                f"than a minute ago. {_NOTHING} Stop it, or use another group id.",
                group_id=group_id,
            )
        check_topics(connections, {each.topic for each in self.positions}, [Operation.READ], _NOTHING)
        self._check_same_topics(self._present_ids(connections))
        found = committed_notes(connections, group_id, list(self.positions), is_stable=True)
        for topic_partition, committed in sorted(found.items()):
            if committed.offset > self.positions[topic_partition]:
                raise self._ahead(topic_partition, committed.offset)
        return found

    def commit(self, connections: KafkaConnections) -> None:
        """Commit the offsets, from outside of the group. Call `check` before.

        Raises:
            ClientError: the group has a member, Kafka does not answer, or it refused some of the offsets.
                Another call commits the same offsets.
        """
        topic_ids = self._present_ids(connections)
        self._check_same_topics(topic_ids)
        notes = {topic: plan_note(topic_id) for topic, topic_id in topic_ids.items()}
        refused = commit_offsets(connections, self.group_id, self.positions, notes=notes)
        if refused:
            raise self._refused(refused)

    def _present_ids(self, connections: KafkaConnections) -> dict[str, str | None]:
        names = {each.topic for each in self.positions}
        found = cluster_view(connections).topics(names)
        return {name: None if each.topic_id is None else str(each.topic_id) for name, each in found.items()}

    def _check_same_topics(self, present: Mapping[str, str | None]) -> None:
        for topic, now in sorted(present.items()):
            before = self.topic_ids.get(topic)
            if None not in (before, now) and before != now:
                raise TopicPartitionsRemovedError(
                    f"Topic {topic!r} was deleted and created again after the checkpoint was written (topic "
                    f"id {before}, now {now}). The offsets of the old topic are not valid in the new one. "
                    f"{_NOTHING} Start the continuous query with a new group, and choose its start.",
                    topic=topic,
                )

    def _refused(self, refused: Mapping[TopicPartition, PenstockError]) -> ClientError:
        first = min(refused)
        return ClientError(
            f"Kafka refused the offsets of {len(refused)} of {len(self.positions)} topic partitions: "
            f"{', '.join(map(str, sorted(refused)))}. The others were committed to group {self.group_id!r}. "
            "Do not start the continuous query yet: it would read the refused topic partitions from their "
            "first records, or from an older offset, and write records a second time. Mend what Kafka says, "
            f"and run this command again. Kafka says of {first}: {refused[first]}",
            group_id=self.group_id,
            topic_partitions=tuple(sorted(refused)),
        )

    def _ahead(self, topic_partition: TopicPartition, committed: int) -> OffsetOutOfRangeError:
        at = self.positions[topic_partition]
        return OffsetOutOfRangeError(
            f"Expected consumer group {self.group_id!r} to be at offset {at} of {topic_partition} or before "
            f"it, where the checkpoint is, got {committed}. Another query has read on in this group, so the "
            f"records from {at} on would be written a second time. {_NOTHING} Name the checkpoint of the "
            "newest query, or use another group id.",
            group_id=self.group_id,
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            offset=committed,
        )
