"""Flink's SQL on Spark: statements, queries, sessions.

Needs the extra `sql`. A statement that penstock does not serve is refused by name, with its line and column,
before any query starts.

Inside:

Runs on the driver. Invariant: `language` knows neither Spark nor Kafka.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from penstock._pyspark import check_pyspark, explain_import_error
from penstock.extras import missing_extra

if TYPE_CHECKING:
    from penstock.sql.run.job import Job as Job
    from penstock.sql.run.job import Result as Result
    from penstock.sql.run.session import Session as Session

__all__ = ["Job", "Result", "Session"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'penstock.sql' has no attribute {name!r}")
    check_pyspark()
    try:
        return getattr(importlib.import_module("penstock.sql.run.session"), name)
    except ImportError as error:
        explain_import_error(error)
        if error.name is None or not error.name.startswith("sqlglot"):
            raise
        raise missing_extra("sql", "Flink's SQL") from None
