"""Event time with PyFlink's `WatermarkStrategy`, and with the older timestamp assigners.

Runs in the user's program; assigners run on executors and on the driver. Invariant: a strategy becomes
options (the column of event time, its assigner, the alignment) and a delay of Spark's watermark. What Spark
cannot do is an error that says what to use.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from penstock.errors import OptionError, UnsupportedOptionError
from penstock.flink._pickling import to_text
from penstock.options.python_objects import ASSIGNER
from penstock.options.table_spec import RECORD_TIMESTAMP
from penstock.options.values import parse_duration_ms
from penstock.options.warn import warn_once
from penstock.table.event_time import TimestampAssigner

_log = logging.getLogger("penstock.older")

DRIFT_MS = 60_000
"""How far a topic partition may be ahead of the slowest one, unless the strategy or an option says it."""


class Duration:
    """PyFlink's `Duration`: its methods return a `timedelta`, which you may also use directly."""

    @staticmethod
    def of_days(days: int) -> timedelta:
        """Return this many days."""
        return timedelta(days=days)

    @staticmethod
    def of_hours(hours: int) -> timedelta:
        """Return this many hours."""
        return timedelta(hours=hours)

    @staticmethod
    def of_minutes(minutes: int) -> timedelta:
        """Return this many minutes."""
        return timedelta(minutes=minutes)

    @staticmethod
    def of_seconds(seconds: int) -> timedelta:
        """Return this many seconds."""
        return timedelta(seconds=seconds)

    @staticmethod
    def of_millis(millis: int) -> timedelta:
        """Return this many milliseconds."""
        return timedelta(milliseconds=millis)

    ofDays = of_days
    ofHours = of_hours
    ofMinutes = of_minutes
    ofSeconds = of_seconds
    ofMillis = of_millis


@dataclass(frozen=True)
class WatermarkStrategy:
    """How event times and watermarks are made. Use one of the static methods.

    Attributes:
        disorder_ms: how much the event times of one topic partition may go back; None: no watermark.
        assigner: finds the event time; None: the timestamp of the Kafka record.
        idle_ms: how long a topic partition without new records holds back the others; None: for ever.
        drift_ms: how far a topic partition may be ahead of the slowest one; None: 1 minute.
    """

    disorder_ms: int | None = 0
    assigner: TimestampAssigner | None = None
    idle_ms: int | None = None
    drift_ms: int | None = None

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Return a strategy for topic partitions whose event times never go back."""
        return WatermarkStrategy()

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: timedelta | int | str) -> WatermarkStrategy:
        """Return a strategy for event times that go back by at most this time in one topic partition.

        Args:
            max_out_of_orderness: a timedelta, a number of milliseconds, or a text such as "10 s".
        """
        return WatermarkStrategy(disorder_ms=_milliseconds(max_out_of_orderness))

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """Return a strategy that adds the event time, and no watermark."""
        return WatermarkStrategy(disorder_ms=None)

    @staticmethod
    def for_generator(_: Any) -> WatermarkStrategy:
        """Raise an error, because Spark's watermark cannot be made by a function.

        Raises:
            UnsupportedOptionError: always.
        """
        raise _no_generator("for_generator")

    def with_timestamp_assigner(self, timestamp_assigner: TimestampAssigner) -> WatermarkStrategy:
        """Return the strategy with another event time than the timestamp of the record.

        Topic partitions are then aligned by it: the driver decodes the records too, and a micro-batch has at
        most 10,000 records of each topic partition.
        """
        if not isinstance(timestamp_assigner, TimestampAssigner):
            raise OptionError(
                f"Expected a TimestampAssigner, got {type(timestamp_assigner).__name__}. Subclass "
                "penstock.flink.TimestampAssigner."
            )
        return replace(self, assigner=timestamp_assigner)

    def with_idleness(self, idle_timeout: timedelta | int | str) -> WatermarkStrategy:
        """Return the strategy with the time after which a topic partition without new records is idle.

        Without this call it never is, as in Flink: the others are not read further than the drift ahead of
        its last record. The log names it.
        """
        return replace(self, idle_ms=_milliseconds(idle_timeout))

    def with_watermark_alignment(
        self, watermark_group: str, max_allowed_watermark_drift: timedelta | int | str, *_: Any
    ) -> WatermarkStrategy:
        """Return the strategy with the drift. Only the topic partitions of one consumer are aligned."""
        warn_once(
            _log,
            f"The watermark group {watermark_group!r} has no effect: the topic partitions of one consumer "
            "are aligned with each other, and not with other sources.",
        )
        return replace(self, drift_ms=_milliseconds(max_allowed_watermark_drift))

    def options(self, column: str) -> dict[str, str]:
        """Return the options for a read, with the event time in `column`."""
        assigner = RECORD_TIMESTAMP if self.assigner is None else to_text(self.assigner, ASSIGNER)
        found = {"scan.event-time.column": column, "scan.event-time.assigner": assigner}
        if self.disorder_ms is None:
            return found
        drift_ms = DRIFT_MS if self.drift_ms is None else self.drift_ms
        found["scan.watermark.alignment.max-drift"] = f"{drift_ms} ms"
        found["scan.idle-timeout"] = "never" if self.idle_ms is None else f"{self.idle_ms} ms"
        return found

    forMonotonousTimestamps = for_monotonous_timestamps
    forBoundedOutOfOrderness = for_bounded_out_of_orderness
    noWatermarks = no_watermarks
    forGenerator = for_generator
    withTimestampAssigner = with_timestamp_assigner
    withIdleness = with_idleness
    withWatermarkAlignment = with_watermark_alignment


class AssignerWithPeriodicWatermarks(TimestampAssigner):
    """The older assigner. Subclass AscendingTimestampExtractor or BoundedOutOfOrdernessTimestampExtractor."""

    def get_current_watermark(self) -> Any:
        """Return nothing: Spark makes its watermark itself."""
        return None


class AscendingTimestampExtractor(AssignerWithPeriodicWatermarks):
    """For event times that never go back in one topic partition. Subclass it."""

    @abstractmethod
    def extract_ascending_timestamp(self, element: Any) -> int:
        """Return the event time of an element in milliseconds since 1970."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Return the event time."""
        return self.extract_ascending_timestamp(value)


