"""What the writer hands to a producer, and when it opens one."""

from __future__ import annotations

import itertools
import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.client.cluster.metadata import TopicMetadata, TopicPartitionMetadata
from penstock.client.transactions.append import ProducerSession
from penstock.client.transactions.steps import TransactionIdentity, TransactionProtocol
from penstock.codec import RecordColumns
from penstock.errors import RowError, UnsupportedOptionError
from penstock.options.config import DeliveryGuarantee, KafkaProperties, SinkConfig
from penstock.sink.exactly_once.committable import TaskReport
from penstock.sink.exactly_once.mandate import Mandate
from penstock.sink.exactly_once.task_writer import TaskAttempt, write_in_transaction
from penstock.sink.writer import RowWriter, write_rows
from penstock.types import TopicPartition
from tests.unit.sink.test_partitioner import java_partition

BY_COLUMN = SinkConfig(KafkaProperties())
TO_TOPIC = SinkConfig(KafkaProperties(), topic="t")


class RecordingProducer:
    """Takes rows as a producer does, `batch_rows` to a batch, and remembers which went where."""

    def __init__(self, partition_counts: dict[str, int], batch_rows: int = 1_000) -> None:
        self.partition_counts = partition_counts
        self.grown: dict[str, int] = {}
        self.leaderless: set[TopicPartition] = set()
        self.rows: defaultdict[TopicPartition, list[int]] = defaultdict(list)
        self.batches: list[TopicPartition] = []
        self.offer_count = 0
        self._batch_rows = batch_rows
        self._open: dict[TopicPartition, int] = {}

    def topic(self, topic: str) -> TopicMetadata:
        return TopicMetadata(
            topic,
            uuid.UUID(int=1),
            is_internal=False,
            error_code=0,
            partitions={
                number: TopicPartitionMetadata(
                    -1 if TopicPartition(topic, number) in self.leaderless else 1, 0
                )
                for number in range(self.partition_counts[topic])
            },
        )

    def refresh_topic(self, topic: str) -> TopicMetadata:
        self.partition_counts |= self.grown
        return self.topic(topic)

    def has_open_batch(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._open

    def append(
        self,
        topic_partition: TopicPartition,
        columns: RecordColumns,
        rows: pa.Int32Array,
        first: int,
        *,
        default_timestamp_ms: int,
    ) -> int:
        assert columns.row_count > max(rows.to_pylist())
        assert default_timestamp_ms > 1_600_000_000_000
        held = self._open.get(topic_partition, 0)
        end = min(len(rows), first + self._batch_rows - held)
        self.rows[topic_partition] += rows.to_pylist()[first:end]
        self._open[topic_partition] = held + end - first
        if end < len(rows):
            self.close(topic_partition)
        return end

    def close(self, topic_partition: TopicPartition) -> None:
        del self._open[topic_partition]
        self.batches.append(topic_partition)

    def offer(self) -> None:
        self.offer_count += 1


def write(producer: RecordingProducer, config: SinkConfig, *batches: pa.RecordBatch) -> int:
    return RowWriter(producer, config).write(batches)  # type: ignore[arg-type]  # stands for a Producer


def table(**columns: pa.Array) -> pa.RecordBatch:
    return pa.record_batch(list(columns.values()), list(columns))


def values(count: int) -> pa.Array:
    return pa.array([b"v"] * count, pa.binary())


def test_keyed_rows_go_by_their_keys_in_order() -> None:
    keys = [f"k{number % 10}".encode() for number in range(100)]
    producer = RecordingProducer({"t": 4})
    assert write(producer, TO_TOPIC, table(key=pa.array(keys), value=values(100))) == 100
    for tp, rows in producer.rows.items():
        assert rows == [row for row, key in enumerate(keys) if java_partition(key, 4) == tp.partition]


def test_explicit_and_keyed_rows_of_one_partition_keep_their_order() -> None:
    partition = java_partition(b"k", 3)
    keys = pa.array([b"k", None, b"k", b"k"], pa.binary())
    explicit = pa.array([None, partition, None, partition], pa.int32())
    producer = RecordingProducer({"t": 3})
    write(producer, TO_TOPIC, table(key=keys, value=values(4), partition=explicit))
    assert producer.rows == {TopicPartition("t", partition): [0, 1, 2, 3]}


def by_value(key: bytes | None, value: bytes | None, topic: str, partitions: Sequence[int]) -> int:
    """For a test: the partition that the value names."""
    return int(value or b"0")


def test_fixed_sends_keyed_rows_of_a_task_to_one_partition() -> None:
    producer = RecordingProducer({"t": 4})
    config = replace(TO_TOPIC, partitioner="fixed")
    batch = table(key=pa.array([b"a", b"b", b"c"]), value=values(3))
    RowWriter(producer, config, spark_partition_id=6).write([batch])  # type: ignore[arg-type]  # stands for a Producer
    assert producer.rows == {TopicPartition("t", 2): [0, 1, 2]}


def test_round_robin_deals_rows_of_two_topics_out_also_to_partitions_without_leader() -> None:
    producer = RecordingProducer({"a": 2, "b": 3})
    producer.leaderless = {TopicPartition("a", 1)}
    config = replace(BY_COLUMN, partitioner="round-robin")
    write(producer, config, table(topic=pa.array(["a", "b"] * 6), value=values(12)))
    assert {str(tp): rows for tp, rows in producer.rows.items()} == {
        "a-0": [0, 4, 8],
        "a-1": [2, 6, 10],
        "b-0": [1, 7],
        "b-1": [3, 9],
        "b-2": [5, 11],
    }


def test_a_custom_partitioner_divides_the_rows_of_each_topic() -> None:
    producer = RecordingProducer({"a": 2, "b": 3})
    config = replace(BY_COLUMN, partitioner=f"{__name__}.by_value")
    wanted = [0, 2, 1, 0, 0, 1]
    topics = pa.array(["a", "b"] * 3)
    write(producer, config, table(topic=topics, value=pa.array([b"%d" % n for n in wanted])))
    assert {str(tp): rows for tp, rows in producer.rows.items()} == {
        "a-0": [0, 4],
        "a-1": [2],
        "b-0": [3],
        "b-1": [5],
        "b-2": [1],
    }


@pytest.mark.parametrize("partitioner", ["fixed", "round-robin", f"{__name__}.last_of"])
def test_partitions_added_during_a_task_are_used(partitioner: str) -> None:
    producer = RecordingProducer({"t": 1})

    def batches() -> Iterator[pa.RecordBatch]:
        yield table(value=values(2))
        producer.partition_counts["t"] = 2
        yield table(value=values(2))

    config = replace(TO_TOPIC, partitioner=partitioner)
    RowWriter(producer, config, spark_partition_id=1).write(batches())  # type: ignore[arg-type]  # stands for a Producer
    assert {tp.partition for tp in producer.rows} == {0, 1}


def last_of(key: bytes | None, value: bytes | None, topic: str, partitions: Sequence[int]) -> int:
    """For a test: the newest partition."""
    return partitions[-1]


def test_topics_have_partition_counts_of_their_own() -> None:
    topics = pa.array(["a", "b"] * 20)
    keys = pa.array([f"k{number}".encode() for number in range(40)])
    producer = RecordingProducer({"a": 1, "b": 5})
    write(producer, BY_COLUMN, table(topic=topics, key=keys, value=values(40)))
    assert producer.rows.pop(TopicPartition("a", 0)) == list(range(0, 40, 2))
    for tp, rows in producer.rows.items():
        assert tp.topic == "b"
        assert all(java_partition(keys[row].as_py(), 5) == tp.partition for row in rows)
    assert sorted(row for rows in producer.rows.values() for row in rows) == list(range(1, 40, 2))


def test_keyless_rows_fill_one_batch_after_the_other() -> None:
    producer = RecordingProducer({"t": 3}, batch_rows=10)
    write(producer, TO_TOPIC, table(value=values(95)))
    assert len(producer.batches) == 9
    order = [tp.partition for tp in producer.batches]
    assert all(later == (earlier + 1) % 3 for earlier, later in itertools.pairwise(order))


def test_keyless_rows_of_small_arrow_batches_share_a_batch() -> None:
    producer = RecordingProducer({"t": 3}, batch_rows=10)
    write(producer, TO_TOPIC, *[table(value=values(2)) for _ in range(5)])
    assert len(producer.rows) == 1
    assert producer.offer_count == 5


def test_keyless_rows_move_on_when_the_batch_was_sent_meanwhile() -> None:
    producer = RecordingProducer({"t": 3})

    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(3):
            yield table(value=values(2))
            for tp in list(producer._open):
                producer.close(tp)

    RowWriter(producer, TO_TOPIC).write(batches())  # type: ignore[arg-type]  # stands for a Producer
    assert {len(rows) for rows in producer.rows.values()} == {2}
    assert len(producer.rows) == 3


def test_keyless_rows_among_keyed_ones_keep_their_order() -> None:
    producer = RecordingProducer({"t": 1})
    keys = pa.array([b"a", None, b"b", None], pa.binary())
    write(producer, TO_TOPIC, table(key=keys, value=values(4)))
    assert producer.rows == {TopicPartition("t", 0): [0, 1, 2, 3]}


def test_keyless_rows_among_keyed_ones_move_on_with_each_arrow_batch() -> None:
    producer = RecordingProducer({"t": 3})
    partition = java_partition(b"a", 3)
    batch = table(key=pa.array([b"a", None, None, None], pa.binary()), value=values(4))
    write(producer, TO_TOPIC, batch, batch, batch)
    counts = {tp.partition: len(rows) for tp, rows in producer.rows.items()}
    assert counts == {number: 6 if number == partition else 3 for number in range(3)}


def test_keyless_rows_avoid_partitions_without_leader() -> None:
    producer = RecordingProducer({"t": 3}, batch_rows=5)
    producer.leaderless = {TopicPartition("t", 0), TopicPartition("t", 2)}
    write(producer, TO_TOPIC, table(value=values(50)))
    assert list(producer.rows) == [TopicPartition("t", 1)]


def test_a_partition_just_added_is_used() -> None:
    producer = RecordingProducer({"t": 1})
    producer.grown = {"t": 2}
    write(producer, TO_TOPIC, table(value=values(1), partition=pa.array([1], pa.int32())))
    assert producer.rows == {TopicPartition("t", 1): [0]}


def test_a_partition_that_does_not_exist_is_an_error() -> None:
    producer = RecordingProducer({"a": 9, "b": 2})
    batch = table(topic=pa.array(["a", "b"]), value=values(2), partition=pa.array([5, 5], pa.int32()))
    with pytest.raises(RowError, match=r"partition of topic 'b' \(0 to 1\), got a row with partition 5"):
        write(producer, BY_COLUMN, batch)


def test_rows_are_counted_over_arrow_batches() -> None:
    producer = RecordingProducer({"a": 1})
    good = table(topic=pa.array(["a", "a"]), value=values(2))
    bad = table(topic=pa.array(["a", None]), value=values(2))
    with pytest.raises(RowError, match="in row 3 of this task"):
        write(producer, BY_COLUMN, good, bad)


def test_a_task_without_rows_opens_nothing() -> None:
    no_broker = SinkConfig(KafkaProperties((("bootstrap.servers", "127.0.0.1:1"),)), topic="t")
    assert write_rows(no_broker, iter([])) == 0
    assert write_rows(no_broker, iter([table(value=values(0))])) == 0


@pytest.mark.parametrize("batches", [[], [table(value=values(0))] * 3])
def test_a_task_without_rows_opens_no_transaction(batches: list[pa.RecordBatch]) -> None:
    properties = KafkaProperties((("bootstrap.servers", "127.0.0.1:1"),))
    no_broker = SinkConfig(properties, "t", DeliveryGuarantee.EXACTLY_ONCE, transactional_id_prefix="p")
    session = ProducerSession(TransactionIdentity("p-committer", 1, 0, TransactionProtocol.V2))
    mandate = Mandate("p", session, TransactionProtocol.V2, 60_000, known={})
    report = write_in_transaction(no_broker, mandate, TaskAttempt("q", 3, 199, 0), iter(batches))
    assert report == TaskReport("q", 3, 199, session, committable=None)


def test_a_guarantee_that_cannot_be_kept_is_refused() -> None:
    config = SinkConfig(KafkaProperties(), "t", DeliveryGuarantee.EXACTLY_ONCE)
    with pytest.raises(UnsupportedOptionError, match="exactly-once"):
        write_rows(config, iter([table(value=values(1))]))


def test_columns_are_checked_before_a_connection_is_opened() -> None:
    with pytest.raises(RowError, match="column amount"):
        write_rows(TO_TOPIC, iter([table(value=values(1), amount=values(1))]))
