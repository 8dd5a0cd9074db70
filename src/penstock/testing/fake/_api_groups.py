"""Requests about the offsets of consumer groups: commit, also in a transaction, fetch, describe."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.client.net import error_codes as codes
from penstock.testing.fake._groups import CommittedOffset, Group
from penstock.testing.fake._partitions import partition_of
from penstock.testing.fake._state import Call, Topic
from penstock.testing.fake._wire import Fields

_GROUP = 0
_NAMES_IDS = 10
_MANY_GROUPS = 8
_ADDS_GROUPS = 5
_NAMES_MEMBERS = 3
_GROUP_ID_NOT_FOUND_SINCE = 6


def _refusal(call: Call, group_id: str, operation: str) -> int:
    return call.missing(operation, "GROUP", group_id) or call.not_coordinator(_GROUP, group_id)


def offset_commit(call: Call) -> Fields:
    """Commit offsets, from outside of a group or as its member."""
    body = call.body
    code = _refusal(call, body.group_id, "READ")
    if not code:
        group = call.state.groups.of(body.group_id)
        generation = body.generation_id_or_member_epoch
        code = group.commit_refusal(body.member_id, generation, is_transactional=False)
    return {"topics": _commit(call, code, None)}


def txn_offset_commit(call: Call) -> Fields:
    """Commit offsets in a transaction. They count when it is committed."""
    body = call.body
    name = body.transactional_id
    code = call.missing("WRITE", "TRANSACTIONAL_ID", name) or _refusal(call, body.group_id, "READ")
    if not code:
        transactions = call.state.transactions
        if call.version >= _ADDS_GROUPS:
            code = transactions.add(name, body.producer_id, body.producer_epoch, set(), {body.group_id})
        else:
            code = transactions.verify_group(name, body.producer_id, body.producer_epoch, body.group_id)
    if code == codes.PRODUCER_FENCED:
        code = codes.INVALID_PRODUCER_EPOCH
    if not code and call.version >= _NAMES_MEMBERS:
        group = call.state.groups.of(body.group_id)
        code = group.commit_refusal(body.member_id, body.generation_id, is_transactional=True)
    return {"topics": _commit(call, code, body.producer_id)}


def _commit(call: Call, code: int, producer_id: int | None) -> list[Fields]:
    group = call.state.groups.of(call.body.group_id)
    target = group.offsets if producer_id is None or code else group.pending.setdefault(producer_id, {})
    order = group.next_order()
    has_ids = call.api == "OffsetCommit" and call.version >= _NAMES_IDS
    topics: list[Fields] = []
    for topic in call.body.topics:
        topic_id = topic.topic_id if has_ids else None
        answers = []
        for each in topic.partitions:
            found = partition_of(call, topic.name, topic_id, each.partition_index, "READ")
            refused = code or (found if isinstance(found, int) else codes.NO_ERROR)
            if not refused and not isinstance(found, int):
                target[found.topic.name, found.index] = CommittedOffset(
                    each.committed_offset, each.committed_leader_epoch, each.committed_metadata, order
                )
            answers.append({"partition_index": each.partition_index, "error_code": refused})
        ids = {"topic_id": topic.topic_id} if has_ids else {}
        topics.append({"name": topic.name, **ids, "partitions": answers})
    return topics


def offset_fetch(call: Call) -> Fields:
    """Return committed offsets."""
    body = call.body
    if call.version >= _MANY_GROUPS:
        return {"groups": [{"group_id": each.group_id, **_fetched(call, each)} for each in body.groups]}
    return _fetched(call, body)


def _fetched(call: Call, asked: Any) -> dict[str, Any]:
    code = _refusal(call, asked.group_id, "DESCRIBE")
    if code:
        return {"error_code": code, "topics": []}
    group = call.state.groups.by_id.get(asked.group_id, Group())
    if asked.topics is None:
        by_topic: dict[str, list[int]] = {}
        for topic, index in sorted(group.offsets):
            by_topic.setdefault(topic, []).append(index)
        topics = [_of_topic(call, group, name, indexes) for name, indexes in by_topic.items()]
    else:
        topics = [_asked_topic(call, group, each) for each in asked.topics]
    return {"error_code": codes.NO_ERROR, "topics": topics}


def _asked_topic(call: Call, group: Group, asked: Any) -> Fields:
    if call.version < _NAMES_IDS:
        return _of_topic(call, group, asked.name, asked.partition_indexes)
    found = call.state.topic_of(None, asked.topic_id)
    if isinstance(found, Topic):
        return {**_of_topic(call, group, found.name, asked.partition_indexes), "topic_id": asked.topic_id}
    answers = [_answer(index, CommittedOffset(-1), found) for index in asked.partition_indexes]
    return {"topic_id": asked.topic_id, "partitions": answers}


def _of_topic(call: Call, group: Group, name: str, indexes: Iterable[int]) -> Fields:
    answers = []
    for index in indexes:
        code = call.missing("DESCRIBE", "TOPIC", name)
        if not code and call.body.require_stable and group.is_unstable((name, index)):
            code = codes.UNSTABLE_OFFSET_COMMIT
        found = CommittedOffset(-1) if code else group.offsets.get((name, index), CommittedOffset(-1))
        answers.append(_answer(index, found, code))
    return {"name": name, "partitions": answers}


def _answer(index: int, found: CommittedOffset, code: int) -> Fields:
    return {
        "partition_index": index,
        "committed_offset": found.offset,
        "committed_leader_epoch": found.leader_epoch,
        "metadata": found.metadata,
        "error_code": code,
    }


def describe_groups(call: Call) -> Fields:
    """Describe groups, with the member that one may have."""
    return {"groups": [_described(call, group_id) for group_id in call.body.groups]}


def _described(call: Call, group_id: str) -> Fields:
    code = _refusal(call, group_id, "DESCRIBE")
    group = call.state.groups.by_id.get(group_id)
    if not code and group is None and call.version >= _GROUP_ID_NOT_FOUND_SINCE:
        code = codes.GROUP_ID_NOT_FOUND
    member = group.member if group is not None and not code else None
    fields: dict[str, Any] = {
        "error_code": code, "group_id": group_id, "group_state": "Dead" if group is None else "Empty",
        "protocol_type": "", "protocol_data": "", "members": [],
    }  # fmt: skip
    if member is not None:
        fields |= {
            "group_state": "Stable",
            "protocol_type": member.protocol_type,
            "protocol_data": member.protocol_name,
            "members": [
                {
                    "member_id": member.member_id, "client_id": "", "client_host": "",
                    "member_metadata": member.metadata, "member_assignment": member.assignment,
                }
            ],
        }  # fmt: skip
    if call.body.include_authorized_operations and not code:
        fields["authorized_operations"] = call.state.rights.operations(call.user, "GROUP", group_id)
    return fields
