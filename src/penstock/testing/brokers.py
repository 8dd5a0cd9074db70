"""Brokers that a test kills: which one leads, and all of them healthy again afterwards.

Runs in tests only. Needs the extra `testing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.testing.judge import HasAddress, address_of
from penstock.testing.waiting import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from penstock.devbroker import DevCluster


def leader_of(
    brokers: HasAddress | str, topic: str, partition: int = 0, *, timeout_s: float = PATIENCE_S
) -> int:
    """Return the node id of the broker that leads a topic partition. Wait until there is one.

    Args:
        brokers: a cluster, or its addresses.
        topic: which one.
        partition: of the topic.
        timeout_s: how long to wait.

    Raises:
        AssertionError: it has had no leader for so long.
    """
    client = _admin(brokers)

    def leader() -> int:
        found = client.list_topics(topic, timeout=timeout_s).topics[topic].partitions
        return int(found[partition].leader) if partition in found else -1

    wait_until(lambda: leader() >= 0, f"a leader of {topic}-{partition}", timeout_s=timeout_s)
    return leader()


def revive(cluster: DevCluster) -> None:
    """Resume and restart what a test has paused or killed.

    Wait until each broker says that all replicas are in sync.
    """
    for node_id in cluster.node_ids:
        if cluster.is_alive(node_id):
            cluster.resume(node_id)
        else:
            cluster.restart(node_id)
    wait_until(lambda: not lagging_replicas(cluster), "all replicas to be in sync")


def lagging_replicas(
    brokers: HasAddress | str, *, timeout_s: float = PATIENCE_S
) -> set[tuple[str, str, int]]:
    """Return the topic partitions of which a replica is not in sync, or that have no leader.

    Each broker is asked, because one that was paused or restarted shows an old state for a moment.

    Args:
        brokers: a cluster, or its addresses.
        timeout_s: how long to wait for each answer.

    Returns:
        The address of the broker that says so, topic and partition.
    """
    return {
        (address, topic.topic, number)
        for address in address_of(brokers).split(",")
        # A new client knows no other broker yet, so it asks this one.
        for topic in _admin(address).list_topics(timeout=timeout_s).topics.values()
        for number, partition in topic.partitions.items()
        if partition.leader < 0 or set(partition.isrs) != set(partition.replicas)
    }


def _admin(brokers: HasAddress | str) -> Any:
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 - of the extra `testing`

    return AdminClient({"bootstrap.servers": address_of(brokers)})
