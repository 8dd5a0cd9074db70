"""The types that unit tests take for Spark's, asked of Spark again."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from penstock.spark.one_thread import option_set
from penstock.sql.functions.read_times import cut_time
from penstock.sql.functions.served import AGGREGATES, FUNCTIONS, SUFFIX
from penstock.sql.plan.expressions import Function, TypedSql
from penstock.sql.plan.types import spark_text, type_of_cast
from tests.unit.sql.planning import recorded
from tests.unit.sql.record_types import ask, register


def test_spark_gives_the_recorded_types(spark: SparkSession) -> None:
    """If it differs after an upgrade: python -m tests.unit.sql.record_types, and read what changed."""
    register(spark)
    assert {question: ask(spark, question) for question in recorded()} == dict(recorded())


NUMBERS = ("tinyint", "int", "bigint", "float", "double", "decimal(10,2)", "decimal(38,0)", "decimal(38,18)")


def casts(functions: dict[str, Function]) -> Iterator[str]:
    """Yield the calls over numbers of which our own rule says the type."""
    for function in functions.values():
        for count in range(max(1, function.least), min(function.most, 2) + 1):
            for kinds in itertools.product(NUMBERS, repeat=count):
                try:
                    args = [TypedSql(f"CAST(NULL AS {each})", each) for each in kinds]
                    text = function.apply(args).replace(SUFFIX, "")
                except ValueError:
                    continue
                if not function.type and type_of_cast(text) is not None:
                    yield text


@pytest.mark.parametrize(("functions", "name"), [(FUNCTIONS, "MOD"), (AGGREGATES, "SUM")])
def test_a_cast_of_numbers_has_the_type_that_spark_gives_it(
    spark: SparkSession, functions: dict[str, Function], name: str
) -> None:
    texts = [*dict.fromkeys(casts(functions))]
    assert len(texts) > 10, f"{name} is a CAST"
    frame = spark.sql(f"SELECT {', '.join(f'{text} AS `{index}`' for index, text in enumerate(texts))}")
    found = {
        text: field.dataType.simpleString() for text, field in zip(texts, frame.schema.fields, strict=True)
    }
    ours = ((text, type_of_cast(text)) for text in texts)
    assert {text: spark_text(kind) for text, kind in ours if kind is not None} == found


TIMES = (
    "1969-12-31 23:59:59.999999",
    "1890-01-01 02:30:00.123456",
    "2024-03-31 02:30:00.120456",
    "2024-01-01 00:00:01",
)
"""The first are before 1970. In Berlin the third one does not exist."""


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_a_time_is_cut_to_the_digits_of_its_type_in_each_zone(spark: SparkSession, zone: str) -> None:
    rows = spark.sql(
        f"SELECT * FROM VALUES {', '.join(f'(TIMESTAMP_NTZ{each!r})' for each in TIMES)} AS v(n)"
    )
    wanted = [[up_to(each, digits) for digits in range(6)] for each in TIMES]
    with option_set(spark, "spark.sql.session.timeZone", zone):
        plain = [f"CAST({cut_time('n', digits)} AS STRING)" for digits in range(6)]
        assert [list(each) for each in rows.selectExpr(*plain).collect()] == wanted
        assert rows.selectExpr(cut_time("n", 3)).dtypes[0][1] == "timestamp_ntz"
        zoned = rows.selectExpr("CAST(n AS TIMESTAMP) AS z", "CAST(CAST(n AS TIMESTAMP) AS STRING) AS text")
        cut = [f"CAST({cut_time('z', digits, has_zone=True)} AS STRING)" for digits in range(6)]
        found = [list(each) for each in zoned.selectExpr("text", *cut).collect()]
    assert [row[1:] for row in found] == [[up_to(row[0], digits) for digits in range(6)] for row in found]


def up_to(time: str, digits: int) -> str:
    """Return a text of a time with at most so many digits of the second, as Spark writes it."""
    whole, _, fraction = time.partition(".")
    kept = fraction[:digits].rstrip("0")
    return f"{whole}.{kept}" if kept else whole
