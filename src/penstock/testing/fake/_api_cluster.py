"""Requests about the cluster: Metadata, DescribeCluster, FindCoordinator, DescribeQuorum."""

from __future__ import annotations

import uuid
from typing import Any

from penstock.client.net import error_codes as codes
from penstock.testing.fake._state import Call, Topic
from penstock.testing.fake._wire import Fields
from penstock.testing.fake.rights import CLUSTER_NAME

_NO_ID = uuid.UUID(int=0)
_COORDINATOR_KINDS = {0: "GROUP", 1: "TRANSACTIONAL_ID"}
_METADATA_LOG = "__cluster_metadata"


def metadata(call: Call) -> Fields:
    """Describe brokers and topics."""
    state, asked = call.state, call.body.topics
    if asked is None or (call.version == 0 and not asked):
        names = [name for name in sorted(state.topics) if call.may("DESCRIBE", "TOPIC", name)]
        topics = [_topic(call, state.topics[name]) for name in names]
    else:
        topics = [_asked_topic(call, each.name, each.topic_id) for each in asked]
    brokers = [
        {"node_id": node.node_id, "host": node.host, "port": node.port, "rack": node.rack}
        for node in state.live_nodes
    ]
    fields: dict[str, Any] = {
        "brokers": brokers, "cluster_id": state.cluster_id, "controller_id": brokers[0]["node_id"],
        "topics": topics,
    }  # fmt: skip
    if call.body.include_cluster_authorized_operations:
        fields["authorized_operations"] = state.rights.operations(call.user, "CLUSTER", CLUSTER_NAME)
    return fields


def _asked_topic(call: Call, name: str | None, topic_id: uuid.UUID | None) -> Fields:
    found = call.state.topic_of(name, topic_id if name is None else None)
    if isinstance(found, Topic):
        name = found.name
    if code := call.missing("DESCRIBE", "TOPIC", name or ""):
        return _no_topic(name, topic_id, code)
    if isinstance(found, Topic):
        return _topic(call, found)
    creates = call.version < 4 or call.body.allow_auto_topic_creation
    if name and creates and call.state.properties["auto.create.topics.enable"] == "true":
        return _topic(call, call.state.create_topic(name, int(call.state.properties["num.partitions"]), {}))
    return _no_topic(name, topic_id, found)


def _no_topic(name: str | None, topic_id: uuid.UUID | None, code: int) -> Fields:
    return {"error_code": code, "name": name, "topic_id": topic_id or _NO_ID, "partitions": []}


def _topic(call: Call, topic: Topic) -> Fields:
    state = call.state
    partitions = [
        {
            "error_code": codes.NO_ERROR if each.leader_id >= 0 else codes.LEADER_NOT_AVAILABLE,
            "partition_index": each.index,
            "leader_id": each.leader_id,
            "leader_epoch": each.leader_epoch,
            "replica_nodes": each.replicas,
            "isr_nodes": [node for node in each.replicas if node not in state.stopped],
            "offline_replicas": [node for node in each.replicas if node in state.stopped],
        }
        for each in topic.partitions
    ]
    fields: dict[str, Any] = {
        "error_code": codes.NO_ERROR, "name": topic.name, "topic_id": topic.topic_id,
        "is_internal": topic.is_internal, "partitions": partitions,
    }  # fmt: skip
    if call.body.include_topic_authorized_operations:
        fields["authorized_operations"] = state.rights.operations(call.user, "TOPIC", topic.name)
    return fields


def describe_cluster(call: Call) -> Fields:
    """Describe the brokers and the controller."""
    nodes = call.state.live_nodes
    fields: dict[str, Any] = {
        "error_code": call.refused_with,
        "cluster_id": call.state.cluster_id,
        "controller_id": nodes[0].node_id,
        "brokers": [
            {"broker_id": each.node_id, "host": each.host, "port": each.port, "rack": each.rack}
            for each in nodes
        ],
    }
    if call.body.include_cluster_authorized_operations:
        fields["authorized_operations"] = call.state.rights.operations(call.user, "CLUSTER", CLUSTER_NAME)
    return fields


def find_coordinator(call: Call) -> Fields:
    """Name the broker of each group or transactional id."""
    if call.version >= 4:
        return {
            "coordinators": [{"key": key, **_coordinator(call, key)} for key in call.body.coordinator_keys]
        }
    return _coordinator(call, call.body.key)


def _coordinator(call: Call, key: str) -> Fields:
    kind = call.body.key_type
    code = call.missing("DESCRIBE", _COORDINATOR_KINDS[kind], key)
    if code:
        return {"error_code": code, "node_id": -1, "host": "", "port": -1}
    node = call.state.nodes[call.state.coordinator_of(kind, key)]
    return {"error_code": codes.NO_ERROR, "node_id": node.node_id, "host": node.host, "port": node.port}


def describe_quorum(call: Call) -> Fields:
    """Describe the controllers: the first broker leads, and is caught up now."""
    code = call.missing("DESCRIBE", "CLUSTER")
    leader = call.state.live_nodes[0].node_id
    voter = {
        "replica_id": leader, "replica_directory_id": _NO_ID, "log_end_offset": 1,
        "last_fetch_timestamp": call.state.now_ms, "last_caught_up_timestamp": call.state.now_ms,
    }  # fmt: skip
    partition = {
        "partition_index": 0, "leader_id": leader, "leader_epoch": 1, "high_watermark": 1,
        "current_voters": [voter], "observers": [],
    }  # fmt: skip
    topics = [] if code else [{"topic_name": _METADATA_LOG, "partitions": [partition]}]
    return {"error_code": code, "topics": topics}
