"""Parse the options that say where a read begins and ends, in either dialect, into an `OffsetsSpec`.

Runs on the driver. Invariant: the options that belong to one mode are set with that mode and only then. A
position that needs a consumer group is refused without one.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import MissingOptionError, OptionError
from penstock.options import _spark as spark
from penstock.options import flink
from penstock.options import offset_text as offsets
from penstock.options._recognise import GivenOptions
from penstock.options.config import OffsetsSpec, Subscription, TopicList, TopicPattern
from penstock.options.declare import Option, raise_not_allowed
from penstock.options.properties import property_value
from penstock.options.time_text import BeforeNow
from penstock.options.warn import warn_once
from penstock.types import Committed, LogEnd, Time, TopicPartition, Where

_log = logging.getLogger("penstock.options")

_ENDS_BY_WORD = {"earliest": LogEnd.EARLIEST, "latest": LogEnd.LATEST}
_POSITION_BY_MODE: dict[str, Where] = {
    "earliest-offset": LogEnd.EARLIEST,
    "latest-offset": LogEnd.LATEST,
    "group-offsets": Committed(),
}
_RESET_KEY = "auto.offset.reset"


@dataclass(frozen=True)
class _End:
    """The options of Flink's dialect for one end of a read."""

    mode: Option[str]
    offsets: Option[str]
    timestamp_ms: Option[int]
    timestamp: Option[Time | BeforeNow]


_STARTUP = _End(
    flink.STARTUP_MODE, flink.STARTUP_SPECIFIC_OFFSETS, flink.STARTUP_TIMESTAMP, flink.STARTUP_TIME
)
_BOUNDED = _End(
    flink.BOUNDED_MODE, flink.BOUNDED_SPECIFIC_OFFSETS, flink.BOUNDED_TIMESTAMP, flink.BOUNDED_TIME
)


def flink_starting(given: GivenOptions, subscription: Subscription) -> OffsetsSpec:
    """Return where reading begins, from Flink's options."""
    spec = _flink_end(given, _STARTUP, _mode(given, _STARTUP), subscription)
    reset = property_value(given.properties, _RESET_KEY)
    if spec == OffsetsSpec(Committed()):
        return replace(spec, without_committed=_ENDS_BY_WORD.get(reset or "none"))
    if reset is not None:
        warn_once(
            _log,
            f"Option 'properties.{_RESET_KEY}' has no effect. It says where "
            f"'{flink.STARTUP_MODE.key}' = 'group-offsets' begins without a committed offset; the mode is "
            f"{given.value_or_default(flink.STARTUP_MODE)!r}."
            f" What happens when records are gone is '{flink.ON_DATA_LOSS.key}'.",
        )
    return spec


def flink_stopping(given: GivenOptions, subscription: Subscription) -> OffsetsSpec | None:
    """Return where reading ends, from Flink's options; None if they do not say."""
    mode = _mode(given, _BOUNDED)
    return None if mode == "unbounded" else _flink_end(given, _BOUNDED, mode, subscription)


def _mode(given: GivenOptions, end: _End) -> str:
    """Return the mode after a check that the other two options fit it."""
    mode = given.value_or_default(end.mode)
    for wanted, options in (
        ("specific-offsets", (end.offsets,)),
        ("timestamp", (end.timestamp_ms, end.timestamp)),
    ):
        _check_mode(given, end.mode, wanted, options)
    return mode


def _check_mode(
    given: GivenOptions, mode: Option[str], wanted: str, options: tuple[Option[Any], ...]
) -> None:
    """Check that exactly one of the options is set with the mode `wanted`, and none with another mode."""
    is_set, current = [option for option in options if given.has(option)], given.value_or_default(mode)
    names = " or ".join(f"'{option.key}'" for option in options)
    if is_set and current != wanted:
        raise OptionError(
            f"Option '{is_set[0].key}' needs '{mode.key}' = '{wanted}', which is "
            f"{repr(current) if given.has(mode) else 'not set'}.",
            option=is_set[0].key,
        )
    if current == wanted and not is_set:
        raise MissingOptionError(
            f"Option {names} is required with '{mode.key}' = '{wanted}'.", option=options[0].key
        )
    if len(is_set) > 1:
        raise OptionError(f"Options {names} exclude each other: set one of them.", option=options[0].key)


def _flink_end(given: GivenOptions, end: _End, mode: str, subscription: Subscription) -> OffsetsSpec:
    if mode == "specific-offsets":
        return _flink_specific(given, end, subscription)
    if mode == "timestamp":
        time_ms = given.value(end.timestamp_ms)
        return _by_moment(given.value(end.timestamp) if time_ms is None else Time(time_ms))
    if mode == "group-offsets":
        _need_group_id(given, f"'{end.mode.key}' = 'group-offsets'")
    return OffsetsSpec(_POSITION_BY_MODE[mode])


def _flink_specific(given: GivenOptions, end: _End, subscription: Subscription) -> OffsetsSpec:
    text = given.text(end.offsets) or ""
    try:
        parsed = offsets.parse_flink_offsets(text, _single_topic(subscription))
    except ValueError as error:
        raise_not_allowed(end.offsets.key, text, str(error))
    _check_subscribed(parsed, subscription, end.offsets.key)
    for topic_partition, offset in parsed:
        if offset == offsets.COMMITTED_OFFSET:
            _need_group_id(given, f"the offset {offset} of {topic_partition} in '{end.offsets.key}'")
    # As in Flink, a topic partition that is not named begins (and ends) at the committed offset of the group,
    # without one at earliest.
    others = Committed() if given.properties.get("group.id") else LogEnd.EARLIEST
    return OffsetsSpec(others, _each(parsed), without_committed=LogEnd.EARLIEST)


