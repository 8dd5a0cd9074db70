"""Partitioners in Python: which are found, what they are asked, which answers pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.errors import OptionError, RowError
from penstock.flink._pickling import to_text
from penstock.options.python_objects import PARTITIONER
from penstock.sink._partitioner import CustomPartitioner
from penstock.sink.custom_partitioner import (
    KafkaPartitioner,
    as_partitioner,
    ask_partitioner,
    check_partitioner,
    load_partitioner,
)

HERE = __name__
PARTITIONS = [0, 1, 2]


class ByRegion(KafkaPartitioner):
    """Remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def partition(
        self,
        record: Mapping[str, Any],
        key: bytes | None,
        value: bytes | None,
        target_topic: str,
        partitions: Sequence[int],
    ) -> int:
        self.asked.append((dict(record), key, value, target_topic, list(partitions)))
        return partitions[-1] if key == b"south" else partitions[0]


class WholeBatches(ByRegion):
    """Answers for a batch at once."""

    def partition_batch(self, rows: pa.RecordBatch, target_topic: str, partitions: Sequence[int]) -> pa.Array:
        return pc.if_else(pc.equal(rows["key"], "south"), len(partitions) - 1, 0)


class NeedsArguments(ByRegion):
    def __init__(self, region: str) -> None:
        super().__init__()
        self.region = region


class Outer:
    class Inner(ByRegion):
        """Found by its dotted name too."""


def by_length(key: bytes | None, value: bytes | None, topic: str, partitions: Sequence[int]) -> int:
    return len(value or b"") % len(partitions)


NOT_ONE = 7


def rows(keys: list[str | None] | None = None) -> pa.RecordBatch:
    keys = keys if keys is not None else ["north", "south", None]
    return pa.record_batch(
        {
            "key": pa.array(keys, pa.string()),
            "value": pa.array([b"v" * n for n in range(len(keys))], pa.binary()),
        }
    )


def ask(found: object, batch: pa.RecordBatch | None = None) -> list[int]:
    partitioner = as_partitioner(found, "mine")
    answer = ask_partitioner("mine", partitioner, batch if batch is not None else rows(), "t", PARTITIONS)
    assert answer.type == pa.int32()
    numbers: list[int] = answer.to_pylist()
    return numbers


def test_each_record_is_asked_for_as_flink_does() -> None:
    partitioner = ByRegion()
    assert ask(partitioner) == [0, 2, 0]
    assert partitioner.asked[1] == ({"key": "south", "value": b"v"}, b"south", b"v", "t", [0, 1, 2])
    assert partitioner.asked[2][1] is None


def test_a_batch_can_be_asked_for_at_once() -> None:
    partitioner = WholeBatches()
    assert ask(partitioner, rows(["south", "north"])) == [2, 0]
    assert partitioner.asked == []


def test_a_function_is_a_partitioner() -> None:
    assert ask(by_length, rows(["a"] * 5)) == [0, 1, 2, 0, 1]
    assert ask(lambda key, value, topic, partitions: np.int64(2)) == [2, 2, 2]


def test_columns_that_are_not_there_are_none() -> None:
    def seen(key: bytes | None, value: bytes | None, topic: str, partitions: Sequence[int]) -> int:
        assert key is None
        return 1

    assert ask(seen, pa.record_batch({"value": pa.array(["x"])})) == [1]
    assert ask(seen, pa.record_batch({"value": pa.array(["x"]), "key": pa.nulls(1)})) == [1]


@pytest.mark.parametrize("name", ["ByRegion", "Outer.Inner", "by_length"])
def test_names_are_found(name: str) -> None:
    called, partitioner = load_partitioner(f"{HERE}.{name}")
    assert called == f"{HERE}.{name}"
    assert isinstance(partitioner, KafkaPartitioner)
    check_partitioner(f"{HERE}.{name}")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("no_such_package.Mine", "Could not find the partitioner.*No module named 'no_such_package'"),
        ("org.apache.kafka.clients.producer.RoundRobinPartitioner", "Java classes do not run here"),
        (f"{HERE}.Missing", "has no attribute 'Missing'"),
        (f"{HERE}.Outer.Missing", "has no attribute 'Missing'"),
        (f"{HERE}.NeedsArguments", "cannot be instantiated without arguments: TypeError"),
        (f"{HERE}.Outer", "Expected a subclass of penstock.flink.KafkaPartitioner"),
        (f"{HERE}.NOT_ONE", "NOT_ONE', a int"),
    ],
)
def test_names_that_are_no_partitioner_are_said_on_the_driver(name: str, says: str) -> None:
    with pytest.raises(OptionError, match=says) as caught:
        check_partitioner(name)
    assert caught.value.facts["option"] == "sink.partitioner"


