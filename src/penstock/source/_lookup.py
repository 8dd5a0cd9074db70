"""What planning asks of a Kafka cluster: a small protocol, so that planning is tested without a broker.

Runs on the driver. Invariant: an answer is complete. Each topic partition that was asked for is either
in `offsets` or, with the reason, in `errors`; one that cannot be answered never hides the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from penstock.client.cluster.results import Results
from penstock.options.config import IsolationLevel
from penstock.types import LogEnd, TopicPartition


class Wait(Enum):
    """How long a look-up waits for topic partitions that do not answer."""

    FOR_ALL = "as long as the client's time-out allows, for each"
    FOR_ONE = "a moment; as long as the time-out allows only where no topic partition answers at all"
    FOR_NONE = "a moment"


@dataclass(frozen=True)
class TopicView:
    """A topic as the cluster describes it."""

    topic_partitions: frozenset[TopicPartition]
    is_internal: bool = False
    topic_id: str | None = None


class OffsetAdmin(Protocol):
    """Batched look-ups; each ends within the client's time-outs."""

    def describe_topics(self, topics: Iterable[str] | None) -> Mapping[str, TopicView]:
        """The named topics that exist, or all that exist."""

    def list_offsets(
        self,
        topic_partitions: Collection[TopicPartition],
        end: LogEnd,
        isolation_level: IsolationLevel,
        *,
        wait: Wait = Wait.FOR_ALL,
    ) -> Results[TopicPartition, int]:
        """One end of each log. Under read_committed the latest offset is the last stable one."""

    def log_sizes(self, topic_partitions: Collection[TopicPartition]) -> Results[TopicPartition, int]:
        """The bytes of each log as its leader stores it; nobody waits long for one that does not answer."""

    def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int], isolation_level: IsolationLevel
    ) -> Results[TopicPartition, int]:
        """The first offset whose record is not older; a log without one is in neither part of the answer."""

    def committed_offsets(
        self, group_id: str, topic_partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        """The committed offsets of a group; topic partitions without one are left out."""
