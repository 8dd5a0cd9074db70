"""Which row goes to which topic partition."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2

from penstock.codec import group_rows, murmur2_partitions
from penstock.errors import RowError

# From the tests of Java's client (UtilsTest.testMurmur2).
JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def test_what_java_computes() -> None:
    keys = pa.array(list(JAVA))
    for count in (1, 7, 100, 2**31 - 1):
        expected = [(value & 0x7FFFFFFF) % count for value in JAVA.values()]
        assert murmur2_partitions(keys, count).to_pylist() == expected


@given(st.lists(st.none() | st.binary(max_size=40)), st.integers(1, 1000))
def test_what_kafka_python_computes(keys: list[bytes | None], count: int) -> None:
    expected = [-1 if key is None else (murmur2(key) & 0x7FFFFFFF) % count for key in keys]
    assert murmur2_partitions(pa.array(keys, pa.binary()), count).to_pylist() == expected
    assert murmur2_partitions(pa.array(keys, pa.large_binary())[1:], count).to_pylist() == expected[1:]


def test_keys_of_other_types() -> None:
    assert murmur2_partitions(pa.array(["abc", None]), 100).to_pylist() == [479470107 % 100, -1]
    assert murmur2_partitions(pa.nulls(2), 5).to_pylist() == [-1, -1]
    with pytest.raises(RowError, match="in the column key, got int64"):
        murmur2_partitions(pa.array([1]), 5)
    with pytest.raises(ValueError, match="at least one partition"):
        murmur2_partitions(pa.array([b"x"]), 0)


@given(st.lists(st.integers(0, 9)), st.integers(0, 3))
def test_groups_hold_their_rows_in_order(groups: list[int], skipped: int) -> None:
    array = pa.array([0] * skipped + groups, pa.int32())[skipped:]
    expected = [[row for row, group in enumerate(groups) if group == wanted] for wanted in range(10)]
    got = group_rows(array, 10)
    assert [rows.to_pylist() for rows in got] == expected
    assert all(rows.type == pa.int32() for rows in got)


@pytest.mark.parametrize("bad", [-1, 3])
def test_groups_that_do_not_exist(bad: int) -> None:
    with pytest.raises(ValueError, match=rf"row 1 names group {bad}, which is not in \[0, 3\)"):
        group_rows(pa.array([0, bad], pa.int32()), 3)


def test_no_groups_and_wrong_types() -> None:
    assert group_rows(pa.array([], pa.int32()), 0) == []
    with pytest.raises(ValueError, match="expected int32"):
        group_rows(pa.array([0]), 1)
    with pytest.raises(ValueError, match="-1 groups"):
        group_rows(pa.array([], pa.int32()), -1)
