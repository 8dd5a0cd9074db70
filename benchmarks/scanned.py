"""How many rows a Spark query handled, as its operators counted them: the noop sink itself says nothing.

PySpark tells it nowhere, so this asks Spark's own store of what its SQL page shows.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def execution_count(spark: SparkSession) -> int:
    """Executions so far."""
    return int(_store(spark).executionsCount())


def rows_since(spark: SparkSession, first: int) -> int:
    """Rows of the largest operator in the executions after the first so many."""
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
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # noqa: SLF001 - what is under way is in no store
    return spark._jsparkSession.sharedState().statusStore()  # noqa: SLF001 - nothing public tells
