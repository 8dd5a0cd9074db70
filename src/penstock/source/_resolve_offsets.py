"""Resolve the start or end that the user set to numbers.

Runs on the driver, at first planning. Invariant: each topic partition gets a number. So no position like
"latest" reaches a checkpoint, and a start cannot move on a restart.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from penstock.client.cluster.results import Results
from penstock.errors import OptionError
from penstock.options.config import OffsetsSpec
from penstock.source._configured_lookup import OffsetLookUps
from penstock.source._lookup import Wait
from penstock.source._positions import names, resolve_positions
from penstock.source.checkpoint_offset import Positions
from penstock.source.user_initializer import ask_initializer
from penstock.types import At, LogEnd, Time, TopicPartition, Where


def resolve_offsets(
    spec: OffsetsSpec,
    topic_partitions: Collection[TopicPartition],
    look_ups: OffsetLookUps,
    *,
    starts: Positions | None = None,
) -> dict[TopicPartition, int]:
    """Return a number for each topic partition.

    Args:
        spec: the start or end from the options.
        topic_partitions: the subscribed ones.
        look_ups: answers the questions.
        starts: where reading starts, to resolve an end; None if it is not known.

    Raises:
        OptionError: the offsets or timestamps do not fit the subscription; or a committed offset, or a record
            of the time, is needed and missing.
        ClientError: an offset could not be looked up.
    """
    answers = resolve_each(spec, topic_partitions, look_ups, starts=starts)
    return dict(answers.all_or_raise("Looking up offsets"))


def resolve_each(
    spec: OffsetsSpec,
    topic_partitions: Collection[TopicPartition],
    look_ups: OffsetLookUps,
    *,
    wait: Wait = Wait.FOR_ALL,
    are_all: bool = True,
    starts: Positions | None = None,
) -> Results[TopicPartition, int]:
    """Return a number or an error for each topic partition; see `resolve_offsets`.

    With `are_all` false these are not all subscribed topic partitions, so `spec` may name others.
    """
    if spec.initializer:
        spec = ask_initializer(spec.initializer, topic_partitions, look_ups, starts)
    if not are_all:
        spec = replace(spec, each=tuple(named for named in spec.each if named[0] in topic_partitions))
    return resolve_positions(
        _wanted(spec, topic_partitions),
        look_ups,
        without_committed=spec.without_committed,
        needs_match=spec.needs_match,
        wait=wait,
    )


def is_fixed(spec: OffsetsSpec) -> bool:
    """Return whether resolving again later gives the same records, which "latest" does not."""
    return (
        not spec.initializer
        and spec.before_now_ms is None
        and all(where is LogEnd.EARLIEST or isinstance(where, At) for where in spec.positions)
    )


def _wanted(spec: OffsetsSpec, topic_partitions: Collection[TopicPartition]) -> dict[TopicPartition, Where]:
    """Return the position of each topic partition, after a check that the spec fits the subscription."""
    each = dict(spec.each)
    what = "Timestamps" if any(isinstance(where, Time) for where in each.values()) else "Offsets"
    unknown = sorted(set(each) - set(topic_partitions))
    if unknown:
        raise OptionError(
            f"{what} are given for {names(unknown)}, which the subscription does not have. "
            f"It has {names(sorted(topic_partitions))}. Nothing was read. Remove them or correct the names.",
            topic_partitions=tuple(unknown),
        )
    others = spec.others
    if others is not None:
        return {tp: each.get(tp, others) for tp in topic_partitions}
    uncovered = sorted(set(topic_partitions) - set(each))
    if uncovered:
        raise OptionError(
            f"{what} are given for some topic partitions but not for {names(uncovered)}. Nothing was read. "
            "Give a value for every subscribed topic partition; as an offset, -2 means earliest, -1 means "
            "latest.",
            topic_partitions=tuple(uncovered),
        )
    return {tp: each[tp] for tp in topic_partitions}
