"""Set Spark's watermark after a check against the alignment of a source: `penstock.with_watermark`.

Runs in the user's program, on Spark classic and Connect. Invariant: it does exactly what
`DataFrame.withWatermark` does, and refuses a delay with which Spark would drop rows of slow topic partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import OptionError
from penstock.options.flink import ALIGNMENT_MAX_DRIFT
from penstock.options.values import parse_duration_ms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.api._kafka_source import KafkaSource


def with_watermark(
    df: DataFrame, event_time: str, delay_threshold: str, *, source: KafkaSource | None = None
) -> DataFrame:
    """Return `df.withWatermark(event_time, delay_threshold)`.

    Args:
        df: a streaming DataFrame.
        event_time: the column of `df` with the event time; `timestamp` for the record timestamp.
        delay_threshold: how late a row may be. With `source` it must be one number and unit ("1 minute").
        source: the source of `df`. Its `scan.watermark.alignment.max-drift` may not be more than the delay,
            because Spark would then drop rows of slow topic partitions.

    Raises:
        OptionError: the delay is shorter than the drift, or cannot be compared with it.
    """
    if source is not None:
        _check_delay(delay_threshold, source)
    return df.withWatermark(event_time, delay_threshold)


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
