"""Where reading starts or ends, as the user said it, resolved to numbers.

Runs on the driver, at first planning. Invariant: the result is a number for every topic partition. So no
place such as "latest" reaches a checkpoint, and a start cannot move on a restart.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from penstock.client.cluster.results import Results
from penstock.errors import OptionError
from penstock.options.config import OffsetsSpec
from penstock.source._configured_lookup import OffsetLookUps
from penstock.source._lookup import Wait
from penstock.source._places import names, resolve_places
from penstock.source.user_initializer import ask_initializer
from penstock.types import At, LogEnd, Time, TopicPartition, Where


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
    return dict(resolve_each(spec, topic_partitions, look_ups).all_or_raise("Looking up offsets"))


def resolve_each(
    spec: OffsetsSpec,
    topic_partitions: Collection[TopicPartition],
    look_ups: OffsetLookUps,
    *,
    wait: Wait = Wait.FOR_ALL,
    are_all: bool = True,
) -> Results[TopicPartition, int]:
    """As `resolve_offsets`, with a number or an error for each topic partition.

    With `are_all` false these are not all that are subscribed, so `spec` may say something of others.
    """
    if spec.initializer:
        spec = ask_initializer(spec.initializer, topic_partitions, look_ups)
    if not are_all:
        spec = replace(spec, each=tuple(named for named in spec.each if named[0] in topic_partitions))
    return resolve_places(
        _wanted(spec, topic_partitions),
        look_ups,
        without_committed=spec.without_committed,
        needs_match=spec.needs_match,
        wait=wait,
    )


def is_fixed(spec: OffsetsSpec) -> bool:
    """Whether resolving again later gives the same records: false as soon as "latest" has a part in it."""
    return not spec.initializer and all(
        where is LogEnd.EARLIEST or isinstance(where, At) for where in spec.places
    )


def _wanted(spec: OffsetsSpec, topic_partitions: Collection[TopicPartition]) -> dict[TopicPartition, Where]:
    """The place of each topic partition, after a check that the spec fits the subscription."""
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
            "Give every subscribed one; as an offset -2 means earliest, -1 means latest.",
            topic_partitions=tuple(uncovered),
        )
    return {tp: each[tp] for tp in topic_partitions}
