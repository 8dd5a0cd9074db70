"""A model of what Kafka does with transactions and a group's offsets, for the simulation of the loop.

It knows no time-outs but the transaction's, one broker, and no failures of its own: the network of the
simulation loses and delays. Its rules are those that tests/scenarios shows on a real broker. A producer id
has as many epochs as the simulation says; a real one has 32,767. Then the transactional id gets another one.
"""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import dataclass, field

from penstock.client.net import error_codes as codes
from penstock.client.produce.delivery import Answer
from penstock.client.produce.idempotence import ProducerIdentity
from penstock.client.transactions.steps import TransactionIdentity, TransactionProtocol
from penstock.options.config import DeliveryGuarantee
from penstock.relay.messages import (
    AddGroup,
    AddPartitions,
    CheckPlan,
    CommitOffsets,
    Done,
    EndTransaction,
    Fetch,
    Fetched,
    Produce,
    ReadPositions,
    Refused,
    Reply,
    Request,
    TakeId,
)
from penstock.types import TopicPartition

V1 = TransactionProtocol.V1
BROKER = 1
_FETCHED_AT_ONCE = 20


@dataclass(eq=False)
class Open:
    """One transaction: what it has written, and how it ended."""

    began_at_ms: int
    partitions: set[TopicPartition] = field(default_factory=set)
    has_group: bool = False
    offsets: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    """(order of the commit, offset) of each topic partition."""
    is_committed: bool | None = None


@dataclass
class TransactionalId:
    """A transactional id at its coordinator."""

    producer_id: int
    epoch: int = -1
    before: tuple[int, int] | None = None
    """Producer id and epoch of the transaction that was committed last."""
    open: Open | None = None
    markers_at_ms: int | None = None
    """Until then its last transaction is decided, but not everywhere."""
    ended: Open | None = None
    sequences: dict[tuple[int, int, TopicPartition], dict[int, int]] = field(default_factory=dict)
    """The first sequence number of each batch, and how many records it has."""


