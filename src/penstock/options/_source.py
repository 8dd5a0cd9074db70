"""Parse the options of a read, in either dialect, into one `SourceConfig`.

Runs on the driver. Invariant: the config does not depend on the dialect. A default that differs between the
dialects is already in it.
"""

from __future__ import annotations

import logging
from typing import Any

from penstock.errors import MissingOptionError, OptionError, UnsupportedOptionError
from penstock.options import _spark as spark
from penstock.options import flink, metrics
from penstock.options._recognise import GivenOptions
from penstock.options._start_and_stop import (
    check_spark_ends,
    flink_starting,
    flink_stopping,
    spark_starting,
    spark_stopping,
)
from penstock.options.config import (
    PROCESSING_TIME,
    DiscoveryInterval,
    IsolationLevel,
    KafkaProperties,
    MetricsSettings,
    OffsetsSpec,
    SourceConfig,
    Subscription,
    TopicList,
    TopicPartitionSet,
    TopicPattern,
)
from penstock.options.declare import Dialect, Option
from penstock.options.properties import property_value
from penstock.options.python_objects import INITIALIZER
from penstock.options.record_filter import RecordFilter
from penstock.options.warn import warn_once
from penstock.types import LogEnd, TopicPartition

_log = logging.getLogger("penstock.options")
_SUBSCRIPTION = (flink.TOPIC, flink.TOPIC_PATTERN, flink.TOPIC_PARTITIONS)
_SUBSCRIPTION_OF_SPARK = (spark.SUBSCRIBE, spark.SUBSCRIBE_PATTERN, spark.ASSIGN)


def source_config(given: GivenOptions, streaming: bool) -> SourceConfig:
    """Parse the options of a read, except those of its table; see `parse_read`.

    Raises:
        OptionError: the message names the option, its value, and the allowed values.
    """
    if given.dialect is Dialect.SPARK:
        return _of_spark(given, streaming)
    return _of_flink(given, streaming)


def _of_flink(given: GivenOptions, streaming: bool) -> SourceConfig:
    given.value(flink.CONNECTOR)
    subscription = _subscription(given, _SUBSCRIPTION)
    on_removal = {"fail": True, "drop": False, None: None}
    return SourceConfig(
        properties=_with_client_id(given),
        subscription=subscription,
        starting=_of_object(given, flink.STARTUP_INITIALIZER, flink.STARTUP_MODE)
        or flink_starting(given, subscription),
        stopping=_of_object(given, flink.BOUNDED_INITIALIZER, flink.BOUNDED_MODE)
        or flink_stopping(given, subscription),
        include_headers=given.value_or_default(flink.INCLUDE_HEADERS),
        fail_on_data_loss=given.value_or_default(flink.ON_DATA_LOSS) == "fail",
        fail_on_removed_partition=on_removal[given.value(flink.ON_REMOVED_PARTITION)],
        discovery=DiscoveryInterval.every(given.value_or_default(flink.DISCOVERY_INTERVAL)),
        max_records_per_batch=given.value(flink.MAX_RECORDS_PER_BATCH),
        max_bytes_per_batch=given.value(flink.MAX_BYTES_PER_BATCH),
        min_splits=given.value(flink.MIN_SPLITS),
        max_records_per_split=given.value(flink.MAX_RECORDS_PER_SPLIT),
        max_drift_ms=given.value(flink.ALIGNMENT_MAX_DRIFT) or None,
        idle_timeout_ms=given.value_or_default(flink.IDLE_TIMEOUT),
        max_future_skew_ms=given.value_or_default(flink.MAX_FUTURE_SKEW),
        **_of_both(given, streaming),
    )


