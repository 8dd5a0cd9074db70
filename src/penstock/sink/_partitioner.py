"""Choose the partition of each row: the one that it names, that of its key, or the task's present one.

Runs on the executor. Pure. Invariant: by default equal keys go to the partition that Java's producer gives
them, as long as the topic keeps its number of partitions. A partition that does not exist is an error.

`chosen_partitioner` makes the other partitioners of `sink.partitioner`, which choose a partition for each
row.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from penstock.codec import murmur2_partitions
from penstock.errors import RowError
from penstock.options.config import DEFAULT_PARTITIONER, FIXED_PARTITIONER, ROUND_ROBIN_PARTITIONER
from penstock.sink.custom_partitioner import KafkaPartitioner, ask_partitioner, load_partitioner

ANY_PARTITION = -1
"""The partition of a row with neither partition nor key: the sticky partitioner chooses it."""


def partitions_of_rows(
    row_count: int, explicit: pa.Int32Array | None, keys: pa.Array | None, partition_count: int
) -> pa.Int32Array:
    """Return the partition of each row; ANY_PARTITION for a row that may go to any partition.

    Args:
        row_count: the number of rows.
        explicit: the column partition; if null, the key decides.
        keys: the column key.
        partition_count: of the topic.
    """
    if keys is None or pa.types.is_null(keys.type):
        by_key = pa.repeat(pa.scalar(ANY_PARTITION, pa.int32()), row_count)
    else:
        by_key = murmur2_partitions(keys, partition_count)
    if explicit is None or explicit.null_count == row_count:
        return by_key
    return pc.coalesce(explicit, by_key)


def first_missing_partition(explicit: pa.Int32Array | None, partition_count: int) -> int | None:
    """Return the first row that names a partition that the topic does not have; None if all exist."""
    if explicit is None or explicit.null_count == len(explicit):
        return None
    bounds = pc.min_max(explicit)
    if bounds["min"].as_py() >= 0 and bounds["max"].as_py() < partition_count:
        return None
    is_missing = pc.or_(pc.less(explicit, 0), pc.greater_equal(explicit, partition_count))
    row: int = pc.index(is_missing, pa.scalar(value=True)).as_py()
    return row


def missing_partition_error(topic: str, partition: int, partition_count: int) -> RowError:
    """Return the error for a row that names a partition that its topic does not have."""
    return RowError(
        f"Expected a partition of topic {topic!r} (0 to {partition_count - 1}), got a row with partition "
        f"{partition}. The row was not written, and its task fails. Correct the column partition, leave it "
        "null to let the key decide, or add partitions to the topic.",
        topic=topic,
        partition=partition,
        partition_count=partition_count,
    )


class StickyPartitions:
    """The partitions of rows without partition and key: one until a batch is full, then the next.

    Whole batches compress better and cost fewer requests than rows that are spread one by one. Each task
    begins at another partition, so that many small tasks fill all partitions.

    Args:
        chance: chooses the first partition; anything with `randrange`.
    """

    def __init__(self, chance: Any = random) -> None:
        self._chance = chance
        self._positions: dict[str, int] = {}

    def current(self, topic: str, candidates: Sequence[int]) -> int:
        """Return the partition for the next rows.

        Args:
            topic: of the rows.
            candidates: partitions that can be written to now.
        """
        position = self._positions.setdefault(topic, self._chance.randrange(len(candidates)))
        return candidates[position % len(candidates)]

    def move_on(self, topic: str) -> None:
        """Take the next partition from now on, because the batch of the present one was closed."""
        if topic in self._positions:
            self._positions[topic] += 1


class Partitioner(Protocol):
    """Chooses the partition of every row of a task. Each task has its own."""

    def partitions_of(self, rows: pa.RecordBatch, topic: str, partitions: Sequence[int]) -> pa.Int32Array:
        """Return the partition of each row.

        Args:
            rows: of one topic, in order.
            topic: where they go.
            partitions: all that the topic has now, in order, with and without a leader.
        """


def chosen_partitioner(chosen: str, spark_partition_id: int, batch_id: int) -> Partitioner | None:
    """Return the partitioner for one task; None for the default, which also knows about batches.

    Args:
        chosen: the option `sink.partitioner`.
        spark_partition_id: of the task.
        batch_id: of the micro-batch; 0 outside of streams.

    Raises:
        OptionError: the user's partitioner cannot be found or made.
    """
    if chosen == DEFAULT_PARTITIONER:
        return None
    if chosen == FIXED_PARTITIONER:
        return FixedPartitioner(spark_partition_id)
    if chosen == ROUND_ROBIN_PARTITIONER:
        return RoundRobinPartitioner(spark_partition_id + batch_id)
    name, partitioner = load_partitioner(chosen)
    return CustomPartitioner(name, partitioner, spark_partition_id)


class FixedPartitioner:
    """Flink's `fixed`: all rows of a task go to one partition."""

    def __init__(self, spark_partition_id: int) -> None:
        self._spark_partition_id = spark_partition_id

    def partitions_of(self, rows: pa.RecordBatch, topic: str, partitions: Sequence[int]) -> pa.Int32Array:
        chosen = partitions[self._spark_partition_id % len(partitions)]
        return pa.repeat(pa.scalar(chosen, pa.int32()), rows.num_rows)


class RoundRobinPartitioner:
    """Sends each row to the next partition, over all of them; each topic has its own turn.

    In Flink this name has meant Kafka's sticky partitioner since Kafka 2.4 (FLINK-26033).

    Args:
        first: the first partition. It differs from task to task and from batch to batch, so that small tasks
            and small batches fill all partitions too.
    """

    def __init__(self, first: int) -> None:
        self._first = first
        self._next: dict[str, int] = {}

    def partitions_of(self, rows: pa.RecordBatch, topic: str, partitions: Sequence[int]) -> pa.Int32Array:
        """Return the next partitions in turn."""
        first = self._next.get(topic, self._first)
        self._next[topic] = first + rows.num_rows
        begin = first % len(partitions)
        turn = array("i", [*partitions[begin:], *partitions[:begin]])
        turns = turn * -(-rows.num_rows // len(turn))
        return pa.Array.from_buffers(pa.int32(), rows.num_rows, [None, pa.py_buffer(turns)])


class CustomPartitioner:
    """The partitioner of the user; see `custom_partitioner`."""

    def __init__(self, name: str, partitioner: KafkaPartitioner, spark_partition_id: int) -> None:
        self._name = name
        self._partitioner = partitioner
        self._spark_partition_id = spark_partition_id
        self._is_open = False

    def partitions_of(self, rows: pa.RecordBatch, topic: str, partitions: Sequence[int]) -> pa.Int32Array:
        if not self._is_open:
            self._open()
        return ask_partitioner(self._name, self._partitioner, rows, topic, partitions)

    def _open(self) -> None:
        try:
            self._partitioner.open(self._spark_partition_id)
        except Exception as error:
            raise RowError(
                f"The partitioner {self._name} failed to open: {type(error).__name__}: {error}. This task "
                "wrote nothing, and fails.",
                partitioner=self._name,
            ) from error
        self._is_open = True
