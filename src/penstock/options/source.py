"""The options of a read, in either dialect, as one `SourceConfig`.

Runs on the driver. Invariant: the config means the same whichever dialect it was written in, and no
default is left open that the dialects see differently.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.errors import MissingOptionError, OptionError, UnsupportedOptionError
from penstock.options import flink, offsets, spark
from penstock.options.config import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    IsolationLevel,
    KafkaProperties,
    OffsetsSpec,
    SourceConfig,
    StartupMode,
    Subscription,
    TopicList,
    TopicPartitionSet,
    TopicPattern,
)
from penstock.options.declare import Dialect, Option, Reader
from penstock.options.properties import property_value
from penstock.options.recognise import GivenOptions, raise_not_allowed, recognise

DISCOVERY_INTERVAL_MS = 300_000
SPARK_DISCOVERY_INTERVAL_MS = 1
"""Spark's own source looks for new topic partitions in every micro-batch."""

_SPARK_WORDS = {"earliest": StartupMode.EARLIEST, "latest": StartupMode.LATEST}


def parse_source_options(options: Mapping[str, str], *, streaming: bool) -> SourceConfig:
    """Parse the options of a read.

    Args:
        options: as Spark hands them over; keys in any case.
        streaming: whether it is a stream; a few options mean something in batch reads only.

    Raises:
        OptionError: naming the option, what it was, and what is allowed.
    """
    given = recognise(options, Reader.SOURCE)
    if given.dialect is Dialect.SPARK:
        return _of_spark(given, streaming)
    return _of_flink(given, streaming)


def _of_flink(given: GivenOptions, streaming: bool) -> SourceConfig:
    given.value(flink.CONNECTOR)
    subscription = _flink_subscription(given)
    starting = _flink_offsets(given, flink.STARTUP_MODE, flink.STARTUP_SPECIFIC_OFFSETS, subscription)
    stopping = _flink_offsets(given, flink.BOUNDED_MODE, flink.BOUNDED_SPECIFIC_OFFSETS, subscription)
    if streaming and stopping is not None:
        raise UnsupportedOptionError(
            f"Option '{flink.BOUNDED_MODE.key}' cannot be '{given.text(flink.BOUNDED_MODE)}' in a stream: "
            "streams that stop by themselves are not supported yet. Use the trigger availableNow, or a "
            "batch read.",
            option=flink.BOUNDED_MODE.key,
        )
    interval_ms = given.value(flink.DISCOVERY_INTERVAL)
    return SourceConfig(
        properties=given.properties,
        subscription=subscription,
        starting=starting or OffsetsSpec(StartupMode.EARLIEST),
        stopping=stopping,
        isolation_level=_isolation_level(given.properties),
        include_headers=given.flag(flink.INCLUDE_HEADERS, default=False),
        fail_on_data_loss=given.value(flink.ON_DATA_LOSS) != "continue",
        discovery_interval_ms=DISCOVERY_INTERVAL_MS if interval_ms is None else interval_ms,
        max_records_per_batch=given.value(flink.MAX_RECORDS_PER_BATCH),
        min_splits=given.value(flink.MIN_SPLITS),
        max_records_per_split=given.value(flink.MAX_RECORDS_PER_SPLIT),
    )


def _flink_subscription(given: GivenOptions) -> Subscription:
    chosen = _one_of(given, (flink.TOPIC, flink.TOPIC_PATTERN, flink.TOPIC_PARTITIONS))
    if chosen is flink.TOPIC:
        return TopicList(given.value(flink.TOPIC) or ())
    if chosen is flink.TOPIC_PATTERN:
        return TopicPattern(given.value(flink.TOPIC_PATTERN) or "")
    return TopicPartitionSet(given.value(flink.TOPIC_PARTITIONS) or ())


def _flink_offsets(
    given: GivenOptions, mode_option: Option[str], offsets_option: Option[str], subscription: Subscription
) -> OffsetsSpec | None:
    mode = given.value(mode_option)
    if mode in ("group-offsets", "timestamp"):
        raise UnsupportedOptionError(
            f"Option '{mode_option.key}' cannot be '{mode}': this version of penstock does not support it "
            "yet. Use latest-offset or specific-offsets, or leave it out.",
            option=mode_option.key,
        )
    text = given.text(offsets_option)
    if mode != StartupMode.SPECIFIC_OFFSETS.value:
        if text is not None:
            raise OptionError(
                f"Option '{offsets_option.key}' needs '{mode_option.key}' = 'specific-offsets', which is "
                f"{'not set' if mode is None else repr(mode)}.",
                option=offsets_option.key,
            )
        return None if mode in (None, "unbounded") else OffsetsSpec(StartupMode(mode))
    if text is None:
        raise MissingOptionError(
            f"Option '{offsets_option.key}' is required with '{mode_option.key}' = 'specific-offsets'.",
            option=offsets_option.key,
        )
    try:
        parsed = offsets.parse_flink_offsets(text, _single_topic(subscription))
    except ValueError as error:
        raise_not_allowed(offsets_option.key, text, str(error))
    _check_subscribed(parsed, subscription, offsets_option.key)
    # Flink: a topic partition that is not named starts at its beginning, and ends there too.
    return OffsetsSpec(StartupMode.SPECIFIC_OFFSETS, parsed, fallback=StartupMode.EARLIEST)


def _single_topic(subscription: Subscription) -> str | None:
    if isinstance(subscription, TopicPattern):
        return None
    if isinstance(subscription, TopicList):
        topics = set(subscription.topics)
    else:
        topics = {topic_partition.topic for topic_partition in subscription.topic_partitions}
    return topics.pop() if len(topics) == 1 else None


