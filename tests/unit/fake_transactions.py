"""A cluster's transactions in memory: ids, epochs, time-outs, fencing, a decision log, and faults.

Its coordinator is that of the fake Kafka, whose rules are proved on the real broker (tests/scenarios).
Records and markers are lists here, so that it is fast enough to die at every moment a thousand times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from penstock.client.net import error_codes as codes
from penstock.client.transactions.append import KeyValue, ProducerSession
from penstock.client.transactions.markers import TransactionEnd, Witness
from penstock.client.transactions.steps import (
    EndResult,
    EndState,
    TransactionDescription,
    TransactionIdentity,
    TransactionListing,
    TransactionProtocol,
    TransactionState,
)
from penstock.errors import PenstockError, ProducerFencedError, RequestTimeoutError
from penstock.sink.exactly_once._log_records import LogRecord
from penstock.sink.exactly_once.committable import TargetTopic
from penstock.testing import Clock, Rights
from penstock.testing.fake._coordinator import ONGOING
from penstock.testing.fake._log import PartitionLog
from penstock.testing.fake._state import Partition, State, Topic
from penstock.types import TopicPartition

TARGET = TopicPartition("target", 0)


@dataclass
class Written:
    """What the open transaction of an id has written."""

    values: list[tuple[int, str]] = field(default_factory=list)
    log_records: tuple[KeyValue, ...] = ()


class _Markers(PartitionLog):
    """The log of one transactional id: it hands on the ends of transactions."""

    def __init__(self, note: Callable[[bool], None]) -> None:
        super().__init__()
        self._note = note

    def end_transaction(
        self, producer_id: int, producer_epoch: int, *, is_commit: bool, leader_epoch: int, now_ms: int
    ) -> None:
        self._note(is_commit)


class _State(State):
    """The state that the coordinator needs. Each transactional id has a topic partition of its own."""

    def __init__(self, note: Callable[[str, bool], None]) -> None:
        super().__init__(Clock(), Rights(), {}, transaction_version=2)
        self._note = note

    def partition(self, topic: str, index: int) -> Partition:
        return Partition(Topic(topic, {}), index, [1], 1, log=_Markers(partial(self._note, topic)))


class FakeCluster:
    """Transactions, one target topic partition, and one decision log."""

    def __init__(self, protocol: TransactionProtocol = TransactionProtocol.V2) -> None:
        self.current_protocol = protocol
        self._state = _State(self._ended)
        self._coordinator = self._state.transactions
        self.ids = self._coordinator.ids
        self.written: defaultdict[str, Written] = defaultdict(Written)
        self.committed: list[str] = []
        self.target_id: str | None = "first"
        self.is_target_there = True
        self.target_begins_at = 0
        self.ends: dict[int, TransactionEnd] = {}
        self.log: list[LogRecord] = []
        self.log_incarnation: str | None = None
        self.log_policy_problem: PenstockError | None = None
        self.next_offset = 0
        self.loses_answer: Callable[[str], bool] = lambda what: False
        self.is_witness_gone = False
        self.calls: list[str] = []
        self.begun: set[TransactionIdentity] = set()
        """Identities that have been written with."""
        self.waited_for: list[str] = []
        """The ids whose time-outs had to pass before the log could be read."""

    # ----- what tasks do

    def write(self, identity: TransactionIdentity, values: Iterable[str]) -> Witness:
        """Write into the transaction. Return the offset of the first record."""
        self._begin(identity)
        assert identity not in self.begun, "the broker would take the records for duplicates"
        self.begun.add(identity)
        first = self.next_offset
        for value in values:
            self.written[identity.transactional_id].values.append((self.next_offset, value))
            self.next_offset += 1
        return Witness(TARGET, first)

    def target(self) -> TargetTopic:
        """Return the current target topic."""
        return TargetTopic(TARGET.topic, self.target_id)

    def recreate_target(self) -> None:
        """Delete the target topic and create it again. Its records are gone."""
        self.target_id = f"{self.target_id}'"
        self.committed.clear()
        self.target_begins_at = self.next_offset
        for found in self.written.values():
            found.values.clear()

    def time_out(self, transactional_id: str, epochs: int = 1) -> None:
        """Abort the transaction as the broker does by itself, which raises the epoch."""
        found = self.ids[transactional_id]
        assert found.state == ONGOING
        with self._state.changed:
            self._coordinator.fence(found)
        found.epoch += epochs - 1

    def expire(self, transactional_id: str) -> None:
        """Let the coordinator forget the id."""
        del self.ids[transactional_id]
        self.written.pop(transactional_id, None)

    def open_ids(self) -> set[str]:
        return {name for name, found in self.ids.items() if found.state == ONGOING}

    # ----- SinkTransactions

    def protocol(self) -> TransactionProtocol:
        return self.current_protocol

    def max_timeout_ms(self) -> int | None:
        return 900_000

    def init_producer(
        self, transactional_id: str, *, transaction_timeout_ms: int, protocol: TransactionProtocol
    ) -> TransactionIdentity:
        self.calls.append(f"init {transactional_id}")
        with self._state.changed:
            outcome = self._coordinator.init(transactional_id, transaction_timeout_ms, -1, -1)
            if outcome.code == codes.CONCURRENT_TRANSACTIONS:  # it has just aborted the open transaction
                outcome = self._coordinator.init(transactional_id, transaction_timeout_ms, -1, -1)
        assert not outcome.code
        return self._identity(transactional_id)

    def end(
        self, identities: Collection[TransactionIdentity], *, is_commit: bool
    ) -> dict[TransactionIdentity, EndResult]:
        results = {}
        for each in identities:
            self.calls.append(f"end {each.transactional_id}")
            results[each] = self._end(each, is_commit=is_commit)
            if self.loses_answer(f"end {each.transactional_id}"):
                error = RequestTimeoutError("no answer")
                results[each] = EndResult(EndState.UNKNOWN, error=error)
        return results

    def describe(self, transactional_ids: Collection[str]) -> dict[str, TransactionDescription | None]:
        return {
            name: TransactionDescription(
                self._identity(name),
                TransactionState(self.ids[name].state),
                0,
                self.ids[name].timeout_ms,
                (TARGET,),
            )
            if name in self.ids
            else None
            for name in transactional_ids
        }

    def list_open(self, is_wanted: Callable[[str], bool]) -> list[TransactionListing]:
        return [
            TransactionListing(name, self.ids[name].producer_id, TransactionState.ONGOING)
            for name in sorted(self.open_ids())
            if is_wanted(name)
        ]

    def end_in_log(self, witness: Witness, identity: TransactionIdentity) -> TransactionEnd:
        if self.is_witness_gone or witness.offset < self.target_begins_at:
            return TransactionEnd.GONE
        return self.ends.get(witness.offset, TransactionEnd.OPEN)

    def topic_ids(self, topics: Collection[str]) -> dict[str, str | None]:
        self.calls.append("topic ids")
        return dict.fromkeys(topics, self.target_id) if self.is_target_there else {}

    # ----- LogStore

    @property
    def topic(self) -> str:
        return "decisions"

    def incarnation(self, *, is_expected: bool) -> str | None:
        return self.log_incarnation

    def create(self) -> None:
        self.log_incarnation = "made"

    def check_settings(self) -> None:
        if self.log_policy_problem is not None:
            raise self.log_policy_problem

    def stable_end(self, *, waits: bool) -> int:
        if waits:
            for name, found in list(self.written.items()):
                if found.log_records:  # its driver is dead: only the time-out ends it
                    self.waited_for.append(name)
                    self.time_out(name)
        return len(self.log)

    def read(self, first_offset: int, end_offset: int) -> list[LogRecord]:
        return self.log[first_offset:end_offset]

    def other(self, topic: str) -> FakeCluster:
        assert topic == self.topic
        return self

    def mentions(self, text: bytes) -> Iterator[tuple[str, bytes]]:
        self.calls.append("mentions")
        return ((self.topic, record.key) for record in self.log if record.key and text in record.key)

    def append(self, session: ProducerSession, *records: KeyValue) -> ProducerSession:
        self.calls.append("append")
        identity = session.identity
        self._check(identity)
        if not all(self.fits(key, value or b"") for key, value in records):
            raise PenstockError("MESSAGE_TOO_LARGE")
        self._begin(identity)
        self.written[identity.transactional_id].log_records = records
        if self.loses_answer("append before its end"):
            raise RequestTimeoutError("no answer to the write")
        result = self._end(identity, is_commit=True)
        if self.loses_answer("append"):
            raise RequestTimeoutError("no answer to the commit")
        assert result.next_identity is not None
        is_same = result.next_identity == identity
        return ProducerSession(result.next_identity, session.next_sequence + len(records) if is_same else 0)

    def fits(self, key: bytes, value: bytes) -> bool:
        return True

    def append_plainly(self, key: bytes, value: bytes | None) -> None:
        self.calls.append("append plainly")
        self.log.append(LogRecord(len(self.log), key, value))
        if self.loses_answer("append plainly"):
            raise RequestTimeoutError("no answer to the write")

    # ----- the coordinator

    def _identity(self, transactional_id: str) -> TransactionIdentity:
        found = self.ids[transactional_id]
        return TransactionIdentity(transactional_id, found.producer_id, found.epoch, self.current_protocol)

    def _check(self, identity: TransactionIdentity) -> None:
        found = self.ids.get(identity.transactional_id)
        producer = (identity.producer_id, identity.producer_epoch)
        if found is None or (found.producer_id, found.epoch) != producer:
            raise ProducerFencedError("fenced", transactional_id=identity.transactional_id)

    def _begin(self, identity: TransactionIdentity) -> None:
        """Add to the transaction of a producer, or begin one."""
        self._check(identity)
        name = identity.transactional_id
        producer = (identity.producer_id, identity.producer_epoch)
        with self._state.changed:
            assert not self._coordinator.add(name, *producer, {(name, 0)})

    def _end(self, identity: TransactionIdentity, *, is_commit: bool) -> EndResult:
        name, is_v2 = identity.transactional_id, identity.protocol is TransactionProtocol.V2
        producer = (identity.producer_id, identity.producer_epoch)
        with self._state.changed:
            outcome = self._coordinator.end(name, *producer, is_commit=is_commit, is_v2=is_v2)
        if outcome.code:
            return EndResult(_END_STATES[outcome.code], error=PenstockError(codes.NAMES[outcome.code]))
        return EndResult(EndState.DONE, self._identity(name))

    def _ended(self, name: str, is_commit: bool) -> None:
        if is_commit:
            self._commit(name)
        else:
            self._close(name, TransactionEnd.ABORTED)

    def _commit(self, name: str) -> None:
        found = self.written[name]
        self.committed += [value for _, value in found.values]
        self.log += [LogRecord(len(self.log) + at, *each) for at, each in enumerate(found.log_records)]
        self._close(name, TransactionEnd.COMMITTED)

    def _close(self, name: str, end: TransactionEnd) -> None:
        self.ends |= {offset: end for offset, _ in self.written[name].values}
        del self.written[name]


_END_STATES = {
    codes.PRODUCER_FENCED: EndState.FENCED,
    codes.INVALID_TXN_STATE: EndState.REFUSED,
    codes.INVALID_PRODUCER_ID_MAPPING: EndState.UNKNOWN_ID,
}
