"""The decision log: which batches are written, kept in a compacted topic and, as of a moment, in memory.

Runs on the driver. `decision_records` says what a record looks like.

Invariants: a batch whose record is committed *is* written, from then on, whatever dies; records of other
prefixes in the same topic are left alone; a record that this version cannot read stops everything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from penstock.client.transaction_append import ProducerSession
from penstock.errors import DecisionLogError
from penstock.sink.decision import Decision, DecisionStatus
from penstock.sink.decision_records import (
    NO_QUERY,
    LogRecord,
    decode,
    decode_key,
    encode,
    encode_started,
    key_of,
)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A decision about a query that was made under another prefix."""

    prefix: str
    topic: str
    decision: Decision

    def holds(self, batch_id: int) -> bool:
        """Whether this batch, or a later one, is written by it."""
        is_written = self.decision.status is not DecisionStatus.WITHDRAWN
        return is_written and self.decision.batch_id >= batch_id


class Trace(Enum):
    """What the log shows of a decision that may have been committed."""

    FOUND = "it is committed"
    OVERTAKEN = "later records about its query, which may have taken its place"
    NONE = "nothing new about its query"


class LogStore(Protocol):
    """The topic, as the log needs it; see `decision_log_topic`."""

    @property
    def topic(self) -> str:
        """Its name."""

    def incarnation(self, *, is_expected: bool) -> str | None:
        """What changes when the topic is deleted and made anew; None when there is no topic.

        With `is_expected` None is said only after looking twice.
        """

    def create(self) -> None:
        """Make the topic."""

    def check_settings(self) -> None:
        """Raise DecisionLogError when the topic may forget decisions."""

    def stable_end(self, *, waits: bool) -> int:
        """The offset up to which all transactions have ended; with `waits`, once that is the log's end."""

    def read(self, first_offset: int, end_offset: int) -> list[LogRecord]:
        """The committed records of the range."""

    def append(self, session: ProducerSession, key: bytes, value: bytes | None) -> ProducerSession:
        """Write and commit one record."""

    def append_plainly(self, key: bytes, value: bytes) -> None:
        """Write one record outside of any transaction."""

    def mentions(self, text: bytes) -> Iterator[tuple[str, LogRecord]]:
        """The records whose key contains the text, in this and all other decision logs, with their topic."""


