"""Which partition a row goes to: the one it names, or that of its key, or the task's present one.

Runs on the executor. Pure. Invariant: equal keys go to the partition that Java's producer gives them, as
long as the topic keeps its number of partitions; a partition that does not exist is an error.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.codec import murmur2_partitions
from penstock.errors import RowError

ANY_PARTITION = -1
"""A row with neither partition nor key: the sticky partitioner places it."""


def partitions_of_rows(
    row_count: int, explicit: pa.Int32Array | None, keys: pa.Array | None, partition_count: int
) -> pa.Int32Array:
    """Return the partition of each row, ANY_PARTITION for those that may go anywhere.

    Args:
        row_count: how many rows.
        explicit: what the column partition says; null leaves it to the key.
        keys: what the column key says.
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
    """Return the row that first names a partition that the topic does not have, None when all exist."""
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
        f"A row names partition {partition} of topic {topic!r}, which has {partition_count} partitions "
        f"(0 to {partition_count - 1}). It was not written, and its task fails. Correct the column "
        "partition, leave it null to let the key decide, or add partitions to the topic.",
        topic=topic,
        partition=partition,
        partition_count=partition_count,
    )


class StickyPartitions:
    """Where rows without partition and key go: one partition until a batch is full, then the next.

    Whole batches compress better and cost fewer requests than rows dealt out one by one. Each task
    begins somewhere else, so that many small tasks fill all partitions.

    Args:
        chance: where to begin; anything with `randrange`.
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
        """Take the next partition from now on: the batch of the present one was closed."""
        if topic in self._positions:
            self._positions[topic] += 1
