"""Sessions of tables that Spark changes by MERGE: their settings, and what they read past the cache."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.types import ArrayType, ByteType, IntegerType, MapType, StringType, StructField, StructType

from penstock.cdc.commits import RunsJobs
from penstock.spark import merging
from penstock.spark.merging import SparkSessionOfTable, WithSpark, own_session, sql_type

STALE = "spark.databricks.delta.stalenessLimit"
STATIC = {"spark.sql.warehouse.dir": "/w"}


@dataclass
class FakeConf:
    """Settings of a session. Static ones cannot be set."""

    getAll: dict[str, str]

    def set(self, name: str, value: str) -> None:
        if name in STATIC:
            raise AnalysisException(f"cannot modify {name}", messageParameters={})
        self.getAll[name] = value

    def unset(self, name: str) -> None:
        if name in STATIC:
            raise AnalysisException(f"cannot modify {name}", messageParameters={})
        self.getAll.pop(name, None)

    def get(self, name: str, default: str | None) -> str | None:
        return self.getAll.get(name, default)


@dataclass
class FakeCatalog:
    """The current catalog and schema of a session."""

    catalog: str = "spark_catalog"
    schema: str = "default"

    def currentCatalog(self) -> str:
        return self.catalog

    def currentDatabase(self) -> str:
        return self.schema

    def setCurrentCatalog(self, name: str) -> None:
        self.catalog, self.schema = name, "default"

    def setCurrentDatabase(self, name: str) -> None:
        self.schema = name


@dataclass
class FakeSession:
    """A session of Spark."""

    conf: FakeConf
    catalog: FakeCatalog = field(default_factory=FakeCatalog)
    sparkContext: Any = field(default_factory=lambda: SimpleNamespace(applicationId="app"))

    def newSession(self) -> FakeSession:
        return FakeSession(FakeConf({"spark.sql.shuffle.partitions": "200"} | STATIC))


@pytest.fixture(autouse=True)
def no_idle_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "_idle", {})


def session(**settings: str) -> FakeSession:
    named = {name.replace("__", "."): value for name, value in settings.items()}
    return FakeSession(FakeConf({"spark.sql.warehouse.dir": "/other", **named}))


def used(of: FakeSession) -> FakeSession:
    """Return the session that a table of another one gets."""
    with own_session(of) as own:
        found: FakeSession = own.spark
    return found


def test_settings_that_spark_does_not_know_are_copied_and_static_ones_are_left() -> None:
    user = session(spark__sql__catalog__lake__uri="thrift://a", spark__sql__shuffle__partitions="2")
    user.conf.getAll["spark.sql.adaptive.enabled"] = "false"
    assert used(user).conf.getAll == {
        "spark.sql.catalog.lake.uri": "thrift://a",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": "/w",
        STALE: "0",
    }


def test_a_setting_of_the_application_that_the_user_has_unset_is_unset() -> None:
    assert used(session(a="1")).conf.getAll == {"a": "1", "spark.sql.warehouse.dir": "/w", STALE: "0"}


def test_a_stale_read_of_delta_is_not_taken_over() -> None:
    user = session()
    user.conf.getAll[STALE] = "1h"
    assert used(user).conf.getAll[STALE] == "0"


def test_a_session_is_used_again_with_the_same_settings_only() -> None:
    first = used(session(a="1"))
    assert used(session(a="1")) is first
    other = used(session(a="2"))
    assert other is not first
    assert used(session()) not in (first, other)
    assert used(session(a="2")) is other


def test_two_tables_at_once_have_two_sessions() -> None:
    with own_session(session()) as one, own_session(session()) as other:
        assert one.spark is not other.spark


def test_a_session_that_has_failed_is_not_used_again() -> None:
    failed = []

    def fail() -> None:
        with own_session(session()) as own:
            failed.append(own.spark)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert used(session()) is not failed[0]


def test_only_a_few_idle_sessions_are_kept() -> None:
    for number in range(100):
        used(session(a=str(number)))
    assert len(merging._idle) == merging._MOST_IDLE


def test_the_catalog_and_the_schema_are_those_of_the_user() -> None:
    user = session()
    user.catalog = FakeCatalog("prod-lake", "shop")
    assert used(user).catalog == FakeCatalog("prod-lake", "shop")


def test_names_of_fields_stand_in_backquotes() -> None:
    struct = StructType([StructField("order-id", ByteType()), StructField("it`s", ArrayType(IntegerType()))])
    assert sql_type(struct) == "struct<`order-id`:tinyint,`it``s`:array<int>>"
    assert sql_type(MapType(StringType(), struct)) == f"map<string,{sql_type(struct)}>"


def test_each_read_has_an_option_of_its_own_so_that_no_cached_plan_is_equal() -> None:
    seen = []

    class Reader:
        def option(self, name: str, value: str) -> Reader:
            seen.append((name, value))
            return self

        def table(self, name: str) -> Any:
            rows = [SimpleNamespace(asDict=lambda: {"table": name})] * 3
            return SimpleNamespace(
                selectExpr=lambda *_: SimpleNamespace(
                    collect=lambda: rows, limit=lambda n: SimpleNamespace(collect=lambda: rows[:n])
                )
            )

    own = SparkSessionOfTable(SimpleNamespace(read=Reader()))
    assert own.read("`a`.`b`", ["1 AS one"]) == [{"table": "`a`.`b`"}] * 3
    assert own.read("`a`.`b`", ["1 AS one"], limit=1) == [{"table": "`a`.`b`"}]
    assert len(set(seen)) == 2


def test_replicate_knows_that_the_table_runs_jobs() -> None:
    assert isinstance(WithSpark(None, None, None), RunsJobs)
