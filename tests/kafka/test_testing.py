"""The fixtures and the judge of penstock.testing on the real broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.devbroker import DevCluster
from penstock.testing import assert_each_once, leader_of, wait_until
from penstock.testing.brokers import lagging_replicas, revive
from tests import judge


@pytest.mark.promise
def test_the_development_broker_is_a_fixture(dev_kafka: DevCluster, unique_topic: Callable[..., str]) -> None:
    topic, server = unique_topic("orders"), dev_kafka.bootstrap_servers
    judge.create_topic(server, topic, partitions=2)
    judge.produce_in_transaction(server, topic, b"a", b"b", transactional_id=topic)
    judge.produce_in_transaction(server, topic, b"c", transactional_id=topic, is_committed=False)
    assert_each_once(dev_kafka, topic, [b"b", b"a"])
    with pytest.raises(AssertionError, match="1 lost: b'c'"):
        assert_each_once(dev_kafka, topic, [b"a", b"b", b"c"])


def test_a_leader_is_killed_and_all_brokers_run_afterwards(
    dev_kafka_of_three: DevCluster, unique_topic: Callable[..., str]
) -> None:
    topic, server = unique_topic("orders"), dev_kafka_of_three.bootstrap_servers
    judge.create_topic(server, topic)
    leader = leader_of(dev_kafka_of_three, topic)
    dev_kafka_of_three.kill(leader)
    wait_until(lambda: leader_of(dev_kafka_of_three, topic) != leader, "another leader")
    dev_kafka_of_three.pause(leader_of(dev_kafka_of_three, topic))
    revive(dev_kafka_of_three)
    assert all(map(dev_kafka_of_three.is_alive, dev_kafka_of_three.node_ids))
    assert lagging_replicas(dev_kafka_of_three) == set()
    judge.produce(server, topic, b"a")
    assert_each_once(dev_kafka_of_three, topic, [b"a"])
