"""The transactions of one task that are being written and ended, in their order.

Runs on the executor. Pure: time comes in as an argument. A transaction passes its stages one after the other:

    [ADD_PARTITIONS] -> PRODUCE -> [ADD_GROUP] -> COMMIT_OFFSETS -> END      (in brackets: protocol V1 only)
    PRODUCE -> COMMIT_OFFSETS            (without exactly-once: Kafka knows nothing of such a transaction)

With several lanes (transactional ids) the next transaction begins before this one has ended. Lanes are
different producers to Kafka, which orders nothing between them. So one rule does, for all stages
(`may_begin`):

    A transaction begins a stage when the transaction before it has finished that stage.

Without it for PRODUCE, a batch that is sent again lands behind the batch of the next transaction: records of
a topic partition change their order. Without it for COMMIT_OFFSETS, an offset that is sent again overwrites
the next one, and a restart reads again what was written: records are doubled. Without it for END, the next
transaction may be committed and this one aborted: records are lost. The simulation finds each of the three
(test_simulation.py).

A refused request that changed nothing is sent again. A lost answer to a request other than Produce is a
`Fault`: the request may still arrive, so only a new producer epoch of the id makes its end certain.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

from penstock.client.cluster.coordinators import DID_NOTHING
from penstock.client.net import error_codes as codes
from penstock.client.net.backoff import doubled
from penstock.client.produce.batches import ProducerBatch
from penstock.client.produce.delivery import DeliveryLimits, DeliveryQueue, LeaderOf
from penstock.client.produce.idempotence import ANONYMOUS, ProducerIdentity, SequenceNumbers
from penstock.client.produce.verdicts import Verdict, describe
from penstock.client.transactions.steps import TransactionIdentity, TransactionProtocol
from penstock.options.config import DeliveryGuarantee
from penstock.relay.messages import (
    NOTHING,
    AddGroup,
    AddPartitions,
    CommitOffsets,
    Done,
    EndTransaction,
    Fault,
    Lost,
    Produce,
    Refused,
    Reply,
    Request,
    Totals,
)
from penstock.types import TopicPartition

_FIRST_PAUSE_MS = 1
_LONGEST_PAUSE_MS = 100
_CHANGED_NOTHING = DID_NOTHING | {codes.CONCURRENT_TRANSACTIONS}
"""A coordinator that answers so has done nothing that a repetition would not do the same."""


class Stage(IntEnum):
    """The stages of a transaction, in their order."""

    ADD_PARTITIONS = 1
    PRODUCE = 2
    ADD_GROUP = 3
    COMMIT_OFFSETS = 4
    END = 5


_STAGES = {
    TransactionProtocol.V1: tuple(Stage),
    TransactionProtocol.V2: (Stage.PRODUCE, Stage.COMMIT_OFFSETS, Stage.END),
}


_STAGES_OUTSIDE = (Stage.PRODUCE, Stage.COMMIT_OFFSETS)
"""Of a transaction that Kafka does not know: its offsets are committed behind acknowledged records."""


class Content(Protocol):
    """What a transaction writes."""

    @property
    def size_bytes(self) -> int:
        """Return the memory that it takes."""

    @property
    def counts(self) -> Totals:
        """Return what it holds, as one transaction. The bytes to write are known after `build`."""

    def add(self, topic_partition: TopicPartition, rows: object) -> int:
        """Add what was read from a topic partition of the source. Return how many milliseconds it took."""

    def build(self, sequences: SequenceNumbers, now_ms: int) -> Iterable[ProducerBatch]:
        """Return the record batches, in order. Called once."""


def producer_of(identity: TransactionIdentity, guarantee: DeliveryGuarantee) -> ProducerIdentity:
    """Return who writes the records.

    Without exactly-once the id is taken as well, because that fences an older task, and tells the driver that
    this one has begun. But the records belong to no transaction.
    """
    if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        return identity.producer_identity
    if guarantee is DeliveryGuarantee.AT_LEAST_ONCE:
        return ProducerIdentity(identity.producer_id, identity.producer_epoch)
    return ANONYMOUS


@dataclass(eq=False)
class Lane:
    """A transactional id. It has one transaction at a time."""

    identity: TransactionIdentity
    guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE
    sequences: SequenceNumbers = field(init=False)
    is_free: bool = True

    def __post_init__(self) -> None:
        self.sequences = SequenceNumbers(producer_of(self.identity, self.guarantee))

    def continue_as(self, identity: TransactionIdentity) -> None:
        """Take the identity of the next transaction. A new producer epoch numbers records from 0 again."""
        if not identity.has_same_epoch(self.identity):
            self.sequences = SequenceNumbers(producer_of(identity, self.guarantee))
        self.identity = identity
        self.is_free = True


@dataclass(eq=False)
class Transaction:
    """A transaction that is not filled any more."""

    lane: Lane
    positions: Mapping[TopicPartition, int]
    delivery: DeliveryQueue
    topic_partitions: Sequence[TopicPartition]
    began_at_ms: int
    stages: deque[Stage]
    """Those that are not finished; the first is the present one."""
    totals: Totals
    """Of the task, with this transaction."""
    asked: Request | None = None
    retry_at_ms: int = 0
    refusals: int = 0

    def has_finished(self, stage: Stage) -> bool:
        """Return whether it has passed this stage."""
        return not self.stages or self.stages[0] > stage

    def finish_stage(self) -> None:
        """Go on to the next stage."""
        self.stages.popleft()
        self.asked, self.retry_at_ms, self.refusals = None, 0, 0


def may_begin(stage: Stage, before: Transaction | None) -> bool:
    """Return whether a transaction may begin a stage. This is the order rule of all stages."""
    return before is None or before.has_finished(stage)


class Pipeline:
    """The closed transactions of a task, from the oldest to the newest.

    Args:
        identities: one for each lane.
        delivery: how batches are sent.
        timeout_ms: a transaction that takes longer from its close to its end is a fault.
        totals: of the task, before the first of these transactions.
        guarantee: without exactly-once Kafka does not know the transactions.
    """

    def __init__(
        self,
        identities: Sequence[TransactionIdentity],
        delivery: DeliveryLimits,
        timeout_ms: int,
        totals: Totals = NOTHING,
        guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE,
    ) -> None:
        self._totals = totals
        self._lanes = [Lane(identity, guarantee) for identity in identities]
        is_transactional = guarantee is DeliveryGuarantee.EXACTLY_ONCE
        self._stages = _STAGES[identities[0].protocol] if is_transactional else _STAGES_OUTSIDE
        self._limits = delivery
        self._timeout_ms = timeout_ms
        self._closed: deque[Transaction] = deque()
        self._by_request: dict[Request, Transaction] = {}

    @property
    def is_empty(self) -> bool:
        """Return whether every transaction has ended."""
        return not self._closed

    def is_late(self, now_ms: int) -> bool:
        """Return whether the oldest transaction has used half of its time-out."""
        return bool(self._closed) and 2 * (now_ms - self._closed[0].began_at_ms) > self._timeout_ms

    @property
    def may_close(self) -> bool:
        """Return whether another transaction could begin its first stage at once."""
        last = self._closed[-1] if self._closed else None
        return any(lane.is_free for lane in self._lanes) and may_begin(Stage.PRODUCE, last)

    def close(self, content: Content, positions: Mapping[TopicPartition, int], now_ms: int) -> None:
        """Take a transaction that is filled. Only if `may_close`."""
        lane = next(lane for lane in self._lanes if lane.is_free)
        lane.is_free = False
        delivery = DeliveryQueue(self._limits, jitter=lambda: 1.0)
        topic_partitions = []
        for batch in content.build(lane.sequences, now_ms):
            delivery.add(batch)
            topic_partitions.append(batch.topic_partition)
        written = sorted(set(topic_partitions))
        self._totals = self._totals.plus(content.counts)
        stages = deque(self._stages)
        self._closed.append(Transaction(lane, positions, delivery, written, now_ms, stages, self._totals))

    def plan(self, now_ms: int, leader_of: LeaderOf) -> Iterator[Request]:
        """Yield the requests to send now. They count as sent.

        Raises:
            Fault: a transaction takes too long.
        """
        before: Transaction | None = None
        for transaction in list(self._closed):
            if now_ms - transaction.began_at_ms > self._timeout_ms:
                raise Fault(codes.NO_ERROR, f"a transaction was not ended within {self._timeout_ms} ms")
            for request in self._plan_one(transaction, before, now_ms, leader_of):
                self._by_request[request] = transaction
                yield request
            before = transaction

    def _plan_one(
        self, transaction: Transaction, before: Transaction | None, now_ms: int, leader_of: LeaderOf
    ) -> Iterator[Request]:
        while transaction.stages and may_begin(stage := transaction.stages[0], before):
            if stage is Stage.PRODUCE and not transaction.delivery.is_empty:
                identity = transaction.lane.sequences.identity
                for planned in transaction.delivery.plan(now_ms, leader_of):
                    yield Produce(identity, planned)
                return
            if stage is Stage.PRODUCE or (stage is Stage.ADD_PARTITIONS and not transaction.topic_partitions):
                transaction.finish_stage()
                continue
            if transaction.asked is None and now_ms >= transaction.retry_at_ms:
                transaction.asked = _request(stage, transaction)
                yield transaction.asked
            return

    def answer(self, request: Request, reply: Reply, now_ms: int) -> Transaction | None:
        """Take an answer. Return the transaction if it is committed now.

        Raises:
            Fault: no transaction can be ended any more.
        """
        transaction = self._by_request.pop(request)
        if isinstance(request, Produce):
            _produced(transaction, request, reply, now_ms)
            return None
        name = type(request).__name__
        if isinstance(reply, Lost):
            raise Fault(codes.NO_ERROR, f"{name} got no answer: {reply.problem}")
        if isinstance(reply, Refused):
            if reply.error_code not in _CHANGED_NOTHING:
                raise Fault(reply.error_code, f"{name} was refused")
            transaction.asked = None
            pause_ms = doubled(_FIRST_PAUSE_MS, transaction.refusals, _LONGEST_PAUSE_MS)
            transaction.retry_at_ms = now_ms + pause_ms
            transaction.refusals += 1
            return None
        transaction.finish_stage()
        if transaction.stages:
            return None
        self._closed.remove(transaction)
        lane = transaction.lane
        lane.continue_as(reply.value if isinstance(request, EndTransaction) else lane.identity)
        return transaction

    def next_wakeup_ms(self) -> int | None:
        """Return when the next pause ends; None: nothing waits for the clock."""
        due = [each.began_at_ms + self._timeout_ms + 1 for each in self._closed]
        due += [each.retry_at_ms for each in self._closed if each.retry_at_ms and each.asked is None]
        for each in self._closed:
            is_sending = each.stages[0] is Stage.PRODUCE
            if is_sending and (wakeup_ms := each.delivery.next_wakeup_ms()) is not None:
                due.append(wakeup_ms)
        return min(due, default=None)


def _request(stage: Stage, transaction: Transaction) -> Request:
    identity = transaction.lane.identity
    if stage is Stage.ADD_PARTITIONS:
        return AddPartitions(identity, transaction.topic_partitions)
    if stage is Stage.ADD_GROUP:
        return AddGroup(identity)
    if stage is Stage.COMMIT_OFFSETS:
        return CommitOffsets(identity, transaction.positions, transaction.totals)
    return EndTransaction(identity)


def _produced(transaction: Transaction, request: Produce, reply: Reply, now_ms: int) -> None:
    """Take the answer to a Produce. A batch without one is sent again: it has a sequence number."""
    delivery = transaction.delivery
    delivery.request_done(request.planned)
    if not isinstance(reply, Done):
        for batch in request.planned.batches.values():
            problem = reply.problem if isinstance(reply, Lost) else f"error code {reply.error_code}"
            delivery.no_answer(batch, now_ms, problem)
        return
    for batch, answer in reply.value:
        verdict = delivery.answer(batch, answer, now_ms)
        if verdict in (Verdict.FAILED, Verdict.DOUBT):
            _, advice = describe(answer.error_code)
            raise Fault(answer.error_code, f"writing to {batch.topic_partition} failed: {advice}")
