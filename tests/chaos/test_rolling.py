"""A rolling restart is one: each broker hands its leaders over, ends by itself and comes back in sync."""

from __future__ import annotations

import pytest

from penstock.devbroker import DevCluster
from penstock.testing.brokers import lagging_replicas
from tests import judge
from tests.chaos import rolling
from tests.chaos.rolling import RollingRestart, is_in_order


def test_each_broker_hands_its_leaders_over_and_comes_back(cluster3: DevCluster, topic_name: str) -> None:
    judge.create_topic(cluster3.bootstrap_servers, topic_name, partitions=6)
    judge.produce(cluster3.bootstrap_servers, topic_name, *(b"%d" % each for each in range(60)))
    before = [cluster3.pid(node_id) for node_id in cluster3.node_ids]
    restart = RollingRestart(cluster3, [2, 3, 1])
    restart.start()
    restart.join()
    assert restart.is_over()
    assert restart.restarted == [2, 3, 1]
    assert min(restart.moved) >= 2, "each broker leads its share of the topic partitions"
    after = [cluster3.pid(node_id) for node_id in cluster3.node_ids]
    assert not set(before) & set(after)
    assert None not in after
    assert not lagging_replicas(cluster3)
    found = judge.consume_all(cluster3.bootstrap_servers, topic_name)
    assert sorted(int(each.value or b"") for each in found) == list(range(60))


def test_a_broker_that_dies_is_not_counted(
    cluster3: DevCluster, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge.create_topic(cluster3.bootstrap_servers, topic_name, partitions=6)
    restart = RollingRestart(cluster3, [2])

    def kill(node_id: int) -> None:
        cluster3.kill(node_id)
        monkeypatch.setattr(rolling, "ANSWER_S", 5.0)  # in this time the controllers find out that it died

    monkeypatch.setattr(restart, "_stop", kill)
    restart.start()
    with pytest.raises(AssertionError, match="say that broker 2 was stopped in order"):
        restart.join()
    assert (restart.restarted, restart.moved) == ([], [])


def test_another_broker_or_a_crash_is_not_a_stop_in_order() -> None:
    line = (
        "INFO [QuorumController id=1] Replayed BrokerRegistrationChangeRecord modifying the registration for "
        "broker 2: BrokerRegistrationChangeRecord(brokerId=2, fenced=0, inControlledShutdown=1, logDirs=[])"
    )
    assert is_in_order(f"before\n{line}\nafter", 2)
    assert not is_in_order(line, 1)
    assert not is_in_order(line.replace("inControlledShutdown=1", "inControlledShutdown=0"), 2)
