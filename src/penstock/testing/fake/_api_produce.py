"""Produce: checks of the leader, of batches and their producers, and of transactions."""

from __future__ import annotations

from typing import Any

from penstock.client.net import error_codes as codes
from penstock.codec import RecordBatchDecoder
from penstock.testing.fake import batches
from penstock.testing.fake._log import AppendResult
from penstock.testing.fake._partitions import leader_refusal, node_endpoints, partition_of
from penstock.testing.fake._state import Call, Partition
from penstock.testing.fake._wire import Fields
from penstock.testing.fake.batches import Batch

_NAMES_IDS = 13
_ADDS_PARTITIONS = 12
_KNOWS_ABORTABLE = 11
_RETRIED_AS_NOT_ENOUGH_REPLICAS = frozenset((codes.CONCURRENT_TRANSACTIONS, codes.NOT_COORDINATOR))


def produce(call: Call) -> Fields:
    """Write one record batch to each topic partition."""
    code = _refusal(call)
    leaders: set[int] = set()
    responses = []
    for topic in call.body.topic_data:
        topic_id = topic.topic_id if call.version >= _NAMES_IDS else None
        answers = []
        for each in topic.partition_data:
            found = partition_of(call, topic.name, topic_id, each.index, "WRITE")
            answers.append(
                {"index": each.index, **_write(call, found, bytes(each.records or b""), code, leaders)}
            )
        responses.append({"name": topic.name, "topic_id": topic.topic_id, "partition_responses": answers})
    call.state.changed.notify_all()
    return {"responses": responses, **node_endpoints(call, leaders)}


def _refusal(call: Call) -> int:
    """Return the code that refuses the whole request."""
    if call.body.acks not in (-1, 0, 1):
        return codes.INVALID_REQUIRED_ACKS
    if call.body.transactional_id is None:
        return call.refused_with
    return call.missing("WRITE", "TRANSACTIONAL_ID", call.body.transactional_id)


def _write(call: Call, found: Partition | int, data: bytes, code: int, leaders: set[int]) -> Fields:
    code = code or (found if isinstance(found, int) else leader_refusal(call, found))
    fields: dict[str, Any] = {"error_code": code, "base_offset": -1, "record_errors": []}
    if isinstance(found, int):
        return fields
    if code:
        if code == codes.NOT_LEADER_OR_FOLLOWER:
            leaders.add(found.leader_id)
            fields["current_leader"] = {"leader_id": found.leader_id, "leader_epoch": found.leader_epoch}
        return fields
    appended = _append(call, found, data)
    return {
        **fields,
        "error_code": appended.code,
        "base_offset": appended.base_offset,
        "log_append_time_ms": appended.append_time_ms,
        "log_start_offset": found.log.start_offset if not appended.code else -1,
    }


def _append(call: Call, partition: Partition, data: bytes) -> AppendResult:
    parsed = batches.parse(data)
    if parsed is None:
        return AppendResult(codes.CORRUPT_MESSAGE)
    if len(parsed) != 1 or parsed[0].is_control:
        return AppendResult(codes.INVALID_RECORD)
    (batch,) = parsed
    if len(data) > int(partition.topic.config("max.message.bytes")):
        return AppendResult(codes.MESSAGE_TOO_LARGE)
    if "compact" in partition.topic.config("cleanup.policy") and not _has_keys(batch):
        return AppendResult(codes.INVALID_RECORD)
    if code := _transaction_refusal(call, partition, batch):
        return AppendResult(code)
    stamps = partition.topic.config("message.timestamp.type") == "LogAppendTime"
    return partition.log.append(
        batch, leader_epoch=partition.leader_epoch, append_time_ms=call.state.now_ms if stamps else None
    )


def _has_keys(batch: Batch) -> bool:
    decoder = RecordBatchDecoder(
        "", 0, starting_offset=batch.base_offset, stopping_offset=batch.last_offset + 1, columns=["key"]
    )
    decoded = [*decoder.decode(batch.data), decoder.flush()]
    return all(rows.column("key").null_count == 0 for rows in decoded if rows is not None)


def _transaction_refusal(call: Call, partition: Partition, batch: Batch) -> int:
    """Verify that a batch belongs to its producer's open transaction, or add the topic partition to it."""
    if not batch.is_transactional:
        return codes.NO_ERROR
    name = call.body.transactional_id
    if name is None:
        return codes.INVALID_PRODUCER_ID_MAPPING
    log = partition.log
    known = log.producers.get(batch.producer_id)
    if known is not None and known.is_in_transaction(batch.producer_epoch):
        return codes.NO_ERROR
    transactions, producer = call.state.transactions, (batch.producer_id, batch.producer_epoch)
    topic_partition = (partition.topic.name, partition.index)
    if call.version >= _ADDS_PARTITIONS:
        code = transactions.add(name, *producer, {topic_partition})
        is_out_of_order = known is None and batch.base_sequence != 0
    else:
        code = transactions.verify(name, *producer, topic_partition)
        is_out_of_order = False
    if not code and is_out_of_order:
        return codes.OUT_OF_ORDER_SEQUENCE_NUMBER
    return _as_producers_know_it(code, call.version)


def _as_producers_know_it(code: int, version: int) -> int:
    if code == codes.PRODUCER_FENCED:
        return codes.INVALID_PRODUCER_EPOCH
    if code == codes.TRANSACTION_ABORTABLE and version < _KNOWS_ABORTABLE:
        return codes.INVALID_TXN_STATE
    if code in _RETRIED_AS_NOT_ENOUGH_REPLICAS and version < _ADDS_PARTITIONS:
        return codes.NOT_ENOUGH_REPLICAS
    return code
