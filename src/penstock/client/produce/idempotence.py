"""The identity of a producer, and the sequence numbers of its records.

Runs on the executor. Invariant: one identity numbers the records of each topic partition without a gap
and never uses a number for two different records. Because of this a resend is written once.

A transaction is another `ProducerIdentity` handed to the producer; nothing else there depends on where the
identity came from.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.client.net.versions import PRODUCE, Versions
from penstock.types import TopicPartition

NO_SEQUENCE = -1
SEQUENCE_LIMIT = 1 << 31
"""Sequence numbers run from 0 to 2^31 - 1 and then start at 0 again."""


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """Producer id and epoch from InitProducerId; -1 and -1 without idempotence.

    With a `transactional_id` all batches belong to one transaction, and `produce_versions` are those of
    Produce that may write into it.
    """

    producer_id: int = -1
    producer_epoch: int = -1
    transactional_id: str | None = None
    produce_versions: Versions = PRODUCE

    @property
    def is_idempotent(self) -> bool:
        return self.producer_id >= 0


ANONYMOUS = ProducerIdentity()
"""The identity of a producer that is not idempotent (`sink.delivery-guarantee` none)."""


def advance_sequence(sequence: int, record_count: int) -> int:
    return (sequence + record_count) % SEQUENCE_LIMIT


@dataclass(slots=True)
class SequenceNumbers:
    """The next sequence number of each topic partition under one identity."""

    identity: ProducerIdentity
    next_sequences: dict[TopicPartition, int] = field(default_factory=dict)

    def take(self, topic_partition: TopicPartition, record_count: int) -> int:
        """Number `record_count` records; return the first number, NO_SEQUENCE without idempotence."""
        if not self.identity.is_idempotent:
            return NO_SEQUENCE
        sequence = self.next_sequences.get(topic_partition, 0)
        self.next_sequences[topic_partition] = advance_sequence(sequence, record_count)
        return sequence
