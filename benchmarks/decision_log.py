"""Measure how long a driver needs to start: `python -m benchmarks.decision_log`.

It writes a decision log as a query of many batches leaves it before compaction, on a broker of its own. Then
it measures what a new driver process does before the tasks of its first batch (`recover`), and a search
through all decision logs, which the first decision of a query under a new prefix makes.

The goal is at most 1 s for 10,000 batches of 200 tasks.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import sys
import time
from collections.abc import Iterator

from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.client.transactions.append import ProducerSession
from penstock.client.transactions.markers import Witness
from penstock.client.transactions.steps import TransactionIdentity, TransactionProtocol
from penstock.devbroker import DevCluster
from penstock.sink.exactly_once.committable import Committable
from penstock.sink.exactly_once.decision import Decision, Outcome, decide
from penstock.sink.exactly_once.driver_side import DriverSide
from penstock.sink.exactly_once.kafka import KafkaSinkTransactions
from penstock.sink.exactly_once.log import DecisionLog
from penstock.sink.exactly_once.log_topic import DecisionTopic
from penstock.sink.exactly_once.names import TransactionNames
from penstock.types import TopicPartition

PREFIX, QUERY = "bench", "0f8fad5b-d9cb-469f-a165-70867728950e"
ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batches", type=int, default=10_000)
    parser.add_argument("--tasks", type=int, default=200)
    given = parser.parse_args()
    with DevCluster() as cluster:
        settings = ConnectionSettings(tuple(cluster.bootstrap_servers.split(",")), "bench-decision-log")
        written_s = fill(settings, given.batches, given.tasks)
        recover_ms = [round(1_000 * start(settings)) for _ in range(ROUNDS)]
        search_ms = [round(1_000 * search(settings)) for _ in range(ROUNDS)]
    figures = {
        "batches": given.batches,
        "tasks": given.tasks,
        "fill_s": round(written_s, 1),
        "recover_ms": statistics.median(recover_ms),
        "recover_max_ms": max(recover_ms),
        "search_ms": statistics.median(search_ms),
        "search_max_ms": max(search_ms),
    }
    sys.stdout.write(json.dumps(figures) + "\n")


def fill(settings: ConnectionSettings, batches: int, tasks: int) -> float:
    """Write the records of so many batches: a decision and its end for each, and snapshots."""
    connections = KafkaConnections(settings)
    names, kafka = TransactionNames(PREFIX), KafkaSinkTransactions(connections)
    began = time.monotonic()
    DriverSide(names, kafka, DecisionTopic(connections, names.default_log_topic)).recover()
    log = DecisionLog(DecisionTopic(connections, names.default_log_topic), PREFIX)
    log.open(create=False)
    log.catch_up()
    identity = kafka.init_producer(
        names.committer_id, transaction_timeout_ms=60_000, protocol=kafka.protocol()
    )
    session = ProducerSession(identity)
    for decision in decisions(batches, tasks):
        session = log.append(session, decision)
        outcomes = dict.fromkeys(decision.with_outcome(Outcome.PENDING), Outcome.COMMITTED)
        session = log.append(session, decision.settled(outcomes))
        log.catch_up()
        session = log.keep_short(session)
    connections.close()
    return time.monotonic() - began


def decisions(batches: int, tasks: int) -> Iterator[Decision]:
    """Make transactions that differ from each other as much as real ones."""
    for batch_id in range(batches):
        yield decide(QUERY, batch_id, tasks, [committable(batch_id, task) for task in range(tasks)])


def committable(batch_id: int, task: int) -> Committable:
    name = f"{PREFIX}-{task}-0"
    identity = TransactionIdentity(name, 4_000 + task, batch_id % 30_000, TransactionProtocol.V2)
    digest = "1:" + hashlib.blake2b(f"{batch_id}/{task}".encode(), digest_size=16).hexdigest()
    witness = Witness(TopicPartition("orders-copy", task % 12), 1_000 * batch_id + task)
    return Committable(identity, task, 1_000 + task, digest, witness)


def start(settings: ConnectionSettings) -> float:
    """Measure the first `recover` of a new driver process, from its first connection, in seconds."""
    connections = KafkaConnections(settings)
    names = TransactionNames(PREFIX)
    topic = DecisionTopic(connections, names.default_log_topic)
    began = time.monotonic()
    mandate = DriverSide(names, KafkaSinkTransactions(connections), topic).recover()
    taken_s = time.monotonic() - began
    assert mandate.known
    connections.close()
    return taken_s


def search(settings: ConnectionSettings) -> float:
    """Measure a search of all decision logs for a query that is in none of them, in seconds."""
    connections = KafkaConnections(settings)
    log = DecisionLog(DecisionTopic(connections, "other-decisions"), "other")
    began = time.monotonic()
    assert log.locations_of("of-no-log") == []
    taken_s = time.monotonic() - began
    connections.close()
    return taken_s


if __name__ == "__main__":
    main()
