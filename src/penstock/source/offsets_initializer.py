"""Where reading starts or ends, as the user said it, resolved to numbers.

Runs on the driver, at first planning. Invariant: the result is a number for every topic partition; no
sentinel leaves this module, so none reaches a checkpoint and "latest" cannot move on a restart.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from penstock.errors import OptionError, PenstockError
from penstock.options.config import (
    COMMITTED_OFFSET,
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    OffsetsSpec,
    StartupMode,
)
from penstock.source.admin import LogEnd, OffsetAnswers, Wait
from penstock.source.custom_initializer import ask_initializer
from penstock.source.look_ups import OffsetLookUps
from penstock.types import TopicPartition

_SENTINEL_OF_MODE = {
    StartupMode.EARLIEST: EARLIEST_OFFSET,
    StartupMode.LATEST: LATEST_OFFSET,
    StartupMode.GROUP_OFFSETS: COMMITTED_OFFSET,
}
_MOVING_MODES = {
    StartupMode.LATEST,
    StartupMode.GROUP_OFFSETS,
    StartupMode.TIMESTAMP,
    StartupMode.INITIALIZER,
}
_MOVING_OFFSETS = {LATEST_OFFSET, COMMITTED_OFFSET}


def resolve_offsets(
    spec: OffsetsSpec, topic_partitions: Collection[TopicPartition], look_ups: OffsetLookUps
) -> dict[TopicPartition, int]:
    """A number for each topic partition.

    Args:
        spec: what the user said.
        topic_partitions: the subscribed ones.
        look_ups: answers what has to be asked.

    Raises:
        OptionError: the offsets or timestamps do not fit the subscription; the group has no offset, or
            a log no record of the time, where the user wants one.
        ClientError: an offset could not be looked up.
    """
    return dict(resolve_each(spec, topic_partitions, look_ups).all_or_raise())


def resolve_each(
    spec: OffsetsSpec,
    topic_partitions: Collection[TopicPartition],
    look_ups: OffsetLookUps,
    *,
    wait: Wait = Wait.FOR_ALL,
    are_all: bool = True,
) -> OffsetAnswers:
    """As `resolve_offsets`, with a number or an error for each topic partition.

    With `are_all` false these are not all that are subscribed, so `spec` may say something of others.
    """
    if spec.mode is StartupMode.INITIALIZER:
        spec = ask_initializer(spec.initializer, topic_partitions, look_ups)
    if not are_all:
        spec = _narrowed(spec, topic_partitions)
    if spec.mode is StartupMode.TIMESTAMP:
        return _by_time(spec, topic_partitions, look_ups, wait=wait)
    wanted = _with_committed(spec, _sentinels_and_numbers(spec, topic_partitions), look_ups)
    resolved = {tp: offset for tp, offset in wanted.items() if offset >= 0}
    errors: dict[TopicPartition, PenstockError] = {}
    for sentinel, end in ((EARLIEST_OFFSET, LogEnd.EARLIEST), (LATEST_OFFSET, LogEnd.LATEST)):
        moving = [tp for tp, offset in wanted.items() if offset == sentinel]
        if moving:
            answers = look_ups.log_ends(moving, end, wait=wait)
            resolved.update(answers.offsets)
            errors.update(answers.errors)
    return OffsetAnswers(dict(sorted(resolved.items())), errors)


def is_fixed(spec: OffsetsSpec) -> bool:
    """Whether resolving again later gives the same records: false as soon as "latest" has a part in it."""
    moves = spec.mode in _MOVING_MODES or spec.fallback in _MOVING_MODES or spec.uses_group
    return not moves and not any(offset in _MOVING_OFFSETS for _, offset in spec.offsets)


def _narrowed(spec: OffsetsSpec, topic_partitions: Collection[TopicPartition]) -> OffsetsSpec:
    """What `spec` says of these topic partitions only."""
    return replace(
        spec,
        offsets=tuple((tp, offset) for tp, offset in spec.offsets if tp in topic_partitions),
        timestamps=tuple((tp, time_ms) for tp, time_ms in spec.timestamps if tp in topic_partitions),
    )


def _sentinels_and_numbers(
    spec: OffsetsSpec, topic_partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    if spec.mode is not StartupMode.SPECIFIC_OFFSETS:
        return dict.fromkeys(topic_partitions, _SENTINEL_OF_MODE[spec.mode])
    given = dict(spec.offsets)
    may_leave_out = spec.fallback is not None or spec.uses_group
    _check_coverage("Offsets", given, topic_partitions, may_leave_out=may_leave_out)
    others = COMMITTED_OFFSET if spec.uses_group else _SENTINEL_OF_MODE[spec.fallback or StartupMode.EARLIEST]
    return {tp: given.get(tp, others) for tp in topic_partitions}


def _with_committed(
    spec: OffsetsSpec, wanted: dict[TopicPartition, int], look_ups: OffsetLookUps
) -> dict[TopicPartition, int]:
    """Put the group's offsets in, and the fallback where it has none."""
    asked = [tp for tp, offset in wanted.items() if offset == COMMITTED_OFFSET]
    if not asked:
        return wanted
    committed = look_ups.committed(asked)
    without = sorted(tp for tp in asked if tp not in committed)
    if without and spec.fallback is None:
        raise OptionError(
            f"The consumer group {look_ups.group_id!r} has no committed offset for {_names(without)}, and "
            "nothing says where to be without one. Nothing was read. To start there anyway, set "
            "'properties.auto.offset.reset' to earliest or latest; to end, give every topic partition a "
            "committed offset or use another mode.",
            topic_partitions=tuple(without),
            group_id=look_ups.group_id,
        )
    fallback = _SENTINEL_OF_MODE[spec.fallback] if spec.fallback else EARLIEST_OFFSET
    return {**wanted, **dict.fromkeys(without, fallback), **committed}