@pytest.mark.parametrize("word", ["default", "fixed", "round-robin"])
def test_words_need_no_check(word: str) -> None:
    check_partitioner(word)


def test_objects_travel() -> None:
    name, partitioner = load_partitioner(to_text(ByRegion(), PARTITIONER))
    assert (name, ask(partitioner)) == ("ByRegion", [0, 2, 0])
    name, partitioner = load_partitioner(to_text(by_length, PARTITIONER))
    assert (name, ask(partitioner, rows(["a", "a"]))) == ("by_length", [0, 1])


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (pa.array([0, 1]), "3 partitions, one for each row, got 2"),
        (pa.array([0, 3, 0]), "partitions from 0 to 2, got 3"),
        (pa.array([0, -1, 0]), "got -1"),
        (pa.array([0, None, 0]), "an integer for each row"),
        (pa.array([0.0, 1.0, 2.0]), "an integer for each row"),
        (pa.array([True, False, True]), "an integer for each row"),
        (pa.array([2**64 - 1, 0, 0], pa.uint64()), "an integer for each row"),
        (["a", "b", "c"], "an integer for each row"),
        (object(), "an integer for each row"),
        (None, "an integer for each row"),
    ],
)
def test_an_answer_that_is_no_partition_for_each_row_fails(answer: object, says: str) -> None:
    class Says(ByRegion):
        def partition_batch(
            self, rows: pa.RecordBatch, target_topic: str, partitions: Sequence[int]
        ) -> pa.Array:
            return answer

    with pytest.raises(RowError, match=says) as caught:
        ask(Says())
    assert caught.value.facts == {"partitioner": "mine", "topic": "t"}


@pytest.mark.parametrize("answer", [np.array([1, 2, 0]), [1, 2, 0], pa.chunked_array([[1], [2, 0]])])
def test_other_forms_of_integers_pass(answer: Any) -> None:
    class Says(ByRegion):
        def partition_batch(
            self, rows: pa.RecordBatch, target_topic: str, partitions: Sequence[int]
        ) -> pa.Array:
            return answer

    assert ask(Says()) == [1, 2, 0]


def test_small_integers_and_many_partitions() -> None:
    class Says(ByRegion):
        def partition_batch(
            self, rows: pa.RecordBatch, target_topic: str, partitions: Sequence[int]
        ) -> pa.Array:
            return pa.array([100] * rows.num_rows, pa.int8())

    answer = ask_partitioner("mine", Says(), rows(), "t", range(500))
    assert answer.to_pylist() == [100] * 3


def test_what_the_users_code_raises_is_said_with_its_name() -> None:
    def fails(key: bytes | None, value: bytes | None, topic: str, partitions: Sequence[int]) -> int:
        raise KeyError("region")

    with pytest.raises(RowError, match="partitioner mine failed on rows of topic 't': KeyError: 'region'"):
        ask(fails)


def test_it_is_opened_once_with_the_number_of_the_task() -> None:
    opened: list[int] = []

    class Remembers(ByRegion):
        def open(self, parallel_instance_id: int) -> None:
            opened.append(parallel_instance_id)

    partitioner = CustomPartitioner("mine", Remembers(), 5)
    assert opened == []
    for _ in range(2):
        partitioner.partitions_of(rows(), "t", PARTITIONS)
    assert opened == [5]


def test_an_open_that_fails_fails_the_task() -> None:
    class Fails(ByRegion):
        def open(self, parallel_instance_id: int) -> None:
            raise OSError("no such table")

    with pytest.raises(RowError, match="failed to open: OSError: no such table"):
        CustomPartitioner("mine", Fails(), 0).partitions_of(rows(), "t", PARTITIONS)
