"""Keys are compared as Spark compares them, or refused: two types, collations, names of penstock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock import changelog
from penstock.errors import SchemaError


@pytest.fixture
def far_zone(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield
    spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("TIMESTAMP_NTZ'2024-01-01 00:00:00'", "TIMESTAMP'2024-06-01 00:00:00'"),
        ("DATE'2024-01-01'", "TIMESTAMP'2024-06-01 12:00:00'"),
        ("CAST(0.1 AS FLOAT)", "0.1D"),
        ("1", "5000000000"),
        ("CAST(1.5 AS DECIMAL(5, 1))", "CAST(1.55 AS DECIMAL(5, 2))"),
        ("'1'", "2"),
    ],
)
@pytest.mark.usefixtures("far_zone")
def test_keys_of_two_types_come_out_as_in_a_join_of_spark(spark: SparkSession, left: str, right: str) -> None:
    ones = spark.sql(f"SELECT {left} AS k, 'one' AS a")
    others = spark.sql(f"SELECT {right} AS k, 'other' AS b UNION ALL SELECT {left}, 'both'")
    for how in ("full", "right", "left", "inner"):
        expected = ones.join(others, "k", how)
        found = changelog.join(ones, others, ["k"], how=how).drop("row_kind")
        if how in ("full", "right"):
            assert found.schema["k"].dataType == ones.join(others, "k", "full").schema["k"].dataType
        assert texts(found) == texts(expected.select(found.columns).to(found.schema))


def test_without_ansi_a_text_and_a_number_are_refused(spark: SparkSession) -> None:
    """Spark's union would compare '01' and 1 as texts, and its join as numbers."""
    ones, others = spark.sql("SELECT '01' AS k, 'a' AS a"), spark.sql("SELECT 1 AS k, 'b' AS b")
    before = str(spark.conf.get("spark.sql.ansi.enabled"))
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises(SchemaError, match="'k' is string on the left side and int on the right side"):
            changelog.join(ones, others, ["k"])
        assert ones.join(others, "k").count() == 1
        changelog.join(ones.selectExpr("CAST(k AS INT) AS k", "a"), others, ["k"])
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)


def texts(rows: DataFrame) -> Counter[str]:
    return Counter(map(str, rows.collect()))


Call = Callable[[DataFrame], DataFrame]
COLLATED: list[Call] = [
    lambda df: changelog.normalize(df, ["k"], order_by=["v"]),
    lambda df: changelog.normalize(df, ["v"], order_by=["k"]),
    lambda df: changelog.deduplicate(df, ["k"], order_by=["v"]),
    lambda df: changelog.top_n(df, ["v"], 1, order_by=["k desc"]),
    lambda df: changelog.aggregate(df, ["v"], {"n": "count(distinct k)"}),
    lambda df: changelog.join(df, df.selectExpr("lower(k) AS other"), {"k": "other"}),
    lambda df: changelog.over(df, ["k"], {"n": "count(*)"}, time="at", delay="0 s"),
    lambda df: changelog.sessions(df, ["k"], time="at", gap="1 s", delay="0 s"),
    lambda df: changelog.sort_by_time(df, time="at", delay="0 s", order_by=["k"]),
    lambda df: changelog.in_order(df, ["k"], order_by=["v"]),
]


@pytest.mark.parametrize("call", COLLATED)
def test_a_text_that_spark_does_not_compare_by_its_bytes_is_refused(spark: SparkSession, call: Call) -> None:
    df = spark.sql("SELECT 'a' COLLATE UTF8_LCASE AS k, 1 AS v, current_timestamp() AS at")
    with pytest.raises(SchemaError, match="string collate UTF8_LCASE, and texts are compared by their bytes"):
        call(df)
    call(df.selectExpr("k COLLATE UTF8_BINARY AS k", "v", "at"))
    changelog.normalize(df, ["v"], order_by=["at"])  # k is kept, and not compared with other keys


@pytest.mark.parametrize("rank", ["row_kind", "#key_high"])
def test_a_rank_with_a_name_of_penstock_is_refused(spark: SparkSession, rank: str) -> None:
    with pytest.raises(SchemaError, match=r"stands twice|begins with '#'"):
        changelog.top_n(spark.sql("SELECT 1 AS k, 2 AS v"), ["k"], 1, order_by=["v"], rank=rank)


def test_a_column_without_a_type_is_kept(spark: SparkSession) -> None:
    rows = spark.sql("SELECT 1 AS k, NULL AS n, v FROM VALUES (1), (2) AS rows(v)")
    [found] = changelog.normalize(rows, ["k"], order_by=["v"]).collect()
    assert (found["n"], found["row_kind"]) == (None, "+I")
