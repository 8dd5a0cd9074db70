"""Histories on the fake Kafka: what a query has read, written and noted, beside what honest clusters have.

Runs in tests only. The batches are written by the real driver of the sink. Beside them stand aborted
transactions, also of the producer id that commits the next one, and records of other programs. A history has
one or several topic partitions of source and target. Each task of a batch then writes into several of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from penstock.client.produce.spans import NOTHING_WRITTEN
from penstock.client.transactions.steps import TransactionProtocol
from penstock.codec import RecordBatchDecoder
from penstock.observe.verify.check import verify
from penstock.observe.verify.found import Report
from penstock.sink.exactly_once._reused_ids import ReusedIds
from penstock.sink.exactly_once.committable import Committable, TaskReport, TaskSpan
from penstock.sink.exactly_once.log import DecisionLog
from penstock.sink.exactly_once.mandate import Mandate
from penstock.sink.exactly_once.names import TransactionNames
from penstock.sink.exactly_once.receipt import Facts, Receipt, WrittenTransaction
from penstock.testing.fake.batches import Batch
from penstock.types import OffsetRange, TopicPartition
from tests.scenarios.cluster import batch
from tests.unit.fake_driver import PREFIX, QUERY, begin_transaction, digest_of, driver
from tests.unit.sink_cluster import TARGET, SinkCluster

SOURCE = TopicPartition("source", 0)


@dataclass
class History:
    """Some batches that a query has copied from one topic to another.

    Attributes:
        random: of the history.
        cluster: that has the topics.
        partitions: how many each topic has.
        receipts: as the log has them, or changed.
        touched: the numbers of the batches that a corruption has changed.
        is_copy: whether the user says that the query copies.
        is_only_writer: whether the user says that no other program writes.
        has_other_writers: whether the user says otherwise that other programs write.
    """

    random: random.Random
    cluster: SinkCluster
    partitions: int = 1
    receipts: list[Receipt] = field(default_factory=list)
    touched: set[int] = field(default_factory=set)
    is_copy: bool = False
    is_only_writer: bool = False
    has_other_writers: bool = True

    def report(self) -> Report:
        """Return what verify says."""
        connections = self.cluster.client.connections
        return verify(
            connections,
            connections,
            self.receipts,
            self.receipts,
            {},
            copied=("key", "value", "headers") if self.is_copy else None,
            is_only_writer=self.is_only_writer,
            has_other_writers=self.has_other_writers and not self.is_only_writer,
        )

    def sources(self) -> list[TopicPartition]:
        """Return the topic partitions that the query reads."""
        return [TopicPartition(SOURCE.topic, number) for number in range(self.partitions)]

    def some_target(self) -> TopicPartition:
        """Return a topic partition of the target."""
        return TopicPartition(TARGET.topic, self.random.randrange(self.partitions))

    def some_source(self) -> TopicPartition:
        """Return a topic partition of the source."""
        return self.random.choice(self.sources())

    def read_receipts(self) -> None:
        """Take the receipts of the log."""
        log = DecisionLog(self.cluster.log_store, PREFIX)
        assert log.open(create=False)
        self.receipts = log.receipts()

    def next_batch(self) -> None:
        """Write one more batch."""
        _write_batch(self, max(each.batch_id for each in self.receipts) + 1)
        self.read_receipts()


def write_history(seed: int, partitions: int = 1) -> History:
    """Return a history of two to five batches, with what else a log has."""
    choice = random.Random(seed)
    cluster = SinkCluster(choice.choice(list(TransactionProtocol)), partitions=partitions)
    cluster.kafka.create_topic(SOURCE.topic, partitions)
    history = History(choice, cluster, partitions)
    history.is_copy, history.is_only_writer = choice.random() < 0.7, choice.random() < 0.3
    for batch_id in range(choice.randint(2, 5)):
        _write_batch(history, batch_id)
    history.read_receipts()
    return history


def _write_batch(history: History, batch_id: int) -> None:
    choice, cluster = history.random, history.cluster
    tasks = [
        [f"{batch_id}/{task}/{choice.choice(['a', row])}" for row in range(choice.randint(1, 6))]
        for task in range(choice.randint(1, 3))
    ]
    read = _fill_source(history, [row for rows in tasks for row in rows])
    side = driver(cluster)
    mandate = side.recover()
    reports = []
    for number, rows in enumerate(tasks):
        _other_records(history)
        if choice.random() < 0.3:  # an attempt that fails
            _run_task(history, mandate, batch_id, number, [*rows, "never"], attempt=0)
        if choice.random() < 0.3:  # an attempt whose producer id the next one takes over, which aborts it
            identity = cluster.take(TransactionNames(mandate.prefix).data_id(number, 1))
            cluster.write(identity, [*rows, "never"], history.some_target())
        reports.append(_run_task(history, mandate, batch_id, number, rows, attempt=1))
    topic_id = str(cluster.kafka._state.topics[SOURCE.topic].topic_id)
    side.commit(reports, facts=Facts("0.1.0", "4.2.1", read, {SOURCE.topic: topic_id}))


def _fill_source(history: History, rows: Iterable[str]) -> tuple[OffsetRange, ...]:
    """Write the rows into the source, and return where they are."""
    by_partition: dict[TopicPartition, list[bytes]] = {at: [] for at in history.sources()}
    for row in rows:
        by_partition[history.some_source()].append(row.encode())
    found = []
    for at, values in by_partition.items():
        with history.cluster.kafka.log(*at) as log:
            begin = log.end_offset
            for some in _divided(history.random, values):
                log.append(Batch.of(batch(*some)), leader_epoch=0)
            found.append(OffsetRange(at, begin, log.end_offset))
    return tuple(found)


def _divided(choice: random.Random, values: Sequence[bytes]) -> list[Sequence[bytes]]:
    """Return values as the record batches of a producer."""
    cut = choice.randint(0, len(values))
    return [some for some in (values[:cut], values[cut:]) if some]


def _run_task(
    history: History, mandate: Mandate, batch_id: int, number: int, rows: list[str], *, attempt: int
) -> TaskReport:
    """Write the rows of a task, divided over topic partitions, and report where they are."""
    cluster = history.cluster
    by_partition: dict[TopicPartition, list[str]] = {}
    for row in rows:
        by_partition.setdefault(history.some_target(), []).append(row)
    identity = begin_transaction(cluster, mandate, ReusedIds(), number, attempt)
    spans = []
    for at, some in by_partition.items():
        witness = cluster.write(identity, some, at)
        spans.append(TaskSpan(at, NOTHING_WRITTEN.with_batch(witness.offset, len(some))))
    committable = Committable(identity, number, len(rows), str(digest_of(rows)), witness)
    report = TaskReport(QUERY, batch_id, number, mandate.session)
    return replace(
        report, committable=committable, topics=(cluster.target(),), spans=tuple(spans), digest_form=""
    )


def _other_records(history: History) -> None:
    if not history.is_only_writer and history.random.random() < 0.3:
        add_other(history, history.some_target(), b"other")


def add_other(history: History, at: TopicPartition, *values: bytes) -> None:
    """Let another program write."""
    with history.cluster.kafka.log(*at) as log:
        log.append(Batch.of(batch(*values)), leader_epoch=0)


# ----- what is in a log


def some_written(history: History) -> tuple[Receipt, WrittenTransaction, TopicPartition]:
    """Choose a transaction of a batch, which a corruption changes, and a topic partition that it wrote."""
    receipt = history.random.choice(history.receipts)
    history.touched.add(receipt.batch_id)
    written = history.random.choice(receipt.transactions)
    return receipt, written, history.random.choice(written.spans)[0]


def index_of(batches: Sequence[Batch], written: WrittenTransaction) -> int:
    """Return which record batch of a log is that of a transaction."""
    return next(
        at
        for at, each in enumerate(batches)
        if (each.producer_id, each.producer_epoch) == written.producer and not each.is_control
    )


def values_of(found: Batch) -> list[bytes]:
    """Return the values of a record batch."""
    decoder = RecordBatchDecoder(
        *TARGET, starting_offset=found.base_offset, stopping_offset=found.last_offset + 1, columns=["value"]
    )
    rows = [*decoder.decode(found.data), decoder.flush()]
    return [each for some in rows if some is not None for each in some.column(0).to_pylist()]


def with_values(
    found: Batch, values: Sequence[bytes], base_offset: int | None = None, *, producer: bool = True
) -> Batch:
    """Return a record batch with other values, of the same producer or of none, at an offset."""
    of = (found.producer_id, found.producer_epoch, found.base_sequence) if producer else (-1, -1, -1)
    data = batch(*values, producer=of, is_transactional=producer and found.is_transactional)
    return Batch.of(data).at(found.base_offset if base_offset is None else base_offset, found.leader_epoch)
