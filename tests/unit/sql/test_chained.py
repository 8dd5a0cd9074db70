"""Which rows go from one operator to the next in packages, and that they are those of Spark's SQL."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.changelog.row_kinds import NAMES, ROW_KIND
from penstock.spark.exchange import Side
from penstock.sql.emit.arrow_types import arrow_type
from penstock.sql.emit.arrow_values import without_pairs
from penstock.sql.emit.select import without_pairs as text_without_pairs
from penstock.sql.plan.nodes import Stateful
from penstock.sql.plan.rewrite import nodes_in
from penstock.sql.run import _chained
from penstock.sql.run._chained import chained_side, operator_below
from tests.unit.sql.declared import TOPIC
from tests.unit.sql.planning import How, RecordedViews, catalog_of, planned

HOW = How(
    views=RecordedViews(knows_all=False),
    catalog=catalog_of(
        "CREATE TABLE t (k INT, s STRING, l BIGINT, d DOUBLE, p DECIMAL(10, 2), day DATE, a ARRAY<INT>, "
        f"ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'kafka', 'format' = 'json', {TOPIC})"
    ),
    is_insert=True,
)
COUNTED = "SELECT s, k, COUNT(*) AS n FROM t GROUP BY s, k"
BEST = "SELECT s, l FROM (SELECT s, l, ROW_NUMBER() OVER (PARTITION BY s ORDER BY l DESC) AS n FROM {}) WHERE n <= 1"


def frame(columns: pa.Schema, limit: str = "64m") -> Any:
    """Return what stands for a DataFrame of Spark with these columns."""
    conf = SimpleNamespace(get=lambda _: limit)
    schema = from_arrow_schema(columns, prefer_timestamp_ntz=True)
    return SimpleNamespace(schema=schema, sparkSession=SimpleNamespace(conf=conf))


def packed_as(_: Any) -> Any:
    return lambda packing: packing


def last_of(query: str) -> tuple[Stateful, bool]:
    """Return the last operator of a query, and whether the rows of its input change."""
    found = planned(query, HOW)
    last = next(each for each in nodes_in(found.plan) if isinstance(each, Stateful))
    return last, found.traits(last.inputs[0].node).changes


def side_of(
    query: str, patch: pytest.MonkeyPatch, given_as: dict[str, pa.DataType] | None = None, limit: str = "64m"
) -> tuple[Side | None, Stateful]:
    """Return how the rows of the last operator come in packages, and the operator that gives them.

    `given_as`: types of the columns that this one gives, by their names, where they are not those of the plan.
    """
    patch.setattr(_chained, "packed_rows", packed_as)
    last, changes = last_of(query)
    [rows] = last.inputs
    below = operator_below(rows.node)
    assert below is not None
    kinds = [(ROW_KIND, pa.string())]
    types = {
        name: (given_as or {}).get(column.name, arrow_type(column.type)) for name, column in below.columns
    }
    made = pa.schema([*types.items(), *kinds])
    taken = pa.schema(
        [*((name, arrow_type(column.type)) for name, column in rows.columns), *(kinds if changes else [])]
    )
    return chained_side(rows, frame(taken, limit), frame(made), is_utc=True), below


CHAIN = f"SELECT s, SUM(n) AS total FROM ({COUNTED}) WHERE n <> 2 AND k > 0 GROUP BY s"


@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from([None, "a", "b"]),
            st.one_of(st.none(), st.integers(-2, 2)),
            st.integers(0, 3),
            st.sampled_from(NAMES),
        ),
        max_size=20,
    )
)
def test_changes_that_a_condition_keeps_come_or_go_by_themselves(rows: list[tuple[Any, ...]]) -> None:
    """The condition may keep one of -U and +U: then it is -D or +I, and its values are those that it had."""
    with pytest.MonkeyPatch.context() as patch:
        side, below = side_of(CHAIN, patch)
    assert side is not None
    schema = pa.schema([("g0", pa.string()), ("g1", pa.int32()), ("r0", pa.int64()), (ROW_KIND, pa.string())])
    assert [label for label, _ in below.columns] == ["g0", "g1", "r0"]
    taken = pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
    made = side.program(taken)
    signs = {"+I": "+I", "+U": "+I", "-U": "-D", "-D": "-D"}
    wanted = [(s, n, signs[kind]) for s, k, n, kind in rows if n != 2 and k is not None and k > 0]
    assert side.columns.names == ["g0", "a0", ROW_KIND]
    assert list(zip(*(made.column(name).to_pylist() for name in side.sources), strict=True)) == wanted


def test_row_kinds_stay_what_they_are_without_a_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    side, below = side_of(f"SELECT s, SUM(n) AS total FROM ({COUNTED}) GROUP BY s", monkeypatch)
    assert side is not None
    arrays = {label: pa.nulls(4, arrow_type(column.type)) for label, column in below.columns}
    arrays[ROW_KIND] = pa.array(NAMES)
    made = side.program(pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays)))
    assert made.column(ROW_KIND).to_pylist() == list(NAMES)


def test_distinct_counts_a_null_of_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    side, below = side_of(f"SELECT DISTINCT s, n FROM ({COUNTED})", monkeypatch)
    assert side is not None
    arrays = {label: pa.nulls(4, arrow_type(column.type)) for label, column in below.columns}
    arrays[ROW_KIND] = pa.array(NAMES)
    made = side.program(pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays)))
    assert made.column("a0").equals(pa.nulls(4, pa.int32()))


def test_row_kinds_become_those_of_the_text_for_spark() -> None:
    assert text_without_pairs("x") == "CASE WHEN x IN ('+I', '+U') THEN '+I' ELSE '-D' END"
    assert without_pairs(pa.array(NAMES)).to_pylist() == ["+I", "-D", "+I", "-D"]


def test_only_the_inserts_of_an_operator_come_where_the_query_wants_these(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    side, below = side_of(
        "SELECT s, COUNT(*) AS n FROM (SELECT DISTINCT s, k FROM t) GROUP BY s", monkeypatch
    )
    assert side is not None
    assert below.is_inserts
    assert ROW_KIND not in side.columns.names
    arrays = {
        label: pa.array(range(4), arrow_type(column.type))
        if column.name == "k"
        else pa.array(["a", "b", "c", "d"])
        for label, column in below.columns
    }
    arrays[ROW_KIND] = pa.array(["+I", "+U", "-U", "+I"])
    made = side.program(pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays)))
    assert made.num_rows == 2


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT s, SUM(n / k) AS x FROM ({COUNTED}) GROUP BY s",
        f"SELECT s, SUM(n + 1) AS x FROM ({COUNTED}) GROUP BY s",
        f"SELECT s, SUM(CAST(s AS INT)) AS x FROM ({COUNTED}) GROUP BY s",
        f"SELECT s, MAX(UPPER(s)) AS x FROM ({COUNTED}) WHERE LOWER(s) = 'a' GROUP BY s",
    ],
)
def test_what_may_fail_where_spark_gives_a_value_comes_as_rows(
    query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert side_of(query, monkeypatch)[0] is None


def test_rows_of_other_types_than_the_plan_says_come_as_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    query = f"SELECT s, SUM(n) AS total FROM ({COUNTED}) GROUP BY s"
    assert side_of(query, monkeypatch)[0] is not None
    assert side_of(query, monkeypatch, {"r0": pa.int32()})[0] is None
    assert side_of(query, monkeypatch, {"k": pa.int64()})[0] is None


def test_rows_come_as_rows_where_spark_does_not_bound_an_arrow_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert side_of(CHAIN, monkeypatch, limit="")[0] is None


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, COUNT(*) AS n FROM t GROUP BY k",
        f"SELECT s, COUNT(*) AS n FROM (SELECT s FROM ({COUNTED}) UNION ALL SELECT s FROM t) GROUP BY s",
        BEST.format("(SELECT s, COUNT(*) AS l FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR)) "
        "GROUP BY s, window_start, window_end)"),
    ],
    ids=["a read", "a union", "a window of Spark"],
)  # fmt: skip
def test_rows_that_are_not_those_of_one_operator_come_as_rows(query: str) -> None:
    last, _ = last_of(query)
    assert operator_below(last.inputs[0].node) is None


def test_a_dataframe_that_no_operator_has_made_gives_no_packages() -> None:
    last, _ = last_of(CHAIN)
    [rows] = last.inputs
    assert chained_side(rows, frame(pa.schema([])), SparkFrame(), is_utc=True) is None


class SparkFrame:
    """A DataFrame: it can be remembered."""
