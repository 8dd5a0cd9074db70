"""Rows of an operator in packages: each arrives once, in the order in which its task gave it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.changelog.row_kinds import NAMES, ROW_KIND
from penstock.spark import exchange
from penstock.spark._keyed_task import PARTITION
from penstock.spark.exchange import Packing, ReadPacking, Unpacking
from penstock.spark.operator_rows import PackedTask
from penstock.state.partition_hash import partitions_of
from tests.unit.spark.test_exchange import arrived, as_they_are, batch

COLUMNS = pa.schema([("k", pa.int64()), ("n", pa.int64()), (ROW_KIND, pa.string())])
CHANGES = st.lists(
    st.lists(st.tuples(st.one_of(st.none(), st.integers(-3, 3)), st.sampled_from(NAMES)), max_size=30),
    max_size=5,
)


@given(changes=CHANGES, count=st.integers(1, 5), most=st.integers(1, 300))
def test_the_changes_of_a_key_arrive_once_and_in_their_order(
    changes: list[list[tuple[int | None, str]]], count: int, most: int
) -> None:
    """A -U stays before its +U, also if an Arrow batch or a package ends between them."""
    numbers = iter(range(1_000))
    given_rows = [[(key, next(numbers), kind) for key, kind in each] for each in changes]

    def operator(received: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        assert [*received] == []
        yield from (batch(rows, COLUMNS) for rows in given_rows)

    packing = Packing(lambda rows: rows, COLUMNS, tuple(COLUMNS.names), ("k",), count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exchange, "_BYTES", most)
        patch.setattr(exchange, "_BYTES_OF_BATCH", 10 * most)
        packages = list(PackedTask(operator, ReadPacking((packing,))).run(iter(())))
    wanted: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for rows in filter(None, given_rows):
        for number, row in zip(partitions_of(batch(rows, COLUMNS), ["k"], count).tolist(), rows, strict=True):
            wanted[number].append(row)
    found: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for each in arrived(packages, Unpacking((COLUMNS,), COLUMNS, as_they_are)):
        found[each[PARTITION]].append((each["k"], each["n"], each[ROW_KIND]))
    assert found == wanted


def test_the_rows_of_an_operator_leave_its_task_one_arrow_batch_after_the_other() -> None:
    """The pairs of a join may have more bytes than memory has room for."""
    made: list[int] = []

    def operator(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in range(3):
            made.append(number)
            yield batch([(number, number, "+I")], COLUMNS)

    packing = Packing(lambda rows: rows, COLUMNS, tuple(COLUMNS.names), ("k",), 2)
    packages = PackedTask(operator, ReadPacking((packing,))).run(iter(()))
    next(packages)
    assert made == [0]
