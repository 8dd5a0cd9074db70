"""Spark's processes: drivers' workers with a `DriverSide`, and executors' workers that run real sink tasks.

The tasks run `write_in_transaction` as it is. Only its producer is replaced, because the real one sends on a
thread of its own. `StraightProducer` sends the same requests on the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

import pyarrow as pa

from penstock.client.cluster.metadata import TopicMetadata
from penstock.client.net import versions
from penstock.client.produce._topics import ProducerTopics, TopicSource
from penstock.client.produce.figures import NO_FIGURES, ProduceFigures
from penstock.client.produce.idempotence import ProducerIdentity
from penstock.client.produce.spans import NOTHING_WRITTEN, WrittenSpan
from penstock.client.settings import ProduceSettings
from penstock.client.transactions.append import write_record_batch
from penstock.client.transactions.steps import TransactionIdentity, TransactionProtocol
from penstock.codec import RecordBatchBuilder, RecordColumns
from penstock.errors import PenstockError, ProduceError
from penstock.options.config import DeliveryGuarantee, KafkaProperties, SinkConfig
from penstock.sink.exactly_once import _reused_ids, task_writer
from penstock.sink.exactly_once.by_hand import TransactionTools
from penstock.sink.exactly_once.committable import TaskReport
from penstock.sink.exactly_once.driver_side import DriverSide
from penstock.sink.exactly_once.kafka import KafkaSinkTransactions
from penstock.sink.exactly_once.mandate import Mandate
from penstock.sink.exactly_once.names import TransactionNames
from penstock.sink.exactly_once.task_writer import TaskAttempt, write_in_transaction
from penstock.types import TopicPartition
from tests.simulation.network import LOG, PREFIX, TARGET, Network, Process
from tests.unit.sink_cluster import PATIENCE_MS, decision_topic

_CONFIG = SinkConfig(
    KafkaProperties((("bootstrap.servers", "fake:1"),)),
    TARGET,
    delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE,
    transactional_id_prefix=PREFIX,
)
_FEWEST, _MOST = 1_000_000_000, 9_999_999_999


class StraightProducer:
    """What `write_in_transaction` needs of `Producer`. `flush` sends one record batch to each partition."""

    writes_by_name = True

    def __init__(
        self,
        connections: Process,
        topics: TopicSource,
        settings: ProduceSettings,
        identity: ProducerIdentity,
        register: Callable[[TopicPartition], None],
    ) -> None:
        is_v1 = identity.produce_versions == versions.PRODUCE_TRANSACTION_V1
        protocol = TransactionProtocol.V1 if is_v1 else TransactionProtocol.V2
        name = identity.transactional_id
        assert name is not None
        self._identity = TransactionIdentity(name, identity.producer_id, identity.producer_epoch, protocol)
        self._connections = connections
        self._topics = ProducerTopics(topics)
        self._register = register
        self._builders: dict[TopicPartition, RecordBatchBuilder] = {}
        self._counts: dict[TopicPartition, int] = {}
        self.acknowledged_record_count = 0
        self.first_written: tuple[TopicPartition, int] | None = None
        self.spans: dict[TopicPartition, WrittenSpan] = {}

    @property
    def figures(self) -> ProduceFigures:
        """Return nothing: the judge does not need them."""
        return NO_FIGURES

    @property
    def written_topics(self) -> dict[str, object]:
        """Return the topics that were written into, with their ids."""
        return {each.topic: self._topics.topic_ids.get(each.topic) for each in self._builders}

    def topic(self, topic: str) -> TopicMetadata:
        """Return a topic."""
        return self._topics.learn(topic, PATIENCE_MS)

    def append(
        self,
        topic_partition: TopicPartition,
        columns: RecordColumns,
        rows: pa.Int32Array,
        first: int = 0,
        *,
        default_timestamp_ms: int,
    ) -> int:
        """Take rows for a partition; they fit in one batch."""
        builder = self._builders.get(topic_partition)
        if builder is None:
            self._register(topic_partition)
            builder = self._builders[topic_partition] = RecordBatchBuilder(
                *topic_partition, max_record_bytes=1 << 20, is_transactional=True
            )
        taken = rows.slice(first)
        builder.append(columns, taken, default_timestamp_ms=default_timestamp_ms)
        self._counts[topic_partition] = self._counts.get(topic_partition, 0) + len(taken)
        return len(rows)

    def offer(self) -> None:
        """Do nothing: `flush` sends."""

    def flush(self) -> None:
        """Send everything, and wait for each answer."""
        for topic_partition, builder in self._builders.items():
            data = builder.build(
                producer_id=self._identity.producer_id,
                producer_epoch=self._identity.producer_epoch,
                base_sequence=0,
            )
            self._write(topic_partition, data)

    def _write(self, topic_partition: TopicPartition, data: bytes) -> None:
        connections = self._connections.connections
        try:
            offset = write_record_batch(
                connections, self._identity, topic_partition, data, timeout_ms=PATIENCE_MS
            )
        except PenstockError as error:
            topic, partition = topic_partition
            facts = {**error.facts, "topic": topic, "partition": partition}
            raise ProduceError(error.message, **facts) from error
        count = self._counts[topic_partition]
        self.acknowledged_record_count += count
        if offset >= 0 and self.first_written is None:
            self.first_written = topic_partition, offset
        self.spans[topic_partition] = NOTHING_WRITTEN.with_batch(offset, count)

    def close(self) -> None:
        """Do nothing: there is no thread."""


class Executor(Process):
    """A Python worker of an executor. It keeps its connections and transactional ids from task to task."""

    def __init__(self, network: Network, name: str) -> None:
        super().__init__(network, name)
        # The real one comes from the system; a history has to be the same each time.
        ids = _reused_ids.reused_ids(self.connections, PREFIX)
        ids._number = network.chance.randint(_FEWEST, _MOST)

    def run_task(self, mandate: Mandate, task: TaskAttempt, rows: list[tuple[str, str]]) -> TaskReport:
        """Write rows (key and value) as Spark's worker does."""
        columns = {
            name: pa.array([row[at].encode() for row in rows], pa.binary())
            for at, name in enumerate(("key", "value"))
        }
        batch = pa.record_batch(columns)
        _running[:] = [self]
        return write_in_transaction(_CONFIG, mandate, task, [batch])


class Driver(Process):
    """A worker of the driver that serves one writer after the other."""

    def __init__(self, network: Network, name: str) -> None:
        super().__init__(network, name)
        names = TransactionNames(PREFIX)
        kafka, store = KafkaSinkTransactions(self.connections), decision_topic(self, LOG)
        self.side = DriverSide(names, kafka, store)

    def tools(self) -> TransactionTools:
        """Return what `penstock transactions` uses."""
        kafka, store = KafkaSinkTransactions(self.connections), decision_topic(self, LOG)
        return TransactionTools(TransactionNames(PREFIX), kafka, store)


_running: list[Executor] = []
"""Whose task runs now: the real code asks for the connections of its process."""


def _connections_of_task(_: object) -> object:
    (executor,) = _running
    return executor.connections


@contextmanager
def tasks_without_threads() -> Iterator[None]:
    """Let `write_in_transaction` run in the caller's thread, over the simulated network."""
    with (
        mock.patch.object(task_writer, "connections_for", _connections_of_task),
        mock.patch.object(task_writer, "Producer", StraightProducer),
    ):
        yield
