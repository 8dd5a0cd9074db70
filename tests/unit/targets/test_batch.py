"""The last row of each key, and the digest of a batch."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from penstock.changelog.row_kinds import signs_of
from penstock.errors import RowError, SchemaError
from penstock.targets.batch import Batch, LastRows
from tests.unit.targets.changes import COLUMNS, LAST_ROWS, batch


def test_the_last_row_of_each_key_counts() -> None:
    found = batch(
        0, [(1, "a", "+I"), (2, "b", "+I"), (1, "a", "-U"), (1, "c", "+U"), (2, "b", "-D"), (3, "x", "-U")]
    )
    assert found.upserted().to_pylist() == [{"id": 1, "na%me": "c"}]
    assert found.deleted().to_pylist() == [{"id": 2}, {"id": 3}]
    assert found.rows.column("na%me").to_pylist() == ["c", None, None]


def test_the_rows_of_a_task_come_in_batches_and_may_have_no_kind() -> None:
    rows = pa.record_batch([pa.array([1, 2, 1]), pa.array(["a", "b", "c"])], names=COLUMNS.names)
    found = pa.Table.from_batches(LAST_ROWS.run([rows.slice(0, 2), rows.slice(2)]))
    assert found.to_pylist() == [
        {"id": 2, "na%me": "b", "#deleted": False},
        {"id": 1, "na%me": "c", "#deleted": False},
    ]
    assert list(LAST_ROWS.run([])) == []


def test_a_row_kind_in_other_case_is_an_error() -> None:
    rows = pa.table({"id": [1], "na%me": ["a"], "Row_Kind": ["-D"]})
    with pytest.raises(SchemaError, match="Column 'Row_Kind' is not the row kind"):
        LAST_ROWS.last_rows(rows)
    with pytest.raises(SchemaError, match="Column 'Row_Kind' is not the row kind"):
        signs_of(rows)


def test_a_null_in_the_key_is_an_error() -> None:
    rows = pa.record_batch([pa.array([None], pa.int64()), pa.array(["a"])], names=COLUMNS.names)
    with pytest.raises(RowError, match="value in column 'id'"):
        list(LAST_ROWS.run([rows]))


def test_a_key_of_two_tasks_is_an_error() -> None:
    rows = pa.concat_tables(
        [batch(0, [(1, "a", "+I"), (2, "b", "+I")]).rows, batch(0, [(1, "c", "+I")]).rows]
    )
    with pytest.raises(RowError, match=r"Rows of 1 keys of batch 3 .*in_order"):
        Batch("q", 3, ("id",), rows).check_keys()
    batch(0, [(1, "a", "+I"), (1, "b", "+U")]).check_keys()


def test_a_key_may_have_any_name() -> None:
    columns = pa.schema([("count_all", pa.int64()), ("index", pa.string()), ("index_max", pa.int64())])
    last = LastRows(tuple(columns.names), columns)
    rows = pa.table([[1, 1, 2], ["a", "a", "a"], [3, 3, 3]], names=columns.names).cast(columns)
    found = Batch("q", 0, last.keys, last.last_rows(rows))
    found.check_keys()
    assert found.rows.num_rows == 2
    with pytest.raises(RowError, match="Rows of 1 keys"):
        Batch("q", 0, last.keys, pa.concat_tables([found.rows, found.rows.slice(1)])).check_keys()


def test_the_digest_is_of_the_content_in_any_order() -> None:
    one = batch(0, [(1, "a", "+I"), (2, "b", "-D")])
    same = batch(7, [(2, "other", "-D"), (1, "a", "+U")], "other query")
    assert one.digest() == same.digest()
    others = ([(1, "a", "+I")], [(1, "a", "+I"), (2, "b", "+I")], [(1, None, "+I"), (2, None, "-D")])
    assert len({batch(0, changes).digest() for changes in others} | {one.digest()}) == 4


NESTED: list[tuple[pa.DataType, list[Any]]] = [
    (pa.list_(pa.int64()), [None, [], [1], [1, None], [2]]),
    (pa.list_(pa.float64()), [[0.0], [-0.0], [float("nan")], [None]]),
    (pa.map_(pa.string(), pa.binary()), [[], [("a", b"1")], [("a", b"2")], [("a", None)]]),
    (
        pa.struct({"at": pa.timestamp("us", "UTC"), "n": pa.decimal128(9, 2)}),
        [{"at": 1}, {"at": 2}, {"n": 1}],
    ),
    (pa.struct({"day": pa.date32(), "list": pa.list_(pa.bool_())}), [{"day": 1}, {"list": [True]}, {}]),
]


@pytest.mark.parametrize(("kind", "values"), NESTED)
def test_nested_values_are_in_the_digest(kind: pa.DataType, values: list[Any]) -> None:
    last = LastRows(("id",), pa.schema([("id", pa.int64()), ("nested", kind)]))

    def digest(value: Any) -> str:
        rows = pa.table({"id": [1], "nested": pa.array([value], kind)})
        return Batch("q", 0, ("id",), last.last_rows(rows)).digest()

    assert len({digest(value) for value in values}) == len(values)
    assert digest(values[-1]) == digest(values[-1])


def test_a_nested_time_that_python_does_not_have_is_an_error() -> None:
    columns = pa.schema([("id", pa.int64()), ("times", pa.list_(pa.timestamp("us")))])
    times = pa.ListArray.from_arrays([0, 1], pa.array([2**60]).cast(pa.timestamp("us")))
    rows = LastRows(("id",), columns).last_rows(pa.table([pa.array([1]), times], schema=columns))
    with pytest.raises(RowError, match="Column 'times' has a value that Python cannot hold"):
        Batch("q", 0, ("id",), rows).digest()
