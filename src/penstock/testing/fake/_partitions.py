"""Find the topic partition that a request names, and check that this broker may serve it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from penstock.client.net import error_codes as codes
from penstock.testing.fake._state import Call, Partition

_ANY_REPLICA_SINCE = 11
_NO_EPOCH = -1


def partition_of(
    call: Call, name: str | None, topic_id: uuid.UUID | None, index: int, operation: str
) -> Partition | int:
    """Return a topic partition, or the code that says why the user of the connection does not get it."""
    topic = call.state.topic_of(name, topic_id)
    if isinstance(topic, int):
        # Kafka does not tell a stranger which names exist.
        refused = call.missing(operation, "TOPIC", name) if name and topic_id is None else call.refused_with
        return refused or topic
    if code := call.missing(operation, "TOPIC", topic.name):
        return code
    if not 0 <= index < len(topic.partitions):
        return codes.UNKNOWN_TOPIC_OR_PARTITION
    return topic.partitions[index]


def leader_refusal(
    call: Call, partition: Partition, known_epoch: int = _NO_EPOCH, *, may_follow: bool = False
) -> int:
    """Return the code by which this broker refuses a request about a topic partition; 0 if it serves it.

    Args:
        call: the request.
        partition: which one.
        known_epoch: the leader epoch that the client knows; -1 if it does not say.
        may_follow: whether another replica than the leader may answer.
    """
    if known_epoch not in (_NO_EPOCH, partition.leader_epoch):
        is_old = known_epoch < partition.leader_epoch
        return codes.FENCED_LEADER_EPOCH if is_old else codes.UNKNOWN_LEADER_EPOCH
    serves = {partition.leader_id, *(partition.replicas if may_follow else ())}
    return codes.NO_ERROR if call.node_id in serves else codes.NOT_LEADER_OR_FOLLOWER


def reads_from_replicas(call: Call) -> bool:
    """Return whether this version of Fetch may be sent to another replica than the leader (KIP-392)."""
    return call.version >= _ANY_REPLICA_SINCE


def node_endpoints(call: Call, leaders: Iterable[int]) -> dict[str, Any]:
    """Return the addresses of leaders that the response hints at."""
    nodes = [call.state.nodes[each] for each in sorted(leaders) if each in call.state.nodes]
    if not nodes:
        return {}
    return {
        "node_endpoints": [
            {"node_id": node.node_id, "host": node.host, "port": node.port, "rack": node.rack}
            for node in nodes
        ]
    }
