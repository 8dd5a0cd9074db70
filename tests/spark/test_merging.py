"""Sessions of tables that Spark changes by MERGE, on real Spark without a JAR of a table."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from penstock import changelog
from penstock.errors import OptionError, RowError
from penstock.spark.merging import binder, own_session
from penstock.targets import SparkIcebergTable
from penstock.targets._variants import Variants
from tests.unit.targets.changes import batch

UNKNOWN = "spark.sql.catalog.prod-lake.uri"
"""Spark has no setting of this name, so its value may be any."""


@pytest.fixture
def user(spark: SparkSession) -> SparkSession:
    """A session with a setting that Spark does not know."""
    session = spark.newSession()
    session.conf.set(UNKNOWN, "thrift://a")
    return session


def test_a_session_of_a_table_has_all_settings_of_the_user_and_no_others_later(user: SparkSession) -> None:
    with own_session(user) as own:
        first: Any = own.spark
        assert own.setting(UNKNOWN) == "thrift://a"
        assert own.setting("spark.wap.branch") is None
    with own_session(user) as own:
        assert own.spark is first
    user.conf.unset(UNKNOWN)
    with own_session(user) as own:
        assert own.spark is not first
        assert own.setting(UNKNOWN) is None
    settings, found = user.conf.getAll, own.spark.conf.getAll
    assert {name for name in settings if found.get(name) != settings[name]} <= {"spark.sql.adaptive.enabled"}


def test_a_branch_of_iceberg_is_refused_before_the_start(user: SparkSession) -> None:
    rows = user.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load().select("value")
    user.conf.set("spark.wap.branch", "audit")
    with pytest.raises(OptionError, match=r"spark\.wap\.branch is 'audit'.* Nothing was written"):
        changelog.materialize(rows, ["value"], SparkIcebergTable("shop.t"))


def test_types_are_read_again_by_spark_with_odd_names_of_fields(user: SparkSession) -> None:
    odd = pa.struct([("order-id", pa.int8()), ("it`s", pa.list_(pa.struct([("a.b", pa.int16())])))])
    columns = pa.schema([("id", pa.int64()), ("na%me", odd), ("m", pa.map_(pa.string(), odd))])
    with own_session(user) as own:
        types = own.types(columns)
        listed = ", ".join(f"`{name}` {kind}" for name, kind in types.items())
        own.rows(f"CREATE TABLE default.`2024_odd` ({listed}) USING json")
        try:
            assert own.has_table("`default`.`2024_odd`")
            assert own.columns("`default`.`2024_odd`") == types
            assert own.read("`default`.`2024_odd`", ["1 AS one"], limit=1) == []
        finally:
            own.rows("DROP TABLE default.`2024_odd`")


def test_the_view_of_a_batch_has_its_rows(user: SparkSession) -> None:
    with own_session(user) as own:
        with own.view(batch(0, [(1, "a", "+U"), (2, None, "-D")])) as view:
            found = own.read(view, ["id", "penstock_deleted"])
        with pytest.raises(ParseException), own.view(batch(0, [])) as view:
            own.rows("MERGE INTO")
        assert not own.has_table(view)
    assert sorted(found, key=str) == [
        {"id": 1, "penstock_deleted": False},
        {"id": 2, "penstock_deleted": True},
    ]


@dataclass
class Noting:
    """A table that notes a local property while another table does the same."""

    name: str
    both: Barrier
    session: Any = None

    def in_session(self, session: Any) -> Noting:
        return Noting(self.name, self.both, session)

    def apply(self, batch: Any) -> bool:
        context = self.session.spark.sparkContext
        context.setLocalProperty("of.table", self.name)
        self.both.wait(60)
        return [context.getLocalProperty(each) for each in ("of.table", "of.query")] == [self.name, "query"]


def test_tables_at_work_have_local_properties_of_their_own_and_those_of_the_query(user: SparkSession) -> None:
    user.sparkContext.setLocalProperty("of.query", "query")
    try:
        bound, both = binder(user.range(1)), Barrier(2)
        with ThreadPoolExecutor(2) as pool:
            found = pool.map(lambda name: bound(Noting(name, both)).apply(batch(0, [])), "ab")
            assert list(found) == [True, True]
    finally:
        user.sparkContext.setLocalProperty("of.query", "")


VARIANTS = Variants(["it's"], "the table t")
WHOLE = {
    '{"a": 1.50, "b": [true, null, "\\u00fc"]}': '{"a":1.5,"b":[true,null,"ü"]}',
    "null": "null",
    ' [1 , {"v": 2}] ': '[1,{"v":2}]',
    '"]}"': '"]}"',
    r'"\ud83d\ude00\\ud800"': r'"😀\\ud800"',
    "12345678901234567890.123456789012345678": "12345678901234567890.123456789012345678",
}
"""Texts that are JSON, and what Spark writes for their VARIANT."""
BROKEN = (
    "",
    " ",
    "pen",
    "{",
    "NaN",
    "1 2",
    "1, 2",
    '{"a":1}{"b":2}',
    "1] x",
    "1} x",
    '1, "w": 2',
    '1, "v"',
    '1], "w": [2',
    '{"a":1,"a":2}',
    "1 // x",
    r'"\ud83d"',
    r'"\ude00 \ud83d\ude00"',
    r'"\\ud83d\ude00"',
    r'"\ud83d\\\ude00"',
)


def _parsed(session: Any, texts: list[str | None]) -> Any:
    frame = session.createDataFrame(
        [(number, text) for number, text in enumerate(texts)], "id INT, `it's` STRING"
    )
    frame.createOrReplaceTempView("texts")
    value = VARIANTS.value("it's", 7)
    return session.sql(f"SELECT s.id, {value} AS v FROM texts AS s ORDER BY s.id")  # noqa: S608 - of this module


def test_a_text_becomes_a_variant_with_the_whole_of_it(user: SparkSession) -> None:
    found = _parsed(user, [*WHOLE, None])
    assert dict(found.dtypes)["v"] == "variant"
    rows = found.selectExpr("to_json(v) AS text", "v IS NULL AS is_null").collect()
    assert [row.text for row in rows] == [*WHOLE.values(), None]
    assert [row.is_null for row in rows] == [*(False for _ in WHOLE), True]  # null of JSON is a value


@pytest.mark.parametrize("text", BROKEN)
def test_a_text_that_is_not_one_value_of_json_is_an_error(user: SparkSession, text: str) -> None:
    with (
        pytest.raises(
            RowError, match=r"Column 'it's' of the table t is VARIANT, and batch 7 has a text"
        ) as error,
        VARIANTS.rows_explained(7),
    ):
        _parsed(user, ["{}", text]).collect()
    assert error.value.facts == {"column": "it's", "batch_id": 7}


def test_a_number_that_a_variant_has_no_decimal_for_is_a_double(user: SparkSession) -> None:
    rows = _parsed(user, ["9" * 38, "9" * 39, "1e2"]).selectExpr("schema_of_variant(v) AS kind").collect()
    assert [row.kind for row in rows] == ["DECIMAL(38,0)", "DOUBLE", "DOUBLE"]