def _of_both(given: GivenOptions, streaming: bool) -> dict[str, Any]:
    """Return the fields whose options have the same names in both dialects."""
    return {
        "isolation_level": IsolationLevel(property_value(given.properties, "isolation.level")),
        "commits_offsets": _commits_offsets(given, streaming),
        "packs_small_ranges": given.value_or_default(flink.PACK_SMALL_RANGES),
        "metrics": _metrics(given),
        "progress_to": _progress_to(given, streaming),
        "record_filter": _record_filter(given, streaming),
        "has_processing_time": given.value(flink.TRIGGER) == PROCESSING_TIME,
    }


def _with_client_id(given: GivenOptions) -> KafkaProperties:
    prefix = given.value(flink.CLIENT_ID_PREFIX)
    if not prefix:
        return given.properties
    overridden = given.properties.get("client.id")
    if overridden not in (None, prefix):
        key = given.properties.spelled("client.id")
        text = f"Property {key} is provided but will be overridden from {overridden} to {prefix}"
        warn_once(_log, f"{text}, because '{flink.CLIENT_ID_PREFIX.key}' is set.")
    return given.properties.changed("client.id", prefix)


def check_one_subscription(given: GivenOptions) -> None:
    """Check that the options name the topics to read at most once.

    Raises:
        OptionError: two options exclude each other.
    """
    for options in (_SUBSCRIPTION, _SUBSCRIPTION_OF_SPARK):
        if any(given.has(option) for option in options):
            _one_of(given, options)


def _subscription(
    given: GivenOptions,
    options: tuple[Option[tuple[str, ...]], Option[str], Option[tuple[TopicPartition, ...]]],
) -> Subscription:
    topics, pattern, topic_partitions = options
    chosen = _one_of(given, options)
    if chosen is topics:
        return TopicList(given.value(topics) or ())
    if chosen is pattern:
        return TopicPattern(given.value(pattern) or "")
    return TopicPartitionSet(given.value(topic_partitions) or ())


def _of_spark(given: GivenOptions, streaming: bool) -> SourceConfig:
    subscription = _subscription(given, _SUBSCRIPTION_OF_SPARK)
    starting = spark_starting(given, subscription)
    stopping = spark_stopping(given, subscription)
    check_spark_ends(given, starting, stopping, streaming)
    default = OffsetsSpec(LogEnd.LATEST if streaming else LogEnd.EARLIEST)
    return SourceConfig(
        properties=_with_poll_timeout(given),
        subscription=subscription,
        starting=starting or default,
        stopping=stopping,
        include_headers=given.value_or_default(spark.INCLUDE_HEADERS),
        fail_on_data_loss=given.value_or_default(spark.FAIL_ON_DATA_LOSS),
        discovery=DiscoveryInterval.EVERY_BATCH,  # the same as in Spark's own source
        max_records_per_batch=given.value(spark.MAX_OFFSETS_PER_TRIGGER),
        min_records_per_batch=_min_offsets(given),
        max_batch_delay_ms=given.value_or_default(spark.MAX_TRIGGER_DELAY),
        min_splits=given.value(spark.MIN_PARTITIONS),
        max_records_per_split=given.value(spark.MAX_RECORDS_PER_PARTITION),
        **_of_both(given, streaming),
    )


def _metrics(given: GivenOptions) -> MetricsSettings | None:
    port = given.value(metrics.HTTP_PORT)
    if port is None:
        others = [
            option.key
            for option in metrics.METRICS_OPTIONS
            if option is not metrics.PROGRESS_REPORT_TO and given.has(option)
        ]
        if others:
            raise MissingOptionError(
                f"Option '{others[0]}' needs '{metrics.HTTP_PORT.key}', which turns metrics on.",
                option=metrics.HTTP_PORT.key,
            )
        return None
    return MetricsSettings(
        http_port=port,
        http_host=given.value_or_default(metrics.HTTP_HOST),
        tasks_host=given.value_or_default(metrics.TASKS_HOST),
        topic_partitions_max=given.value_or_default(metrics.TOPIC_PARTITIONS_MAX),
        aliases=given.value(metrics.ALIASES) or (),
        stalled_after_ms=given.value_or_default(metrics.STALLED_AFTER),
        blocked_after_ms=given.value_or_default(metrics.BLOCKED_AFTER),
    )


