"""Fetch, as Kafka answers it without a fetch session: isolation levels, limits, waiting."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.client.net import error_codes as codes
from penstock.testing.fake._partitions import (
    leader_refusal,
    node_endpoints,
    partition_of,
    reads_from_replicas,
)
from penstock.testing.fake._state import Call, Partition
from penstock.testing.fake._wire import Fields

_NAMES_IDS = 13
_UNLIMITED = 1 << 31
_NO_EPOCH = -1
_UNKNOWN_EPOCH = {"epoch": -1, "end_offset": -1}


@dataclass
class _Reading:
    """What one look at the logs has brought."""

    bytes_left: int
    size: int = 0
    is_final: bool = False
    leaders: set[int] = field(default_factory=set)
    responses: list[Fields] = field(default_factory=list)


def fetch(call: Call) -> Fields:
    """Read from several topic partitions, and wait for `min_bytes` if there is less."""
    body, found = call.body, _Reading(0)

    def is_enough() -> bool:
        nonlocal found
        found = _read(call)
        return found.is_final or found.size >= body.min_bytes

    call.wait(is_enough, body.max_wait_ms)
    return {
        "error_code": codes.NO_ERROR,
        "session_id": 0,
        "responses": found.responses,
        **node_endpoints(call, found.leaders),
    }


def _read(call: Call) -> _Reading:
    """Read the topic partitions in the order of the request, until the response is full."""
    limit = call.body.max_bytes if call.version >= 3 else _UNLIMITED
    reading = _Reading(limit)
    for topic in call.body.topics:
        topic_id = topic.topic_id if call.version >= _NAMES_IDS else None
        answers = []
        for each in topic.partitions:
            found = partition_of(call, topic.topic, topic_id, each.partition, "READ")
            answer = _read_partition(call, found, each, reading)
            answers.append({"partition_index": each.partition, **answer})
        reading.responses.append({"topic": topic.topic, "topic_id": topic.topic_id, "partitions": answers})
    # A request for nothing is answered at once.
    reading.is_final = reading.is_final or not call.body.topics
    return reading


def _read_partition(call: Call, found: Partition | int, asked: Any, reading: _Reading) -> Fields:
    may_follow = reads_from_replicas(call)
    code = (
        found
        if isinstance(found, int)
        else leader_refusal(call, found, asked.current_leader_epoch, may_follow=may_follow)
    )
    if isinstance(found, int) or code:
        reading.is_final = True
        fields: dict[str, Any] = _fields(code)
        if not isinstance(found, int) and code in (codes.NOT_LEADER_OR_FOLLOWER, codes.FENCED_LEADER_EPOCH):
            reading.leaders.add(found.leader_id)
            fields["current_leader"] = {"leader_id": found.leader_id, "leader_epoch": found.leader_epoch}
        return fields
    log = found.log
    offsets = {
        "high_watermark": log.high_watermark,
        "last_stable_offset": log.last_stable_offset,
        "log_start_offset": log.start_offset,
    }
    diverging = _diverging(found, asked)
    is_lost = asked.fetch_offset < log.start_offset or diverging == _UNKNOWN_EPOCH
    if is_lost or (diverging is None and asked.fetch_offset > log.end_offset):
        reading.is_final = True
        return {**_fields(codes.OFFSET_OUT_OF_RANGE), "log_start_offset": log.start_offset}
    if diverging is not None:
        reading.is_final = True
        return {**_fields(codes.NO_ERROR), **offsets, "diverging_epoch": diverging}
    return {**_fields(codes.NO_ERROR), **offsets, **_records(call, found, asked, reading)}


def _records(call: Call, found: Partition, asked: Any, reading: _Reading) -> Fields:
    read_committed = call.body.isolation_level == 1
    end = found.log.readable_end(read_committed=read_committed)
    limit = min(asked.partition_max_bytes, reading.bytes_left)
    piece = found.log.read(asked.fetch_offset, end, limit, takes_first=not reading.size)
    reading.size += len(piece.data)
    reading.bytes_left -= len(piece.data)
    aborted = found.log.aborted_between(asked.fetch_offset, piece.next_offset) if read_committed else None
    return {
        "records": piece.data,
        "aborted_transactions": None
        if aborted is None
        else [{"producer_id": each.producer_id, "first_offset": each.first_offset} for each in aborted],
    }


def _diverging(found: Partition, asked: Any) -> Fields | None:
    """Return where the client's log and this one part, for a client that says its last epoch (KIP-320)."""
    epoch = asked.last_fetched_epoch
    if epoch == _NO_EPOCH:
        return None
    end_epoch, end_offset = found.log.end_of_epoch(epoch, found.leader_epoch)
    is_parted = end_epoch < epoch or end_offset < asked.fetch_offset
    return {"epoch": end_epoch, "end_offset": end_offset} if is_parted else None


def _fields(code: int) -> dict[str, Any]:
    return {
        "error_code": code, "high_watermark": -1, "last_stable_offset": -1, "log_start_offset": -1,
        "aborted_transactions": None, "preferred_read_replica": -1, "records": b"",
    }  # fmt: skip
