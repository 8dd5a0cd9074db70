"""Check on the driver what this user may do, before a task finds out.

Runs on the driver. Invariants: asks only, changes nothing; a broker that does not tell rights (before Kafka
2.3, or another service) is never a reason to stop.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from kafka.protocol.admin import DescribeGroupsRequest

from penstock.client.cluster.coordinators import ask_group_coordinator
from penstock.client.cluster.metadata import cluster_view
from penstock.client.net import versions
from penstock.client.net.broker_errors import error_from_code
from penstock.client.net.connection import KafkaConnections
from penstock.client.net.error_codes import TOPIC_AUTHORIZATION_FAILED
from penstock.errors import AuthorizationError, PenstockError


class Operation(IntEnum):
    """The operations of Kafka's ACLs, by Kafka's number."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DESCRIBE = 8
    DESCRIBE_CONFIGS = 10
    IDEMPOTENT_WRITE = 12


def denied(connections: KafkaConnections, operation: Operation, resource: str, effect: str) -> PenstockError:
    """Return the error for a missing right.

    Args:
        connections: tell the principal, if it is known.
        operation: what is not allowed.
        resource: e.g. "topic 'orders'".
        effect: what this means for the data, as a sentence.
    """
    principal = connections.settings.principal
    who = f"The Kafka user {principal}" if principal else "The Kafka user of this connection"
    return AuthorizationError(
        f"{who} does not have the right {operation.name} on {resource}. {effect} Grant {operation.name} on "
        f"{resource}, then start again. docs/rights.md lists what each operation needs.",
        operation=operation.name,
        resource=resource,
        principal=principal,
    )


def write_denied(connections: KafkaConnections, error: PenstockError) -> PenstockError:
    """Return the error about the missing right if records were refused for it; otherwise the same error."""
    topic = error.facts.get("topic")
    if error.facts.get("error_code") != TOPIC_AUTHORIZATION_FAILED or isinstance(error, AuthorizationError):
        return error
    return denied(connections, Operation.WRITE, f"topic {topic!r}", error.message)


def known_rights(operations: object) -> frozenset[int] | None:
    """Return the rights in a broker's answer; None if the answer says nothing about them.

    A user who gets the answer may describe the resource. So an answer without DESCRIBE says nothing.
    """
    if not isinstance(operations, (set, frozenset)) or Operation.DESCRIBE not in operations:
        return None
    return frozenset(operations)


def check_topics(
    connections: KafkaConnections,
    topics: Collection[str],
    operations: Sequence[Operation],
    effect: str,
    *,
    may_be_missing: bool = False,
    timeout_ms: int | None = None,
) -> None:
    """Check that this user has the rights on each topic; one request for all topics.

    `may_be_missing`: leave out topics that do not exist or whose state is unclear, and do not wait for them.

    Raises:
        UnknownTopicOrPartitionError: a topic does not exist.
        AuthorizationError: a right is missing, or a topic may not be described.
        BrokerUnavailableError: no broker answers in time.
    """
    if not topics:
        return
    view = cluster_view(connections)
    look_up = view.reload if may_be_missing else view.topics
    found = look_up(topics, with_rights=True, timeout_ms=timeout_ms)
    for name in sorted(found):
        if found[name].error_code == TOPIC_AUTHORIZATION_FAILED:
            raise denied(connections, operations[0], f"topic {name!r}", effect)
        rights = known_rights(found[name].authorized_operations)
        for operation in operations:
            if rights is not None and operation not in rights:
                raise denied(connections, operation, f"topic {name!r}", effect)


def check_group(
    connections: KafkaConnections, group_id: str, effect: str, *, timeout_ms: int | None = None
) -> None:
    """Check that this user may commit offsets to the consumer group (READ).

    Raises:
        AuthorizationError: the right is missing.
        ClientError: no coordinator answers in time.
    """
    rights = describe_group(connections, group_id, timeout_ms=timeout_ms).rights
    if rights is not None and Operation.READ not in rights:
        raise denied(connections, Operation.READ, f"consumer group {group_id!r}", effect)


class GroupDescription(NamedTuple):
    """A consumer group, which need not exist. `rights` None: the broker does not tell."""

    state: str
    member_count: int
    rights: frozenset[int] | None


def describe_group(
    connections: KafkaConnections, group_id: str, *, timeout_ms: int | None = None
) -> GroupDescription:
    """Describe a consumer group and the rights on it. A user without any right gets an empty description.

    Raises:
        ClientError: no coordinator answers in time.
    """

    def read(response: Any) -> GroupDescription:
        group = response.groups[0]
        if group.error_code:
            raise error_from_code(group.error_code, f"Describing the consumer group {group_id!r}")
        return GroupDescription(
            group.group_state, len(group.members), known_rights(group.authorized_operations)
        )

    def build() -> Any:
        return DescribeGroupsRequest(
            groups=[group_id], include_authorized_operations=True, **versions.DESCRIBE_GROUPS.bounds
        )

    what = "Describing"
    try:
        return ask_group_coordinator(connections, group_id, what, build, read, timeout_ms=timeout_ms)
    except AuthorizationError:
        return GroupDescription("", 0, frozenset())