def _each(parsed: offsets.Offsets) -> tuple[tuple[TopicPartition, Where], ...]:
    return tuple((topic_partition, offsets.where_of(offset)) for topic_partition, offset in parsed)


def _need_group_id(given: GivenOptions, what: str) -> None:
    if not given.properties.get("group.id"):
        raise MissingOptionError(
            f"Option 'properties.group.id' is required with {what}: it names the consumer group whose "
            "committed offsets are used.",
            option="properties.group.id",
        )


def _single_topic(subscription: Subscription) -> str | None:
    if isinstance(subscription, TopicPattern):
        return None
    if isinstance(subscription, TopicList):
        topics = set(subscription.topics)
    else:
        topics = {topic_partition.topic for topic_partition in subscription.topic_partitions}
    return topics.pop() if len(topics) == 1 else None


def spark_starting(given: GivenOptions, subscription: Subscription) -> OffsetsSpec | None:
    """Return where reading begins, from Spark's options. A time overrides offsets."""
    needs_match = given.value(spark.STARTING_OFFSETS_BY_TIMESTAMP_STRATEGY) != "latest"
    by_time = _spark_times(
        given, spark.STARTING_TIMESTAMP, spark.STARTING_OFFSETS_BY_TIMESTAMP, subscription, needs_match
    )
    return by_time or _spark_offsets(given, spark.STARTING_OFFSETS, subscription)


def spark_stopping(given: GivenOptions, subscription: Subscription) -> OffsetsSpec | None:
    """Return where a batch read ends, from Spark's options; None if they do not say."""
    by_time = _spark_times(
        given, spark.ENDING_TIMESTAMP, spark.ENDING_OFFSETS_BY_TIMESTAMP, subscription, needs_match=False
    )
    return by_time or _spark_offsets(given, spark.ENDING_OFFSETS, subscription)


def _spark_times(
    given: GivenOptions,
    for_all: Option[Time | BeforeNow],
    for_each: Option[str],
    subscription: Subscription,
    needs_match: bool,
) -> OffsetsSpec | None:
    moment = given.value(for_all)
    if moment is not None:
        return replace(_by_moment(moment), needs_match=needs_match)
    text = given.text(for_each)
    if text is None:
        return None
    try:
        parsed = offsets.parse_spark_timestamps(text)
    except ValueError as error:
        raise_not_allowed(for_each.key, text, str(error))
    _check_subscribed(parsed, subscription, for_each.key)
    return OffsetsSpec(each=tuple((tp, Time(time_ms)) for tp, time_ms in parsed), needs_match=needs_match)


def _by_moment(moment: Time | BeforeNow | None) -> OffsetsSpec:
    if isinstance(moment, BeforeNow):
        return OffsetsSpec(before_now_ms=moment.before_ms)
    return OffsetsSpec(moment)


def _spark_offsets(
    given: GivenOptions, option: Option[str], subscription: Subscription
) -> OffsetsSpec | None:
    text = given.text(option)
    if text is None:
        return None
    end = _ENDS_BY_WORD.get(text.strip().lower())
    if end is not None:
        return OffsetsSpec(end)
    try:
        parsed = offsets.parse_spark_offsets(text)
    except ValueError as error:
        raise_not_allowed(option.key, text, f"earliest, latest, or {error}")
    _check_subscribed(parsed, subscription, option.key)
    return OffsetsSpec(each=_each(parsed))


def check_spark_ends(
    given: GivenOptions, starting: OffsetsSpec | None, stopping: OffsetsSpec | None, streaming: bool
) -> None:
    """Refuse what Spark's own source refuses at each end."""
    if streaming and stopping is not None:
        ends = (spark.ENDING_TIMESTAMP, spark.ENDING_OFFSETS_BY_TIMESTAMP, spark.ENDING_OFFSETS)
        key = next(option.key for option in ends if given.has(option))
        raise OptionError(
            f"Option '{key}' is for batch reads, as in Spark's own source. Leave it out and use the "
            "trigger availableNow. A stream that ends at given offsets needs all options in Flink's dialect: "
            "see docs/source.md.",
            option=key,
        )
    if not streaming and _points_at(starting, LogEnd.LATEST):
        text = given.text(spark.STARTING_OFFSETS) or ""
        allowed = "earliest or offsets. A batch read that begins at latest (-1) would read nothing"
        raise_not_allowed(spark.STARTING_OFFSETS.key, text, allowed)
    if _points_at(stopping, LogEnd.EARLIEST):
        text = given.text(spark.ENDING_OFFSETS) or ""
        allowed = "latest or offsets. A read that ends at earliest (-2) would read nothing"
        raise_not_allowed(spark.ENDING_OFFSETS.key, text, allowed)


def _points_at(spec: OffsetsSpec | None, end: LogEnd) -> bool:
    return spec is not None and end in spec.positions


def _check_subscribed(parsed: offsets.Offsets, subscription: Subscription, key: str) -> None:
    """Refuse offsets of topic partitions that are not read. Planning checks those of a pattern."""
    if isinstance(subscription, TopicPattern):
        return
    if isinstance(subscription, TopicList):
        strangers = sorted({tp.topic for tp, _ in parsed} - set(subscription.topics))
    else:
        strangers = sorted(str(tp) for tp, _ in parsed if tp not in subscription.topic_partitions)
    if strangers:
        raise OptionError(
            f"Option '{key}' gives offsets for {', '.join(strangers)}, which the subscription does not read. "
            "Correct the names, or leave them out.",
            option=key,
        )
