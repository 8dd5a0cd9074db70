"""The records of the decision log: a key for each prefix and query, and a decision in the value.

Runs on the driver. Pure. One record for each (prefix, query); the newest one counts. Key and value are JSON:

    key    {"prefix": "app", "query_id": "6f7a..."}
    value  {"version": 1, "status": "decided", "batch_id": 41, "spark_partition_count": 4, "at_ms": ...,
            "record_count": 120000, "transactions": [{<committable>, "outcome": "pending"}, ...],
            "topics": [["orders", "7aa5..."]], "digest": "1:ab12..."}
    value  null: nothing is known about this query any more (batch writes, when finished)

Within version 1 fields are only added. A missing field means that nothing is known. 0.1.0 wrote the fields up
to "transactions". Later versions add:

    topics               names and ids of the topics written into; id null: the brokers gave no id
    digest               of all records of the batch, when it is finished (see `digest`)
    is_taken_as_written  true: finished by hand (see `Decision`)
    doubt                text: the difference between a replay and what is written
    sibling_count        under how many other prefixes foreachBatch had written the batch before; default 0
    ended                {"batch_id": 41, "reason": "shadow", "heir": <query id>, "checkpoint": <folder>}: the
                         query writes nothing more. The `batch_id` beside it is `NEVER_REACHED`, so that older
                         versions refuse the query, too
    begun                {"from": <query id>, "after": 41, "checkpoint": <folder>, "files": {<name>: <text>}}:
                         the query continues another one, and has decided no batch yet

One more record, with the empty query id, says that the prefix has used this log. Without it an empty log and
a lost log would look the same. From time to time it is written again, as a snapshot, so that a start reads
only the end of the log:

    value  {"version": 1, "status": "started", "at_ms": ...}
    value  {"version": 1, "status": "started", "at_ms": ..., "through": 4711,
            "decisions": {"6f7a...": {<what the log says of it before offset 4711>}},
            "moved": [["6f7a...", {<marker>}], ...]}

If a query moves to another prefix, that prefix leaves a marker (see `_elsewhere`). A prefix has no slash, so
version 0.1.0 takes the marker as a record of another prefix:

    key    {"prefix": "app/moved", "query_id": "moved:6f7a...", "to": "other"}
    value  {"version": 1, "status": "moved", "at_ms": ..., "prefix": "other", "topic": "other-decisions"}
    value  {"version": 1, "status": "back", "at_ms": ..., "prefix": "other", "topic": "other-decisions"}

The second value takes the first one back. It is not a tombstone, because compaction removes tombstones after
a while, and then a snapshot that holds the marker would bring it back.

Before its first decision about a query that its log does not know, a prefix leaves a trace, so that another
prefix of the query finds this one. Compaction removes the trace after a while:

    key    {"prefix": "app/first", "query_id": "6f7a..."}
    value  null

Invariant: what this version cannot read is an error, never a guess.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from penstock.sink.exactly_once.committable import Committable, TargetTopic
from penstock.sink.exactly_once.decision import (
    Begun,
    DecidedTransaction,
    Decision,
    DecisionStatus,
    Ended,
    EndReason,
    Outcome,
    now_ms,
)
from penstock.sink.exactly_once.digest import RecordDigest

VERSION = 1

NEVER_REACHED = 1 << 62
"""The batch of an ended query, to versions that do not know `ended`: a later batch is written already."""
NO_QUERY = ""
"""The query id in the key of the record that says that a prefix has used the log."""
_STARTED = "started"
_MOVED = "moved"
_BACK = "back"
_MOVED_PREFIX = "/moved"
_MOVED_QUERY = "moved:"
_FIRST_PREFIX = "/first"


class LogRecord(NamedTuple):
    """One record of the topic."""

    offset: int
    key: bytes | None
    value: bytes | None


def key_of(prefix: str, query_id: str) -> bytes:
    return json.dumps({"prefix": prefix, "query_id": query_id}, sort_keys=True).encode()


class LogLocation(NamedTuple):
    """Where the decision log of a prefix is: the prefix and the topic."""

    prefix: str
    topic: str


class Snapshot(NamedTuple):
    """All that the log says about a prefix before the offset `through`: values by query id."""

    through: int
    decisions: dict[str, bytes]
    moved: list[tuple[str, bytes]]


def encode_started() -> bytes:
    """Return the value that says that the prefix has used this log."""
    return json.dumps({"version": VERSION, "status": _STARTED, "at_ms": now_ms()}).encode()


def encode_snapshot(
    through: int, decisions: Mapping[str, bytes], moved: Iterable[tuple[str, bytes]]
) -> bytes:
    stored = {
        "version": VERSION,
        "status": _STARTED,
        "at_ms": now_ms(),
        "through": through,
        "decisions": {query_id: json.loads(value) for query_id, value in decisions.items()},
        "moved": [[query_id, json.loads(value)] for query_id, value in moved],
    }
    return json.dumps(stored, separators=(",", ":")).encode()


def decode_snapshot(value: bytes | None) -> Snapshot | None:
    """Return the snapshot; None for a value that only says that the log is in use. Errors as `decode`."""
    stored = json.loads(value or b"{}")
    if "through" not in stored:
        return None
    _check_version(stored)
    decisions = {str(query_id): json.dumps(each).encode() for query_id, each in stored["decisions"].items()}
    moved = [(str(query_id), json.dumps(marker).encode()) for query_id, marker in stored["moved"]]
    return Snapshot(int(stored["through"]), decisions, moved)


def moved_key_of(prefix: str, query_id: str, to_prefix: str) -> bytes:
    """Return the key of the marker that a query has left the prefix for another."""
    stored = {"prefix": prefix + _MOVED_PREFIX, "query_id": _MOVED_QUERY + query_id, "to": to_prefix}
    return json.dumps(stored, sort_keys=True).encode()


def first_key_of(prefix: str, query_id: str) -> bytes:
    """Return the key of the trace that a prefix leaves before its first decision about a query."""
    return key_of(prefix + _FIRST_PREFIX, query_id)


def prefix_of_key(prefix: str) -> str:
    """Return the prefix that a key is about, also for the key of a trace."""
    return prefix.removesuffix(_FIRST_PREFIX)


def encode_moved(location: LogLocation) -> bytes:
    """Return the value of a marker: the location to which the query has moved."""
    stored = {"version": VERSION, "status": _MOVED, "at_ms": now_ms(), **location._asdict()}
    return json.dumps(stored).encode()


def encode_back(location: LogLocation) -> bytes:
    """Return the value that takes a marker back: the query has come back from this location."""
    return json.dumps({"version": VERSION, "status": _BACK, "at_ms": now_ms(), **location._asdict()}).encode()


def decode_moved(value: bytes | None) -> LogLocation | None:
    """Return where the query has moved; None where it has come back. Errors as `decode`."""
    if value is None:
        return None
    stored = json.loads(value)
    _check_version(stored)
    return None if stored["status"] == _BACK else LogLocation(str(stored["prefix"]), str(stored["topic"]))


def decode_moved_key(prefix: str, key: bytes | None) -> tuple[str, str] | None:
    """Return query id and new prefix of a marker in the log of `prefix`; None for another key."""
    key_prefix, query_id = decode_key(key)
    if key_prefix != prefix + _MOVED_PREFIX:
        return None
    return query_id.removeprefix(_MOVED_QUERY), str(json.loads(key or b"")["to"])


def decode_key(key: bytes | None) -> tuple[str, str]:
    """Return prefix and query id; KeyError, TypeError or ValueError if it is not the key of a decision."""
    stored = json.loads(key or b"")
    return str(stored["prefix"]), str(stored["query_id"])


def is_decision_key(key: bytes | None) -> bool:
    """Return whether a record of some topic belongs to a decision log."""
    try:
        decode_key(key)
    except (KeyError, TypeError, ValueError):
        return False
    return True


def encode(decision: Decision) -> bytes:
    """Return the value of a decision's record."""
    stored: dict[str, Any] = {
        "version": VERSION,
        "status": decision.status.value,
        "batch_id": decision.batch_id,
        "spark_partition_count": decision.spark_partition_count,
        "record_count": decision.record_count,
        "at_ms": decision.at_ms,
        "transactions": [
            {**each.committable.to_json(), "outcome": each.outcome.value} for each in decision.transactions
        ],
        "topics": decision.topics,
    }
    if decision.digest is not None:
        stored["digest"] = decision.digest
    if decision.is_taken_as_written:
        stored["is_taken_as_written"] = True
    if decision.doubt is not None:
        stored["doubt"] = decision.doubt
    if decision.sibling_count:
        stored["sibling_count"] = decision.sibling_count
    if decision.ended is not None:
        ended = decision.ended
        stored["batch_id"] = NEVER_REACHED
        stored["ended"] = {
            "batch_id": decision.batch_id,
            "reason": ended.reason.value,
            "heir": ended.heir,
            "checkpoint": ended.checkpoint,
        }
    if decision.begun is not None:
        begun = decision.begun
        stored["begun"] = {
            "from": begun.from_query_id,
            "after": begun.after,
            "checkpoint": begun.checkpoint,
            "files": dict(begun.files),
        }
    return json.dumps(stored, separators=(",", ":")).encode()


