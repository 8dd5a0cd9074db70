"""Requests of the member of a consumer group: join, sync, heartbeat, leave."""

from __future__ import annotations

from penstock.client.net import error_codes as codes
from penstock.testing.fake._groups import Group, Member
from penstock.testing.fake._state import Call
from penstock.testing.fake._wire import Fields

_GROUP = 0
_GIVES_IDS = 4
_MANY_MEMBERS = 3


def _refusal(call: Call) -> int:
    group_id = call.body.group_id
    return call.missing("READ", "GROUP", group_id) or call.not_coordinator(_GROUP, group_id)


def join_group(call: Call) -> Fields:
    """Make the caller the group's only member, in the next generation."""
    body = call.body
    if code := _refusal(call):
        return _not_joined(code)
    group = call.state.groups.of(body.group_id)
    member_id = body.member_id
    if not member_id:
        member_id = group.promise_id()
        if call.version >= _GIVES_IDS:
            return _not_joined(codes.MEMBER_ID_REQUIRED, member_id)
    protocol, now_ms = body.protocols[0], call.state.now_ms
    member = Member(
        member_id,
        body.protocol_type,
        protocol.name,
        bytes(protocol.metadata),
        body.session_timeout_ms,
        now_ms,
    )
    if code := group.join(member):
        return _not_joined(code, member_id)
    return {
        "error_code": codes.NO_ERROR,
        "generation_id": group.generation,
        "protocol_type": member.protocol_type,
        "protocol_name": member.protocol_name,
        "leader": member_id,
        "member_id": member_id,
        "members": [{"member_id": member_id, "metadata": member.metadata}],
    }


def _not_joined(code: int, member_id: str = "") -> Fields:
    return {"error_code": code, "protocol_name": "", "leader": "", "member_id": member_id, "members": []}


def sync_group(call: Call) -> Fields:
    """Take the assignment of the leader, which is the member itself."""
    body = call.body
    group = call.state.groups.of(body.group_id)
    code = _refusal(call) or group.refusal(body.member_id, body.generation_id)
    if code or group.member is None:
        return {"error_code": code, "assignment": b""}
    for each in body.assignments:
        if each.member_id == body.member_id:
            group.member.assignment = bytes(each.assignment)
    return {
        "error_code": codes.NO_ERROR,
        "protocol_type": group.member.protocol_type,
        "protocol_name": group.member.protocol_name,
        "assignment": group.member.assignment,
    }


def heartbeat(call: Call) -> Fields:
    """Note that the member lives."""
    body = call.body
    group = call.state.groups.of(body.group_id)
    code = _refusal(call) or group.refusal(body.member_id, body.generation_id)
    if not code and group.member is not None:
        group.member.beat_at_ms = call.state.now_ms
    return {"error_code": code}


def leave_group(call: Call) -> Fields:
    """Take the member out of the group."""
    body = call.body
    code = _refusal(call)
    group = call.state.groups.of(body.group_id)
    if call.version < _MANY_MEMBERS:
        return {"error_code": code or _leave(group, body.member_id)}
    members = [] if code else [(each.member_id, _leave(group, each.member_id)) for each in body.members]
    return {
        "error_code": code,
        "members": [{"member_id": member_id, "error_code": refused} for member_id, refused in members],
    }


def _leave(group: Group, member_id: str) -> int:
    if group.member is None or group.member.member_id != member_id:
        return codes.UNKNOWN_MEMBER_ID
    group.member, group.generation = None, group.generation + 1
    return codes.NO_ERROR