def _progress_to(given: GivenOptions, streaming: bool) -> tuple[str, int, str] | None:
    if streaming and given.has(metrics.PROGRESS_REPORT_TO):
        raise UnsupportedOptionError(
            f"Option '{metrics.PROGRESS_REPORT_TO.key}' is for batch reads. Nothing was read. Leave it "
            "out, and call penstock.progress(query) for the progress of a stream.",
            option=metrics.PROGRESS_REPORT_TO.key,
        )
    return given.value(metrics.PROGRESS_REPORT_TO)


def _record_filter(given: GivenOptions, streaming: bool) -> RecordFilter:
    if streaming and given.has(flink.RECORD_FILTER):
        raise UnsupportedOptionError(
            f"Option '{flink.RECORD_FILTER.key}' is for batch reads. Nothing was read. Leave it out, and "
            "filter the stream with where().",
            option=flink.RECORD_FILTER.key,
        )
    return given.value(flink.RECORD_FILTER) or ()


def _min_offsets(given: GivenOptions) -> int | None:
    least, most = given.value(spark.MIN_OFFSETS_PER_TRIGGER), given.value(spark.MAX_OFFSETS_PER_TRIGGER)
    if least is not None and most is not None and least > most:
        raise OptionError(
            f"Option '{spark.MIN_OFFSETS_PER_TRIGGER.key}' ({least}) is more than "
            f"'{spark.MAX_OFFSETS_PER_TRIGGER.key}' ({most}).",
            option=spark.MIN_OFFSETS_PER_TRIGGER.key,
        )
    return least


def _with_poll_timeout(given: GivenOptions) -> KafkaProperties:
    timeout_ms = given.value(spark.POLL_TIMEOUT_MS)
    if timeout_ms is None or given.properties.get("default.api.timeout.ms") is not None:
        return given.properties
    return given.properties.changed("default.api.timeout.ms", str(timeout_ms))


def _one_of(given: GivenOptions, options: tuple[Option[Any], ...]) -> Option[Any]:
    """Return the option that is set, of several that exclude each other."""
    chosen = [option for option in options if given.has(option)]
    names = ", ".join(f"'{option.key}'" for option in options)
    if not chosen:
        keys = tuple(option.key for option in options)
        raise MissingOptionError(f"No option says what to read: set one of {names}.", options=keys)
    if len(chosen) > 1:
        both = " and ".join(f"'{option.key}'" for option in chosen)
        keys = tuple(option.key for option in chosen)
        raise OptionError(f"Options {both} exclude each other: set one of {names}.", options=keys)
    return chosen[0]


def _commits_offsets(given: GivenOptions, streaming: bool) -> bool:
    """Return whether positions are committed: yes with a group id, unless the user turns it off."""
    wanted = given.value(flink.COMMIT_OFFSETS)
    if wanted is None:
        wanted = property_value(given.properties, flink.COMMIT_OFFSETS.key)
    has_group = bool(given.properties.get("group.id"))
    if wanted and not has_group:
        key = given.properties.spelled("group.id")
        raise MissingOptionError(
            f"Option '{key}' is required with '{flink.COMMIT_OFFSETS.key}' = 'true': it names the "
            "consumer group to commit offsets to.",
            option=key,
        )
    return streaming and has_group and wanted is not False


def _of_object(given: GivenOptions, option: Option[str], mode: Option[str]) -> OffsetsSpec | None:
    """Return offsets by a Python object of the user, which is in the text of an option; None without one.

    Nothing is unpickled here, so parsing options never runs code of the user.
    """
    text = given.value(option)
    if text is None:
        return None
    if given.has(mode):
        raise OptionError(
            f"Options '{option.key}' and '{mode.key}' exclude each other: set one of them.", option=option.key
        )
    INITIALIZER.split(text, option.key)
    return OffsetsSpec(initializer=text)
