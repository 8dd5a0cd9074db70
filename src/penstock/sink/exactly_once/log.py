"""The decision log: the batches that are written, in a compacted topic, with a copy in memory.

Runs on the driver. The copy is as of the last `catch_up`. `_log_records` defines the records, `_log_contents`
keeps what they say.

Invariants: from the moment its record is committed, a batch *is* written, whatever dies. Records of other
prefixes in the same topic are ignored. A record that this version cannot read is an error.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

from penstock.client.transactions.append import ProducerSession
from penstock.errors import DecisionLogError, OptionError
from penstock.sink.exactly_once._log_contents import LogContents
from penstock.sink.exactly_once._log_records import (
    NO_QUERY,
    LogLocation,
    LogRecord,
    decode_key,
    encode,
    encode_back,
    encode_moved,
    encode_started,
    first_key_of,
    key_of,
    moved_key_of,
    prefix_of_key,
)
from penstock.sink.exactly_once._log_store import LogStore
from penstock.sink.exactly_once.decision import Decision
from penstock.sink.exactly_once.receipt import (
    Receipt,
    decode_receipt,
    encode_receipt,
    is_receipt_key,
    key_of_receipt,
    key_of_taken,
    newest,
)

SNAPSHOT_EVERY_OFFSETS = 200
"""The distance between two snapshots in the log: about 50 batches."""
_SNAPSHOT_MAX_BYTES = 4 << 20
_WANTED_RECORD_BYTES = 8 << 20
"""max.message.bytes of a log that penstock creates."""
_RECORD_OVERHEAD_BYTES = 128
"""More than the frame of a second record in a batch takes. Random, so that it does not shrink."""
_FIRST_READ_OFFSETS = 256
_RECEIPTS_READ_OFFSETS = 5_000
"""How much of the log `receipts` holds in memory beside what it has decoded."""
_log = logging.getLogger(__name__)


class Trace(Enum):
    """The ways in which the log shows a decision that may have been committed."""

    FOUND = "it is committed"
    OVERTAKEN = "later records about its query, which may have taken its place"
    NONE = "nothing new about its query"


class DecisionLog:
    """The decisions of one prefix. Not for several threads."""

    def __init__(self, store: LogStore, prefix: str) -> None:
        self._store = store
        self._prefix = prefix
        self._incarnation: str | None = None
        self._next_offset = 0
        self._contents = LogContents(store.topic, prefix)
        self.looked_for: set[tuple[str, str]] = set()
        """Query ids and topics for which other logs were searched, see `_elsewhere`."""

    @property
    def topic(self) -> str:
        return self._store.topic

    @property
    def decisions(self) -> Mapping[str, Decision]:
        """Return the latest decision of each query id, as of the last `catch_up` or `append`."""
        return self._contents.decisions()

    @property
    def is_open(self) -> bool:
        return self._incarnation is not None

    @property
    def is_started(self) -> bool:
        """Return whether the prefix has used this log before, as of the last `catch_up`."""
        return self._contents.is_started

    def start(self) -> None:
        """Write that the prefix uses this log. Needs no session, because the prefix is not taken yet."""
        self._store.append_plainly(key_of(self._prefix, NO_QUERY), encode_started())
        self._contents.is_started = True

    def open(self, *, create: bool, is_expected: bool = False) -> bool:
        """Find or create the topic, and check that it never forgets a decision.

        Args:
            create: create it if it does not exist.
            is_expected: it existed a moment ago, in another process.

        Returns:
            True if there is a topic (always, with `create`).
        """
        incarnation = self._store.incarnation(is_expected=is_expected)
        if incarnation is None and create:
            self._store.create()
            incarnation = self._store.incarnation(is_expected=True)
        if incarnation is None:
            return False
        self._store.check_settings()
        self._incarnation = incarnation
        return True

    def check_same(self) -> None:
        """Raise DecisionLogError if the topic is no longer the one that was opened."""
        incarnation = self._store.incarnation(is_expected=True)
        if incarnation is None:
            raise self._lost("was deleted")
        if incarnation != self._incarnation:
            raise self._lost("was deleted and created again")

    def check_started(self) -> None:
        """Raise DecisionLogError if the prefix is taken and has not used this log, but another one."""
        if not self.is_started:
            raise self._lost("was deleted and created again")

    # ----- reading

    def catch_up(self, *, waits: bool = True) -> Mapping[str, Decision]:
        """Read what any process has decided since the last call.

        Args:
            waits: wait until the end of the log can be read. Without it decisions behind an open transaction
                may be missing. The transaction of a dead driver stays open until its prefix is taken.

        Raises:
            DecisionLogError: the topic was deleted or cut back since, or has records that are not decisions.
        """
        self._read_news(waits=waits)
        return self.decisions

    def _read_news(self, *, waits: bool) -> None:
        end_offset = self._stable_end(waits=waits)
        for record in self._new_records(end_offset):
            self._contents.apply(record)
        self._next_offset = end_offset

    def _new_records(self, end_offset: int) -> list[LogRecord]:
        """Return the records since the last `catch_up`; the first time those since the newest snapshot.

        It looks for the snapshot backwards, in longer and longer steps. A log of version 0.1.0 has none.
        Receipts are left out of each step at once, because they are the largest part of a log.
        """
        if self._next_offset:
            return self._without_receipts(self._next_offset, end_offset)
        contents, records = self._contents, list[LogRecord]()
        first, length, has_snapshot = end_offset, _FIRST_READ_OFFSETS, False
        while first > contents.through:
            before, first = first, max(contents.through, first - length)
            step = self._without_receipts(first, before)
            has_snapshot = has_snapshot or contents.take_snapshot(step)
            records, length = step + records, 4 * length
        return [record for record in records if record.offset >= contents.through]

    def _without_receipts(self, first_offset: int, end_offset: int) -> list[LogRecord]:
        read = self._store.read(first_offset, end_offset)
        return [record for record in read if not is_receipt_key(self._prefix, record.key)]

    def trace_of(self, decision: Decision) -> Trace:
        """Find a decision that may be committed in the log since the last `catch_up`; errors as there."""
        trace = self._trace(decision, waits=False)  # need not wait for a newer driver's transaction behind it
        return self._trace(decision, waits=True) if trace is Trace.NONE else trace

    def _trace(self, decision: Decision, *, waits: bool) -> Trace:
        key = key_of(self._prefix, decision.query_id)
        news = self._store.read(self._next_offset, self._stable_end(waits=waits))
        values = [record.value for record in news if record.key == key]
        if encode(decision) in values:
            return Trace.FOUND
        return Trace.OVERTAKEN if values else Trace.NONE

    def _stable_end(self, *, waits: bool) -> int:
        self.check_same()
        end_offset = self._store.stable_end(waits=waits)
        if end_offset < self._next_offset:
            raise self._lost(f"was cut back from offset {self._next_offset} to {end_offset}")
        return end_offset

    # ----- writing

    def append(
        self,
        session: ProducerSession,
        decision: Decision,
        came_back_from: Sequence[LogLocation] = (),
        receipt: Receipt | None = None,
        *,
        is_taken: bool = False,
    ) -> ProducerSession:
        """Write and commit one decision. Errors as `TransactionalAppender.append`.

        Args:
            session: of the mandate.
            decision: to write.
            came_back_from: locations whose markers in this log the decision takes back. They are taken back
                in the transaction of the decision: a driver that does not decide must not remove a marker,
                because another prefix may have decided since, and relies on it.
            receipt: of the decision. It is left out if the topic would refuse all of these together.
            is_taken: the receipt says that the batch was taken as written by hand.
        """
        query_id = decision.query_id
        is_gone = decision.is_over and not self._contents.is_in_snapshot(query_id)
        value = None if is_gone else encode(decision)
        back = [
            (moved_key_of(self._prefix, query_id, location.prefix), encode_back(location))
            for location in came_back_from
        ]
        key = key_of(self._prefix, query_id)
        others = [*back, (key, value or b"")]
        receipts = () if receipt is None else self._receipt(receipt, others, is_taken=is_taken)
        following = self._store.append(session, *back, *receipts, (key, value))
        for record in back:
            self._contents.apply(LogRecord(self._next_offset, *record))
        self._contents.remember(query_id, None if is_gone else decision)
        return following

    def _receipt(
        self, receipt: Receipt, others: Sequence[tuple[bytes, bytes]], *, is_taken: bool
    ) -> tuple[tuple[bytes, bytes], ...]:
        """Return the record of a receipt; none if it might not fit beside the others of its transaction."""
        key, value = key_of_receipt(self._prefix, self._next_offset), encode_receipt(receipt)
        if is_taken:
            key = key_of_taken(self._prefix, receipt.query_id, receipt.batch_id)
        beside = b"".join(part for other in others for part in other)
        frames = os.urandom(_RECORD_OVERHEAD_BYTES * len(others))
        if not self._store.fits(key, value + beside + frames):
            _log.warning(
                "prefix %s: the receipt of %s would have %d bytes, which is too large for the decision log "
                "%s, so the batch has none. Nothing is lost, but no list of receipts shows it. "
                "If the topic's max.message.bytes is below %d, raise it to that.",
                self._prefix,
                receipt.where,
                len(value),
                self.topic,
                _WANTED_RECORD_BYTES,
            )
            return ()
        return ((key, value),)

    def receipts(self) -> list[Receipt]:
        """Return the receipts that the log has, one of each batch, in order of time. Reads the whole log.

        Raises:
            DecisionLogError: a receipt cannot be read by this version; or errors as `catch_up`.
        """
        return newest(self._all_receipts(self._stable_end(waits=False)))

    def _all_receipts(self, end_offset: int) -> Iterator[Receipt]:
        """Yield the receipts before an offset, the oldest first, from one part of the log after the other."""
        for first in range(0, end_offset, _RECEIPTS_READ_OFFSETS):
            for record in self._store.read(first, min(first + _RECEIPTS_READ_OFFSETS, end_offset)):
                if record.value is not None and is_receipt_key(self._prefix, record.key):
                    yield self._decoded_receipt(record.offset, record.value)

    def _decoded_receipt(self, offset: int, value: bytes) -> Receipt:
        try:
            return decode_receipt(value)
        except (KeyError, TypeError, ValueError) as error:
            raise DecisionLogError(
                f"Expected a receipt that this version of penstock can read at offset {offset} of the "
                f"decision log {self.topic}, got another record ({error!r}). Nothing was changed, and "
                "queries are not affected. Use the version of penstock that wrote it.",
                topic=self.topic,
                offset=offset,
            ) from error

    def keep_short(self, session: ProducerSession) -> ProducerSession:
        """Write a snapshot if a start would have to read far back. Errors as `append`.

        A snapshot that the topic would refuse is left out. A start without it is slower, and as correct.
        """
        if self._next_offset - self._contents.through < SNAPSHOT_EVERY_OFFSETS:
            return session
        value = self._contents.snapshot(self._next_offset)
        key = key_of(self._prefix, NO_QUERY)
        if len(value) > _SNAPSHOT_MAX_BYTES or not self._store.fits(key, value):
            self._contents.through = self._next_offset  # tried again when the log has grown as much
            _log.warning(
                "prefix %s: a snapshot of the decision log %s would have %d bytes, which is too large for "
                "one record, so none was written. Nothing is lost, but a start has to read more of the log. "
                "If the topic's max.message.bytes is below %d, raise it to that.",
                self._prefix,
                self.topic,
                len(value),
                _WANTED_RECORD_BYTES,
            )
            return session
        following = self._store.append(session, (key, value))
        self._contents.apply(LogRecord(self._next_offset, key, value))
        return following

    # ----- other prefixes, see `_elsewhere`

    @property
    def location(self) -> LogLocation:
        return LogLocation(self._prefix, self.topic)

    def at(self, location: LogLocation) -> DecisionLog:
        """Return another prefix's log in the same cluster, to read it."""
        return DecisionLog(self._store.other(location.topic), location.prefix)

    def look(self) -> bool:
        """Read another prefix's log to its end; False when there is no topic. Errors as `catch_up`."""
        self._incarnation = self._store.incarnation(is_expected=True)
        if self._incarnation is None:
            return False
        self._read_news(waits=True)
        return True

    def locations_of(self, query_id: str) -> list[LogLocation]:
        """Return the prefixes whose logs mention the query, in the logs that this user may read.

        Raises:
            DecisionLogError: a log cannot be read now.
        """
        found = set()
        for topic, key in self._store.mentions(json.dumps(query_id).encode()):
            prefix, found_id = decode_key(key)
            if found_id == query_id:
                found.add(LogLocation(prefix_of_key(prefix), topic))
        return sorted(found)

    def decision(self, query_id: str) -> Decision | None:
        """Return the latest decision about one query, as of the last `catch_up` or `look`."""
        return self._contents.decision(query_id)

    def leave_trace(self, query_id: str) -> None:
        """Let `locations_of` find this prefix before it has decided anything about the query."""
        self._store.append_plainly(first_key_of(self._prefix, query_id), None)

    def hand_over(self, session: ProducerSession, ended: Decision, begun: Decision) -> None:
        """Write and commit that a query has ended and another one continues it, both or none.

        Raises:
            OptionError: the positions do not fit into one record. Nothing was written.
            PenstockError: as `append`.
        """
        pairs = [(key_of(self._prefix, each.query_id), encode(each)) for each in (ended, begun)]
        if not self._store.fits(pairs[0][0], b"".join(part for pair in pairs for part in pair)):
            raise OptionError(
                f"The positions of the query do not fit into one record of the decision log {self.topic} "
                "(max.message.bytes). Nothing was handed over. Raise max.message.bytes of this topic.",
                topic=self.topic,
            )
        self._store.append(session, *pairs)
        for each in (ended, begun):
            self._contents.remember(each.query_id, each)

    def refuse(self, ended: Decision) -> None:
        """Write that a new query may not write here. Fences no driver, and needs no session."""
        self._store.append_plainly(key_of(self._prefix, ended.query_id), encode(ended))

    def moved_to(self, query_id: str) -> list[LogLocation]:
        """Return the locations to which markers in this log say that the query has moved."""
        return self._contents.moved_to(query_id)

    def mark_moved(self, query_id: str, location: LogLocation) -> None:
        """Leave the marker in this log that the query has moved. Fences no driver. `append` takes it back."""
        key, value = moved_key_of(self._prefix, query_id, location.prefix), encode_moved(location)
        self._store.append_plainly(key, value)
        self._contents.apply(LogRecord(self._next_offset, key, value))

    def _lost(self, what: str) -> DecisionLogError:
        return DecisionLogError(
            f"The decision log {self.topic} of prefix {self._prefix} {what} while it was in use. It is "
            "unknown which batches are written, so nothing more is decided. Transactions decided before may "
            "be committed in part. Before you start again, compare the target with the source. Then start "
            "with another sink.transactional-id-prefix.",
            topic=self.topic,
            prefix=self._prefix,
        )
