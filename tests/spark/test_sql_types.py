"""The types that unit tests take for Spark's, asked of Spark again."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.unit.sql.planning import recorded
from tests.unit.sql.record_types import ask, register


def test_spark_gives_the_recorded_types(spark: SparkSession) -> None:
    """If it differs after an upgrade: python -m tests.unit.sql.record_types, and read what changed."""
    register(spark)
    assert {question: ask(spark, question) for question in recorded()} == dict(recorded())
