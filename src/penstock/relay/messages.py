"""What a loop wants from Kafka, and what it hears. Runs on the executor. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import add, sub
from typing import Any, NamedTuple

from penstock.client.produce.delivery import PlannedRequest
from penstock.client.produce.idempotence import ProducerIdentity
from penstock.client.transactions.steps import TransactionIdentity
from penstock.types import TopicPartition


@dataclass(eq=False, slots=True)
class Request:
    """A request to send once. Its answer is told with the same object."""


class Totals(NamedTuple):
    """How much a transaction holds, or a task has committed since its process began.

    Attributes:
        records_in: that were read, bad ones too.
        records_out: that were written to the target.
        transactions: that were committed.
        bytes_in: of what was read, in Arrow.
        bytes_out: of the record batches of these records, compressed.
        skipped: bad records that were left out, because the policy says so.
        dead_letters: bad records that went to the topic of dead letters.
        ignored: records that gave no row, because the format ignores what it cannot parse.
    """

    records_in: int = 0
    records_out: int = 0
    transactions: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    skipped: int = 0
    dead_letters: int = 0
    ignored: int = 0

    def plus(self, more: Totals) -> Totals:
        """Return the sum of both."""
        return Totals(*map(add, self, more))

    def minus(self, less: Totals) -> Totals:
        """Return what these totals have more."""
        return Totals(*map(sub, self, less))


NOTHING = Totals()


@dataclass(eq=False, slots=True)
class CheckPlan(Request):
    """Ask whether this plan is the present one. Done: True, False, or None if it is unknown now."""


@dataclass(eq=False, slots=True)
class TakeId(Request):
    """Take a transactional id: abort its transaction, fence older producers. Done: its identity."""

    transactional_id: str


@dataclass(eq=False, slots=True)
class ReadPositions(Request):
    """Ask for the group's offsets, when no open transaction may change them. Done: the offsets."""


@dataclass(eq=False, slots=True)
class Fetch(Request):
    """Read from a broker. Done: a list of `Fetched`, at most one for each topic partition.

    Attributes:
        node_id: of the broker.
        offsets: where to read from.
        is_last: whether a transaction waits for the answer. So the broker does not wait for records.
    """

    node_id: int
    offsets: Mapping[TopicPartition, int]
    is_last: bool = False


@dataclass(eq=False, slots=True)
class AddPartitions(Request):
    """Add topic partitions to a transaction. Done: None."""

    identity: TransactionIdentity
    topic_partitions: Sequence[TopicPartition]


@dataclass(eq=False, slots=True)
class Produce(Request):
    """Write batches. Done: a list of (ProducerBatch, Answer), one for each batch."""

    identity: ProducerIdentity
    planned: PlannedRequest


@dataclass(eq=False, slots=True)
class AddGroup(Request):
    """Add the consumer group to a transaction. Done: None."""

    identity: TransactionIdentity


@dataclass(eq=False, slots=True)
class CommitOffsets(Request):
    """Commit offsets in a transaction. Done: None."""

    identity: TransactionIdentity
    positions: Mapping[TopicPartition, int]
    totals: Totals = NOTHING


@dataclass(eq=False, slots=True)
class EndTransaction(Request):
    """Commit a transaction. Done: the identity of the next one."""

    identity: TransactionIdentity


class Fetched(NamedTuple):
    """A topic partition in the answer to a Fetch.

    Attributes:
        error_code: not 0: nothing was read.
        next_offset: where the next Fetch starts; the offset of the Fetch if nothing was read.
        rows: what was read. Only `Content` looks into it.
        size_bytes: what the broker sent.
    """

    topic_partition: TopicPartition
    error_code: int
    next_offset: int
    rows: Any = None
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Done:
    """The broker did what was asked for."""

    value: Any = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The broker did nothing, and says so."""

    error_code: int


@dataclass(frozen=True, slots=True)
class Lost:
    """No answer came, and none will. The broker may do what was asked for at any time, or never."""

    problem: str = "no answer"


class Fault(Exception):
    """Something that the open transactions do not survive. `error_code` 0: no broker has said so."""

    def __init__(self, error_code: int, what: str) -> None:
        super().__init__(what)
        self.error_code = error_code
        self.what = what


Reply = Done | Refused | Lost
