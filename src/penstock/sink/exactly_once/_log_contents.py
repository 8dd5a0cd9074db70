"""Keep in memory what a decision log says about one prefix, as of the last read.

Runs on the driver. Pure. Of each key only the newest value counts, so only that one is kept. It is decoded
when it is needed. Invariant: a snapshot holds all that the log says before the offset `through`, so a reader
of the snapshot needs only the records from there on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from penstock.errors import DecisionLogError
from penstock.sink.exactly_once._log_records import (
    NO_QUERY,
    LogLocation,
    LogRecord,
    decode,
    decode_key,
    decode_moved,
    decode_moved_key,
    decode_snapshot,
    encode,
    encode_snapshot,
)
from penstock.sink.exactly_once.decision import Decision

K = TypeVar("K")
T = TypeVar("T")

_OWN = -1
"""Stands for the offset of a record that this process has written itself."""


class _Newest(NamedTuple):
    offset: int
    value: bytes


class LogContents:
    """The newest value of each key of one prefix."""

    def __init__(self, topic: str, prefix: str) -> None:
        self._topic = topic
        self._prefix = prefix
        self._newest: dict[str, _Newest] = {}
        self._decoded: dict[str, Decision] = {}
        self._moved: dict[tuple[str, str], _Newest] = {}
        self._in_snapshot: frozenset[str] = frozenset()
        self.through = 0
        """The newest snapshot holds what is before this offset; 0: there is no snapshot."""
        self.is_started = False

    def decisions(self) -> dict[str, Decision]:
        found = ((query_id, self.decision(query_id)) for query_id in self._newest)
        return {query_id: decision for query_id, decision in found if decision is not None}

    def decision(self, query_id: str) -> Decision | None:
        """Return the newest decision about a query; DecisionLogError if this version cannot read it."""
        newest = self._newest.get(query_id)
        if newest is None:
            return None
        if query_id not in self._decoded:
            self._decoded[query_id] = self._read(newest.offset, lambda: decode(query_id, newest.value))
        return self._decoded[query_id]

    def moved_to(self, query_id: str) -> list[LogLocation]:
        locations = [
            self._location(newest) for (moved, _), newest in self._moved.items() if moved == query_id
        ]
        return [location for location in locations if location is not None]

    def _location(self, marker: _Newest) -> LogLocation | None:
        return self._read(marker.offset, lambda: decode_moved(marker.value))

    def remember(self, query_id: str, decision: Decision | None) -> None:
        """Keep what this process has written itself; None: a tombstone."""
        self._newest.pop(query_id, None)
        self._decoded.pop(query_id, None)
        if decision is not None:
            self._newest[query_id] = _Newest(_OWN, b"")
            self._decoded[query_id] = decision

    def is_in_snapshot(self, query_id: str) -> bool:
        """Return whether the newest snapshot holds the query. Then only a record may replace it.

        Compaction removes tombstones after a while, and a snapshot would bring back what they removed.
        """
        return query_id in self._in_snapshot

    # ----- reading

    def apply(self, record: LogRecord) -> None:
        """Apply the next record; DecisionLogError if it is not a record of a decision log."""
        prefix, query_id = self._read(record.offset, lambda: decode_key(record.key))
        if prefix != self._prefix:
            moved = self._read(record.offset, lambda: decode_moved_key(self._prefix, record.key))
            if moved is not None:
                _take(self._moved, moved, record)
            return
        if query_id == NO_QUERY:
            self.is_started = True
            held = self._read(record.offset, lambda: decode_snapshot(record.value))
            if held is not None:  # what it says is known, because all records before it were read
                self.through, self._in_snapshot = held.through, frozenset(held.decisions)
            return
        self._decoded.pop(query_id, None)
        _take(self._newest, query_id, record)

    def take_snapshot(self, records: Sequence[LogRecord]) -> bool:
        """Begin with the newest snapshot of the prefix among these records; return whether there is one."""
        for record in reversed(records):
            key = self._read(record.offset, lambda: decode_key(record.key))  # noqa: B023 - called at once
            if key != (self._prefix, NO_QUERY):
                continue
            held = self._read(record.offset, lambda: decode_snapshot(record.value))  # noqa: B023
            if held is not None:
                self.through = held.through
                self._newest = {each: _Newest(record.offset, value) for each, value in held.decisions.items()}
                self._moved = {
                    (query_id, location.prefix): _Newest(record.offset, value)
                    for query_id, value in held.moved
                    if (location := decode_moved(value)) is not None
                }
                return True
        return False

    def _read(self, offset: int, decode_it: Callable[[], T]) -> T:
        try:
            return decode_it()
        except (KeyError, TypeError, ValueError) as error:
            raise DecisionLogError(
                f"Expected a decision that this version of penstock can read at offset {offset} of the "
                f"decision log {self._topic}, got another record ({error!r}). It is unknown which batches "
                "are written, so nothing was written. Use the version of penstock that wrote the record. If "
                "another program writes to this topic, choose another sink.commit-log.topic.",
                topic=self._topic,
                offset=offset,
            ) from error

    # ----- writing

    def snapshot(self, through: int) -> bytes:
        """Return the value of a snapshot of all that is known: what the log says before `through`."""
        kept = {query_id: encode(each) for query_id, each in self.decisions().items() if not each.is_over}
        markers = ((query_id, newest) for (query_id, _), newest in self._moved.items())
        moved = [
            (query_id, newest.value) for query_id, newest in markers if self._location(newest) is not None
        ]
        return encode_snapshot(through, kept, moved)


def _take(newest: dict[K, _Newest], key: K, record: LogRecord) -> None:
    if record.value is None:
        newest.pop(key, None)
    else:
        newest[key] = _Newest(record.offset, record.value)
