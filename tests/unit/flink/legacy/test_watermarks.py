"""`WatermarkStrategy` and the older assigners become options of a read."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from penstock.errors import OptionError, UnsupportedOptionError
from penstock.flink import Duration, SimpleStringSchema, TimestampAssigner, WatermarkStrategy
from penstock.flink.legacy import (
    AscendingTimestampExtractor,
    AssignerWithPeriodicWatermarks,
    AssignerWithPunctuatedWatermarks,
    BoundedOutOfOrdernessTimestampExtractor,
    FlinkKafkaConsumer,
)
from penstock.flink.legacy.watermarks import strategy_of
from penstock.options.parse import parse_read
from penstock.options.python_objects import ASSIGNER
from penstock.options.values import NEVER_MS
from penstock.options.warn import forget_warnings


class OfText(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value)


class Ascending(AscendingTimestampExtractor):
    def extract_ascending_timestamp(self, element: Any) -> int:
        return int(element)


class Bounded(BoundedOutOfOrdernessTimestampExtractor):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return record_timestamp


class Periodic(AssignerWithPeriodicWatermarks):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return 0


class Punctuated(AssignerWithPunctuatedWatermarks):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return 0


def consumer() -> FlinkKafkaConsumer:
    return FlinkKafkaConsumer("orders", SimpleStringSchema(), {"bootstrap.servers": "localhost:9092"})


class OwnWatermark(Bounded):
    def get_current_watermark(self) -> int:
        return 0


class OwnWatermarkAsInJava(Ascending):
    def getCurrentWatermark(self) -> int:
        return 0


def test_the_timestamps_of_records() -> None:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5)).with_idleness("10 s")
    source = consumer().assign_timestamps_and_watermarks(strategy).source()
    assert strategy.disorder_ms == 5_000
    assert source.schema == "value STRING, `event_time` TIMESTAMP"
    assert source.options["scan.event-time.column"] == "event_time"
    assert source.options["scan.event-time.assigner"] == "record-timestamp"
    assert source.options["scan.watermark.alignment.max-drift"] == "60000 ms"
    assert source.options["scan.idle-timeout"] == "10000 ms"


def test_an_assigner_and_the_drift() -> None:
    forget_warnings()
    strategy = WatermarkStrategy.forMonotonousTimestamps().withTimestampAssigner(OfText())
    made = consumer().assignTimestampsAndWatermarks(
        strategy.with_watermark_alignment("group", timedelta(seconds=20), Duration.ofMillis(1)),
        event_time_column="at",
    )
    options = made.source().options
    assert isinstance(ASSIGNER.load(options["scan.event-time.assigner"], "test"), OfText)
    assert (options["scan.event-time.column"], options["scan.watermark.alignment.max-drift"]) == (
        "at",
        "20000 ms",
    )
    made.set_option("scan.watermark.alignment.max-drift", "5 s")
    assert made.source().options["scan.watermark.alignment.max-drift"] == "5 s"


def test_no_watermarks() -> None:
    options = consumer().assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks()).source().options
    assert "scan.watermark.alignment.max-drift" not in options
    assert options["scan.event-time.column"] == "event_time"


def test_the_older_assigners_that_spark_can_do() -> None:
    assert strategy_of(Bounded(7)).disorder_ms == 7
    assert strategy_of(Ascending()).disorder_ms == 0
    assigner = strategy_of(Ascending()).assigner
    assert assigner is not None
    assert assigner.extract_timestamp("12", 0) == 12


def test_without_idleness_a_topic_partition_is_never_idle() -> None:
    options = consumer().assign_timestamps_and_watermarks(Bounded("5 s")).source().options
    assert options["scan.idle-timeout"] == "never"
    config = parse_read(dict(options), streaming=True).source
    assert config.idle_timeout_ms == NEVER_MS


@pytest.mark.parametrize("given", [Periodic(), Punctuated(), OwnWatermark(1), OwnWatermarkAsInJava()])
def test_assigners_that_make_watermarks_by_themselves(given: Any) -> None:
    with pytest.raises(UnsupportedOptionError, match=r"Use WatermarkStrategy\.for_bounded_out_of_orderness"):
        consumer().assign_timestamps_and_watermarks(given)
    with pytest.raises(UnsupportedOptionError, match="for_generator makes watermarks by itself"):
        WatermarkStrategy.for_generator(given)


def test_what_is_not_a_strategy() -> None:
    with pytest.raises(OptionError, match="Expected a WatermarkStrategy"):
        consumer().assign_timestamps_and_watermarks(lambda value: 0)
    with pytest.raises(OptionError, match="Expected a TimestampAssigner"):
        WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda value: 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["soon", -1, timedelta(seconds=-1)])
def test_a_duration_that_is_not_allowed(given: Any) -> None:
    with pytest.raises(OptionError, match="duration cannot be"):
        WatermarkStrategy.for_bounded_out_of_orderness(given)


def test_durations() -> None:
    assert Duration.of_days(1) == Duration.of_hours(24) == timedelta(days=1)
    assert Duration.of_minutes(1) == Duration.of_seconds(60) == Duration.of_millis(60_000)
