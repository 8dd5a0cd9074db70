"""The lag of a reader in one topic partition, in records and in seconds.

Runs anywhere. Pure: nothing here asks a cluster or reads a clock. Invariant: the lag in records is the
distance to the high watermark, the number that Kafka's own tools show.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Holder:
    """The open transaction that keeps back the last stable offset of a topic partition.

    Attributes:
        topic_partition: where readers wait.
        producer_id: of the transaction.
        transactional_id: None if no coordinator has an open transaction of this producer (a hanging
            transaction, which no time-out ends), or may not show it, or if `is_looked_up` is False.
        first_offset: the first record of the transaction.
        open_since_ms: when it was opened; None if unknown.
        is_looked_up: whether the coordinators were asked and answered.
    """

    topic_partition: TopicPartition
    producer_id: int
    transactional_id: str | None
    first_offset: int
    open_since_ms: int | None
    is_looked_up: bool = True

    def __str__(self) -> str:
        producer = f"producer {self.producer_id}"
        if not self.is_looked_up:
            return f"a transaction of {producer}, whose coordinator did not answer"
        if self.transactional_id is None:
            return f"a transaction of {producer}, which no coordinator shows"
        return f"transaction {self.transactional_id} ({producer})"


@dataclass(frozen=True, slots=True)
class PartitionLook:
    """One topic partition at one moment. All times are milliseconds since 1970.

    Attributes:
        at_ms: when it was looked at.
        position: the next offset to read.
        log_start: the oldest offset that the broker still has.
        last_stable: the end for `read_committed`.
        high_watermark: the end for `read_uncommitted`.
        next_time_ms: the timestamp of the next unread record; None without one, or if it was not asked for.
        holder: what keeps back the last stable offset; None if nothing does, or if the broker does not tell.
        came_at_ms: when the next unread record came into the log; None if unknown, because its producer has
            set the timestamp.
    """

    at_ms: int
    position: int
    log_start: int
    last_stable: int
    high_watermark: int
    next_time_ms: int | None = None
    holder: Holder | None = None
    came_at_ms: int | None = None

    @property
    def records(self) -> int:
        """Return the lag in records, as Kafka's tools count: offsets up to the high watermark."""
        return max(0, self.high_watermark - self.position)

    @property
    def readable_records(self) -> int:
        """Return how many of them a `read_committed` reader may read now."""
        return max(0, self.last_stable - self.position)

    @property
    def deleted_records(self) -> int:
        """Return how many unread records the broker has deleted."""
        return max(0, self.log_start - self.position)

    @property
    def is_kept_back(self) -> bool:
        """Return whether a `read_committed` reader stands where an open transaction begins."""
        return self.position == self.last_stable < self.high_watermark

    @property
    def age_ms(self) -> int | None:
        """Return the age of the next unread record: 0 if there is none, None if its time is unknown."""
        if not self.records:
            return 0
        return None if self.next_time_ms is None else max(0, self.at_ms - self.next_time_ms)


@dataclass(frozen=True, slots=True)
class Totals:
    """The lag of a reader over its topic partitions.

    Attributes:
        records: their sum.
        readable_records: the sum of what `read_committed` may read now.
        age_ms: the age of the oldest next unread record; None if no time is known.
        skew_ms: between the timestamps of the oldest and the newest of the next unread records of the topic
            partitions; 0 with fewer than two known.
    """

    records: int
    readable_records: int
    age_ms: int | None
    skew_ms: int = 0


def totals(looks: Iterable[PartitionLook]) -> Totals:
    """Return the lag over all topic partitions; no topic partition gives 0."""
    looks = list(looks)
    ages = [age for look in looks if (age := look.age_ms) is not None]
    times = [look.next_time_ms for look in looks if look.records and look.next_time_ms is not None]
    is_unknown = bool(looks) and not ages
    return Totals(
        sum(look.records for look in looks),
        sum(look.readable_records for look in looks),
        None if is_unknown else max(ages, default=0),
        max(times) - min(times) if times else 0,
    )