class ModelKafka:
    """A topic that is read, one that is written, a group, and transactional ids."""

    def __init__(
        self,
        chance: random.Random,
        protocol: TransactionProtocol,
        timeout_ms: int,
        guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE,
        last_epoch: int = 32_766,
    ) -> None:
        self.last_epoch = last_epoch
        """The last epoch that a producer gets. The next one is kept for the markers."""
        self.rotations = 0
        self._producer_ids = itertools.count()
        self.protocol, self.timeout_ms, self.chance, self.guarantee = protocol, timeout_ms, chance, guarantee
        self.now_ms = 0
        self.source: dict[TopicPartition, int] = {}
        """The end of each topic partition that is read. Its records are their offsets."""
        self.written: dict[TopicPartition, list[tuple[Open, list[tuple[int, int]]]]] = {}
        self.ids: dict[str, TransactionalId] = {}
        self.offsets: dict[TopicPartition, tuple[int, int]] = {}
        self.generation = 1
        self.refuses = 0.0
        """How often a coordinator or leader refuses what it could do."""
        self._commit_count = 0
        self._plain: dict[tuple[int, TopicPartition], tuple[int, dict[int, int]]] = {}
        """The epoch and the sequence numbers of producers without a transaction."""

    def handle(self, request: Request, generation: int, now_ms: int) -> Reply | None:
        """Do what a request asks for. None: not now; ask again."""
        self.now_ms = now_ms
        self._pass_time()
        if isinstance(request, Fetch):
            return Done(
                [self._fetched(topic_partition, at) for topic_partition, at in request.offsets.items()]
            )
        if isinstance(request, CheckPlan):
            return Done(None if self.chance.random() < self.refuses else generation == self.generation)
        if isinstance(request, TakeId):
            return self._take(request.transactional_id)
        if isinstance(request, ReadPositions):
            return self._positions()
        return (
            Done(self._produced(request)) if isinstance(request, Produce) else self._step(request, generation)
        )

    def _step(self, request: Request, generation: int) -> Reply:
        if self.chance.random() < self.refuses:
            return Refused(self.chance.choice([codes.CONCURRENT_TRANSACTIONS, codes.NOT_COORDINATOR]))
        if isinstance(request, EndTransaction):
            return self._end(request.identity)
        assert isinstance(request, (AddPartitions, AddGroup, CommitOffsets))
        if isinstance(request, CommitOffsets) and self.guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            return self._commit_plain(request, generation)
        found = self._transaction(request.identity, may_begin=self._may_begin(request))
        if isinstance(found, int):
            return Refused(found)
        if isinstance(request, CommitOffsets):
            return self._commit_offsets(request, found, generation)
        if isinstance(request, AddPartitions):
            found.partitions.update(request.topic_partitions)
        else:
            found.has_group = True
        return Done()

    def _may_begin(self, request: Request) -> bool:
        return self.protocol is not V1 or not isinstance(request, CommitOffsets)

    def open_transactions(self) -> set[tuple[str, int, int]]:
        """Return id, producer id and producer epoch of each transaction that readers wait for."""
        return {(name, it.producer_id, it.epoch) for name, it in self.ids.items() if it.open is not None}

    def committed(self, topic_partition: TopicPartition) -> list[tuple[int, int]]:
        """Return the records that a reader of committed ones sees: (partition, offset) of the source."""
        log = self.written.get(topic_partition, [])
        return [record for transaction, records in log if transaction.is_committed for record in records]

    # ----- time

    def _pass_time(self) -> None:
        for it in self.ids.values():
            if it.markers_at_ms is not None and self.now_ms >= it.markers_at_ms:
                self._write_markers(it)
            if it.open is not None and self.now_ms - it.open.began_at_ms >= self.timeout_ms:
                it.epoch += 1
                self._decide(it, is_commit=False)

    def _write_markers(self, it: TransactionalId) -> None:
        it.markers_at_ms = None
        if it.ended is not None and it.ended.is_committed:
            for topic_partition, (order, offset) in it.ended.offsets.items():
                if self.offsets.get(topic_partition, (-1, 0))[0] < order:
                    self.offsets[topic_partition] = (order, offset)
        if it.ended is not None:
            it.ended.offsets = {}

    def _decide(self, it: TransactionalId, *, is_commit: bool) -> None:
        assert it.open is not None
        it.open.is_committed = is_commit
        it.ended, it.open = it.open, None
        it.markers_at_ms = self.now_ms + self.chance.choice([0, 1, 2, 5, 40])

    # ----- requests

    def _fetched(self, topic_partition: TopicPartition, at: int) -> Fetched:
        end = min(self.source[topic_partition], at + self.chance.randint(1, _FETCHED_AT_ONCE))
        rows = [(topic_partition.partition, offset) for offset in range(at, end)]
        return Fetched(topic_partition, codes.NO_ERROR, max(at, end), rows, len(rows))

    def _take(self, name: str) -> Reply | None:
        it = self.ids.get(name)
        if it is None:
            it = self.ids[name] = TransactionalId(next(self._producer_ids))
        if it.open is not None:
            it.epoch += 1
            self._decide(it, is_commit=False)
        if it.markers_at_ms is not None:
            return None
        self._raise_epoch(it)
        it.ended = it.before = None
        return Done(TransactionIdentity(name, it.producer_id, it.epoch, self.protocol))

    def _raise_epoch(self, it: TransactionalId) -> None:
        """Give the next epoch, or another producer id if the epochs are used up."""
        if it.epoch < self.last_epoch:
            it.epoch += 1
            return
        it.producer_id, it.epoch = next(self._producer_ids), 0
        self.rotations += 1

    def _positions(self) -> Reply | None:
        transactions = [each for it in self.ids.values() for each in (it.open, it.ended) if each is not None]
        if any(each.offsets for each in transactions):
            return None  # not stable yet
        return Done({topic_partition: offset for topic_partition, (_, offset) in self.offsets.items()})

    def _transaction(self, identity: TransactionIdentity, *, may_begin: bool) -> Open | int:
        it = self.ids[identity.transactional_id]
        if code := _stale(it, identity):
            return code
        if it.markers_at_ms is not None:
            return codes.CONCURRENT_TRANSACTIONS
        if it.open is None:
            if not may_begin:
                return codes.INVALID_TXN_STATE
            it.open = Open(self.now_ms)
        return it.open

    def _produced(self, request: Produce) -> list[tuple[object, Answer]]:
        identity = request.identity
        answers: list[tuple[object, Answer]] = []
        for topic_partition, batch in request.planned.batches.items():
            if self.chance.random() < self.refuses:
                answers.append((batch, Answer(codes.NOT_ENOUGH_REPLICAS)))
                continue
            records = [tuple(each) for each in json.loads(bytes(batch.data))]
            if identity.transactional_id is None:
                code = self._append_plain(identity, topic_partition, batch.base_sequence, records)
            else:
                it = self.ids[identity.transactional_id]
                code = self._append(it, identity, topic_partition, batch.base_sequence, records)
            answers.append((batch, Answer(code, 0)))
        return answers

    def _append_plain(
        self,
        identity: ProducerIdentity,
        topic_partition: TopicPartition,
        sequence: int,
        records: list[tuple[int, ...]],
    ) -> int:
        """Append outside of a transaction. Only a leader that has seen a newer epoch refuses an older one."""
        if identity.is_idempotent:
            key = (identity.producer_id, topic_partition)
            epoch, done = self._plain.get(key, (-1, {}))
            if identity.producer_epoch < epoch:
                return codes.INVALID_PRODUCER_EPOCH
            if identity.producer_epoch > epoch:
                done = {}
            if done.get(sequence) == len(records):
                return codes.NO_ERROR
            if sequence != (last + done[last] if (last := next(reversed(done), None)) is not None else 0):
                return codes.OUT_OF_ORDER_SEQUENCE_NUMBER
            done[sequence] = len(records)
            self._plain[key] = (identity.producer_epoch, done)
        written = Open(self.now_ms, is_committed=True)
        self.written.setdefault(topic_partition, []).append(
            (written, [(each[0], each[1]) for each in records])
        )
        return codes.NO_ERROR

    def _append(
        self,
        it: TransactionalId,
        identity: ProducerIdentity,
        topic_partition: TopicPartition,
        sequence: int,
        records: list[tuple[int, ...]],
    ) -> int:
        if code := _stale(it, identity):
            return code
        done = it.sequences.setdefault((it.producer_id, it.epoch, topic_partition), {})
        if done.get(sequence) == len(records):
            return codes.NO_ERROR  # it is in the log
        if it.markers_at_ms is not None:
            return codes.NOT_ENOUGH_REPLICAS  # so says a leader that the last transaction is being ended
        if sequence != (last + done[last] if (last := next(reversed(done), None)) is not None else 0):
            return codes.OUT_OF_ORDER_SEQUENCE_NUMBER
        if self.protocol is V1 and (it.open is None or topic_partition not in it.open.partitions):
            return codes.TRANSACTION_ABORTABLE
        it.open = it.open or Open(self.now_ms)
        done[sequence] = len(records)
        self.written.setdefault(topic_partition, []).append(
            (it.open, [(each[0], each[1]) for each in records])
        )
        return codes.NO_ERROR

    def _commit_offsets(self, request: CommitOffsets, found: Open, generation: int) -> Reply:
        if self.protocol is V1 and not found.has_group:
            return Refused(codes.INVALID_TXN_STATE)
        if generation != self.generation:
            return Refused(codes.ILLEGAL_GENERATION)
        for topic_partition, offset in request.positions.items():
            self._commit_count += 1
            found.offsets[topic_partition] = (self._commit_count, offset)
        return Done()

    def _commit_plain(self, request: CommitOffsets, generation: int) -> Reply:
        """Commit offsets without a transaction: who comes last counts, as long as its plan is not over."""
        if generation != self.generation:
            return Refused(codes.ILLEGAL_GENERATION)
        for topic_partition, offset in request.positions.items():
            self._commit_count += 1
            self.offsets[topic_partition] = (self._commit_count, offset)
        return Done()

    def _end(self, identity: TransactionIdentity) -> Reply:
        it = self.ids[identity.transactional_id]
        me = (identity.producer_id, identity.producer_epoch)
        # With V1 a fenced producer may have the epoch of the last commit. It ends nothing any more.
        is_fenced = self.protocol is V1 and identity.producer_epoch != it.epoch
        if it.open is None and it.before == me and not is_fenced:
            return self._ended(it, identity)
        if identity.producer_id != it.producer_id:
            return Refused(codes.INVALID_PRODUCER_ID_MAPPING)
        if identity.producer_epoch != it.epoch:
            return Refused(codes.PRODUCER_FENCED)
        if it.markers_at_ms is not None:
            return Refused(codes.CONCURRENT_TRANSACTIONS)
        if it.open is None:
            return Refused(codes.INVALID_TXN_STATE)
        self._decide(it, is_commit=True)
        it.before = me
        if self.protocol is not V1:
            self._raise_epoch(it)
        return self._ended(it, identity)

    def _ended(self, it: TransactionalId, identity: TransactionIdentity) -> Reply:
        return Done(TransactionIdentity(identity.transactional_id, it.producer_id, it.epoch, self.protocol))


def _stale(it: TransactionalId, identity: TransactionIdentity | ProducerIdentity) -> int:
    """Return why a coordinator or leader refuses this producer; 0: it is the present one."""
    if identity.producer_id != it.producer_id:
        return codes.INVALID_PRODUCER_ID_MAPPING
    return codes.NO_ERROR if identity.producer_epoch == it.epoch else codes.INVALID_PRODUCER_EPOCH
