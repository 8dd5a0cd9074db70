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
from penstock.errors import OptionError
from penstock.spark.merging import binder, own_session
from penstock.targets import SparkIcebergTable
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
