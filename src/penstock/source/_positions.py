"""Turn positions in logs (earliest, latest, committed, a time) into offsets.

Runs on the driver, in planning. Invariant: the answer is complete. Each topic partition that was asked for
has an offset or an error. No position is left, so none reaches a checkpoint.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.client.cluster.results import Results
from penstock.errors import OptionError, PenstockError
from penstock.source._configured_lookup import OffsetLookUps
from penstock.source._lookup import Wait
from penstock.types import At, Committed, LogEnd, Time, TopicPartition, Where


def resolve_positions(
    wanted: Mapping[TopicPartition, Where],
    look_ups: OffsetLookUps,
    *,
    without_committed: LogEnd | None = None,
    needs_match: bool = False,
    wait: Wait = Wait.FOR_ALL,
) -> Results[TopicPartition, int]:
    """Return an offset or an error for each topic partition.

    Args:
        wanted: the positions.
        look_ups: answers the questions.
        without_committed: the position to use if the group has no committed offset; None makes that an error.
        needs_match: whether a log without a record of the time or later is an error; if not, its end is used.
        wait: how long to wait for topic partitions that do not answer.

    Raises:
        OptionError: a committed offset, or a record of the time, is needed and missing.
    """
    wanted = _with_committed(wanted, look_ups, without_committed)
    resolved = {tp: where.offset for tp, where in wanted.items() if isinstance(where, At)}
    errors: dict[TopicPartition, PenstockError] = {}
    for end in LogEnd:
        at_end = [tp for tp, where in wanted.items() if where is end]
        if at_end:
            answers = look_ups.log_ends(at_end, end, wait=wait)
            resolved.update(answers.values)
            errors.update(answers.errors)
    times_ms = {tp: where.time_ms for tp, where in wanted.items() if isinstance(where, Time)}
    if times_ms:
        answers = _by_time(times_ms, look_ups, needs_match, wait)
        resolved.update(answers.values)
        errors.update(answers.errors)
    return Results(dict(sorted(resolved.items())), errors)


def _with_committed(
    wanted: Mapping[TopicPartition, Where], look_ups: OffsetLookUps, without_committed: LogEnd | None
) -> Mapping[TopicPartition, Where]:
    """Replace "committed" by the offset of the group, or by the other position if the group has none."""
    asked = [tp for tp, where in wanted.items() if isinstance(where, Committed)]
    if not asked:
        return wanted
    committed = {tp: At(offset) for tp, offset in look_ups.committed(asked).items()}
    missing = sorted(tp for tp in asked if tp not in committed)
    if missing and without_committed is None:
        raise OptionError(
            f"The consumer group {look_ups.group_id!r} has no committed offset for {names(missing)}, and no "
            "option says where to begin or end without a committed offset. Nothing was read. To start "
            "there anyway, set 'properties.auto.offset.reset' to earliest or latest; to end, give every "
            "topic partition a committed offset or use another mode.",
            topic_partitions=tuple(missing),
            group_id=look_ups.group_id,
        )
    others = {} if without_committed is None else dict.fromkeys(missing, without_committed)
    return {**wanted, **others, **committed}


def _by_time(
    times_ms: Mapping[TopicPartition, int], look_ups: OffsetLookUps, needs_match: bool, wait: Wait
) -> Results[TopicPartition, int]:
    """Return offsets by timestamp, and the end of the log if there is no such record."""
    # The ends first: a record that arrives between the two look-ups is found, or lies after the end.
    ends = look_ups.log_ends(times_ms.keys(), LogEnd.LATEST, wait=wait)
    found = look_ups.for_times({tp: times_ms[tp] for tp in ends.values})
    errors = {**ends.errors, **found.errors}
    without = sorted(tp for tp in ends.values if tp not in found.values and tp not in errors)
    if without and needs_match:
        raise OptionError(
            f"There is no record with the given time or a later time in {names(without)}. Nothing was read. "
            "Choose an earlier time, or set 'startingOffsetsByTimestampStrategy' to latest to begin at the "
            "end there.",
            topic_partitions=tuple(without),
        )
    resolved = {tp: found.values.get(tp, end) for tp, end in ends.values.items() if tp not in errors}
    return Results(resolved, errors)


def names(topic_partitions: Collection[TopicPartition]) -> str:
    """Return the names of the first ten topic partitions, for messages."""
    shown = [str(tp) for tp in list(topic_partitions)[:10]]
    more = len(topic_partitions) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "") if shown else "none"
