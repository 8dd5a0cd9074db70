"""Queries that run in UTC for a session of another zone: what they refuse, and the types of their times."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest
from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.errors import SqlError
from penstock.sql.functions.zones import NeedsUtcError, has_zone, local_rows, without_zone
from penstock.sql.language.parse import parse_statement
from penstock.sql.language.source import Source
from penstock.sql.language.statements import CreateTable
from penstock.sql.plan.types import from_spark, spark_text, text_of_spark
from penstock.sql.run import _tables as tables
from penstock.sql.run._queries import Queries
from penstock.sql.run._views import SparkViews
from penstock.sql.run.catalog import Catalog, Table
from penstock.sql.run.settings import Settings

BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("timestamp", "timestamp_ntz"),
        ("timestamp_ntz", "timestamp_ntz"),
        ("struct<timestamp:bigint,a:array<timestamp>>", "struct<timestamp:bigint,a:array<timestamp_ntz>>"),
        ("map<string,timestamp>", "map<string,timestamp_ntz>"),
        ("struct<timestamp:bigint>", "struct<timestamp:bigint>"),
        (
            "struct<`a timestamp b`:int,`c``timestamp`:timestamp>",
            "struct<`a timestamp b`:int,`c``timestamp`:timestamp_ntz>",
        ),
        ("struct<`a timestamp b`:int>", "struct<`a timestamp b`:int>"),
    ],
)
def test_types_without_a_zone(kind: str, expected: str) -> None:
    assert (without_zone(kind), has_zone(kind)) == (expected, kind != expected)


NESTED = StructType(
    [
        StructField("order-id", IntegerType()),
        StructField("at", TimestampType()),
        StructField("a`b", ArrayType(MapType(StringType(), StructType([StructField("ü", LongType())])))),
    ]
)
NESTED_SQL = "struct<`order-id`:int,at:timestamp,`a``b`:array<map<string,struct<`ü`:bigint>>>>"


def test_fields_are_quoted_where_a_type_is_written_into_a_query() -> None:
    assert text_of_spark(NESTED) == spark_text(from_spark(NESTED_SQL)) == NESTED_SQL
    frame = MagicMock(schema=StructType([StructField("r", NESTED), StructField("i", IntegerType())]))
    local_rows(frame)
    local = NESTED_SQL.replace("at:timestamp", "at:timestamp_ntz")
    frame.toDF("c0", "c1").selectExpr.assert_called_once_with(f"CAST(c0 AS {local}) AS c0", "c1")


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("x TIMESTAMP_LTZ(3)", "Line 1, column 14: the column 'x' of 't' depends on the time zone"),
        ("x ROW<y TIMESTAMP_LTZ(3)>", "the column 'x' of 't' depends on the time zone"),
        ("x TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'", "the column 'x' of 't' depends"),
        ("x TIMESTAMP(3) METADATA FROM 'value.source.timestamp'", "the column 'x' of 't' depends"),
        ("x STRING METADATA FROM 'timestamp'", "the column 'x' of 't' depends"),
        ("x TIMESTAMP_LTZ(3), WATERMARK FOR x AS x", "windows of TIMESTAMP_LTZ are cut at UTC. Your session is in Europe/Berlin: SET"),
        ("x TIMESTAMP(3) METADATA FROM 'timestamp'", ""),
        ("x STRING METADATA FROM 'timestamp-type', y TIMESTAMP(3), z BIGINT METADATA FROM 'offset'", ""),
    ],
)  # fmt: skip
def test_columns_of_a_zone_are_refused(column: str, message: str) -> None:
    text = f"CREATE TABLE t ({column})"
    definition = parse_statement(text)
    assert isinstance(definition, CreateTable)
    table = Table(definition, Source(text))
    if not message:
        tables.check_local(table, BERLIN)
        return
    with pytest.raises(SqlError, match=message.replace("(", r"\(")):
        tables.check_local(table, BERLIN)


def test_a_query_is_made_again_in_utc_and_the_zone_comes_back() -> None:
    conf = {"spark.sql.session.timeZone": BERLIN}
    spark = MagicMock()
    spark.conf.get.side_effect = conf.get
    spark.conf.set.side_effect = conf.__setitem__
    views = SparkViews(spark)

    def work() -> tuple[str, str | None]:
        if not views.zone_is_utc:
            raise NeedsUtcError(Source("x").error("needs UTC", 0))
        return conf["spark.sql.session.timeZone"], views.foreign_zone

    assert Queries(views, Catalog(), Settings()).in_its_zone(work) == ("UTC", BERLIN)
    assert (conf["spark.sql.session.timeZone"], views.foreign_zone) == (BERLIN, None)
