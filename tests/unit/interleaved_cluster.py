"""Several drivers over one cluster in memory, which take turns at each call to Kafka.

Each driver is a thread, and only one of them runs at any time: it goes on until its next call to the cluster.
So a driver can stand still between any two calls, and be killed there. Invariant: which one runs is the
caller's choice alone, so that a history is repeated exactly. It stays beside the fake Kafka because
the threads of sockets would choose too. The rules of transactions are those of its coordinator.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Collection, Iterator

from penstock.client.transactions.append import KeyValue, ProducerSession
from penstock.client.transactions.markers import TransactionEnd, Witness
from penstock.client.transactions.steps import (
    EndResult,
    EndState,
    TransactionDescription,
    TransactionIdentity,
    TransactionListing,
    TransactionProtocol,
    has_moved_on,
)
from penstock.errors import PenstockError, ProducerFencedError, RequestTimeoutError
from penstock.sink.exactly_once._log_records import LogRecord
from tests.deaths import Death
from tests.unit.fake_transactions import FakeCluster


class Actor:
    """A thread that runs when it is told to."""

    def __init__(self, turns: Turns, name: str, body: Callable[[], None]) -> None:
        self.is_killed = self.is_done = False
        self.error: BaseException | None = None
        self.go = threading.Semaphore(0)
        self._turns, self._body = turns, body
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self.go.acquire()
        try:
            if not self.is_killed:
                self._body()
        except Death:
            pass
        except BaseException as error:  # noqa: BLE001  # told to the test, which runs on another thread
            self.error = error
        self.is_done = True
        self._turns.over.release()

    def join(self) -> None:
        self._thread.join()


class Turns:
    """Who runs now."""

    def __init__(self) -> None:
        self.actors: list[Actor] = []
        self.over = threading.Semaphore(0)
        self._current: Actor | None = None

    def spawn(self, name: str, body: Callable[[], None]) -> Actor:
        """Add an actor; it does nothing yet."""
        actor = Actor(self, name, body)
        self.actors.append(actor)
        return actor

    def run(self, actor: Actor) -> None:
        """Let it go on to its next call."""
        self._current = actor
        actor.go.release()
        self.over.acquire()
        self._current = None
        if actor.is_done:
            self.actors.remove(actor)
            actor.join()
            if actor.error is not None:
                raise actor.error

    def run_to_the_end(self, actor: Actor) -> None:
        """Let it go on until it is done."""
        while not actor.is_done:
            self.run(actor)

    def kill(self, actor: Actor) -> None:
        """It dies where it stands."""
        actor.is_killed = True
        self.run_to_the_end(actor)

    def kill_all(self) -> None:
        """End all threads."""
        for actor in list(self.actors):
            self.kill(actor)

    def pause(self) -> None:
        """Of the actor that runs: the turn of others."""
        actor = self._current
        if actor is None:
            return
        self.over.release()
        actor.go.acquire()
        if actor.is_killed:
            raise Death


class InterleavedCluster(FakeCluster):
    """A FakeCluster whose calls begin and end with a pause, and whose answers may get lost."""

    def __init__(self, protocol: TransactionProtocol, turns: Turns, chance: random.Random) -> None:
        super().__init__(protocol)
        self.turns = turns
        self.chance = chance
        self.is_calm = False

    def lose_answer(self) -> None:
        if not self.is_calm and self.chance.random() < 0.01:
            raise RequestTimeoutError("no answer")

    def compact(self) -> None:
        """Leave of each key the newest record, up to some offset."""
        newest = {record.key: record.offset for record in self.log}
        bound = self.chance.randint(0, len(self.log))
        for offset, record in enumerate(self.log[:bound]):
            if newest[record.key] != offset:
                self.log[offset] = record._replace(key=None)

    # ----- SinkTransactions

    def init_producer(
        self, transactional_id: str, *, transaction_timeout_ms: int, protocol: TransactionProtocol
    ) -> TransactionIdentity:
        # A task looks for a free id and takes it at once: in between it may abort what is decided, which is
        # told as a loss (docs/exactly-once.md) and not looked for here.
        if transactional_id.endswith("-committer"):
            self.turns.pause()
        found = super().init_producer(
            transactional_id, transaction_timeout_ms=transaction_timeout_ms, protocol=protocol
        )
        self.lose_answer()
        self.turns.pause()
        return found

    def end(
        self, identities: Collection[TransactionIdentity], *, is_commit: bool
    ) -> dict[TransactionIdentity, EndResult]:
        results: dict[TransactionIdentity, EndResult] = {}
        for each in identities:
            self.turns.pause()
            results |= super().end([each], is_commit=is_commit)
            if not self.is_calm and self.chance.random() < 0.02:
                results[each] = EndResult(EndState.UNKNOWN, error=RequestTimeoutError("no answer"))
        self.turns.pause()
        return results

    def describe(self, transactional_ids: Collection[str]) -> dict[str, TransactionDescription | None]:
        self.turns.pause()
        self.lose_answer()
        return super().describe(transactional_ids)

    def list_open(self, is_wanted: Callable[[str], bool]) -> list[TransactionListing]:
        self.turns.pause()
        self.lose_answer()
        return super().list_open(is_wanted)

    def end_in_log(self, witness: Witness, identity: TransactionIdentity) -> TransactionEnd:
        self.turns.pause()
        return super().end_in_log(witness, identity)

    def topic_ids(self, topics: Collection[str]) -> dict[str, str | None]:
        self.turns.pause()
        return super().topic_ids(topics)

    # ----- LogStore

    def incarnation(self, *, is_expected: bool) -> str | None:
        self.turns.pause()
        return super().incarnation(is_expected=is_expected)

    def stable_end(self, *, waits: bool) -> int:
        self.turns.pause()
        self.lose_answer()
        if waits:
            return super().stable_end(waits=True)
        written = [self._offset_of(name) for name, found in self.written.items() if found.log_records]
        return min(written, default=len(self.log))

    def read(self, first_offset: int, end_offset: int) -> list[LogRecord]:
        self.turns.pause()
        return [record for record in self.log[first_offset:end_offset] if record.key is not None]

    def mentions(self, text: bytes) -> Iterator[tuple[str, bytes]]:
        self.turns.pause()
        return super().mentions(text)

    def append(self, session: ProducerSession, *records: KeyValue) -> ProducerSession:
        """The records get their offsets now, and count when their transaction is committed."""
        self.turns.pause()
        identity = session.identity
        self._begin(identity)
        self.written[identity.transactional_id].log_records = records
        for _ in records:
            self.log.append(LogRecord(len(self.log), None, identity.transactional_id.encode()))
        self.lose_answer()
        self.turns.pause()
        result = self._end(identity, is_commit=True)
        if result.next_identity is None:
            raise self._append_error(identity, result)
        self.lose_answer()
        self.turns.pause()
        is_same = result.next_identity == identity
        return ProducerSession(result.next_identity, session.next_sequence + len(records) if is_same else 0)

    def append_plainly(self, key: bytes, value: bytes | None) -> None:
        self.turns.pause()
        super().append_plainly(key, value)
        self.lose_answer()
        self.turns.pause()

    def _append_error(self, identity: TransactionIdentity, result: EndResult) -> PenstockError:
        is_fenced = result.state is EndState.FENCED or (
            result.state is EndState.REFUSED and has_moved_on(super().describe, identity)
        )
        return ProducerFencedError("fenced") if is_fenced else result.error or PenstockError("refused")

    def _commit(self, name: str) -> None:
        records = self.written[name].log_records
        self.written[name].log_records = ()
        super()._commit(name)
        # `_offset_of` is the newest one that is not filled yet.
        for record in reversed(records):
            offset = self._offset_of(name)
            self.log[offset] = LogRecord(offset, *record)

    def _offset_of(self, transactional_id: str) -> int:
        """Of the newest record that its producer has written, and may not have committed."""
        name = transactional_id.encode()
        return max(at for at, record in enumerate(self.log) if record.key is None and record.value == name)
