"""A cluster's transactions in memory: ids, epochs, time-outs, fencing, a decision log, and faults.

It behaves like Kafka's coordinator in everything that the sink's driver can see, with both protocols. It does
not replace the real broker (see tests/kafka), but it is fast enough to die at every place a thousand times.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

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
from penstock.types import TopicPartition

TARGET = TopicPartition("target", 0)


@dataclass
class _Id:
    producer_id: int
    epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    values: list[tuple[int, str]] = field(default_factory=list)
    log_records: tuple[KeyValue, ...] = ()


class FakeCluster:
    """Transactions, one target topic partition, and one decision log."""

    def __init__(self, protocol: TransactionProtocol = TransactionProtocol.V2) -> None:
        self.current_protocol = protocol
        self.ids: dict[str, _Id] = {}
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
        found = self._current(identity)
        assert identity not in self.begun, "the broker would take the records for duplicates"
        self.begun.add(identity)
        first = self.next_offset
        for value in values:
            found.values.append((self.next_offset, value))
            self.next_offset += 1
        found.state = TransactionState.ONGOING
        return Witness(TARGET, first)

    def target(self) -> TargetTopic:
        """Return the current target topic."""
        return TargetTopic(TARGET.topic, self.target_id)

    def recreate_target(self) -> None:
        """Delete the target topic and create it again. Its records are gone."""
        self.target_id = f"{self.target_id}'"
        self.committed.clear()
        self.target_begins_at = self.next_offset
        for found in self.ids.values():
            found.values.clear()

    def time_out(self, transactional_id: str, epochs: int = 1) -> None:
        """Abort the transaction as the broker does by itself, which raises the epoch."""
        found = self.ids[transactional_id]
        assert found.state is TransactionState.ONGOING
        self._abort(found)
        found.epoch += epochs

    def expire(self, transactional_id: str) -> None:
        """Let the coordinator forget the id."""
        del self.ids[transactional_id]

    def open_ids(self) -> set[str]:
        return {name for name, found in self.ids.items() if found.state is TransactionState.ONGOING}

    # ----- SinkTransactions

    def protocol(self) -> TransactionProtocol:
        return self.current_protocol

    def max_timeout_ms(self) -> int | None:
        return 900_000

    def init_producer(
        self, transactional_id: str, *, transaction_timeout_ms: int, protocol: TransactionProtocol
    ) -> TransactionIdentity:
        self.calls.append(f"init {transactional_id}")
        found = self.ids.get(transactional_id)
        if found is None:
            self.ids[transactional_id] = _Id(1000 + len(self.ids), 0, transaction_timeout_ms)
            return self._identity(transactional_id)
        if found.state is TransactionState.ONGOING:
            self._abort(found)
            found.epoch += 1
        found.epoch += 1
        found.state, found.timeout_ms = TransactionState.EMPTY, transaction_timeout_ms
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
                self._identity(name), self.ids[name].state, 0, self.ids[name].timeout_ms, (TARGET,)
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
            for name, found in self.ids.items():
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
        found = self._current(identity)
        if not all(self.fits(key, value or b"") for key, value in records):
            raise PenstockError("MESSAGE_TOO_LARGE")
        found.state, found.log_records = TransactionState.ONGOING, records
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

    def _current(self, identity: TransactionIdentity) -> _Id:
        found = self.ids.get(identity.transactional_id)
        if found is None or (found.producer_id, found.epoch) != (
            identity.producer_id,
            identity.producer_epoch,
        ):
            raise ProducerFencedError("fenced", transactional_id=identity.transactional_id)
        return found

    def _end(self, identity: TransactionIdentity, *, is_commit: bool) -> EndResult:
        found = self.ids.get(identity.transactional_id)
        done = TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
        completed = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
        is_v2 = identity.protocol is TransactionProtocol.V2
        if found is None or found.producer_id != identity.producer_id:
            return EndResult(EndState.UNKNOWN_ID, error=PenstockError("unknown id"))
        is_retry = found.state in completed and found.epoch == identity.producer_epoch + int(is_v2)
        if is_retry:
            if found.state is done:
                return EndResult(EndState.DONE, self._identity(identity.transactional_id))
            return EndResult(EndState.REFUSED, error=PenstockError("invalid state"))
        if found.epoch != identity.producer_epoch:
            return EndResult(EndState.FENCED, error=PenstockError("fenced"))
        if found.state is not TransactionState.ONGOING and (is_commit or not is_v2):
            return EndResult(EndState.REFUSED, error=PenstockError("invalid state"))
        if is_commit:
            self._commit(found)
        else:
            self._abort(found)
        if is_v2:
            found.epoch += 1
        return EndResult(EndState.DONE, self._identity(identity.transactional_id))

    def _commit(self, found: _Id) -> None:
        self.committed += [value for _, value in found.values]
        self._close(found, TransactionEnd.COMMITTED)
        self.log += [LogRecord(len(self.log) + at, *each) for at, each in enumerate(found.log_records)]
        found.log_records = ()
        found.state = TransactionState.COMPLETE_COMMIT

    def _abort(self, found: _Id) -> None:
        self._close(found, TransactionEnd.ABORTED)
        found.log_records = ()
        found.state = TransactionState.COMPLETE_ABORT

    def _close(self, found: _Id, end: TransactionEnd) -> None:
        self.ends |= {offset: end for offset, _ in found.values}
        found.values.clear()
