"""Requests of transactions: take an id, add to its transaction, end it, describe and list."""

from __future__ import annotations

import re
from typing import Any

from penstock.client.net import error_codes as codes
from penstock.testing.fake._coordinator import Transaction
from penstock.testing.fake._partitions import leader_refusal, partition_of
from penstock.testing.fake._state import Call
from penstock.testing.fake._wire import Fields

_TRANSACTION = 1
_LAST_OF_CLIENTS = 3
_V2_SINCE = 5
_KNOWS_FENCED = {"InitProducerId": 4, "AddPartitionsToTxn": 2, "AddOffsetsToTxn": 2, "EndTxn": 2}
_STATES = {
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead",
    "PrepareEpochFence",
}  # fmt: skip


def _step_refusal(call: Call, name: str) -> int:
    return call.missing("WRITE", "TRANSACTIONAL_ID", name) or call.not_coordinator(_TRANSACTION, name)


def _told(call: Call, code: int) -> int:
    """Return the code as this version of the request knows it."""
    is_old = call.version < _KNOWS_FENCED[call.api]
    return codes.INVALID_PRODUCER_EPOCH if is_old and code == codes.PRODUCER_FENCED else code


def init_producer_id(call: Call) -> Fields:
    """Give an idempotent producer an id, or a transactional one the next epoch."""
    body, transactions = call.body, call.state.transactions
    name = body.transactional_id
    if name is None:
        if code := call.refused_with or _idempotent_refusal(call):
            return {"error_code": code, "producer_epoch": -1}
        return {
            "error_code": codes.NO_ERROR,
            "producer_id": transactions.new_producer_id(),
            "producer_epoch": 0,
        }
    code = codes.INVALID_REQUEST if not name else _step_refusal(call, name)
    if code:
        return {"error_code": code, "producer_epoch": -1}
    timeout_ms, producer_id, epoch = body.transaction_timeout_ms, body.producer_id, body.producer_epoch
    outcome = transactions.init(name, timeout_ms, producer_id, epoch)
    return {
        "error_code": _told(call, outcome.code),
        "producer_id": outcome.producer_id,
        "producer_epoch": outcome.producer_epoch,
    }


def _idempotent_refusal(call: Call) -> int:
    may = call.may("IDEMPOTENT_WRITE", "CLUSTER") or call.state.rights.allow_any(call.user, "WRITE", "TOPIC")
    return codes.NO_ERROR if may else codes.CLUSTER_AUTHORIZATION_FAILED


def add_partitions_to_txn(call: Call) -> Fields:
    """Add topic partitions to a transaction (V1)."""
    if call.version > _LAST_OF_CLIENTS:
        return {"error_code": codes.CLUSTER_AUTHORIZATION_FAILED}  # for brokers only
    body = call.body
    name = body.v3_and_below_transactional_id
    code = _step_refusal(call, name)
    found = {
        (topic.name, index): partition_of(call, topic.name, None, index, "WRITE")
        for topic in body.v3_and_below_topics
        for index in topic.partitions
    }
    told = {topic_partition: it for topic_partition, it in found.items() if isinstance(it, int)}
    if not code and not told:
        producer = (body.v3_and_below_producer_id, body.v3_and_below_producer_epoch)
        code = _told(call, call.state.transactions.add(name, *producer, set(found)))
    rest = code or (codes.OPERATION_NOT_ATTEMPTED if told else codes.NO_ERROR)
    results: dict[str, list[Fields]] = {}
    for (topic, index), it in found.items():
        refused = it if isinstance(it, int) and not code else rest
        results.setdefault(topic, []).append({"partition_index": index, "partition_error_code": refused})
    return {
        "results_by_topic_v3_and_below": [
            {"name": topic, "results_by_partition": answers} for topic, answers in results.items()
        ]
    }


def add_offsets_to_txn(call: Call) -> Fields:
    """Add the offsets of a consumer group to a transaction (V1)."""
    body = call.body
    name, group = body.transactional_id, body.group_id
    code = _step_refusal(call, name) or call.missing("READ", "GROUP", group)
    if not code:
        added = call.state.transactions.add(name, body.producer_id, body.producer_epoch, set(), {group})
        code = _told(call, added)
    return {"error_code": code}


