"""Be the only member of a consumer group, whose generation then says which plan is the present one.

Runs on the driver; executors ask who the member is. Nothing is assigned through the group. It serves as a
lock with a number: each `renew` starts the next generation, and from then on the group's coordinator refuses
what is committed in the name of an older one. The assignment of the member is that number, so that it can be
read by describing the group.

Invariants: a `Membership` that `renew` returned was the group's only member when the coordinator answered;
every call ends within its time-out.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest

from penstock.client.cluster.coordinators import DID_NOTHING, ask_group_coordinator
from penstock.client.net import error_codes as codes
from penstock.client.net import versions
from penstock.client.net.broker_errors import error_from_code
from penstock.client.net.connection import KafkaConnections
from penstock.errors import ClientError, PenstockError

PROTOCOL_TYPE = "penstock"
"""A consumer of Kafka has the type "consumer", and cannot join a group that has a member of another type."""
_PROTOCOL_NAME = "plan"
_STABLE = "Stable"
_SESSION_TIMEOUT_MS = 30_000
_REBALANCE_TIMEOUT_MS = 5_000
_JOIN_ATTEMPTS = 5
_OVER = frozenset((codes.ILLEGAL_GENERATION, codes.UNKNOWN_MEMBER_ID, codes.REBALANCE_IN_PROGRESS))
_FORGOTTEN = _OVER | {codes.MEMBER_ID_REQUIRED}


@dataclass(frozen=True, slots=True)
class Membership:
    """A group, and a member of it in one generation. Without both: from outside of the group."""

    group_id: str
    member_id: str = ""
    generation: int = -1


def describe_request(group_id: str) -> Any:
    """Return the request whose response `read_member` reads. It goes to the group's coordinator."""
    return DescribeGroupsRequest(
        groups=[group_id], include_authorized_operations=False, **versions.DESCRIBE_GROUPS.bounds
    )


def read_member(group_id: str, response: Any) -> Membership | None:
    """Return the group's member and its generation; without a member `Membership(group_id)`.

    The generation of a member that is not an `OnlyMember` is -1. None: it is unknown now, because somebody is
    just joining.

    Raises:
        PenstockError: the broker does not say. It may not be the coordinator any more, or not yet.
    """
    group = response.groups[0]
    if group.error_code:
        raise error_from_code(
            group.error_code, f"Describing the consumer group {group_id!r}", group_id=group_id
        )
    if group.members and group.group_state != _STABLE:
        return None
    if not group.members:
        return Membership(group_id)
    number = bytes(group.members[0].member_assignment or b"")
    return Membership(group_id, group.members[0].member_id, int(number) if number.isdigit() else -1)


def present_member(
    connections: KafkaConnections, group_id: str, *, timeout_ms: int | None = None
) -> Membership | None:
    """Ask who is the group's member; see `read_member`.

    Raises:
        ClientError: no coordinator answers in time.
        AuthorizationError: the group may not be described.
    """
    return ask_group_coordinator(
        connections,
        group_id,
        "Describing",
        lambda: describe_request(group_id),
        lambda response: read_member(group_id, response),
        timeout_ms=timeout_ms,
    )


def has_only_member(connections: KafkaConnections, group_id: str, *, timeout_ms: int | None = None) -> bool:
    """Return whether the group has an `OnlyMember`, or had one that it has not dropped yet.

    Raises:
        ClientError: no coordinator answers in time.
        AuthorizationError: the group may not be described.
    """

    def read(response: Any) -> bool:
        read_member(group_id, response)  # raises if the broker does not say
        group = response.groups[0]
        return bool(group.members) and group.protocol_type == PROTOCOL_TYPE

    request = partial(describe_request, group_id)
    return ask_group_coordinator(connections, group_id, "Describing", request, read, timeout_ms=timeout_ms)


def membership_error(code: int, what: str, group_id: str) -> PenstockError:
    """Return the error for something that a coordinator refuses a member of its group."""
    error = error_from_code(code, what, group_id=group_id)
    if code not in _OVER:
        return error
    return ClientError(
        f"{error.message} This query is not the member of its consumer group any more: another query with "
        "the same group id has taken it over, or no heartbeat reached the coordinator in time. Its tasks "
        "commit nothing from now on. Give each query a group id of its own.",
        **error.facts,
    )


