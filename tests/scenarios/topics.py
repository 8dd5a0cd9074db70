"""Scenarios of topics, their settings, the cluster's description, and consumer groups' offsets."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.admin import CreateTopicsRequest, DeleteTopicsRequest, DescribeClusterRequest

from penstock.client.cluster.log_offsets import commit_offsets, committed_offsets, describe_topics, log_sizes
from penstock.client.cluster.metadata import fetch_metadata
from penstock.client.cluster.rights import describe_group
from penstock.client.cluster.topics import NewTopic, create_topics, may_create
from penstock.client.net import error_codes as codes
from penstock.client.transactions.limits import broker_config, max_transaction_timeout_ms, topic_config
from penstock.errors import ClientError
from penstock.types import TopicPartition
from tests import judge
from tests.scenarios.cluster import Cluster, batch, scenario, unique


def create(cluster: Cluster, name: str, partitions: int = 1, replication: int = -1) -> int:
    kind = CreateTopicsRequest.CreatableTopic
    topic = kind(
        name=name, num_partitions=partitions, replication_factor=replication, assignments=[], configs=[]
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=False)
    return int(cluster.ask(request).topics[0].error_code)


@scenario
def topics_are_created_once_and_with_sense(cluster: Cluster) -> None:
    name = unique("made")
    create_topics(cluster.connections, {name: NewTopic(3, configs={"retention.ms": "1000"})})
    with pytest.raises(ClientError, match="TopicAlreadyExists"):
        create_topics(cluster.connections, {name: NewTopic(3)})
    create_topics(cluster.connections, {name: NewTopic(3)}, exist_ok=True)
    assert len(describe_topics(cluster.connections, [name])[name].partitions) == 3
    assert create(cluster, name) == codes.TOPIC_ALREADY_EXISTS
    assert create(cluster, "not/legal") == codes.INVALID_TOPIC_EXCEPTION
    assert create(cluster, unique("none"), 0) == codes.INVALID_PARTITIONS
    assert create(cluster, unique("many"), 1, 9) == codes.INVALID_REPLICATION_FACTOR
    probed = unique("probe")
    assert may_create(cluster.connections, probed, timeout_ms=10_000)
    assert cluster.error_of(probed) == codes.UNKNOWN_TOPIC_OR_PARTITION


@scenario
def partitions_are_added(cluster: Cluster) -> None:
    topic = cluster.topic(2)
    judge.add_partitions(cluster.bootstrap_servers, topic, 4)
    assert len(describe_topics(cluster.connections, [topic])[topic].partitions) == 4


@scenario
def a_deleted_topic_is_gone_with_its_records(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.produce(topic, batch(b"old"))
    judge.delete_topic(cluster.bootstrap_servers, topic)
    assert cluster.error_of(topic) == codes.UNKNOWN_TOPIC_OR_PARTITION
    request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=5_000, max_version=5)
    assert cluster.ask(request).responses[0].error_code == codes.UNKNOWN_TOPIC_OR_PARTITION
    judge.create_topic(cluster.bootstrap_servers, topic)
    assert cluster.values(topic) == []


@scenario
def settings_are_told(cluster: Cluster) -> None:
    topic = cluster.topic(cleanup_policy="compact")
    wanted = ["cleanup.policy", "message.timestamp.type", "diskless.enable"]
    found = topic_config(cluster.connections, topic, wanted)
    assert found == {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
    assert max_transaction_timeout_ms(cluster.connections) == 900_000
    node_id = min(fetch_metadata(cluster.connections, []).brokers)
    assert broker_config(cluster.connections, node_id, ["message.max.bytes"]) == {
        "message.max.bytes": "1048588"
    }


@scenario
def the_cluster_is_described(cluster: Cluster) -> None:
    answer = cluster.ask(DescribeClusterRequest(endpoint_type=1, max_version=1))
    described = fetch_metadata(cluster.connections, [])
    assert {each.broker_id for each in answer.brokers} == set(described.brokers)
    addresses = {f"{each.host}:{each.port}" for each in answer.brokers}
    assert addresses == set(cluster.bootstrap_servers.split(","))


@scenario
def logs_have_sizes(cluster: Cluster) -> None:
    topic = cluster.topic(2)
    cluster.produce(topic, batch(b"x" * 1_000))
    sizes = log_sizes(cluster.connections, [TopicPartition(topic, 0), TopicPartition(topic, 1)]).values
    assert sizes[TopicPartition(topic, 0)] > 1_000
    assert sizes[TopicPartition(topic, 1)] == 0


# ----- consumer groups


def offsets(cluster: Cluster, group: str, *partitions: Any) -> dict[TopicPartition, int]:
    return dict(committed_offsets(cluster.connections, group, partitions or None))


@scenario
def offsets_of_a_group_are_kept(cluster: Cluster) -> None:
    topic, group = cluster.topic(2), unique("group")
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert offsets(cluster, group, first) == {}
    assert commit_offsets(cluster.connections, group, {first: 5}) == {}
    assert offsets(cluster, group, first, second) == {first: 5}
    assert commit_offsets(cluster.connections, group, {first: 3, second: 9}) == {}
    assert offsets(cluster, group) == {first: 3, second: 9}
    assert offsets(cluster, unique("other"), first) == {}
    assert describe_group(cluster.connections, group).state == "Empty"
    assert describe_group(cluster.connections, unique("other")).state == "Dead"


@scenario
def the_offset_of_an_unknown_topic_is_refused_alone(cluster: Cluster) -> None:
    topic, group = cluster.topic(), unique("group")
    gone = TopicPartition(unique("gone"), 0)
    refused = commit_offsets(cluster.connections, group, {TopicPartition(topic, 0): 1, gone: 1})
    assert {each: error.facts["error_code"] for each, error in refused.items()} == {
        gone: codes.UNKNOWN_TOPIC_OR_PARTITION
    }
    assert offsets(cluster, group) == {TopicPartition(topic, 0): 1}


@scenario
def librdkafka_commits_and_sees_the_same_offsets(cluster: Cluster) -> None:
    topic, group = cluster.topic(), unique("group")
    judge.commit_offsets(cluster.bootstrap_servers, group, topic, {0: 7})
    assert offsets(cluster, group) == {TopicPartition(topic, 0): 7}