class BoundedOutOfOrdernessTimestampExtractor(AssignerWithPeriodicWatermarks):
    """For event times that go back by at most a given time in one topic partition. Subclass it.

    `extract_timestamp(element, record_timestamp)` is the method to write.

    Args:
        max_out_of_orderness: a timedelta, a number of milliseconds, or a text such as "10 s".
    """

    def __init__(self, max_out_of_orderness: timedelta | int | str) -> None:
        self.max_out_of_orderness_ms = _milliseconds(max_out_of_orderness)


class AssignerWithPunctuatedWatermarks(TimestampAssigner):
    """The older assigner whose watermarks come from elements. A consumer refuses it: Spark cannot do this."""


def strategy_of(given: Any) -> WatermarkStrategy:
    """Return the strategy for the argument of `assign_timestamps_and_watermarks`.

    Raises:
        OptionError: it is not a strategy or an assigner.
        UnsupportedOptionError: Spark cannot do what it asks.
    """
    if isinstance(given, WatermarkStrategy):
        return given
    if isinstance(given, AssignerWithPeriodicWatermarks) and _makes_watermarks(given):
        raise _no_generator(type(given).__name__)
    if isinstance(given, BoundedOutOfOrdernessTimestampExtractor):
        return WatermarkStrategy(disorder_ms=given.max_out_of_orderness_ms, assigner=given)
    if isinstance(given, AscendingTimestampExtractor):
        return WatermarkStrategy(assigner=given)
    if isinstance(given, (AssignerWithPeriodicWatermarks, AssignerWithPunctuatedWatermarks)):
        raise _no_generator(type(given).__name__)
    raise OptionError(
        f"Expected a WatermarkStrategy or an older timestamp assigner, got {type(given).__name__}."
    )


def _makes_watermarks(given: AssignerWithPeriodicWatermarks) -> bool:
    """Return whether the user wrote the method that Flink asks for watermarks."""
    default = AssignerWithPeriodicWatermarks.get_current_watermark
    is_own = type(given).get_current_watermark is not default
    return is_own or hasattr(given, "getCurrentWatermark")


def _no_generator(name: str) -> UnsupportedOptionError:
    return UnsupportedOptionError(
        f"{name} makes watermarks by itself, which Spark cannot do: its watermark follows the newest event "
        "time of all rows, less a fixed delay. Nothing was read. Use "
        "WatermarkStrategy.for_bounded_out_of_orderness(...).with_timestamp_assigner(...), or subclass "
        "BoundedOutOfOrdernessTimestampExtractor or AscendingTimestampExtractor."
    )


def _milliseconds(given: timedelta | int | str) -> int:
    try:
        if isinstance(given, timedelta):
            found = given // timedelta(milliseconds=1)
        else:
            found = parse_duration_ms(str(given))
    except ValueError as error:
        raise OptionError(f"The duration cannot be {given!r}. Allowed: {error}.") from None
    if found < 0:
        raise OptionError(f"The duration cannot be {given!r}. Allowed: at least 0.")
    return found
