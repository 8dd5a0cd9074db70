"""Parse and format offsets and topic partitions, as Flink's strings and Spark's JSON.

Runs on the driver. Invariant: `parse(format(x)) == x`. A repeated topic partition, a negative partition, or
an offset that is not a number raises `ValueError`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from penstock.options.values import INT_MAX, LONG_MAX, check_topic_name, parse_integer, split_list
from penstock.types import At, Committed, LogEnd, TopicPartition, Where

Offsets = tuple[tuple[TopicPartition, int], ...]

EARLIEST_OFFSET = -2
LATEST_OFFSET = -1
COMMITTED_OFFSET = -3
_MOVING_POSITIONS: dict[int, Where] = {
    EARLIEST_OFFSET: LogEnd.EARLIEST,
    LATEST_OFFSET: LogEnd.LATEST,
    COMMITTED_OFFSET: Committed(),
}
"""The numbers that users write instead of an offset that they do not know."""

FLINK_OFFSETS_FORM = (
    "'partition:0,offset:42;partition:1,offset:300' for a single topic, or "
    "'topic:orders,partition:0,offset:42;topic:...' for several"
)
SPARK_OFFSETS_FORM = 'JSON such as {"orders":{"0":23,"1":-2}} (-2 is earliest, -1 is latest)'
SPARK_TIMESTAMPS_FORM = 'JSON such as {"orders":{"0":1700000000000}} (milliseconds since 1970)'
SPARK_ASSIGN_FORM = 'JSON such as {"orders":[0,1],"payments":[0]}'
TOPIC_PARTITIONS_FORM = "'orders:0;orders:1;payments:0'"

_SPECIFIC_OFFSET = re.compile(
    r"\s*(?:topic:(?P<topic>[^,;:]+),\s*)?partition:(?P<partition>[0-9]+),\s*offset:(?P<offset>-?[0-9]+)\s*"
)


def where_of(offset: int) -> Where:
    """Return the position of an offset that a user wrote; three negative numbers have a special meaning."""
    return _MOVING_POSITIONS.get(offset) or At(offset)


def parse_flink_offsets(text: str, topic_of_plain_form: str | None) -> Offsets:
    """Parse `scan.*.specific-offsets`.

    Args:
        text: from the user.
        topic_of_plain_form: the topic of entries without a topic; None if several topics are possible.
    """
    found: dict[TopicPartition, int] = {}
    for entry in split_list(text, ";"):
        match = _SPECIFIC_OFFSET.fullmatch(entry)
        if match is None:
            raise ValueError(FLINK_OFFSETS_FORM)
        topic = match["topic"] or topic_of_plain_form
        if topic is None:
            raise ValueError(
                f"{FLINK_OFFSETS_FORM}; here several topics are possible, so each entry must name its topic"
            )
        topic_partition = TopicPartition(check_topic_name(topic.strip()), _partition(match["partition"]))
        _add(found, topic_partition, _offset(match["offset"], COMMITTED_OFFSET))
    return tuple(sorted(found.items()))


def format_flink_offsets(offsets: Offsets) -> str:
    return ";".join(f"topic:{tp.topic},partition:{tp.partition},offset:{offset}" for tp, offset in offsets)


def parse_topic_partitions(text: str) -> tuple[TopicPartition, ...]:
    """Parse `topic-partitions`, e.g. `orders:0;orders:1`."""
    found: dict[TopicPartition, None] = {}
    for entry in split_list(text, ";"):
        topic, colon, partition = entry.rpartition(":")
        if not colon:
            raise ValueError(TOPIC_PARTITIONS_FORM)
        found[TopicPartition(check_topic_name(topic.strip()), _partition(partition))] = None
    return tuple(sorted(found))


def format_topic_partitions(topic_partitions: Iterable[TopicPartition]) -> str:
    return ";".join(f"{topic}:{partition}" for topic, partition in topic_partitions)


def parse_spark_offsets(text: str) -> Offsets:
    """Parse Spark's `startingOffsets` / `endingOffsets` JSON."""
    return _numbers_by_topic_partition(text, SPARK_OFFSETS_FORM, _offset)


def parse_spark_timestamps(text: str) -> Offsets:
    """Parse Spark's `startingOffsetsByTimestamp` / `endingOffsetsByTimestamp` JSON."""
    return _numbers_by_topic_partition(
        text, SPARK_TIMESTAMPS_FORM, lambda number: parse_integer(number, 0, LONG_MAX)
    )


def _numbers_by_topic_partition(text: str, form: str, parse_number: Callable[[str], int]) -> Offsets:
    found: dict[TopicPartition, int] = {}
    for topic, number_of_partition in _json_object(text, form).items():
        if not isinstance(number_of_partition, dict) or not number_of_partition:
            raise ValueError(form)
        for partition, number in number_of_partition.items():
            # bool is an int in Python, but `true` is not an offset.
            if not isinstance(number, int) or isinstance(number, bool):
                raise ValueError(form)
            topic_partition = TopicPartition(check_topic_name(topic), _partition(partition))
            _add(found, topic_partition, parse_number(str(number)))
    return tuple(sorted(found.items()))


def parse_spark_assign(text: str) -> tuple[TopicPartition, ...]:
    """Parse Spark's `assign` JSON."""
    found: dict[TopicPartition, None] = {}
    for topic, partitions in _json_object(text, SPARK_ASSIGN_FORM).items():
        if not isinstance(partitions, list) or not partitions:
            raise ValueError(SPARK_ASSIGN_FORM)
        for partition in partitions:
            if not isinstance(partition, int) or isinstance(partition, bool):
                raise ValueError(SPARK_ASSIGN_FORM)
            found[TopicPartition(check_topic_name(topic), _partition(str(partition)))] = None
    return tuple(sorted(found))


def _json_object(text: str, form: str) -> dict[str, Any]:
    try:
        tree = json.loads(text, object_pairs_hook=_once_each(form))
    except (ValueError, RecursionError):
        raise ValueError(form) from None
    if not isinstance(tree, dict) or not tree:
        raise ValueError(form)
    return tree


def _once_each(form: str) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        tree = dict(pairs)
        if len(tree) != len(pairs):
            raise ValueError(form)
        return tree

    return build


def _add(found: dict[TopicPartition, int], topic_partition: TopicPartition, offset: int) -> None:
    if topic_partition in found:
        raise ValueError(f"each topic partition once ({topic_partition} is given twice)")
    found[topic_partition] = offset


def _partition(text: str) -> int:
    try:
        return parse_integer(text, 0, INT_MAX)
    except ValueError:
        raise ValueError("partition numbers of at least 0") from None


def _offset(text: str, minimum: int = EARLIEST_OFFSET) -> int:
    try:
        return parse_integer(text, minimum, LONG_MAX)
    except ValueError:
        named = {EARLIEST_OFFSET: "earliest", LATEST_OFFSET: "latest", COMMITTED_OFFSET: "the group's"}
        first, *more = (f"{offset} for {name}" for offset, name in named.items() if offset >= minimum)
        words = ", ".join([first, *more[:-1]]) + f", or {more[-1]}"
        raise ValueError(f"offsets of at least 0, {words}") from None
