"""Give one name to each difference between the versions of PySpark. No other module knows of them.

Runs on driver and executor. Invariant: it looks for the feature and never compares versions, because vendors
back-port features: Databricks' Spark 4.0 has the Python API of 4.1. Where PySpark has a feature, the name is
PySpark's own object. docs/spark-versions.md says what users lose without it.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from pyspark.sql.pandas import types as _types
from pyspark.sql.types import StructType

from penstock.errors import UnsupportedOptionError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.datasource import DataSourceArrowWriter as ArrowWriter
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as StreamArrowWriter
    from pyspark.sql.datasource import DataSourceStreamReader as _StreamReader
    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )

    HAS_SOURCES = True
else:
    try:
        from pyspark.sql.datasource import DataSourceArrowWriter as ArrowWriter
        from pyspark.sql.datasource import DataSourceStreamReader as _StreamReader
        from pyspark.sql.datasource import WriterCommitMessage

        HAS_SOURCES = True
    except ImportError:
        from penstock.spark._oldest_classes import ArrowWriter, WriterCommitMessage, _StreamReader

        HAS_SOURCES = False
    try:
        from pyspark.sql.datasource import DataSourceStreamArrowWriter as StreamArrowWriter
    except ImportError:
        if HAS_SOURCES:
            from penstock.spark._older_classes import StreamArrowWriter
        else:
            StreamArrowWriter = ArrowWriter
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxBytes,
            ReadMaxRows,
            ReadMinRows,
            SupportsTriggerAvailableNow,
        )
    except ImportError:
        from penstock.spark._older_limits import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxBytes,
            ReadMaxRows,
            ReadMinRows,
            SupportsTriggerAvailableNow,
        )

__all__ = [
    "HAS_SOURCES",
    "PLANS_WITH_LIMITS",
    "ArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "ReadMinRows",
    "StreamArrowWriter",
    "SupportsTriggerAvailableNow",
    "WriterCommitMessage",
    "check_wrapper",
    "missing",
    "repartition_by_id",
    "to_arrow_schema",
]

PLANS_WITH_LIMITS = hasattr(_StreamReader, "getDefaultReadLimit")
"""Whether Spark tells a stream's reader where a batch begins, its limit, and that the trigger is
AvailableNow. PySpark 4.2 and later do."""

_HASHED = "#hashed"
_WRAPPER = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"
_TAKES_TIMEZONE = "timezone" in inspect.signature(_types.to_arrow_schema).parameters


def missing() -> list[str]:
    """Return in sentences what users lose with this PySpark; nothing with 4.2 and later."""
    if PLANS_WITH_LIMITS:
        return []
    return [
        "A limit on a batch needs the option 'scan.trigger' = 'processing-time', and cannot be used with "
        "the trigger availableNow.",
        "A run with availableNow that repeats a batch which was cut off reads no new records. The next run "
        "reads them.",
        "With availableNow, the next run that reads new records commits the offsets of a run to the consumer "
        "group.",
        "Spark's progress shows the planned end of a batch as latestOffset, and not the end of the log: with "
        "limits on a batch, penstock.progress and penstock.metrics.MetricsListener see no more backlog.",
    ]


def check_wrapper(planned: dict[str, Any] | None, last: dict[str, Any]) -> None:
    """Check that Spark before 4.2 has not planned a restarted query before it said where the query stands.

    Its wrapper for availableNow does that. The planned end would begin at the options' start, and the batch
    would read records a second time, or leave some out.

    Args:
        planned: the end that Spark has asked for; None if it has not asked yet.
        last: where the query stands.

    Raises:
        UnsupportedOptionError: naming the setting of Spark.
    """
    if planned is not None and planned != last:
        raise UnsupportedOptionError(
            f"Spark's setting '{_WRAPPER}' = 'true' cannot be used with penstock. With the trigger "
            "availableNow Spark then asks for the end of the run before it says where the query stands. "
            "The run would read records a second time, or leave some out. Nothing was read, and the "
            f"checkpoint is as it was. Set '{_WRAPPER}' to 'false', which is Spark's default, and start the "
            "query again. See docs/spark-versions.md.",
            option=_WRAPPER,
        )


def to_arrow_schema(schema: StructType) -> pa.Schema:
    """Return the columns as Spark exchanges them, with UTC as the zone of TIMESTAMP."""
    if _TAKES_TIMEZONE:
        return _types.to_arrow_schema(schema, timezone="UTC")
    return _types.to_arrow_schema(schema)  # UTC is what PySpark before 4.2 always takes


def repartition_by_id(rows: DataFrame, count: int, column: str) -> DataFrame:
    """Return the rows divided by a number: a task for each number from 0 to `count` - 1.

    Args:
        rows: the rows.
        count: of the tasks.
        column: the column with the number, an INT, as SQL writes its name.
    """
    if hasattr(type(rows), "repartitionById"):
        return rows.repartitionById(count, column)
    # PySpark 4.0 divides only by hashes. So the number becomes one whose hash belongs to its task.
    numbers = ", ".join(map(str, _numbers_by_task(count)))
    hashed = rows.selectExpr("*", f"element_at(array({numbers}), {column} + 1) AS `{_HASHED}`")
    return hashed.repartition(count, _HASHED).drop(_HASHED)


def _numbers_by_task(count: int) -> list[int]:
    """Return for each task the first number that Spark's hash gives to it."""
    found: dict[int, int] = {}
    number = 0
    while len(found) < count:
        found.setdefault(hash_of_int(number) % count, number)
        number += 1
    return [found[task] for task in range(count)]


def hash_of_int(number: int) -> int:
    """Return Spark's `hash` of an INT that is not negative: MurmurHash3 with the seed 42."""
    mask = 0xFFFFFFFF
    mixed = _rotated(number * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    found = (_rotated(42 ^ mixed, 13) * 5 + 0xE6546B64 & mask) ^ 4
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        found = (found ^ found >> shift) * factor & mask
    found ^= found >> 16
    return found - (1 << 32) if found >> 31 else found


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & 0xFFFFFFFF
