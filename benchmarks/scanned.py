"""Find out how many rows a Spark query handled. Its operators count them, because the noop sink does not.

PySpark does not offer these counts, so this reads the store behind Spark's SQL page.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def newest_execution(spark: SparkSession) -> int:
    """Return the id of the newest execution; -1 without one. Ids ascend."""
    executions = _store(spark).executionsList()
    return -1 if executions.isEmpty() else int(executions.last().executionId())


def rows_since(spark: SparkSession, last: int) -> int:
    """Return the rows of the largest operator, in the executions after that with the id `last`.

    The id says where they begin, and not their number: Spark forgets old executions.
    """
    store = _store(spark)
    counts = [0]
    executions = store.executionsList()
    for number in reversed(range(executions.size())):
        execution = executions.apply(number)
        if execution.executionId() <= last:
            break
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
