"""Two tables are compared by digests, and the rows that differ are named by their keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.errors import MaterializeError, OptionError
from penstock.targets import compare
from penstock.targets.compare import Rows, compare_rows
from tests.corruptions import tables

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("tags", pa.list_(pa.string()))])
TABLES = st.dictionaries(
    st.integers(0, 9),
    st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([None, [], ["x"], ["x", None]])),
    max_size=8,
)


def rows(table: dict[int, Any], schema: pa.Schema = SCHEMA, keys: tuple[str, ...] = ("id",)) -> Rows:
    found = [dict(zip(SCHEMA.names, (key, *row), strict=True)) for key, row in table.items()]
    batches = pa.Table.from_pylist(found, schema=SCHEMA).select(schema.names).cast(schema).to_batches(2)
    return Rows(schema, keys, lambda: batches)


@given(TABLES, TABLES)
def test_it_is_equal_if_and_only_if_the_rows_are_and_otherwise_the_keys_are_named(
    one: dict[int, Any], two: dict[int, Any]
) -> None:
    found = compare_rows(rows(one), rows(two))
    assert found.is_equal == (one == two)
    assert (found.digests[0] == found.digests[1]) == (one == two)
    assert found.counts == (len(one), len(two))
    assert {(row.kind, row.key["id"]) for row in found.rows} == {
        *(("only-live", key) for key in one.keys() - two.keys()),
        *(("only-shadow", key) for key in two.keys() - one.keys()),
        *(("changed", key) for key in one.keys() & two.keys() if one[key] != two[key]),
    }
    for row in found.rows:
        if row.kind == "changed":
            pairs = zip(("name", "tags"), one[row.key["id"]], two[row.key["id"]], strict=True)
            assert row.columns == tuple(name for name, left, right in pairs if left != right)


def _twice(table: Rows, *again: int) -> Rows:
    batches = [*table.read(), *pa.Table.from_batches(table.read()).take(list(again)).to_batches()]
    return Rows(table.schema, table.keys, lambda: batches)


def test_a_row_that_is_there_twice_is_named() -> None:
    table = rows({1: ("a", None), 2: ("b", None)})
    found = compare_rows(_twice(table, 1), table)
    assert (found.is_equal, found.counts) == (False, (3, 2))
    (row,) = found.rows
    assert (row.kind, row.key, row.times) == ("more-often", {"id": 2}, (2, 1))
    assert row.text == "Rows with id = 2: 2 in the table of the running job, 1 in that of the shadow."
    assert compare_rows(_twice(table, 1), _twice(table, 1)).is_equal


def test_of_rows_with_one_key_each_column_that_differs_is_named() -> None:
    one, two = _twice(rows({1: ("a", None)}), 0), _twice(rows({1: ("b", None)}), 0)
    (row,) = compare_rows(one, two).rows
    assert (row.kind, row.columns, row.times) == ("changed", ("name",), (2, 2))
    batches = [*rows({1: ("a", ["x"])}).read(), *rows({1: ("b", None)}).read()]
    crossed = [*rows({1: ("a", None)}).read(), *rows({1: ("b", ["x"])}).read()]
    found = compare_rows(Rows(SCHEMA, ("id",), lambda: batches), Rows(SCHEMA, ("id",), lambda: crossed))
    assert (found.is_equal, found.rows[0].columns) == (False, ("id", "name", "tags"))


@pytest.mark.parametrize("corruption", [*tables.CORRUPTIONS, None])
def test_a_corruption_of_a_table_is_found_and_its_key_is_named(corruption: str | None) -> None:
    assert [each for seed in range(20) if (each := tables.failure(seed, corruption))] == []


def test_of_many_rows_that_differ_some_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "_KEPT_MAX", 50)
    found = compare_rows(rows(dict.fromkeys(range(500), ("a", None))), rows({}))
    assert (found.counts, len(found.rows), found.has_more, found.is_equal) == ((500, 0), 20, True, False)


def test_columns_that_only_one_has_are_named_unless_others_are_wanted() -> None:
    one, two = (
        rows({1: ("a", None)}),
        rows({1: ("a", None)}, pa.schema([("id", pa.int64()), ("name", pa.binary())])),
    )
    found = compare_rows(one, two)
    assert not found.is_equal
    assert found.not_compared == (
        "The column name has type string in the table of the running job and binary in that of the shadow.",
        "Only the table of the running job has the column tags.",
    )
    assert compare_rows(one, two, ["id"]).is_equal
    with pytest.raises(OptionError, match="the table of the shadow has no column tags"):
        compare_rows(one, two, ["tags"])


def test_tables_with_other_keys_are_not_compared() -> None:
    with pytest.raises(MaterializeError, match=r"Expected the primary key id .* got id, name"):
        compare_rows(rows({}), rows({}, keys=("id", "name")))


def test_a_key_is_shown_as_json_shows_a_text() -> None:
    found = compare_rows(rows({1: ("a", None)}), rows({1: ("b", ["x"])}))
    assert found.rows[0].text == "The row with id = 1 differs in name, tags."
    by_name = compare_rows(rows({1: ("a", None)}, keys=("name",)), rows({}, keys=("name",)))
    assert by_name.rows[0].text == 'Only the table of the running job has the row with name = "a".'


def test_times_that_python_does_not_have_are_compared_and_shown() -> None:
    at = pa.timestamp("us", "UTC")
    schema = pa.schema([("at", at), ("day", pa.date32()), ("times", pa.list_(at))])

    def table(day: int, time: int) -> Rows:
        columns = (
            pa.array([0, 10**18], pa.int64()).cast(at),
            pa.array([1, day], pa.int32()).cast(pa.date32()),
            pa.array([[0], [time]], pa.list_(pa.int64())).cast(pa.list_(at)),
        )
        return Rows(schema, ("at",), lambda: pa.table(list(columns), schema=schema).to_batches())

    assert compare_rows(table(10**8, 10**18), table(10**8, 10**18)).is_equal
    found = compare_rows(table(10**8, 10**18), table(10**7, 10**18 + 1))
    [row] = found.rows
    assert (row.kind, row.columns) == ("changed", ("day", "times"))
    assert row.text == f'The row with at = "{10**18} as timestamp[us, tz=UTC]" differs in day, times.'
    alone = Rows(schema, ("at",), list)
    [first, second] = compare_rows(table(1, 1), alone).rows
    assert first.to_json()["key"] == {"at": "1970-01-01 00:00:00+00:00"}
    assert second.kind == "only-live"


MAPS = st.one_of(st.none(), st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([1, 2, None]))))


@given(MAPS, MAPS, st.sampled_from(["map", "list", "struct", "map in a map"]))
@example([("a", 1), ("b", 2)], [("b", 2), ("a", 1)], "map")
@example([("a", 1), ("b", 2)], [("a", 2), ("b", 1)], "map")
def test_maps_are_equal_if_their_entries_are_in_any_order(one: Any, two: Any, where: str) -> None:
    kind = pa.map_(pa.string(), pa.int64())
    ways: dict[str, tuple[Any, Callable[[Any], Any]]] = {
        "map": (kind, lambda value: value),
        "list": (pa.list_(kind), lambda value: [value]),
        "struct": (pa.struct([("m", kind)]), lambda value: {"m": value}),
        "map in a map": (pa.map_(pa.int64(), kind), lambda value: [(1, value)]),
    }
    nested, put = ways[where]
    schema = pa.schema([("id", pa.int64()), ("at", nested)])

    def table(value: Any) -> Rows:
        found = [{"id": 1, "at": put(value)}, {"id": 2, "at": None}]
        return Rows(schema, ("id",), lambda: [pa.RecordBatch.from_pylist(found, schema)])

    as_sorted = [None if each is None else sorted(each, key=repr) for each in (one, two)]
    found = compare_rows(table(one), table(two))
    assert found.is_equal == (as_sorted[0] == as_sorted[1])
    assert [row.columns for row in found.rows] == ([] if found.is_equal else [("at",)])


def test_a_list_in_another_order_differs() -> None:
    one, two = rows({1: ("a", ["x", "y"])}), rows({1: ("a", ["y", "x"])})
    assert [row.columns for row in compare_rows(one, two).rows] == [("tags",)]


def test_a_map_with_a_time_that_python_does_not_have_is_compared_in_any_order_too() -> None:
    schema = pa.schema([("id", pa.int64()), ("at", pa.map_(pa.string(), pa.timestamp("s")))])
    far = pa.scalar(2**40, pa.timestamp("s"))

    def table(*entries: str) -> Rows:
        keys, times = pa.array(entries), pa.array([far.value] * len(entries), pa.timestamp("s"))
        maps = pa.MapArray.from_arrays([0, len(entries)], keys, times)
        batch = pa.RecordBatch.from_arrays([pa.array([1]), maps.cast(schema.field("at").type)], schema=schema)
        return Rows(schema, ("id",), lambda: [batch])

    assert compare_rows(table("a", "b"), table("b", "a")).is_equal
    [row] = compare_rows(table("a", "b"), table("b", "c")).rows
    assert row.columns == ("at",)
