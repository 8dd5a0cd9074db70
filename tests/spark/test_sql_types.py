"""The types that unit tests take for Spark's, asked of Spark again."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

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
