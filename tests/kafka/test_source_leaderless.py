"""[FLINK-34995] A topic partition without a leader delays itself only, also at the very start."""

from __future__ import annotations

from confluent_kafka.admin import NewTopic

from penstock.devbroker import DevCluster
from tests import judge
from tests.judge import Record
from tests.kafka.source_runs import Query, Row
from tests.waiting import PATIENCE_S, wait_until

VICTIM = 3


def topic_on_each_broker(cluster: DevCluster, topic: str) -> None:
    """Partition n lives on broker n + 1 only."""
    admin = judge.admin(cluster.bootstrap_servers)
    new_topic = NewTopic(topic, num_partitions=3, replica_assignment=[[1], [2], [3]])
    admin.create_topics([new_topic], operation_timeout=PATIENCE_S)[topic].result(PATIENCE_S)
    judge.wait_for_leaders(cluster.bootstrap_servers, topic, 3)


def partitions(rows: list[Row]) -> set[int]:
    return {row.partition for row in rows}


def test_one_without_a_leader_at_the_start_waits_alone_and_begins_where_the_user_said(
    cluster3: DevCluster, topic_name: str
) -> None:
    bootstrap = cluster3.bootstrap_servers
    topic_on_each_broker(cluster3, topic_name)
    old = [Record(b"old", partition=partition) for partition in range(3)]
    judge.produce(bootstrap, topic_name, *old)
    cluster3.kill(VICTIM)
    options = {
        "properties.bootstrap.servers": bootstrap,
        "properties.default.api.timeout.ms": "6000",
        "topic": topic_name,
        "scan.startup.mode": "latest-offset",
    }
    query = Query(options)
    assert query.run(available_now=True) == []
    (first,) = query.checkpoint
    assert sorted(first[topic_name]) == ["0", "1"]
    judge.produce(bootstrap, topic_name, *(Record(b"new", partition=partition) for partition in (0, 1)))
    with query.running() as reader:
        rows = query.catch_up(reader)
        assert (partitions(rows), len(rows)) == ({0, 1}, 2), "the others are read meanwhile"
        cluster3.restart(VICTIM)
        judge.wait_for_leaders(bootstrap, topic_name, 3)
        wait_until(
            lambda: query.catch_up(reader) == [] and "2" in query.checkpoint[-1][topic_name],
            "partition 2 begins",
        )
        judge.produce(bootstrap, topic_name, Record(b"new", partition=2))
        rows = query.catch_up(reader)
    assert [(row.partition, row.value) for row in rows] == [(2, b"new")], "from latest, not from its start"
