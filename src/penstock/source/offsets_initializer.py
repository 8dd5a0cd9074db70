"""Where reading starts or ends, as the user said it, resolved to numbers.

Runs on the driver, at first planning. Invariant: the result is a number for every topic partition; no
sentinel leaves this module, so none reaches a checkpoint and "latest" cannot move on a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

from penstock.errors import OptionError
from penstock.options.config import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    OffsetsSpec,
    StartupMode,
)
from penstock.source.admin import LogEnd, OffsetAnswers
from penstock.types import TopicPartition

OffsetLookUp: TypeAlias = Callable[[Collection[TopicPartition], LogEnd], OffsetAnswers]

_SENTINEL_OF_MODE = {StartupMode.EARLIEST: EARLIEST_OFFSET, StartupMode.LATEST: LATEST_OFFSET}


def resolve_offsets(
    spec: OffsetsSpec,
    topic_partitions: Collection[TopicPartition],
    look_up: OffsetLookUp,
) -> dict[TopicPartition, int]:
    """A number for each topic partition.

    Args:
        spec: what the user said.
        topic_partitions: the subscribed ones.
        look_up: answers where a log starts or ends.

    Raises:
        OptionError: specific offsets name topic partitions that are not subscribed, or leave some out
            without a fallback.
        ClientError: an offset could not be looked up.
    """
    wanted = _sentinels_and_numbers(spec, topic_partitions)
    resolved = {tp: offset for tp, offset in wanted.items() if offset >= 0}
    for sentinel, end in ((EARLIEST_OFFSET, LogEnd.EARLIEST), (LATEST_OFFSET, LogEnd.LATEST)):
        moving = [tp for tp, offset in wanted.items() if offset == sentinel]
        if moving:
            resolved.update(look_up(moving, end).all_or_raise())
    return dict(sorted(resolved.items()))


def is_fixed(spec: OffsetsSpec) -> bool:
    """Whether resolving again later gives the same records: false as soon as "latest" has a part in it."""
    modes = {spec.mode, spec.fallback}
    return StartupMode.LATEST not in modes and all(offset != LATEST_OFFSET for _, offset in spec.offsets)


def _sentinels_and_numbers(
    spec: OffsetsSpec, topic_partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    if spec.mode is not StartupMode.SPECIFIC_OFFSETS:
        return dict.fromkeys(topic_partitions, _SENTINEL_OF_MODE[spec.mode])
    given = dict(spec.offsets)
    _check_coverage(given, topic_partitions, spec.fallback)
    fallback = _SENTINEL_OF_MODE[spec.fallback] if spec.fallback else EARLIEST_OFFSET
    return {tp: given.get(tp, fallback) for tp in topic_partitions}


def _check_coverage(
    given: Mapping[TopicPartition, int],
    topic_partitions: Collection[TopicPartition],
    fallback: StartupMode | None,
) -> None:
    unknown = sorted(set(given) - set(topic_partitions))
    if unknown:
        raise OptionError(
            f"Offsets are given for {_names(unknown)}, which the subscription does not have. "
            f"It has {_names(sorted(topic_partitions))}. Nothing was read. Remove them or correct the names.",
            topic_partitions=tuple(unknown),
        )
    uncovered = sorted(set(topic_partitions) - set(given))
    if uncovered and fallback is None:
        raise OptionError(
            f"Offsets are given for some topic partitions but not for {_names(uncovered)}. Nothing was read. "
            "Give every subscribed one; -2 means earliest, -1 means latest.",
            topic_partitions=tuple(uncovered),
        )


def _names(topic_partitions: Collection[TopicPartition]) -> str:
    shown = [str(tp) for tp in list(topic_partitions)[:10]]
    more = len(topic_partitions) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "") if shown else "none"
