"""What tasks make of raw records of many topics, and what the driver joins: whatever the tasks got."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cdc.gather import Gathered, Known, Reader, digest_of_schema, joined
from penstock.targets.batch import DELETED
from tests.unit.cdc.messages import SmallFormat, message, schema_of

RAW_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
    ]
)
Record = tuple[str, int, int, bytes | None]
"""Topic, partition, offset and value."""


def known(*names: str) -> Known:
    return Known(schema_of(names), ("id",), frozenset({digest_of_schema(" ".join(names))}))


def gathered(
    tables: dict[str, Known], *tasks: Sequence[Record], left_out: frozenset[str] = frozenset()
) -> Gathered:
    reader = Reader(SmallFormat(), tables, left_out)
    receipts = []
    for records in tasks:
        rows = [
            {"key": b"key", "value": value, "topic": topic, "partition": partition, "offset": offset}
            for topic, partition, offset, value in records
        ]
        receipts += list(reader.run(iter([pa.RecordBatch.from_pylist(rows, schema=RAW_SCHEMA)])))
    return joined(pa.Table.from_batches(receipts), tables)


def rows_of(found: Gathered, topic: str) -> dict[int, tuple[bool, str | None]]:
    return {one["id"]: (one[DELETED], one["name"]) for one in found.rows[topic].to_pylist()}


def test_the_last_row_of_a_key_counts_in_each_topic() -> None:
    tables = {"goods": known("id", "name"), "people": known("id", "name")}
    task = [
        ("goods", 0, 5, message("+I", id=1, name="a")),
        ("people", 0, 7, message("+I", id=1, name="x")),
        ("goods", 0, 6, message("-D", id=1, name="a")),
        ("goods", 0, 7, message("+I", id=2, name="b")),
        ("people", 0, 8, None),
    ]
    found = gathered(tables, task)
    assert rows_of(found, "goods") == {1: (True, None), 2: (False, "b")}
    assert rows_of(found, "people") == {1: (False, "x")}
    assert found.begins == {"goods": {0: 5}, "people": {0: 7}}


def test_a_topic_with_an_unknown_schema_gives_no_rows() -> None:
    old, new = message("+I", id=1, name="a"), message("+I", id=2, name="b", more="c")
    tables = {"goods": known("id", "name")}
    found = gathered(tables, [("goods", 0, 0, old)], [("goods", 1, 0, new), ("other", 0, 0, old)])
    assert found.rows == {}
    assert found.unknown == {"goods": ["id name more"], "other": ["id name"]}


def test_unknown_schemas_are_in_the_order_of_partitions_and_offsets() -> None:
    one, two, three = (message("+I", **dict.fromkeys(["id", name])) for name in "abc")
    found = gathered({}, [("t", 1, 4, three)], [("t", 0, 9, two), ("t", 0, 8, one), ("t", 0, 10, None)])
    assert found.unknown == {"t": ["id a", "id b", "id c"]}


def test_a_bad_message_is_a_failure_of_its_topic_only() -> None:
    tables = {"goods": known("id", "name"), "people": known("id", "name")}
    bad = b'{"columns": ["id", "name"], "kind": "bad", "row": {}}'
    task = [("goods", 3, 12, bad), ("people", 0, 0, message("+I", id=1, name="a"))]
    found = gathered(tables, task)
    assert found.failures == {
        "goods": "partition 3: 1 messages are not changes of the table (offset 12: is bad)"
    }
    assert set(found.rows) == {"people"}


def test_a_null_in_the_key_is_a_failure_of_its_topic() -> None:
    found = gathered({"goods": known("id", "name")}, [("goods", 0, 1, message("+I", id=None, name="a"))])
    assert "partition 0: Expected a value in column 'id'" in found.failures["goods"]


def test_rows_of_one_key_in_two_partitions_are_a_failure() -> None:
    row = message("+I", id=1, name="a")
    found = gathered({"goods": known("id", "name")}, [("goods", 0, 0, row)], [("goods", 1, 0, row)])
    assert found.rows == {}
    assert "Partitions 0, 1 have rows of one key" in found.failures["goods"]


def test_a_topic_that_is_left_out_is_not_read() -> None:
    bad = b"not JSON"
    task = [("goods", 0, 0, bad), ("people", 0, 0, message("+I", id=1, name="a"))]
    found = gathered({"people": known("id", "name")}, task, left_out=frozenset({"goods"}))
    assert set(found.rows) == {"people"}
    assert not found.failures


CHANGE = st.tuples(
    st.sampled_from(["a", "b"]),
    st.integers(0, 3),
    st.sampled_from(["+I", "+U", "-D", "-U"]),
    st.text("xyz", max_size=2),
)


@given(st.lists(CHANGE, min_size=1, max_size=30), st.lists(st.integers(0, 30), max_size=6), st.randoms())
def test_how_records_are_divided_among_tasks_does_not_matter(
    changes: list[tuple[str, int, str, str]], cuts: list[int], random: Any
) -> None:
    """A topic partition may be cut into several tasks, and a task may read several, mixed with each other."""
    records: list[Record] = []
    offsets: dict[tuple[str, int], int] = {}
    for topic, key, kind, name in changes:
        place = (topic, key % 2)
        offsets[place] = offsets.get(place, -1) + 2
        records.append((*place, offsets[place], message(kind, id=key, name=name)))
    ends = sorted({0, len(records), *(cut for cut in cuts if cut < len(records))})
    tasks = [records[begin:end] for begin, end in pairwise(ends)]
    random.shuffle(tasks)
    tables = {topic: known("id", "name") for topic in "ab"}
    found = gathered(tables, *tasks)
    expected: dict[str, dict[int, tuple[bool, str | None]]] = {}
    for topic, key, kind, name in changes:
        is_deleted = kind in ("-D", "-U")
        expected.setdefault(topic, {})[key] = (is_deleted, None if is_deleted else name)
    assert {topic: rows_of(found, topic) for topic in found.rows} == expected


def test_ranges_that_are_mixed_are_refused() -> None:
    """Offsets alone tell the order of two tasks, because the source cuts each topic partition once."""
    first, second, third = (("goods", 0, n, message("+I", id=1, name="a")) for n in range(3))
    with pytest.raises(AssertionError, match="expected each range of"):
        gathered({"goods": known("id", "name")}, [first, third], [second])


def test_records_without_keys_in_several_partitions_are_a_failure() -> None:
    row = message("+I", id=1, name="a")
    reader = Reader(SmallFormat(), {"goods": known("id", "name")})
    for partition, is_refused in ((0, False), (1, True)):
        records = [{"key": None, "value": row, "topic": "goods", "partition": partition, "offset": 0}]
        receipts = list(reader.run(iter([pa.RecordBatch.from_pylist(records, schema=RAW_SCHEMA)])))
        found = joined(pa.Table.from_batches(receipts), reader.tables)
        assert ("Records have no key" in found.failures.get("goods", "")) is is_refused