class OnlyMember:
    """Joins a group as its only member. Not thread-safe.

    Args:
        connections: to the cluster.
        group_id: the group.
        session_timeout_ms: without a heartbeat for this time, the coordinator ends the membership.
        rebalance_timeout_ms: how long the coordinator waits for this member when another one wants to join.
    """

    def __init__(
        self,
        connections: KafkaConnections,
        group_id: str,
        *,
        session_timeout_ms: int = _SESSION_TIMEOUT_MS,
        rebalance_timeout_ms: int = _REBALANCE_TIMEOUT_MS,
    ) -> None:
        self._connections = connections
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self.membership = Membership(group_id)

    def renew(self, *, timeout_ms: int | None = None) -> Membership:
        """Join the group, or start its next generation. Every older membership ends with this.

        Raises:
            ClientError: the group has other members, or its coordinator does not answer in time. Another call
                may succeed if the coordinator has forgotten this member between two of these requests.
            AuthorizationError: the group may not be read.
        """
        joined = self._join(timeout_ms)
        group_id, generation = self.membership.group_id, joined.generation_id
        self.membership = Membership(group_id, joined.member_id, generation)
        members = {each.member_id for each in joined.members}
        if joined.leader != joined.member_id or members != {joined.member_id}:
            self.leave(timeout_ms=timeout_ms)
            raise self._has_others()
        code = self._ask("Starting a generation", self._sync_request, timeout_ms).error_code
        if code:
            raise self._forgotten(code, "Starting a generation")
        return self.membership

    def heartbeat(self, *, timeout_ms: int | None = None) -> None:
        """Tell the coordinator that this member lives.

        Raises:
            ClientError: another member has taken the group over, the session has timed out, or no answer
                came in time.
        """
        code = self._ask("Sending a heartbeat", self._heartbeat_request, timeout_ms).error_code
        if code:
            raise self._error(code, "Sending a heartbeat")

    def leave(self, *, timeout_ms: int | None = None) -> None:
        """Leave the group, so that nothing is committed in this member's name any more."""
        self._ask("Leaving", self._leave_request, timeout_ms)
        self.membership = Membership(self.membership.group_id)

    # ----- requests

    def _join(self, timeout_ms: int | None) -> Any:
        before, code = self.membership, codes.NO_ERROR
        for _ in range(_JOIN_ATTEMPTS):
            joined = self._ask("Joining", self._join_request, timeout_ms)
            code = joined.error_code
            if not code:
                return joined
            if code not in (codes.MEMBER_ID_REQUIRED, codes.UNKNOWN_MEMBER_ID):
                break
            member_id = joined.member_id if code == codes.MEMBER_ID_REQUIRED else ""
            self.membership = Membership(self.membership.group_id, member_id)
        if code == codes.INCONSISTENT_GROUP_PROTOCOL:
            raise self._has_others()
        if not self.membership.member_id:
            self.membership = before  # by this id its driver finds out whether another query has taken over
        raise self._forgotten(code, "Joining")

    def _ask(self, what: str, build: Callable[[], Any], timeout_ms: int | None) -> Any:
        def read(response: Any) -> Any:
            if response.error_code in DID_NOTHING:
                raise self._error(response.error_code, what)
            return response

        group_id = self.membership.group_id
        return ask_group_coordinator(self._connections, group_id, what, build, read, timeout_ms=timeout_ms)

    def _join_request(self) -> Any:
        # A leader that joins again starts a new generation. The metadata differ, so a follower would, too.
        protocol = JoinGroupRequest.JoinGroupRequestProtocol
        return JoinGroupRequest(
            group_id=self.membership.group_id,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            member_id=self.membership.member_id,
            group_instance_id=None,
            protocol_type=PROTOCOL_TYPE,
            protocols=[protocol(name=_PROTOCOL_NAME, metadata=secrets.token_bytes(8))],
            reason="a new plan",
            **versions.JOIN_GROUP.bounds,
        )

    def _sync_request(self) -> Any:
        it = self.membership
        assignment = SyncGroupRequest.SyncGroupRequestAssignment
        return SyncGroupRequest(
            group_id=it.group_id,
            generation_id=it.generation,
            member_id=it.member_id,
            group_instance_id=None,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=_PROTOCOL_NAME,
            assignments=[assignment(member_id=it.member_id, assignment=b"%d" % it.generation)],
        )

    def _heartbeat_request(self) -> Any:
        it = self.membership
        return HeartbeatRequest(
            group_id=it.group_id,
            generation_id=it.generation,
            member_id=it.member_id,
            group_instance_id=None,
        )

    def _leave_request(self) -> Any:
        it = self.membership
        member = LeaveGroupRequest.MemberIdentity
        return LeaveGroupRequest(
            group_id=it.group_id,
            members=[member(member_id=it.member_id, group_instance_id=None, reason="the query stops")],
            **versions.LEAVE_GROUP.bounds,
        )

    # ----- errors

    def _forgotten(self, code: int, what: str) -> PenstockError:
        """Return the error of a request to join. A coordinator that moves or is slow forgets who joins."""
        error = self._error(code, what)
        if code not in _FORGOTTEN:
            return error
        return ClientError(error.message, **{**error.facts, "is_retriable": True})

    def _error(self, code: int, what: str) -> PenstockError:
        group_id = self.membership.group_id
        return membership_error(code, f"{what} in group {group_id!r}", group_id)

    def _has_others(self) -> PenstockError:
        group_id = self.membership.group_id
        return ClientError(
            f"Expected consumer group {group_id!r} to have no members, but it has some (consumers that "
            "subscribe with this group id). Nothing was read or written. Stop them, or use another group id "
            "for this query.",
            group_id=group_id,
        )