def decode(query_id: str, value: bytes) -> Decision:
    """Return the decision of a value; KeyError, TypeError or ValueError if this version cannot read it."""
    stored: dict[str, Any] = json.loads(value)
    _check_version(stored)
    digest, ended, begun = stored.get("digest"), stored.get("ended"), stored.get("begun")
    return Decision(
        query_id=query_id,
        batch_id=stored["batch_id"] if ended is None else ended["batch_id"],
        status=DecisionStatus(stored["status"]),
        spark_partition_count=stored["spark_partition_count"],
        record_count=stored["record_count"],
        at_ms=stored["at_ms"],
        transactions=tuple(
            DecidedTransaction(Committable.from_json(each), Outcome(each["outcome"]))
            for each in stored["transactions"]
        ),
        digest=None if digest is None else str(RecordDigest.from_text(stored["record_count"], digest)),
        topics=tuple(TargetTopic(name, topic_id) for name, topic_id in stored.get("topics", ())),
        is_taken_as_written=stored.get("is_taken_as_written", False),
        doubt=stored.get("doubt"),
        sibling_count=stored.get("sibling_count", 0),
        ended=None
        if ended is None
        else Ended(EndReason(ended["reason"]), str(ended["heir"]), str(ended["checkpoint"])),
        begun=None if begun is None else _begun(begun),
    )


def _begun(stored: Mapping[str, Any]) -> Begun:
    files = {str(name): str(text) for name, text in stored["files"].items()}
    return Begun(str(stored["from"]), int(stored["after"]), str(stored["checkpoint"]), files)


def _check_version(stored: Mapping[str, Any]) -> None:
    if stored["version"] != VERSION:
        msg = f"version {stored['version']}, while this is version {VERSION}"
        raise ValueError(msg)
