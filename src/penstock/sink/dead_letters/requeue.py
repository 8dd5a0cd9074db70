"""Put dead letters back into their topics, each record once, and remember which.

Runs on the machine of `penstock dead-letters`. Some records and a note about each of them are written in one
transaction. Invariants: a record is back if and only if there is a note of it. The transactional id is taken
before the notes are read, so no other command can commit a note that is not read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.client.cluster.rights import Operation, check_topics, denied
from penstock.client.net import error_codes as codes
from penstock.client.net.connection import KafkaConnections
from penstock.client.transactions.append import write_record_batch
from penstock.client.transactions.steps import (
    EndState,
    TransactionIdentity,
    TransactionProtocol,
    Transactions,
)
from penstock.codec import HEADERS_TYPE, RecordBatchBuilder, RecordColumns
from penstock.errors import AuthorizationError, OptionError, PenstockError, RowError, TransactionError
from penstock.sink.dead_letters.found import DeadLetter, Origin
from penstock.sink.dead_letters.notes import NOTES_SUFFIX, NotesTopic, encode_note, key_of_note
from penstock.sink.dead_letters.targets import Targets
from penstock.sink.exactly_once.decision import now_ms
from penstock.types import TopicPartition

REQUEUE_SUFFIX = "-requeue"
"""Of the transactional id."""
_TOGETHER = 200
"""How many records are put back in one transaction, at most."""
_TOGETHER_BYTES = 512 << 10
_TIMEOUT_MS = 60_000
_RECORD_BYTES_MAX = 16 << 20
_NOTHING = "Nothing more was put back."
_REPLACEMENT = "\ufffd"
_TIMESTAMP = pa.timestamp("us", tz="UTC")
_TOO_LARGE = frozenset((codes.MESSAGE_TOO_LARGE, codes.RECORD_LIST_TOO_LARGE))

Edit = Callable[[bytes], bytes]
"""Makes the new value of a record from the one of its dead letter."""


class Requeue:
    """Puts dead letters of one topic back.

    Args:
        connections: to the cluster.
        topic: of the dead letters.
        target: topic to put them into; None: that of each record, and the same partition.
        edit: makes the new value. A tombstone stays one.
        is_new_time: the records get the time at which they are written, not that of their first one.

    Raises:
        OptionError: the target is the topic of the dead letters, or that of the notes.
    """

    def __init__(
        self,
        connections: KafkaConnections,
        topic: str,
        target: str | None = None,
        edit: Edit | None = None,
        *,
        is_new_time: bool = False,
    ) -> None:
        if target in (topic, topic + NOTES_SUFFIX):
            raise OptionError(
                f"Expected another topic for --into, got {target!r}: it has the dead letters, or says which "
                "of them are back. Nothing was put back.",
                option="--into",
                value=target,
            )
        self._connections = connections
        self._target, self._edit, self._is_new_time = target, edit, is_new_time
        self._targets = Targets(connections, target, is_new_time=is_new_time)
        self._transactions = Transactions(connections)
        self._notes = NotesTopic(connections, topic + NOTES_SUFFIX)
        self._transactional_id = topic + REQUEUE_SUFFIX
        self._known: dict[Origin, str] = {}
        self._read_to = 0
        self.left_out: Counter[tuple[str, str]] = Counter()
        """How many dead letters `run` left out, because of the record in the first topic. They were for the
        second one."""

    def known(self) -> dict[Origin, str]:
        """Return what is back already, and in which topic. Changes nothing.

        Raises:
            AuthorizationError: this user may not read the notes.
            DecisionLogError: the notes cannot be read.
        """
        effect = "It is unknown which dead letters are back. Nothing was put back."
        check_topics(self._connections, [self._notes.topic], [Operation.READ], effect, may_be_missing=True)
        if self._notes.incarnation(is_expected=False) is not None:
            self._read_notes(waits=False)
        return dict(self._known)

    def run(self, letters: Iterable[DeadLetter]) -> Iterator[DeadLetter]:
        """Put dead letters back, and yield each that is back now. Those that are back already are left out.

        After an error, or if the process dies, run it again: it goes on where it has stopped.

        Raises:
            DecisionLogError: the notes are gone or cannot be read. Nothing more is put back.
            UnknownTopicOrPartitionError: a target topic does not exist.
            RowError: a record cannot be kept as it is, is too old for its topic, or its edit failed.
            ProducerFencedError: somebody else puts dead letters of this topic back.
            PenstockError: Kafka has refused something. The transaction may be committed or not.
        """
        self._open_notes()
        protocol = self._transactions.protocol()
        for some in _together(letters):
            waiting = [some]
            while waiting:
                next_ones = waiting.pop()
                try:
                    yield from self._put_back(next_ones, protocol)
                except PenstockError as error:
                    if error.facts.get("error_code") not in _TOO_LARGE or len(next_ones) == 1:
                        raise
                    # The topic takes less than this in one record batch.
                    middle = len(next_ones) // 2
                    waiting += [next_ones[middle:], next_ones[:middle]]

    def wanted(self, letter: DeadLetter) -> str:
        """Return the topic for a dead letter."""
        return self._target or letter.origin.topic

    def place(self, letter: DeadLetter) -> TopicPartition:
        """Return the topic partition into which a dead letter goes; raises as `run` does."""
        return self._targets.place(letter)

    def edited(self, letter: DeadLetter) -> bytes | None:
        """Return the value that is put back for a dead letter.

        Raises:
            RowError: the edit fails, or does not return bytes.
        """
        if self._edit is None or letter.value is None:
            return letter.value
        try:
            value: object = self._edit(letter.value)
        except Exception as error:  # the user's own code
            raise self._row_error(
                letter, f"The edit of {letter} failed: {type(error).__name__}: {error}. {_NOTHING}"
            ) from error
        if not isinstance(value, bytes):
            # None too: a function that forgets its `return` would delete rows.
            raise self._row_error(
                letter, f"Expected bytes from the edit of {letter}, got {type(value).__name__}. {_NOTHING}"
            )
        return value

    def _row_error(self, letter: DeadLetter, text: str) -> RowError:
        return RowError(text, **letter.place._asdict(), offset=letter.offset)

    # ----- notes

    def _open_notes(self) -> None:
        if self._notes.incarnation(is_expected=False) is None:
            if self._is_id_known():
                raise self._notes.lost()
            self._notes.create()
        self._notes.check_rights()
        self._notes.check_settings()

    def _is_id_known(self) -> bool:
        name = self._transactional_id
        try:
            return self._transactions.describe([name])[name] is not None
        except AuthorizationError as error:
            # The right to write includes that to describe, and is needed in any case.
            resource = f"the transactional id {name!r}"
            raise denied(self._connections, Operation.WRITE, resource, "Nothing was put back.") from error

    def _read_notes(self, *, waits: bool) -> None:
        found, self._read_to = self._notes.known_from(self._read_to, waits=waits)
        self._known.update(found)

    # ----- writing

    def _put_back(self, some: Sequence[DeadLetter], protocol: TransactionProtocol) -> list[DeadLetter]:
        """Put those back that are not back yet, in one transaction, and return them."""
        identity = self._transactions.init_producer(
            self._transactional_id, transaction_timeout_ms=_TIMEOUT_MS, protocol=protocol
        )
        self._read_notes(waits=True)
        new = list({each.origin: each for each in some if each.origin not in self._known}.values())
        known = [(self._known[each.origin], self.wanted(each)) for each in some if each.origin in self._known]
        if new:
            self._write(identity, new)
        self.left_out.update(known)
        return new

    def _write(self, identity: TransactionIdentity, letters: Sequence[DeadLetter]) -> None:
        """Write records and notes in one transaction, and commit it."""
        by_place: dict[TopicPartition, list[DeadLetter]] = {}
        for each in letters:
            by_place.setdefault(self.place(each), []).append(each)
        notes = TopicPartition(self._notes.topic, 0)
        data = {at: _record_batch(identity, at, self._rows(some)) for at, some in by_place.items()}
        data[notes] = _record_batch(identity, notes, _note_rows(by_place))
        try:
            self._transactions.add_topic_partitions(identity, list(data))
            timeout_ms = self._connections.settings.default_api_timeout_ms
            for at, records in data.items():
                write_record_batch(self._connections, identity, at, records, timeout_ms=timeout_ms)
        except PenstockError:
            # So that readers need not wait for the time-out. If it fails, the next run aborts it.
            self._transactions.end([identity], is_commit=False)
            raise
        result = self._transactions.end([identity], is_commit=True)[identity]
        if result.state is not EndState.DONE:
            raise result.error or TransactionError(f"Committing {identity} failed. Run the command again.")
        self._known.update((each.origin, self.wanted(each)) for each in letters)

    def _rows(self, letters: Sequence[DeadLetter]) -> pa.RecordBatch:
        headers = [[{"key": name, "value": value} for name, value in each.headers] for each in letters]
        for each in letters:
            if any(_REPLACEMENT in name for name, _ in each.headers):
                raise self._row_error(
                    each,
                    f"A header of {each} has a name that is not UTF-8, which would be changed. {_NOTHING} "
                    "Put it back with another program, and leave it out here, for example with --reason.",
                )
        columns: dict[str, Any] = {
            "key": pa.array([each.key for each in letters], pa.binary()),
            "value": pa.array([self.edited(each) for each in letters], pa.binary()),
            "headers": pa.array([each or None for each in headers], HEADERS_TYPE),
            "timestamp": pa.array([self._time_us(each) for each in letters], pa.int64()).cast(_TIMESTAMP),
        }
        return pa.record_batch(columns)

    def _time_us(self, letter: DeadLetter) -> int:
        # That of the record: a topic of dead letters may set times of its own.
        return 1000 * (now_ms() if self._is_new_time else letter.origin.timestamp_ms)


def _note_rows(by_place: Mapping[TopicPartition, Sequence[DeadLetter]]) -> pa.RecordBatch:
    pairs = [
        (key_of_note(each.origin), encode_note(each, at)) for at, some in by_place.items() for each in some
    ]
    keys, values = zip(*pairs, strict=True)
    return pa.record_batch({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})


def _together(letters: Iterable[DeadLetter]) -> Iterator[list[DeadLetter]]:
    """Yield as many dead letters as go into one transaction."""
    some, size = list[DeadLetter](), 0
    for each in letters:
        if some and (len(some) >= _TOGETHER or size + each.size_bytes > _TOGETHER_BYTES):
            yield some
            some, size = [], 0
        some.append(each)
        size += each.size_bytes
    if some:
        yield some


def _record_batch(identity: TransactionIdentity, at: TopicPartition, rows: pa.RecordBatch) -> bytes:
    builder = RecordBatchBuilder(*at, max_record_bytes=_RECORD_BYTES_MAX, is_transactional=True)
    indices = pa.array(range(rows.num_rows), pa.int32())
    # Each transaction has a new epoch, in which the sequence numbers begin at 0.
    if builder.append(RecordColumns(rows), indices, default_timestamp_ms=now_ms()) < rows.num_rows:
        raise RowError(f"The records for {at} do not fit into one batch. Nothing of them was put back.")
    return builder.build(
        producer_id=identity.producer_id, producer_epoch=identity.producer_epoch, base_sequence=0
    )
