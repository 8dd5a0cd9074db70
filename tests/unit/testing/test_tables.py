"""Tables are compared as multisets of rows, and a difference is named."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Row

from penstock.testing import FakeKafka, assert_table_equals, table_of, upsert_table
from tests import judge

NAN = float("nan")


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ([], []),
        ([(1, "a"), (2, "b"), (1, "a")], [[2, "b"], (1, "a"), (1, "a")]),
        ([{"k": 1, "v": None}], [{"v": None, "k": 1}]),
        ([Row(k=1, v=NAN)], [{"v": NAN, "k": 1}]),
        ([Row(k=1, v=2)], [(1, 2)]),
        ([(1.0, bytearray(b"x"))], [(Decimal("1.00"), b"x")]),
        ([([1, {"a": Row(x=1)}],)], [([1, {"a": (1,)}],)]),
        ([Row(s=Row(x=1, y=2))], [{"s": {"y": 2, "x": 1}}]),
        ([{"s": {"y": 2, "x": 1}}], [Row(s=Row(x=1, y=2))]),
        ([Row(s=Row(x=1, y=2))], [Row(s=Row(y=2, x=1))]),
        ([(None,), (Row(x=1, y=Row(z=NAN)),)], [({"y": {"z": NAN}, "x": 1},), (None,)]),
        ([([Row(x=1, y=2), Row(x=3, y=4)],)], [([{"y": 2, "x": 1}, (3, 4)],)]),
        ([({"a": Row(x=1, y=2)},)], [({"a": {"y": 2, "x": 1}},)]),
        ([("NaN", NAN)], [("NaN", NAN)]),
    ],
)
def test_equal_tables(table: Any, expected: Any) -> None:
    assert_table_equals(table, expected)


@pytest.mark.parametrize(
    ("table", "expected", "message"),
    [
        ([(1, "a")], [(1, "a"), (1, "a")], r"^Expected 2 rows, got 1\. 1 missing: \(1, 'a'\)\.$"),
        ([(1, "a"), (1, "a")], [(1, "a")], r"1 too many: \(1, 'a'\)\.$"),
        ([{"k": 1}], [{"k": 2}], r"1 missing: {'k': 2}\. 1 too many: {'k': 1}\.$"),
        ([{"k": 1}], [{"n": 1}], "Expected the columns n, got k"),
        ([(True,)], [(1,)], "1 missing"),
        ([(None,)], [("",)], "1 missing"),
        ([(NAN,)], [("NaN",)], r"1 missing: \('NaN',\)\. 1 too many: \(nan,\)"),
        ([(True,)], [(["boolean", 1],)], "1 missing"),
        ([(Row(x=1, y=2),)], [({"x": 2, "y": 1},)], r"1 missing: \({'x': 2, 'y': 1},\)"),
        ([(Row(x=1, y=2),)], [({"x": 1},)], "1 missing"),
        ([(Row(x=1, y=2),)], [({"x": 1, "z": 2},)], "1 missing"),
        ([(Row(x=1, y=2),)], [(Row(y=1, x=2),)], "1 missing"),
        ([(n,) for n in range(20)], [], r"20 too many: \(0,\), .*\(9,\), \.\.\.\.$"),
        ([{"k": 1}, {"k": 2, "v": 3}], [], "has no column v"),
    ],
)
def test_different_tables(table: Any, expected: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        assert_table_equals(table, expected)


@pytest.mark.parametrize("rows", [[{"k": 1}, (1,)], [(1,), {"k": 1}], [Row(k=1), "1"], ["1"], [1]])
def test_rows_with_and_without_names_are_not_mixed(rows: Any) -> None:
    for table, expected in (([("k",)], rows), (rows, [("k",)])):
        with pytest.raises(TypeError, match="Expected rows that are all dicts, or all tuples and lists"):
            assert_table_equals(table, expected)


def test_a_stream_of_spark_connect_is_refused() -> None:
    class Stream:
        isStreaming = True
        columns = ("k",)

    Stream.__module__ = "pyspark.sql.connect.dataframe"
    with pytest.raises(TypeError, match="A stream of Spark Connect cannot be compared"):
        assert_table_equals(Stream(), [])


CHANGES = [("+I", 1, "a"), ("-U", 1, "a"), ("+U", 1, "b"), ("+I", 2, "b"), ("+I", 2, "b"), ("-D", 2, "b")]


def changes(*kinds_and_rows: tuple[str, int, str]) -> list[dict[str, Any]]:
    return [{"row_kind": kind, "k": key, "v": value} for kind, key, value in kinds_and_rows]


def test_the_table_of_changes_is_what_they_leave() -> None:
    assert_table_equals(table_of(changes(*CHANGES)), [(1, "b"), (2, "b")])
    assert_table_equals(table_of(changes(*reversed(CHANGES))), [{"k": 2, "v": "b"}, {"k": 1, "v": "b"}])
    with pytest.raises(AssertionError, match=r"taken away that are not there: \(1, 'b'\)"):
        table_of(changes(*CHANGES, ("-D", 1, "b"), ("-D", 1, "b")))
    with pytest.raises(AssertionError, match=r"Expected \+I, -U, \+U or -D in the column row_kind, got 'I'"):
        table_of(changes(("I", 1, "b")))
    with pytest.raises(TypeError, match="Expected rows with names"):
        table_of([(1, "a")])


def test_an_upsert_topic_leaves_the_last_values(
    fake_kafka: FakeKafka, unique_topic: Callable[..., str]
) -> None:
    topic, server = unique_topic("totals"), fake_kafka.bootstrap_servers
    fake_kafka.create_topic(topic, 2)
    for pair in ((b"a", b'{"k": "a", "n": 1}'), (b"b", b'{"k": "b", "n": 2}'), (b"a", b'{"k": "a", "n": 3}')):
        judge.produce(server, topic, pair)
    judge.produce(server, topic, (b"b", None))
    assert_table_equals(upsert_table(fake_kafka, topic), [{"k": "a", "n": 3}])
    assert upsert_table(server, topic, lambda value: {"size": len(value)}) == [{"size": 18}]
    judge.produce(server, topic, *[judge.Record(b"{}", b"a", partition=part) for part in (0, 1)])
    with pytest.raises(AssertionError, match=r"Key b'a' of .* is in the partitions . and .*one partition"):
        upsert_table(fake_kafka, topic)
