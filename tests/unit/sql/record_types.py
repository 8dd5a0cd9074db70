"""Record Spark's answers to the questions of the tests: `python -m tests.unit.sql.record_types`.

It runs the tests of SQL with a real Spark behind `planning.asking`, and writes the questions that they asked.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.sql.plan.types import text_of_spark
from penstock.sql.run._views import spark_message
from tests import quick_jvm
from tests.fix_spark import spark_settings
from tests.unit.sql import planning, recorded_plans

TESTS = ("tests/unit/sql", "tests/unit/test_true_pages.py", "tests/contract/test_sqlglot.py")


class Words:
    """A table function of the user."""

    def eval(self, *_: Any) -> Iterator[tuple[str]]:
        yield ("",)


def register(spark: Any) -> None:
    """Create the functions that the tests name."""
    from pyspark.sql.functions import udtf  # noqa: PLC0415 - lazy

    for name in planning.declared().functions:
        spark.udf.register(name, lambda *_: "", "string")
        spark.udtf.register(name, udtf(Words, returnType="word: string"))


def ask(spark: Any, question: str) -> Any:
    """Return the columns of a query with their types, or Spark's message if it refuses it."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 - lazy

    try:
        fields = spark.sql(question).schema.fields
    except PySparkException as error:
        return spark_message(error)
    return [[each.name, text_of_spark(each.dataType)] for each in fields]


def session(folder: Path) -> Any:
    """Return a small local Spark."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - lazy

    quick_jvm.quicken(os.environ)
    builder: Any = SparkSession.builder
    for key, value in spark_settings(folder).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def main() -> int:
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="penstock-types-") as folder:
        spark = session(Path(folder))
        register(spark)

        def asking(question: str) -> Any:
            if question not in found:
                found[question] = ask(spark, question)
            return found[question]

        planning.asking = asking
        recorded_plans.main([])
        code = pytest.main(["-q", "-n", "0", "-W", "ignore::pytest.PytestAssertRewriteWarning", *TESTS])
        spark.stop()
    planning.TYPES.write_text(json.dumps(dict(sorted(found.items())), indent=0) + "\n")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
