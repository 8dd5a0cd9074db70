"""The report of a task to the driver: a transaction that is written and acknowledged, but not yet committed.

Made on the executor, decided on by the driver, kept in the decision log. Invariant: a committable names its
transaction by what the task's own InitProducerId returned, so it can never mean that of another attempt. Its
JSON form has the version of the record that holds it (see `_log_records`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.client.produce.figures import NO_FIGURES, ProduceFigures
from penstock.client.produce.spans import WrittenSpan
from penstock.client.transactions.append import ProducerSession
from penstock.client.transactions.markers import Witness
from penstock.client.transactions.steps import TransactionIdentity, TransactionProtocol
from penstock.sink.exactly_once.digest import NO_RECORDS, RecordDigest
from penstock.types import TopicPartition


class TargetTopic(NamedTuple):
    """A topic that a task wrote into. `topic_id` None: the brokers give no ids."""

    name: str
    topic_id: str | None = None


@dataclass(frozen=True, slots=True)
class Committable:
    """One transaction of one task, complete and acknowledged.

    `digest` is the text of a `RecordDigest`. `witness` is one acknowledged record of the transaction with its
    offset. With it, the log can tell how the transaction ended if the coordinator has forgotten it.
    """

    identity: TransactionIdentity
    spark_partition_id: int
    record_count: int
    digest: str
    witness: Witness | None = None

    def __str__(self) -> str:
        return f"{self.identity}, Spark partition {self.spark_partition_id}, {self.record_count} records"

    @property
    def content(self) -> RecordDigest:
        return RecordDigest.from_text(self.record_count, self.digest)

    def to_json(self) -> dict[str, Any]:
        """Return plain values, for a record of the decision log."""
        witness = self.witness
        return {
            "transactional_id": self.identity.transactional_id,
            "producer_id": self.identity.producer_id,
            "producer_epoch": self.identity.producer_epoch,
            "protocol": int(self.identity.protocol),
            "spark_partition_id": self.spark_partition_id,
            "record_count": self.record_count,
            "digest": self.digest,
            "witness": None if witness is None else [*witness.topic_partition, witness.offset],
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Committable:
        """Read the values of `to_json`; KeyError, TypeError or ValueError for anything else."""
        witness = stored["witness"]
        return cls(
            identity=TransactionIdentity(
                stored["transactional_id"],
                stored["producer_id"],
                stored["producer_epoch"],
                TransactionProtocol(stored["protocol"]),
            ),
            spark_partition_id=stored["spark_partition_id"],
            record_count=stored["record_count"],
            digest=str(RecordDigest.from_text(stored["record_count"], stored["digest"])),
            witness=None if witness is None else Witness(TopicPartition(*witness[:2]), witness[2]),
        )


class TaskSpan(NamedTuple):
    """Where a task has written into one topic partition."""

    topic_partition: TopicPartition
    span: WrittenSpan


@dataclass(frozen=True, slots=True)
class TaskReport:
    """The message of one task. Every task sends one, also one without rows (`committable` None).

    `session` is that of the mandate under which the task wrote: only its holder may decide on the report.
    `topics` are those that the task wrote into. `drained` counts what it read of a batch that is already
    written. `figures` and `opened_at_ms` (wall clock; when its transaction began) are for metrics alone.
    `spans` and `digest_form` (see `digest.form_of`) are for the receipt.
    """

    query_id: str
    batch_id: int
    spark_partition_id: int
    session: ProducerSession
    committable: Committable | None = None
    topics: tuple[TargetTopic, ...] = ()
    drained: RecordDigest = NO_RECORDS
    figures: ProduceFigures = NO_FIGURES
    opened_at_ms: int | None = None
    spans: tuple[TaskSpan, ...] = ()
    digest_form: str | None = None
