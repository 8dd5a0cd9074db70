"""Run batches of the sink on a real broker, each with a fault on one request, and judge the topic at the end.

The driver's half is the real one, and tasks write as the sink's tasks do. Invariant: after an error the batch
is started again, as Spark does, until it is done; a batch that is refused six times is a failure.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from kafka import KafkaAdminClient

from penstock.client.cluster.log_offsets import NewTopic, create_topics
from penstock.client.net import _transport as _network
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.client.transactions.steps import TransactionProtocol, Transactions
from penstock.errors import PenstockError
from penstock.sink.exactly_once.committable import TaskReport
from tests.chaos.answer_proxy import (
    DOUBLED_REQUEST,
    HELD_REQUEST,
    LATE_ANSWER,
    LOST_ANSWER,
    LOST_REQUEST,
    AnswerProxies,
    Strike,
)
from tests.kafka.sink_driver import SinkUnderTest, assert_none_open, assert_seen, expected
from tests.waiting import wait_until

FAULTS = (LOST_REQUEST, LOST_ANSWER, LATE_ANSWER, DOUBLED_REQUEST, HELD_REQUEST)
APIS = ("EndTxn", "Produce", "InitProducerId", "Fetch", "ListTransactions", "DescribeTransactions")
_APIS_OF = {
    TransactionProtocol.V1: ("AddPartitionsToTxn", *APIS),
    TransactionProtocol.V2: APIS,
}
_MOST_SKIPPED = {"EndTxn": 4, "Produce": 4, "InitProducerId": 3, "AddPartitionsToTxn": 4}
"""How many requests of an API a batch has, besides the last one."""
_TASKS = 3
_STARTS = 6


@dataclass
class Tally:
    """What has happened.

    Attributes:
        faults: how often, by API and fault.
        errors: how many starts of a batch ended with an error, by its class.
        batches: how many are done.
    """

    faults: Counter[tuple[str, str]] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    batches: int = 0


@contextmanager
def through(proxies: AnswerProxies) -> Iterator[None]:
    """Lead penstock's new connections through the proxies."""
    ports = proxies.ports
    original = _network.ConnectionManager._open_socket

    async def open_socket(self: Any, host: str, port: int, timeout_at: float | None) -> Any:
        return await original(self, host, ports.get(f"{host}:{port}", port), timeout_at)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_network.ConnectionManager, "_open_socket", open_socket)
        yield


def use_protocol(bootstrap: str, protocol: TransactionProtocol) -> None:
    """Let the cluster have this transaction protocol from now on."""
    if protocol is TransactionProtocol.V1:
        admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        with suppress_close(admin):
            admin.update_features({"transaction.version": ("SAFE_DOWNGRADE", 1)})
    connections = KafkaConnections(ConnectionSettings(tuple(bootstrap.split(",")), "test-faults"))
    try:
        transactions = Transactions(connections)
        wait_until(lambda: transactions.protocol() is protocol, f"protocol {protocol.value}")
    finally:
        connections.close()


@contextmanager
def suppress_close(admin: KafkaAdminClient) -> Iterator[None]:
    """Close the client at the end."""
    try:
        yield
    finally:
        admin.close()


class FaultyRun:
    """A query without Spark, on one topic."""

    def __init__(self, bootstrap: str, protocol: TransactionProtocol, seed: int, name: str) -> None:
        self._bootstrap = bootstrap
        self._protocol = protocol
        self._chance = random.Random(f"{seed} {protocol.value}")
        self._name = name
        self._kinds: list[tuple[str, str]] = []
        self.tally = Tally()
        self.on_batch: Callable[[Tally], None] = lambda tally: None
        """Called when a batch is done."""

    def run(self, count: int) -> Tally:
        """Run so many batches, and judge.

        Raises:
            AssertionError: a row is lost, doubled or out of order, or a batch is refused for ever.
        """
        servers = tuple(self._bootstrap.split(","))
        settings = ConnectionSettings(
            servers, "test-faults", request_timeout_ms=3_000, default_api_timeout_ms=12_000
        )
        plain = KafkaConnections(settings)
        create_topics(
            plain, {self._name: NewTopic(_TASKS, len(servers), {})}, exist_ok=False, timeout_ms=30_000
        )
        with AnswerProxies(self._bootstrap) as proxies, through(proxies):
            connections = KafkaConnections(settings)
            sink = SinkUnderTest(settings, connections, self._name, prefix=self._name)
            try:
                for batch_id in range(count):
                    self._batch(sink, proxies, batch_id)
            finally:
                connections.close()
        sink = SinkUnderTest(settings, plain, self._name, prefix=self._name)
        try:
            with sink.driver() as driver:
                driver.recover()
            assert_none_open(sink)
            assert_seen(self._bootstrap, self._name, expected(count, _TASKS))
        finally:
            plain.close()
        return self.tally

    def _batch(self, sink: SinkUnderTest, proxies: AnswerProxies, batch_id: int) -> None:
        """Run a batch until it is done. What is held comes when the next start has written its tasks."""
        strike = self._strike()
        proxies.arm(strike)
        for _ in range(_STARTS):
            if self._start(sink, proxies, batch_id):
                break
        else:
            message = f"batch {batch_id} is refused after {strike}: {self.tally.errors}"
            raise AssertionError(message)
        if proxies.disarm():
            self.tally.faults[strike.api, strike.fault] += 1
        self.tally.batches += 1
        self.on_batch(self.tally)

    def _start(self, sink: SinkUnderTest, proxies: AnswerProxies, batch_id: int) -> bool:
        reports: list[TaskReport] = []
        with sink.driver() as driver:
            try:
                mandate = driver.recover()
                reports = [sink.task(mandate, batch_id, at) for at in range(_TASKS)]
                proxies.release()  # the transactions of this batch are open now
                driver.commit(reports)
            except PenstockError as error:
                self.tally.errors[type(error).__name__] += 1
                with suppress(PenstockError):
                    driver.abort(reports)
                return False
        return True

    def _strike(self) -> Strike:
        if not self._kinds:
            self._kinds = [(api, fault) for api in _APIS_OF[self._protocol] for fault in FAULTS]
            self._chance.shuffle(self._kinds)
        api, fault = self._kinds.pop()
        skipped = self._chance.randint(0, _MOST_SKIPPED.get(api, 0))
        return Strike(api, fault, skipped, seconds=self._chance.choice((0.2, 4.0)))
