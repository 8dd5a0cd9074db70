"""Set Spark's watermark after a check against the alignment of a source: `penstock.with_watermark`.

Runs in the user's program, on Spark classic and Connect. Invariant: without a source it does exactly what
`DataFrame.withWatermark` does. With one it refuses a delay with which Spark would drop rows of slow topic
partitions, and keeps a timestamp far in the future from moving the watermark.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from penstock.errors import OptionError
from penstock.options.config import MAX_FUTURE_SKEW_MS
from penstock.options.flink import ALIGNMENT_MAX_DRIFT, MAX_FUTURE_SKEW
from penstock.options.values import parse_duration_ms
from penstock.spark.connect import functions_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.flink._kafka_source import KafkaSource


def with_watermark(
    df: DataFrame, event_time: str, delay_threshold: str, *, source: KafkaSource | None = None
) -> DataFrame:
    """Return `df.withWatermark(event_time, delay_threshold)`.

    Spark's watermark follows the newest event time of all rows. So after a row dated next year, Spark drops
    every later row as late. With `source`, the event time of such a row becomes null, and the row stays.

    Args:
        df: a streaming DataFrame.
        event_time: the column of `df` with the event time; `timestamp` for the record timestamp.
        delay_threshold: how late a row may be. With `source` it must be one number and unit ("1 minute").
        source: the source of `df`. Its `scan.watermark.alignment.max-drift` may not be more than the delay,
            because Spark would then drop rows of slow topic partitions. An event time becomes null if it is
            more than its `scan.watermark.alignment.max-future-skew` ahead of the time of the micro-batch.

    Raises:
        OptionError: the delay is shorter than the drift, or cannot be compared with it.
    """
    if source is not None:
        _check_delay(delay_threshold, source)
        df = _without_future(df, event_time, source)
    return df.withWatermark(event_time, delay_threshold)


def _without_future(df: DataFrame, event_time: str, source: KafkaSource) -> DataFrame:
    given = source.options.get(MAX_FUTURE_SKEW.key)
    skew_ms = MAX_FUTURE_SKEW_MS if given is None else parse_duration_ms(given)
    if not skew_ms or event_time not in df.columns:
        return df
    functions = functions_for(df)
    column = functions.col(f"`{event_time}`")
    bound = functions.current_timestamp() + functions.lit(timedelta(milliseconds=skew_ms))
    # The column's metadata stays, because a writer tells metadata columns by it.
    kept = functions.when(column <= bound, column).alias(event_time, metadata=df.schema[event_time].metadata)
    return df.select(*(kept if name == event_time else functions.col(f"`{name}`") for name in df.columns))


def _check_delay(delay_threshold: str, source: KafkaSource) -> None:
    key = ALIGNMENT_MAX_DRIFT.key
    drift = source.options.get(key)
    drift_ms = 0 if drift is None else parse_duration_ms(drift)
    if not drift_ms:
        raise OptionError(
            f"The source has no '{key}', so its topic partitions are not aligned and Spark drops rows of "
            "slow ones as late. Set it with "
            f'KafkaSource.builder().set_option("{key}", "{delay_threshold}"), or leave `source` out.',
            option=key,
        )
    try:
        delay_ms = parse_duration_ms(delay_threshold)
    except ValueError:
        raise OptionError(
            f"The delay {delay_threshold!r} cannot be compared with '{key}': write it as one number and "
            "unit, such as '1 minute'.",
            value=delay_threshold,
        ) from None
    if delay_ms < drift_ms:
        raise OptionError(
            f"The delay {delay_threshold!r} is shorter than '{key}' = '{drift}', so Spark would drop rows of "
            "slow topic partitions. Make the delay longer or the drift smaller.",
            value=delay_threshold,
            option=key,
        )
