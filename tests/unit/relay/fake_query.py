"""A continuous query on the fake Kafka, with threads instead of Spark's tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from penstock.client.cluster.log_offsets import committed_offsets
from penstock.client.cluster.membership import Membership, present_member
from penstock.client.net.connection import KafkaConnections
from penstock.options.continuous import parse_continuous
from penstock.relay import supervisor as supervision
from penstock.relay.driver import PlanDriver, QueryPlan
from penstock.relay.settings import QuerySettings, query_settings
from penstock.relay.supervisor import Supervisor
from penstock.testing import FakeKafka
from penstock.testing.judge import committed_records
from penstock.types import TopicPartition
from tests import judge
from tests.unit.relay.thread_job import ThreadJob
from tests.waiting import wait_until

SOURCE, TARGET, GROUP = "source", "target", "group"
PARTITIONS = 3


class Query:
    """Options of a query on a fake cluster, and what it has to write."""

    def __init__(self, fake: FakeKafka) -> None:
        self.fake = fake
        self.written: list[bytes] = []
        self.source = {
            "topic": SOURCE,
            "properties.bootstrap.servers": fake.bootstrap_servers,
            "properties.group.id": GROUP,
            "properties.fetch.max.wait.ms": "50",
            "properties.reconnect.backoff.ms": "5",
        }
        self.connections = KafkaConnections(self.settings().connection)
        self.jobs: list[ThreadJob] = []

    def settings(self, **changes: Any) -> QuerySettings:
        config = parse_continuous(self.source, {"topic": TARGET})
        made = query_settings(config, lanes=1, commit_interval_ms=5, maker=None)
        return replace(made, **{"discovery_ms": 100, **changes})

    def supervisor(self, *, tasks: int | None = None, slots: int = 99, **changes: Any) -> Supervisor:
        def start_job(plan: QueryPlan, on_end: Callable[[], None]) -> ThreadJob:
            self.jobs.append(ThreadJob(plan, on_end, slots))
            return self.jobs[-1]

        return Supervisor(PlanDriver(self.settings(**changes)), start_job, tasks, {"name": "test"})

    @contextmanager
    def running(self, **changes: Any) -> Iterator[Supervisor]:
        made = self.supervisor(**changes)
        made.start()
        try:
            yield made
        finally:
            made.stop()
            assert made.join(60)

    def write(self, count: int = 20, *, partitions: int = PARTITIONS) -> None:
        """Write so many records to each partition of the source."""
        for partition in range(partitions):
            first = len(self.written)
            values = [b"%06d" % number for number in range(first, first + count)]
            judge.produce(
                self.fake.bootstrap_servers,
                SOURCE,
                *[judge.Record(each, partition=partition) for each in values],
            )
            self.written += values

    def positions(self, partitions: int = PARTITIONS) -> dict[TopicPartition, int]:
        topic_partitions = [TopicPartition(SOURCE, index) for index in range(partitions)]
        return committed_offsets(self.connections, GROUP, topic_partitions)

    def await_all(self, partitions: int = PARTITIONS) -> None:
        wait_until(lambda: sum(self.positions(partitions).values()) == len(self.written), "all is copied")

    @contextmanager
    def planning(self, **changes: Any) -> Iterator[PlanDriver]:
        """Give a driver that leaves the group at the end."""
        driver = PlanDriver(self.settings(**changes))
        try:
            yield driver
        finally:
            driver.leave()
            driver.close()

    def check(self) -> None:
        """Fail unless each record is there once, and the group has no member."""
        found = sorted(each.value or b"" for each in committed_records(self.fake, TARGET))
        assert found == sorted(self.written)
        assert present_member(self.connections, GROUP) == Membership(GROUP)


@contextmanager
def query_on_fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Query]:
    """Give a query with topics, and short pauses."""
    monkeypatch.setattr(supervision, "_LOOK_S", 0.05)
    monkeypatch.setattr("penstock.relay.driver._HEARTBEAT_S", 0.05)
    monkeypatch.setattr("penstock.client.net.backoff.UNKNOWN_TOPIC_GRACE_MS", 300)
    with FakeKafka() as fake:
        fake.create_topic(SOURCE, PARTITIONS)
        fake.create_topic(TARGET, 2)
        made = Query(fake)
        yield made
        made.connections.close()
