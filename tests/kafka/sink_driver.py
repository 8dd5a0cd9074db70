"""Both halves of the sink over a real broker, without Spark: drivers that can die, and tasks that write.

Each `driver()` has its own connections and memory, like another process.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from penstock.client.cluster.log_offsets import describe_topics
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.client.transactions.markers import Witness
from penstock.options.config import SinkConfig
from penstock.options.parse import parse_write
from penstock.sink.exactly_once._probes import Step
from penstock.sink.exactly_once.committable import Committable, TargetTopic, TaskReport
from penstock.sink.exactly_once.digest import RecordDigest, digest_rows
from penstock.sink.exactly_once.driver_side import DriverSide
from penstock.sink.exactly_once.kafka import KafkaSinkTransactions
from penstock.sink.exactly_once.log_topic import DecisionTopic
from penstock.sink.exactly_once.mandate import Mandate, TaskPlan
from penstock.sink.exactly_once.names import TransactionNames
from penstock.sink.exactly_once.task_writer import open_transaction
from penstock.types import TopicPartition
from tests import judge
from tests.deaths import Death, die_at
from tests.kafka.transaction_writer import write_values
from tests.waiting import wait_until

QUERY = "6f7a2c1e"


@dataclass
class SinkUnderTest:
    """One prefix and one target topic. Spark partition n writes to partition n of the topic."""

    settings: ConnectionSettings
    connections: KafkaConnections
    topic: str
    prefix: str
    query_id: str = QUERY

    @contextmanager
    def driver(self, *, wanted_timeout_ms: int | None = None) -> Iterator[DriverSide]:
        """A driver in a process of its own."""
        connections = KafkaConnections(self.settings)
        names = TransactionNames(self.prefix)
        try:
            yield DriverSide(
                names,
                KafkaSinkTransactions(connections),
                DecisionTopic(connections, names.default_log_topic),
                wanted_timeout_ms=wanted_timeout_ms,
            )
        finally:
            connections.close()

    def task(
        self,
        mandate: Mandate,
        batch_id: int,
        spark_partition_id: int,
        *,
        attempt: int = 0,
        values: Sequence[bytes | None] | None = None,
    ) -> TaskReport:
        """Do the work of a sink task."""
        values = rows_of(batch_id, spark_partition_id) if values is None else values
        report = TaskReport(self.query_id, batch_id, spark_partition_id, mandate.session)
        plan = mandate.plan(self.query_id, batch_id, spark_partition_id)
        if plan is TaskPlan.DRAIN or not values:
            return replace(report, drained=self.digest_of(values)) if values else report
        identity = open_transaction(self.connections, mandate, spark_partition_id, attempt)
        target = TopicPartition(self.topic, spark_partition_id)
        offset = write_values(self.connections, identity, target, values)
        digest = str(self.digest_of(values))
        committable = Committable(identity, spark_partition_id, len(values), digest, Witness(target, offset))
        topic_id = describe_topics(self.connections, [self.topic])[self.topic].topic_id
        return replace(report, committable=committable, topics=(TargetTopic(self.topic, str(topic_id)),))

    def digest_of(self, values: Sequence[bytes | None]) -> RecordDigest:
        return digest_rows(pa.record_batch({"value": pa.array(values, pa.binary())}), self.topic)

    def tasks(self, mandate: Mandate, batch_id: int, count: int = 3) -> list[TaskReport]:
        return [self.task(mandate, batch_id, at) for at in range(count)]

    def die_decided(self, reports: Sequence[TaskReport]) -> None:
        """Let a driver die in a commit, right after its decision."""
        die_at(Step.DECIDED)
        with self.driver() as dying, pytest.raises(Death):
            dying.commit(reports)

    def open_ids(self) -> set[str]:
        kafka = KafkaSinkTransactions(self.connections)
        listed = kafka.list_open(TransactionNames(self.prefix).claims)
        return {each.transactional_id for each in listed}


def rows_of(batch_id: int, spark_partition_id: int) -> list[bytes | None]:
    return [b"%d/%d/%d" % (batch_id, spark_partition_id, row) for row in range(1 + spark_partition_id)]


def expected(batch_count: int, count: int = 3) -> dict[int, list[bytes | None]]:
    """Partition by partition, in order."""
    return {
        at: [row for batch_id in range(batch_count) for row in rows_of(batch_id, at)] for at in range(count)
    }


def seen(bootstrap: str, topic: str) -> dict[int, list[bytes | None]]:
    """What a read_committed consumer sees, partition by partition in order."""
    found: defaultdict[int, list[bytes | None]] = defaultdict(list)
    for record in judge.consume_all(bootstrap, topic):
        found[record.partition or 0].append(record.value)
    return dict(found)


def assert_seen(bootstrap: str, topic: str, wanted: dict[int, list[bytes | None]]) -> None:
    """Wait for the commits' markers, then compare."""
    count = sum(map(len, wanted.values()))
    judge.consume_until(bootstrap, topic, count)
    assert seen(bootstrap, topic) == wanted


def assert_none_open(sink: SinkUnderTest) -> None:
    """Those that are ending get the time to write their markers."""
    wait_until(lambda: not sink.open_ids(), "no transaction of the prefix to be open")


def sink_config(bootstrap: str, sink: SinkUnderTest, **options: str) -> SinkConfig:
    return parse_write(
        {
            "kafka.bootstrap.servers": bootstrap,
            "topic": sink.topic,
            "sink.delivery-guarantee": "exactly-once",
            "sink.transactional-id-prefix": sink.prefix,
            **options,
        }
    ).sink


def run_batch(sink: SinkUnderTest, batch_id: int) -> None:
    with sink.driver() as recovering:
        mandate = recovering.recover()
    reports = sink.tasks(mandate, batch_id)
    with sink.driver() as committing:
        committing.commit(reports)
