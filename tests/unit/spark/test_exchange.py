"""Packages: each row arrives once, at the partition that Spark's `hash` gives its key."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.changelog.operators.join import SIDE
from penstock.spark import exchange
from penstock.spark._keyed_task import NOW_MS, PARTITION
from penstock.spark.exchange import PACKAGE, PACKAGES, Packing, ReadPacking, Unpacking
from penstock.state.partition_hash import has_partitions, partitions_of

COLUMNS = pa.schema([("k", pa.int64()), ("s", pa.string()), ("n", pa.int32())])
NAMES = tuple(COLUMNS.names)
ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(-3, 3)),
        st.one_of(st.none(), st.text(max_size=9)),
        st.integers(0, 99),
    ),
    max_size=40,
)


def batch(rows: Iterable[tuple[Any, ...]], columns: pa.Schema = COLUMNS) -> pa.RecordBatch:
    dicts = [dict(zip(columns.names, row, strict=True)) for row in rows]
    return pa.RecordBatch.from_pylist(dicts, schema=columns)


def arrived(packages: Iterable[pa.RecordBatch], unpacking: Unpacking) -> list[dict[str, Any]]:
    """Return the rows that come out of packages, which Spark has given a time."""
    table = pa.Table.from_batches(packages, PACKAGES)
    table = table.filter(pa.compute.is_valid(table.column(PACKAGE)))
    table = table.append_column(NOW_MS, pa.array([77] * len(table), pa.int64()))
    found: list[dict[str, Any]] = pa.Table.from_batches(
        unpacking.run(table.to_batches(max_chunksize=3)),
        pa.schema([*unpacking.columns, (PARTITION, pa.int32()), (NOW_MS, pa.int64())]),
    ).to_pylist()
    return found


def as_they_are(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


@given(
    batches=st.lists(ROWS, max_size=4),
    count=st.integers(1, 7),
    keys=st.sampled_from([("k",), ("s", "k")]),
    most=st.integers(1, 300),
)
def test_each_row_arrives_once_in_its_partition_and_in_order(
    batches: list[list[tuple[Any, ...]]], count: int, keys: tuple[str, ...], most: int
) -> None:
    packing = Packing(lambda rows: rows, COLUMNS, NAMES, keys, count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exchange, "_BYTES", most)
        patch.setattr(exchange, "_BYTES_OF_BATCH", 10 * most)
        packages = [each for rows in batches for each in ReadPacking((packing,)).of(batch(rows))]
    found = arrived(packages, Unpacking((COLUMNS,), COLUMNS, as_they_are))
    wanted = defaultdict(list)
    for rows in filter(None, batches):
        read = batch(rows)
        for number, row in zip(partitions_of(read, keys, count).tolist(), read.to_pylist(), strict=True):
            wanted[number].append({**row, PARTITION: number, NOW_MS: 77})
    by_partition = defaultdict(list)
    for row in found:
        by_partition[row[PARTITION]].append(row)
    assert by_partition == wanted
    assert sum(each.num_rows for each in packages) == len(found), (
        "Spark counts the rows, and not the packages"
    )


@given(batches=st.lists(ROWS, max_size=4), count=st.integers(1, 7), most=st.integers(1, 300))
def test_one_read_gives_both_sides_their_rows(
    batches: list[list[tuple[Any, ...]]], count: int, most: int
) -> None:
    """Some records are of one side, some of both, some of none, and each side has a key of its own."""
    ones = Packing(lambda rows: kept(rows, lambda n: n < 60), COLUMNS, NAMES, ("k",), count)
    others = Packing(lambda rows: kept(rows, lambda n: n > 40), COLUMNS, NAMES, ("s",), count, side=1)
    columns = pa.schema([(SIDE, pa.int8()), *COLUMNS])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exchange, "_BYTES", most)
        read = [batch(rows) for rows in batches]
        packages = [list(ReadPacking((ones, others)).of(each)) for each in read]
    found = arrived(
        (each for of_read in packages for each in of_read), Unpacking((COLUMNS,) * 2, columns, as_they_are)
    )
    for side, packing in enumerate((ones, others)):
        wanted = [
            {SIDE: side, **row, PARTITION: number, NOW_MS: 77}
            for rows in map(packing.program, read)
            for number, row in zip(
                partitions_of(rows, packing.keys, count).tolist(), rows.to_pylist(), strict=True
            )
        ]
        of_side = [row for row in found if row[SIDE] == side]
        for number in range(count):
            assert [row for row in of_side if row[PARTITION] == number] == [
                row for row in wanted if row[PARTITION] == number
            ]
    for rows, of_read in zip(read, packages, strict=True):
        counted = sum(each.num_rows for each in of_read)
        assert counted == max(
            rows.num_rows, sum(each.num_rows - each.column(PACKAGE).null_count for each in of_read)
        )


def kept(rows: pa.RecordBatch, wanted: Callable[[int], bool]) -> pa.RecordBatch:
    return rows.filter(pa.array([wanted(each) for each in rows.column("n").to_pylist()], pa.bool_()))


def test_the_rows_of_two_sides_have_the_columns_of_both() -> None:
    sides = (
        pa.schema([("k", pa.int64()), ("l", pa.string())]),
        pa.schema([("k", pa.int64()), ("r", pa.int32())]),
    )
    columns = pa.schema([(SIDE, pa.int8()), ("k", pa.int64()), ("l", pa.string()), ("r", pa.int32())])
    packing = Packing(lambda rows: rows, sides[1], ("key", "n"), ("k",), 1, side=1)
    read = pa.RecordBatch.from_pydict(
        {"key": [5, None], "n": pa.array([6, 7], pa.int32()), "unused": ["a", "b"]}
    )
    found = arrived(packing.of(read), Unpacking(sides, columns, as_they_are))
    assert [{name: row[name] for name in columns.names} for row in found] == [
        {SIDE: 1, "k": 5, "l": None, "r": 6},
        {SIDE: 1, "k": None, "l": None, "r": 7},
    ]


@pytest.mark.parametrize("left", [0, 2, 9])
def test_spark_counts_the_rows_that_a_condition_leaves_out_too(left: int) -> None:
    """`numInputRows` is the number of rows that were read, with packages and without."""
    packing = Packing(lambda rows: rows.slice(0, left), COLUMNS, NAMES, ("k",), 3)
    packages = list(ReadPacking((packing,)).of(batch([(number, "a", number) for number in range(9)])))
    found = pa.Table.from_batches(packages, PACKAGES)
    assert len(found) == 9
    assert sum(found.column(exchange.ROWS).drop_null().to_pylist()) == left, (
        "the observed metric is what the operator gets"
    )
    assert len(arrived(packages, Unpacking((COLUMNS,), COLUMNS, as_they_are))) == left


def test_a_package_has_the_types_that_its_reader_expects() -> None:
    """The bytes of an Arrow batch do not say their types: an INT read as a BIGINT is another number."""
    packing = Packing(lambda rows: rows, COLUMNS, NAMES, ("k",), 1)
    other = pa.schema([("k", pa.int32()), ("s", pa.large_string()), ("n", pa.int64())])
    unpacking = Unpacking((COLUMNS,), COLUMNS, as_they_are)
    found = arrived(packing.of(batch([(1, "a", 2), (3, "b", 4)], other)), unpacking)
    assert [(row["k"], row["s"], row["n"]) for row in found] == [(1, "a", 2), (3, "b", 4)]
    with pytest.raises(pa.ArrowInvalid):
        list(packing.of(batch([(1, "a", 2**40)], other)))


SPARKS = [
    (pa.int32(), 1, -559580957),
    (pa.int32(), None, 42),
    (pa.int64(), 1, -1712319331),
    (pa.string(), "", 142593372),
    (pa.string(), "abc", 1322437556),
    (pa.bool_(), True, -559580957),
]
"""What Spark's `hash` gives. `tests/spark/test_exchange.py` compares many more values with Spark itself."""


@pytest.mark.parametrize(("kind", "value", "number"), SPARKS)
def test_the_partition_is_that_of_sparks_hash(kind: pa.DataType, value: Any, number: int) -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([value], kind)], ["k"])
    assert partitions_of(rows, ["k"], 1_000_003).tolist() == [number % 1_000_003]


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.decimal128(9, 2), pa.list_(pa.int32())])
def test_keys_whose_hash_has_rules_of_its_own_do_not_come_in_packages(kind: pa.DataType) -> None:
    assert not has_partitions(kind)


def test_packages_that_a_column_of_bytes_cannot_hold_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """An offset of 32 bits would begin again, and a package would have the bytes of another one."""
    monkeypatch.setattr(exchange, "_LARGEST", 500)
    packing = Packing(lambda rows: rows, COLUMNS, tuple(COLUMNS.names), ("k",), 4)
    with pytest.raises(pa.ArrowCapacityError, match="overflow a column of bytes"):
        list(packing.of(batch((number, "a", 1) for number in range(40))))