def end_txn(call: Call) -> Fields:
    """Commit or abort a transaction."""
    body = call.body
    if code := _step_refusal(call, body.transactional_id):
        return {"error_code": code}
    outcome = call.state.transactions.end(
        body.transactional_id,
        body.producer_id,
        body.producer_epoch,
        is_commit=body.committed,
        is_v2=call.version >= _V2_SINCE,
    )
    return {
        "error_code": _told(call, outcome.code),
        "producer_id": outcome.producer_id,
        "producer_epoch": outcome.producer_epoch,
    }


def describe_transactions(call: Call) -> Fields:
    """Describe transactional ids."""
    return {"transaction_states": [_described(call, name) for name in call.body.transactional_ids]}


def _described(call: Call, name: str) -> Fields:
    found = call.state.transactions.ids.get(name)
    code = call.missing("DESCRIBE", "TRANSACTIONAL_ID", name) or call.not_coordinator(_TRANSACTION, name)
    if code or found is None:
        return {"error_code": code or codes.TRANSACTIONAL_ID_NOT_FOUND, "transactional_id": name}
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(found.partitions):
        if call.may("DESCRIBE", "TOPIC", topic):
            topics.setdefault(topic, []).append(index)
    return {
        "error_code": codes.NO_ERROR,
        "transactional_id": name,
        "transaction_state": found.state,
        "transaction_timeout_ms": found.timeout_ms,
        "transaction_start_time_ms": found.started_ms,
        "producer_id": found.producer_id,
        "producer_epoch": found.epoch,
        "topics": [{"topic": topic, "partitions": partitions} for topic, partitions in topics.items()],
    }


def list_transactions(call: Call) -> Fields:
    """List the transactional ids that this broker coordinates."""
    body = call.body
    wanted = set(body.state_filters)
    found = [
        {"transactional_id": each.name, "producer_id": each.producer_id, "transaction_state": each.state}
        for each in call.state.transactions.ids.values()
        if call.not_coordinator(_TRANSACTION, each.name) == 0 and _is_wanted(call, each, wanted)
    ]
    refused = call.refused_with
    return {
        "error_code": refused,
        "unknown_state_filters": sorted(wanted - _STATES),
        "transaction_states": [] if refused else found,
    }


def _is_wanted(call: Call, found: Transaction, states: set[str]) -> bool:
    body: Any = call.body
    age_ms = call.state.now_ms - found.started_ms
    return (
        call.may("DESCRIBE", "TRANSACTIONAL_ID", found.name)
        and (not states or found.state in states)
        and (not body.producer_id_filters or found.producer_id in body.producer_id_filters)
        and (
            not body.transactional_id_pattern
            or re.fullmatch(body.transactional_id_pattern, found.name) is not None
        )
        and (body.duration_filter < 0 or (found.started_ms >= 0 and age_ms > body.duration_filter))
    )


def describe_producers(call: Call) -> Fields:
    """Describe the producers that a leader remembers."""
    topics = []
    for topic in call.body.topics:
        answers = []
        for index in topic.partition_indexes:
            found = partition_of(call, topic.name, None, index, "READ")
            code = found if isinstance(found, int) else leader_refusal(call, found)
            producers = [] if isinstance(found, int) or code else found.log.producers.items()
            answers.append(
                {
                    "partition_index": index,
                    "error_code": code,
                    "active_producers": [
                        {
                            "producer_id": producer_id,
                            "producer_epoch": each.epoch,
                            "last_sequence": each.last_sequence,
                            "last_timestamp": each.last_timestamp_ms,
                            "coordinator_epoch": each.coordinator_epoch,
                            "current_txn_start_offset": -1
                            if each.transaction_start is None
                            else each.transaction_start,
                        }
                        for producer_id, each in producers
                    ],
                }
            )
        topics.append({"name": topic.name, "partitions": answers})
    return {"topics": topics}
