"""A transaction that is decided while a broker is away: what `penstock transactions list` says of it."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.client.transactions.steps import (
    EndState,
    TransactionProtocol,
    Transactions,
    TransactionState,
)
from penstock.devbroker import DevCluster
from penstock.testing.brokers import leader_of
from penstock.types import TopicPartition
from tests import judge, worn_ids
from tests.kafka.transaction_writer import write_open
from tests.waiting import wait_until


def test_the_topic_partition_whose_broker_is_away_is_named(cluster3: DevCluster, topic_name: str) -> None:
    bootstrap = cluster3.bootstrap_servers
    judge.create_topic(bootstrap, topic_name, partitions=3, replication=1)
    settings = ConnectionSettings(tuple(bootstrap.split(",")), "hanging")
    connections = KafkaConnections(settings)
    steps, name = Transactions(connections), f"{topic_name}-0-0"
    try:
        steps.init_producer(name, transaction_timeout_ms=60_000, protocol=TransactionProtocol.V2)
        coordinator = worn_ids.coordinator_of(connections, name)
        leaders = {at: leader_of(cluster3, topic_name, at) for at in range(3)}
        partition = next(at for at, node_id in leaders.items() if node_id != coordinator)
        target = TopicPartition(topic_name, partition)
        identity = write_open(connections, name, target, [b"x"]).identity
        cluster3.kill(leaders[partition])
        assert steps.end([identity], is_commit=True)[identity].state is EndState.DONE

        def is_named() -> bool:
            arguments = ["transactions", "list", "--prefix", topic_name, "--json", "-b", bootstrap]
            result = CliRunner().invoke(app, arguments, catch_exceptions=False)
            hanging = [each["hangs"] for each in json.loads(result.stdout) if each["hangs"]]
            return [each["without_leader"] for each in hanging] == [[[topic_name, partition]]]

        wait_until(is_named, "the topic partition is named, when the cluster gives up its broker")
        shown = CliRunner().invoke(app, ["transactions", "list", "-b", bootstrap], catch_exceptions=False)
        assert f"{name}  PrepareCommit" in shown.stdout
        assert f"No broker leads {topic_name}-{partition}. Start the brokers that have it" in shown.stdout
        cluster3.restart(leaders[partition])

        def has_ended() -> bool:
            now = steps.describe([name])[name]
            return now is not None and now.state is TransactionState.COMPLETE_COMMIT

        wait_until(has_ended, "Kafka ends the transaction by itself")
    finally:
        connections.close()
    found = judge.consume_until(bootstrap, topic_name, 1)
    assert [each.value for each in found] == [b"x"]
