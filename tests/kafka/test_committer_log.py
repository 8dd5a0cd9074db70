"""The decision log on a real broker: how its topic is created and checked, and what happens without it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.client.cluster.log_offsets import describe_topics
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.client.transactions.limits import topic_config
from penstock.devbroker import DevCluster
from penstock.errors import (
    DecisionLogError,
)
from penstock.sink.exactly_once._probes import Step
from penstock.sink.exactly_once.names import TransactionNames
from tests import judge
from tests.deaths import Death, die_at
from tests.fix_broker import MakeTopic
from tests.kafka.sink_driver import (
    QUERY,
    SinkUnderTest,
    assert_none_open,
    assert_seen,
    expected,
    run_batch,
)
from tests.waiting import wait_until


def log_topic(sink: SinkUnderTest) -> str:
    return TransactionNames(sink.prefix).default_log_topic


def test_decision_log_is_made_as_it_has_to_be(sink: SinkUnderTest) -> None:
    with sink.driver() as driver:
        driver.recover()
    topic = log_topic(sink)
    metadata = describe_topics(sink.connections, [topic])[topic]
    assert len(metadata.partitions) == 1
    found = topic_config(sink.connections, topic, ["cleanup.policy", "unclean.leader.election.enable"])
    assert found == {"cleanup.policy": "compact", "unclean.leader.election.enable": "false"}


def test_decision_log_has_the_replicas_of_the_transaction_log(
    cluster3: DevCluster, make_topic: MakeTopic
) -> None:
    settings = ConnectionSettings(tuple(cluster3.bootstrap_servers.split(",")), "test-committer")
    connections = KafkaConnections(settings)
    topic = make_topic(3, cluster=cluster3)
    sink = SinkUnderTest(settings, connections, topic, prefix=topic)
    try:
        run_batch(sink, 0)
        run_batch(sink, 1)
        described = describe_topics(connections, [log_topic(sink)])[log_topic(sink)]
        assert len(described.partitions[0].replica_ids) == 3
        found = topic_config(connections, log_topic(sink), ["min.insync.replicas"])
        assert found == {"min.insync.replicas": "2"}
        assert_seen(cluster3.bootstrap_servers, topic, expected(2))
        assert_none_open(sink)
    finally:
        connections.close()


@pytest.mark.parametrize(
    ("partitions", "policy", "words"),
    [(2, "compact", "got 2 partitions"), (1, "delete", "got cleanup.policy=delete"),
     (1, "compact,delete", "got cleanup.policy=compact,delete")],
)  # fmt: skip
def test_unsafe_decision_log_is_refused(
    bootstrap: str, sink: SinkUnderTest, partitions: int, policy: str, words: str
) -> None:
    judge.create_topic(bootstrap, log_topic(sink), partitions=partitions, config={"cleanup.policy": policy})
    with sink.driver() as driver, pytest.raises(DecisionLogError, match=words):
        driver.recover()


def test_deleted_decision_log_stops_the_query_before_anything_is_aborted(
    bootstrap: str, sink: SinkUnderTest
) -> None:
    run_batch(sink, 0)
    with sink.driver() as driver:
        mandate = driver.recover()
        reports = sink.tasks(mandate, 1)
        sink.die_decided(reports)
        # The decision's own transaction ends with its marker, a moment after it is committed.
        wait_until(lambda: len(sink.open_ids()) == 3, "the tasks' transactions alone to be open")
        open_before = sink.open_ids()
        judge.delete_topic(bootstrap, log_topic(sink))
        with pytest.raises(DecisionLogError, match="was deleted"):
            driver.recover()
    for _ in range(2):
        with sink.driver() as driver, pytest.raises(DecisionLogError, match="does not exist"):
            driver.recover()
    assert sink.open_ids() == open_before


@pytest.mark.parametrize("left", ["missing", "made again"])
def test_decision_log_deleted_within_a_batch_stops_the_query(
    bootstrap: str, sink: SinkUnderTest, left: str
) -> None:
    """The committer is between its InitProducerId and its decision then, and shows no work."""
    run_batch(sink, 0)
    with sink.driver() as dying:
        dying.recover()
    judge.delete_topic(bootstrap, log_topic(sink))
    if left == "made again":
        judge.create_topic(bootstrap, log_topic(sink), config={"cleanup.policy": "compact"})
    for _ in range(2):
        with sink.driver() as driver, pytest.raises(DecisionLogError, match="was used before, but"):
            driver.recover()
    assert_seen(bootstrap, sink.topic, expected(1))


def test_first_start_that_died_early_is_repeated(bootstrap: str, sink: SinkUnderTest) -> None:
    die_at(Step.TAKEN_PREFIX)
    with sink.driver() as dying, pytest.raises(Death):
        dying.recover()
    run_batch(sink, 0)
    assert_seen(bootstrap, sink.topic, expected(1))


def test_long_log_is_read_whole_by_a_new_driver(bootstrap: str, sink: SinkUnderTest) -> None:
    with sink.driver() as driver:
        for batch_id in range(30):
            driver.commit(sink.tasks(driver.recover(), batch_id, count=1))
    with sink.driver() as driver:
        assert driver.recover().known[QUERY].batch_id == 29
    assert_seen(bootstrap, sink.topic, expected(30, count=1))


def test_topics_that_are_only_named_like_decision_logs_are_passed_over(
    bootstrap: str, sink: SinkUnderTest
) -> None:
    judge.create_topic(bootstrap, f"{sink.topic}-loan-decisions")
    sink = replace(sink, query_id=sink.topic)
    judge.produce(bootstrap, f"{sink.topic}-loan-decisions", (sink.query_id.encode(), b"granted"))
    with sink.driver() as driver:
        driver.commit(sink.tasks(driver.recover(), 0))
    assert_seen(bootstrap, sink.topic, expected(1))
