"""Where rows go: as they say, by their key as Java does it, or anywhere."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest
from kafka.partitioner.default import murmur2

from penstock.sink._partitioner import (
    ANY_PARTITION,
    FixedPartitioner,
    Partitioner,
    RoundRobinPartitioner,
    StickyPartitions,
    chosen_partitioner,
    first_missing_partition,
    missing_partition_error,
    partitions_of_rows,
)


def ints(*values: int | None) -> pa.Int32Array:
    return pa.array(values, pa.int32())


def java_partition(key: bytes, partition_count: int) -> int:
    hashed: int = murmur2(key)
    return (hashed & 0x7FFFFFFF) % partition_count


@pytest.mark.parametrize("kind", [pa.binary(), pa.string(), pa.large_binary()])
def test_keys_go_where_java_puts_them(kind: pa.DataType) -> None:
    texts = [f"key-{number}" for number in range(200)]
    keys = pa.array(texts if kind == pa.string() else [text.encode() for text in texts], kind)
    found = partitions_of_rows(200, None, keys, 7).to_pylist()
    assert found == [java_partition(text.encode(), 7) for text in texts]


def test_rows_without_partition_and_key_may_go_anywhere() -> None:
    assert partitions_of_rows(2, None, None, 3).to_pylist() == [ANY_PARTITION] * 2
    assert partitions_of_rows(2, None, pa.nulls(2), 3).to_pylist() == [ANY_PARTITION] * 2
    keys = pa.array([None, b"k"], pa.binary())
    assert partitions_of_rows(2, ints(None, None), keys, 3).to_pylist() == [
        ANY_PARTITION,
        java_partition(b"k", 3),
    ]


def test_an_explicit_partition_comes_before_the_key() -> None:
    keys = pa.array([b"k", b"k", None], pa.binary())
    assert partitions_of_rows(3, ints(0, None, 2), keys, 3).to_pylist() == [0, java_partition(b"k", 3), 2]


@pytest.mark.parametrize(
    ("explicit", "row"),
    [
        (None, None),
        (ints(None, None), None),
        (ints(0, 2, None), None),
        (ints(0, 3), 1),
        (ints(None, -1, 5), 1),
        (ints(2, 2, 2_000_000_000), 2),
    ],
)
def test_a_partition_that_does_not_exist_is_found(explicit: pa.Int32Array | None, row: int | None) -> None:
    assert first_missing_partition(explicit, 3) == row


def test_a_missing_partition_is_named_with_those_that_exist() -> None:
    error = missing_partition_error("orders", 7, 3)
    assert "partition of topic 'orders' (0 to 2), got a row with partition 7" in error.message
    assert error.facts == {"topic": "orders", "partition": 7, "partition_count": 3}


def test_a_task_stays_with_a_partition_until_it_moves_on() -> None:
    sticky = StickyPartitions(random.Random(1))
    first = sticky.current("t", [0, 1, 2])
    assert [sticky.current("t", [0, 1, 2]) for _ in range(5)] == [first] * 5
    seen = [first]
    for _ in range(5):
        sticky.move_on("t")
        seen.append(sticky.current("t", [0, 1, 2]))
    assert Counter(seen) == {0: 2, 1: 2, 2: 2}


def test_tasks_begin_at_different_partitions() -> None:
    starts = Counter(StickyPartitions().current("t", range(4)) for _ in range(400))
    assert set(starts) == {0, 1, 2, 3}
    assert min(starts.values()) > 50


def test_topics_move_on_by_themselves() -> None:
    sticky = StickyPartitions(random.Random(1))
    before = {topic: sticky.current(topic, [0, 1, 2]) for topic in ("a", "b")}
    sticky.move_on("a")
    assert sticky.current("a", [0, 1, 2]) != before["a"]
    assert sticky.current("b", [0, 1, 2]) == before["b"]


def test_only_candidates_are_chosen() -> None:
    sticky = StickyPartitions()
    for _ in range(20):
        assert sticky.current("t", [5, 8]) in (5, 8)
        sticky.move_on("t")
    assert sticky.current("t", [6]) == 6


def values(count: int) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array([b"v"] * count, pa.binary())})


def chosen(word: str, spark_partition_id: int = 0, batch_id: int = 0) -> Partitioner:
    partitioner = chosen_partitioner(word, spark_partition_id, batch_id)
    assert partitioner is not None
    return partitioner


def test_the_default_is_left_to_the_writer() -> None:
    assert chosen_partitioner("default", 3, 4) is None


@pytest.mark.parametrize(("spark_partition_id", "partition"), [(0, 0), (1, 1), (3, 0), (7, 1)])
def test_fixed_sends_a_task_to_one_partition(spark_partition_id: int, partition: int) -> None:
    fixed = chosen("fixed", spark_partition_id, batch_id=9)
    assert isinstance(fixed, FixedPartitioner)
    assert fixed.partitions_of(values(3), "t", range(3)).to_pylist() == [partition] * 3


def test_round_robin_goes_over_all_partitions_row_by_row() -> None:
    turn = chosen("round-robin")
    assert isinstance(turn, RoundRobinPartitioner)
    assert turn.partitions_of(values(4), "t", range(3)).to_pylist() == [0, 1, 2, 0]
    assert turn.partitions_of(values(4), "t", range(3)).to_pylist() == [1, 2, 0, 1]


def test_round_robin_has_a_turn_for_each_topic() -> None:
    turn = chosen("round-robin", spark_partition_id=1)
    assert turn.partitions_of(values(2), "a", range(3)).to_pylist() == [1, 2]
    assert turn.partitions_of(values(2), "b", range(2)).to_pylist() == [1, 0]
    assert turn.partitions_of(values(1), "a", range(3)).to_pylist() == [0]


def test_round_robin_begins_elsewhere_in_each_task_and_batch() -> None:
    first = [
        chosen("round-robin", task, batch).partitions_of(values(1), "t", range(4)).to_pylist()[0]
        for batch in range(4)
        for task in range(2)
    ]
    assert Counter(first) == {0: 2, 1: 2, 2: 2, 3: 2}


def test_round_robin_takes_partitions_that_were_added() -> None:
    turn = chosen("round-robin")
    turn.partitions_of(values(5), "t", range(2))
    assert sorted(turn.partitions_of(values(3), "t", range(3)).to_pylist()) == [0, 1, 2]
