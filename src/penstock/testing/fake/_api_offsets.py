"""Requests about the offsets of logs: ListOffsets, OffsetForLeaderEpoch, DeleteRecords, DescribeLogDirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.client.net import error_codes as codes
from penstock.testing.fake._partitions import leader_refusal, partition_of
from penstock.testing.fake._state import Call, Partition
from penstock.testing.fake._wire import Fields

_LATEST, _EARLIEST, _NEWEST_TIME, _EARLIEST_LOCAL = -1, -2, -3, -4
_DISK_BYTES = 1 << 40


def each_partition(
    call: Call,
    name: str,
    operation: str,
    answer: Callable[[Partition, Any], Fields],
    refused: Callable[[int], Fields],
) -> list[Fields]:
    """Answer for each topic partition of a request, or say why not.

    Args:
        call: a request with topics, which have partitions.
        name: of the field with the number of a topic partition, the same in request and response.
        operation: the right on the topic.
        answer: the fields of a topic partition.
        refused: the fields with an error code.
    """
    topics: list[Fields] = []
    for topic in call.body.topics:
        topic_name = getattr(topic, "name", None) or getattr(topic, "topic", None)
        answers = []
        for each in topic.partitions:
            index = getattr(each, name)
            found = partition_of(call, topic_name, None, index, operation)
            epoch = getattr(each, "current_leader_epoch", -1)
            code = found if isinstance(found, int) else leader_refusal(call, found, epoch)
            fields = refused(code) if code or isinstance(found, int) else answer(found, each)
            answers.append({name: index, **fields})
        topics.append({"topic" if "epoch" in call.api.lower() else "name": topic_name, "partitions": answers})
    return topics


def list_offsets(call: Call) -> Fields:
    """Return the first, last, newest offset, or that of a time, of each topic partition."""

    def answer(found: Partition, asked: Any) -> Fields:
        timestamp, offset = _offset(call, found, asked.timestamp)
        epoch = found.log.epoch_at(offset) if offset >= 0 else -1
        if asked.timestamp == _LATEST:
            epoch = found.leader_epoch
        return {"error_code": codes.NO_ERROR, "timestamp": timestamp, "offset": offset, "leader_epoch": epoch}

    return {"topics": each_partition(call, "partition_index", "DESCRIBE", answer, _code)}


def _offset(call: Call, found: Partition, timestamp: int) -> tuple[int, int]:
    log = found.log
    end = log.readable_end(read_committed=call.body.isolation_level == 1)
    if timestamp == _LATEST:
        return -1, end
    if timestamp in (_EARLIEST, _EARLIEST_LOCAL):
        return -1, log.start_offset
    wanted = log.newest(end) if timestamp == _NEWEST_TIME else log.first_at_or_after(timestamp, end)
    return wanted or (-1, -1)


def _code(code: int) -> Fields:
    return {"error_code": code}


def offset_for_leader_epoch(call: Call) -> Fields:
    """Return where leader epochs end."""

    def answer(found: Partition, asked: Any) -> Fields:
        epoch, end = found.log.end_of_epoch(asked.leader_epoch, found.leader_epoch)
        return {"error_code": codes.NO_ERROR, "leader_epoch": epoch, "end_offset": end}

    return {"topics": each_partition(call, "partition", "DESCRIBE", answer, _code)}


def delete_records(call: Call) -> Fields:
    """Delete the records below an offset of each topic partition; -1: all."""

    def answer(found: Partition, asked: Any) -> Fields:
        log = found.log
        offset = log.high_watermark if asked.offset == -1 else asked.offset
        if not 0 <= offset <= log.high_watermark:
            return refused(codes.OFFSET_OUT_OF_RANGE)
        log.delete_before(offset)
        return {"error_code": codes.NO_ERROR, "low_watermark": log.start_offset}

    def refused(code: int) -> Fields:
        return {"error_code": code, "low_watermark": -1}

    return {"topics": each_partition(call, "partition_index", "DELETE", answer, refused)}


def describe_log_dirs(call: Call) -> Fields:
    """Return the sizes of the logs that this broker has."""
    code = call.missing("DESCRIBE", "CLUSTER")
    asked = call.body.topics
    wanted = None if asked is None else {it.topic: set(it.partitions) for it in asked}
    topics: list[Fields] = []
    for name, topic in sorted(call.state.topics.items()):
        sizes = [
            {"partition_index": each.index, "partition_size": each.log.size_bytes, "offset_lag": 0}
            for each in topic.partitions
            if call.node_id in each.replicas and (wanted is None or each.index in wanted.get(name, ()))
        ]
        if sizes:
            topics.append({"name": name, "partitions": sizes})
    folder = {
        "error_code": codes.NO_ERROR, "log_dir": "/fake", "topics": topics,
        "total_bytes": _DISK_BYTES, "usable_bytes": _DISK_BYTES,
    }  # fmt: skip
    return {"error_code": code, "results": [] if code else [folder]}