def _of_spark(given: GivenOptions, streaming: bool) -> SourceConfig:
    subscription = _spark_subscription(given)
    starting = _spark_offsets(given, spark.STARTING_OFFSETS, subscription)
    stopping = _spark_offsets(given, spark.ENDING_OFFSETS, subscription)
    _check_spark_ends(given, starting, stopping, streaming)
    default = OffsetsSpec(StartupMode.LATEST if streaming else StartupMode.EARLIEST)
    return SourceConfig(
        properties=_with_poll_timeout(given),
        subscription=subscription,
        starting=starting or default,
        stopping=stopping,
        isolation_level=_isolation_level(given.properties),
        include_headers=given.flag(spark.INCLUDE_HEADERS, default=False),
        fail_on_data_loss=given.flag(spark.FAIL_ON_DATA_LOSS, default=True),
        discovery_interval_ms=SPARK_DISCOVERY_INTERVAL_MS,
        max_records_per_batch=given.value(spark.MAX_OFFSETS_PER_TRIGGER),
        min_splits=given.value(spark.MIN_PARTITIONS),
        max_records_per_split=given.value(spark.MAX_RECORDS_PER_PARTITION),
    )


def _spark_subscription(given: GivenOptions) -> Subscription:
    chosen = _one_of(given, (spark.SUBSCRIBE, spark.SUBSCRIBE_PATTERN, spark.ASSIGN))
    if chosen is spark.SUBSCRIBE:
        return TopicList(given.value(spark.SUBSCRIBE) or ())
    if chosen is spark.SUBSCRIBE_PATTERN:
        return TopicPattern(given.value(spark.SUBSCRIBE_PATTERN) or "")
    return TopicPartitionSet(given.value(spark.ASSIGN) or ())


def _spark_offsets(
    given: GivenOptions, option: Option[str], subscription: Subscription
) -> OffsetsSpec | None:
    text = given.text(option)
    if text is None:
        return None
    mode = _SPARK_WORDS.get(text.strip().lower())
    if mode is not None:
        return OffsetsSpec(mode)
    try:
        parsed = offsets.parse_spark_offsets(text)
    except ValueError as error:
        raise_not_allowed(option.key, text, f"earliest, latest, or {error}")
    _check_subscribed(parsed, subscription, option.key)
    return OffsetsSpec(StartupMode.SPECIFIC_OFFSETS, parsed)


def _check_spark_ends(
    given: GivenOptions, starting: OffsetsSpec | None, stopping: OffsetsSpec | None, streaming: bool
) -> None:
    """Hold to what Spark's own source allows at which end."""
    if streaming and stopping is not None:
        raise OptionError(
            f"Option '{spark.ENDING_OFFSETS.key}' is for batch reads; a stream has no end. Leave it out, or "
            "use the trigger availableNow.",
            option=spark.ENDING_OFFSETS.key,
        )
    if not streaming and _points_at(starting, StartupMode.LATEST, LATEST_OFFSET):
        text = given.text(spark.STARTING_OFFSETS) or ""
        raise_not_allowed(spark.STARTING_OFFSETS.key, text, "in a batch read, anything but latest (-1)")
    if _points_at(stopping, StartupMode.EARLIEST, EARLIEST_OFFSET):
        text = given.text(spark.ENDING_OFFSETS) or ""
        raise_not_allowed(spark.ENDING_OFFSETS.key, text, "anything but earliest (-2)")


def _points_at(spec: OffsetsSpec | None, mode: StartupMode, sentinel: int) -> bool:
    return spec is not None and (spec.mode is mode or any(offset == sentinel for _, offset in spec.offsets))


def _with_poll_timeout(given: GivenOptions) -> KafkaProperties:
    timeout_ms = given.value(spark.POLL_TIMEOUT_MS)
    if timeout_ms is None or given.properties.get("default.api.timeout.ms") is not None:
        return given.properties
    return KafkaProperties(
        tuple(sorted((*given.properties.items, ("default.api.timeout.ms", str(timeout_ms)))))
    )


def _one_of(given: GivenOptions, options: tuple[Option[Any], ...]) -> Option[Any]:
    """Return the one option that is set of some that exclude each other."""
    chosen = [option for option in options if given.has(option)]
    names = ", ".join(f"'{option.key}'" for option in options)
    if not chosen:
        raise MissingOptionError(f"Nothing says what to read: set one of {names}.", options=names)
    if len(chosen) > 1:
        both = " and ".join(f"'{option.key}'" for option in chosen)
        raise OptionError(f"Options {both} exclude each other: set one of {names}.", options=both)
    return chosen[0]


def _check_subscribed(parsed: offsets.Offsets, subscription: Subscription, key: str) -> None:
    """Offsets for what is not read are a slip of the pen; patterns are checked when topics are known."""
    if isinstance(subscription, TopicPattern):
        return
    if isinstance(subscription, TopicList):
        strangers = sorted({tp.topic for tp, _ in parsed} - set(subscription.topics))
    else:
        strangers = sorted(str(tp) for tp, _ in parsed if tp not in subscription.topic_partitions)
    if strangers:
        raise OptionError(
            f"Option '{key}' gives offsets for {', '.join(strangers)}, which the subscription does not read.",
            option=key,
        )


def _isolation_level(properties: KafkaProperties) -> IsolationLevel:
    return IsolationLevel(property_value(properties, "isolation.level"))


def wants_headers(options: Mapping[str, str]) -> bool:
    """Whether a read shall have the column `headers`; all that the columns of a read depend on.

    Raises:
        OptionError: as `parse_source_options`, which also checks what differs for batches and streams.
    """
    given = recognise(options, Reader.SOURCE)
    is_sparks = given.dialect is Dialect.SPARK
    return given.flag(spark.INCLUDE_HEADERS if is_sparks else flink.INCLUDE_HEADERS, default=False)
