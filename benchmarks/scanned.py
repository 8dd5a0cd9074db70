"""Find out how many rows a Spark query handled. Its operators count them, because the noop sink does not.

PySpark does not offer these counts, so this reads the store behind Spark's SQL page.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def execution_count(spark: SparkSession) -> int:
    """Return the number of executions so far."""
    return int(_store(spark).executionsCount())


def rows_since(spark: SparkSession, first: int) -> int:
    """Return the rows of the largest operator, in the executions after the first so many."""
    store = _store(spark)
    executions = store.executionsList(first, store.executionsCount())
    counts = [0]
    for number in range(executions.size()):
        execution = executions.apply(number)
        values, metrics = store.executionMetrics(execution.executionId()), execution.metrics().iterator()
        while metrics.hasNext():
            metric = metrics.next()
            value = values.get(metric.accumulatorId())
            if metric.name() == "number of output rows" and value.isDefined():
                counts.append(int(value.get().replace(",", "")))
    return max(counts)


def _store(spark: SparkSession) -> Any:
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # noqa: SLF001 - events that wait are not in the store yet
    return spark._jsparkSession.sharedState().statusStore()  # noqa: SLF001 - there is no public way