def _by_time(
    spec: OffsetsSpec,
    topic_partitions: Collection[TopicPartition],
    look_ups: OffsetLookUps,
    *,
    wait: Wait,
) -> OffsetAnswers:
    """Offsets by timestamp, and the end of the log where there is no such record."""
    timestamps_ms = dict(spec.timestamps)
    if spec.timestamp_ms is not None:
        timestamps_ms = dict.fromkeys(topic_partitions, spec.timestamp_ms)
    _check_coverage("Timestamps", timestamps_ms, topic_partitions, may_leave_out=False)
    # The ends first: a record that comes between the two look-ups is found, or lies behind the end.
    ends = look_ups.log_ends(topic_partitions, LogEnd.LATEST, wait=wait)
    found = look_ups.for_times({tp: timestamps_ms[tp] for tp in ends.offsets})
    errors = {**ends.errors, **found.errors}
    without = sorted(tp for tp in ends.offsets if tp not in found.offsets and tp not in errors)
    if without and spec.needs_match:
        raise OptionError(
            f"There is no record of that time or later in {_names(without)}. Nothing was read. Choose an "
            "earlier time, or set 'startingOffsetsByTimestampStrategy' to latest to begin at the end there.",
            topic_partitions=tuple(without),
        )
    resolved = {tp: found.offsets.get(tp, end) for tp, end in ends.offsets.items() if tp not in errors}
    return OffsetAnswers(dict(sorted(resolved.items())), errors)


def _check_coverage(
    what: str,
    given: Mapping[TopicPartition, int],
    topic_partitions: Collection[TopicPartition],
    *,
    may_leave_out: bool,
) -> None:
    unknown = sorted(set(given) - set(topic_partitions))
    if unknown:
        raise OptionError(
            f"{what} are given for {_names(unknown)}, which the subscription does not have. "
            f"It has {_names(sorted(topic_partitions))}. Nothing was read. Remove them or correct the names.",
            topic_partitions=tuple(unknown),
        )
    uncovered = sorted(set(topic_partitions) - set(given))
    if uncovered and not may_leave_out:
        raise OptionError(
            f"{what} are given for some topic partitions but not for {_names(uncovered)}. Nothing was read. "
            "Give every subscribed one; as an offset -2 means earliest, -1 means latest.",
            topic_partitions=tuple(uncovered),
        )


def _names(topic_partitions: Collection[TopicPartition]) -> str:
    shown = [str(tp) for tp in list(topic_partitions)[:10]]
    more = len(topic_partitions) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "") if shown else "none"