class DecisionLog:
    """The decisions of one prefix. Not for several threads."""

    def __init__(self, store: LogStore, prefix: str) -> None:
        self._store = store
        self._prefix = prefix
        self._incarnation: str | None = None
        self._next_offset = 0
        self._decisions: dict[str, Decision] = {}
        self._is_started = False
        self._looked_up: set[str] = set()

    @property
    def topic(self) -> str:
        """Where the log is kept."""
        return self._store.topic

    @property
    def decisions(self) -> Mapping[str, Decision]:
        """The latest decision of each query id, as of the last `catch_up` or `append`."""
        return self._decisions

    @property
    def is_open(self) -> bool:
        """Whether the log was opened in this process."""
        return self._incarnation is not None

    @property
    def is_started(self) -> bool:
        """Whether the prefix has used this log before, as of the last `catch_up`."""
        return self._is_started

    def start(self) -> None:
        """Write down that the prefix uses this log. Needs no session: it comes before the prefix is taken."""
        self._store.append_plainly(key_of(self._prefix, NO_QUERY), encode_started())
        self._is_started = True

    def open(self, *, create: bool, is_expected: bool = False) -> bool:
        """Find or make the topic, and check that it keeps what it is told.

        Args:
            create: make it where there is none.
            is_expected: it was there a moment ago, in another process.

        Returns:
            Whether there is a topic (always, with `create`).
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
        """Raise DecisionLogError when the topic is not the one that was opened any more."""
        incarnation = self._store.incarnation(is_expected=True)
        if incarnation is None:
            raise self._lost("was deleted")
        if incarnation != self._incarnation:
            raise self._lost("was deleted and created again")

    def check_started(self) -> None:
        """Raise DecisionLogError when a prefix that is taken has not used this log: it has used another."""
        if not self._is_started:
            raise self._lost("was deleted and created again")

    def catch_up(self, *, waits: bool = True) -> Mapping[str, Decision]:
        """Read what was decided since the last time, in any process.

        Args:
            waits: until the end of the log can be read. Without it decisions behind an open transaction may
                be missing; a dead driver's stays open until its prefix is taken.

        Raises:
            DecisionLogError: the topic was deleted or cut back since, or holds what is no decision.
        """
        end_offset, records = self._news(waits=waits)
        for record in records:
            self._apply(record)
        self._next_offset = end_offset
        return self._decisions

    def trace_of(self, decision: Decision) -> Trace:
        """What the log has since the last `catch_up` of a decision that may be committed; errors as there."""
        trace = self._trace(decision, waits=False)  # a newer driver's, open behind it, is no matter
        return self._trace(decision, waits=True) if trace is Trace.NONE else trace

    def _trace(self, decision: Decision, *, waits: bool) -> Trace:
        key = key_of(self._prefix, decision.query_id)
        values = [record.value for record in self._news(waits=waits)[1] if record.key == key]
        if encode(decision) in values:
            return Trace.FOUND
        return Trace.OVERTAKEN if values else Trace.NONE

    def _news(self, *, waits: bool) -> tuple[int, list[LogRecord]]:
        """The end of what can be read, and the records up to there since the last `catch_up`."""
        self.check_same()
        end_offset = self._store.stable_end(waits=waits)
        if end_offset < self._next_offset:
            raise self._lost(f"was cut back from offset {self._next_offset} to {end_offset}")
        is_new = end_offset > self._next_offset
        return end_offset, self._store.read(self._next_offset, end_offset) if is_new else []

    def append(self, session: ProducerSession, decision: Decision) -> ProducerSession:
        """Write one decision; when this returns it is committed. Errors as `TransactionalAppender.append`."""
        # A batch write that is written whole, or not at all, is never asked about again.
        is_over = decision.is_batch_write and decision.status in (
            DecisionStatus.FINISHED,
            DecisionStatus.WITHDRAWN,
        )
        value = None if is_over else encode(decision)
        following = self._store.append(session, key_of(self._prefix, decision.query_id), value)
        self._remember(decision.query_id, None if is_over else decision)
        return following

    def written_elsewhere(self, query_id: str, batch_id: int) -> Elsewhere | None:
        """The decision about this batch of a query, or a later one, under a prefix that it had before.

        Looked for once for a query: while this process is at work, it has this prefix.
        """
        if query_id in self._looked_up:
            return None
        newest: dict[tuple[str, str], Elsewhere | None] = {}
        for topic, record in self._store.mentions(json.dumps(query_id).encode()):
            prefix, found_id = decode_key(record.key)
            if found_id == query_id and prefix != self._prefix:
                is_gone = record.value is None
                decision = None if is_gone else decode(query_id, record.value or b"")
                newest[topic, prefix] = None if decision is None else Elsewhere(prefix, topic, decision)
        self._looked_up.add(query_id)
        return next((each for each in newest.values() if each is not None and each.holds(batch_id)), None)

    def forget(self, session: ProducerSession, query_id: str) -> ProducerSession:
        """Remove what is known of a query; for `penstock transactions`, by a human's decision."""
        following = self._store.append(session, key_of(self._prefix, query_id), None)
        self._remember(query_id, None)
        return following

    def _remember(self, query_id: str, decision: Decision | None) -> None:
        if decision is None:
            self._decisions.pop(query_id, None)
        else:
            self._decisions[query_id] = decision

    def _apply(self, record: LogRecord) -> None:
        try:
            prefix, query_id = decode_key(record.key)
            if prefix != self._prefix:
                return
            if query_id == NO_QUERY:
                self._is_started = True
                return
            decision = None if record.value is None else decode(query_id, record.value)
        except (KeyError, TypeError, ValueError) as error:
            raise DecisionLogError(
                f"The record at offset {record.offset} of the decision log {self.topic} is not a decision "
                f"that this version of penstock can read ({error!r}). Which batches are written is unknown, "
                "so nothing was written. Use the version of penstock that wrote it, or, if something else "
                "writes to this topic, another sink.commit-log.topic.",
                topic=self.topic,
                offset=record.offset,
            ) from error
        self._remember(query_id, decision)

    def _lost(self, what: str) -> DecisionLogError:
        return DecisionLogError(
            f"The decision log {self.topic} of prefix {self._prefix} {what} while it was in use. Which "
            "batches are written is unknown, so nothing more is decided. Transactions decided before may be "
            "committed in part. Compare the target with the source before starting again, then start with "
            "another "
            "sink.transactional-id-prefix.",
            topic=self.topic,
            prefix=self._prefix,
        )
