"""One word about a reader, by rules over time.

Runs anywhere. Pure: nothing here asks a cluster or reads a clock. The rules follow Burrow, a monitor of
consumer lag: the lag alone says nothing, so each rule compares moments. Invariant: more records in the log
never make a word better.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from penstock.observe.lag import PartitionLook
from penstock.types import TopicPartition


class Health(Enum):
    """The word, from the best to the worst.

    `UNKNOWN` of a reader: some topic partitions gave no answer, and the others are OK. Of a topic partition:
    its position has not moved for long, records wait, and it is unknown since when.
    """

    OK = "OK"
    UNKNOWN = "UNKNOWN"
    FALLING_BEHIND = "FALLING_BEHIND"
    BLOCKED_BY_TRANSACTION = "BLOCKED_BY_TRANSACTION"
    STALLED = "STALLED"
    REWOUND = "REWOUND"


_ORDER = tuple(Health)
_FAST_GROWTH = 1.5
_AGE_GROWTH = 0.1
"""Of the time that passed. A reader at nine tenths of the pace of its producers grows old so fast."""
_POSITIONS_MIN = 2


@dataclass(frozen=True, slots=True)
class HealthRules:
    """When each word of the health applies.

    Attributes:
        stalled_after_ms: how long a reader may leave readable records unread without moving.
        blocked_after_ms: how long a transaction may be open.
        behind_looks: at how many positions in a row the lag must not have shrunk. Only the first look at
            each position counts. One position less is enough if the lag has grown by a half.
        behind_after_ms: how old the next unread record must be at the last of these positions. If its age is
            unknown, how much time must be between the first and the last of them.
        reads_committed: whether the reader has `isolation.level` `read_committed`.
    """

    stalled_after_ms: int = 60_000
    blocked_after_ms: int = 10_000
    behind_looks: int = 4
    behind_after_ms: int = 10_000
    reads_committed: bool = True


@dataclass(frozen=True, slots=True)
class Sample:
    """An earlier moment of one topic partition.

    Attributes:
        at_ms: the moment.
        position: the next offset to read at that time.
        records: the records that the reader could read then; None if unknown (a checkpoint does not tell).
        age_ms: the age of the next unread record; None if unknown.
        has_unread: whether there were records to read, although their number is unknown (a planned batch).
    """

    at_ms: int
    position: int
    records: int | None = None
    age_ms: int | None = None
    has_unread: bool = False

    @classmethod
    def of(cls, look: PartitionLook, rules: HealthRules) -> Sample:
        return cls(look.at_ms, look.position, _unread(look, rules), look.age_ms)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A word about one topic partition, and a sentence why; the sentence of OK is empty."""

    health: Health
    reason: str = ""


_OK = Verdict(Health.OK)


def judge(
    topic_partition: TopicPartition, earlier: Sequence[Sample], now: PartitionLook, rules: HealthRules
) -> Verdict:
    """Return the word for one topic partition."""
    return (
        _rewound(topic_partition, earlier, now)
        or _blocked(topic_partition, now, rules)
        or _stalled(topic_partition, earlier, now, rules)
        or _falling_behind(topic_partition, earlier, now, rules)
        or _OK
    )


def worst(healths: Iterable[Health]) -> Health:
    """Return the worst word; OK without any."""
    return max(healths, key=_ORDER.index, default=Health.OK)


def _unread(look: PartitionLook, rules: HealthRules) -> int:
    return look.readable_records if rules.reads_committed else look.records


def _rewound(
    topic_partition: TopicPartition, earlier: Sequence[Sample], now: PartitionLook
) -> Verdict | None:
    if now.position > now.high_watermark:
        return Verdict(
            Health.REWOUND,
            f"the log of {topic_partition} ends at offset {now.high_watermark}, before the position "
            f"{now.position}: the topic was recreated, or the log was truncated",
        )
    positions = [*(sample.position for sample in earlier), now.position]
    for before, after in pairwise(positions):
        if after < before:
            return Verdict(
                Health.REWOUND, f"the position in {topic_partition} went back from {before} to {after}"
            )
    return None


def _blocked(topic_partition: TopicPartition, now: PartitionLook, rules: HealthRules) -> Verdict | None:
    if not rules.reads_committed or not now.is_kept_back:
        return None
    since_ms = now.holder.open_since_ms if now.holder is not None else None
    since_ms = now.next_time_ms if since_ms is None else since_ms
    if since_ms is None or now.at_ms - since_ms < rules.blocked_after_ms:
        return None
    who = "an open transaction that the broker does not show" if now.holder is None else str(now.holder)
    return Verdict(
        Health.BLOCKED_BY_TRANSACTION,
        f"{who} has kept back readers of {topic_partition} at offset {now.position} for "
        f"{(now.at_ms - since_ms) // 1000} s; {now.records} records wait",
    )


def _stalled(
    topic_partition: TopicPartition, earlier: Sequence[Sample], now: PartitionLook, rules: HealthRules
) -> Verdict | None:
    if not _unread(now, rules):
        return None
    # An old timestamp does not prove that the record waited: its producer may have set the time of an event.
    stands_since_ms = waits_since_ms = now.at_ms
    for sample in reversed(earlier):
        if sample.position != now.position or sample.records == 0:
            break
        stands_since_ms = sample.at_ms
        if sample.records or sample.has_unread:
            waits_since_ms = sample.at_ms
        if sample.has_unread:  # it planned a batch, so it did not stand still before
            break
    if now.came_at_ms is not None:
        waits_since_ms = min(waits_since_ms, max(now.came_at_ms, stands_since_ms))
    where = f"the position in {topic_partition} has stood at {now.position}"
    waited_ms = now.at_ms - waits_since_ms
    if waited_ms >= rules.stalled_after_ms:
        return Verdict(
            Health.STALLED,
            f"{where} for {waited_ms // 1000} s, with {_unread(now, rules)} records to read",
        )
    stood_ms = now.at_ms - stands_since_ms
    if min(stood_ms, stood_ms if now.age_ms is None else now.age_ms) < rules.stalled_after_ms:
        return None  # a record that is younger did not wait for longer
    return Verdict(
        Health.UNKNOWN,
        f"{where} for {stood_ms // 1000} s, with {_unread(now, rules)} records to read. It is unknown since "
        "when these wait, because producers set the timestamps. Look for longer than "
        f"{rules.stalled_after_ms // 1000} s to know if it is {Health.STALLED.value}",
    )


def _falling_behind(
    topic_partition: TopicPartition, earlier: Sequence[Sample], now: PartitionLook, rules: HealthRules
) -> Verdict | None:
    seen = _first_of_each_position([*earlier, Sample.of(now, rules)])
    is_behind = any(
        _grows(seen[-positions:], positions, factor)
        for positions, factor in ((rules.behind_looks, 1.0), (rules.behind_looks - 1, _FAST_GROWTH))
    )
    seen = seen[-rules.behind_looks :]
    if not is_behind:
        return None
    span_ms = seen[-1].at_ms - seen[0].at_ms
    # Without an age, e.g. of a topic without timestamps, the lag must have grown for as long.
    if (span_ms if now.age_ms is None else now.age_ms) < rules.behind_after_ms:
        return None
    return Verdict(
        Health.FALLING_BEHIND,
        f"the lag in {topic_partition} grew from {seen[0].records} to {seen[-1].records} records in "
        f"{span_ms / 1000:.0f} s",
    )


def _first_of_each_position(samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples right after the reader moved: between two batches every lag grows."""
    known = [sample for sample in samples if sample.records is not None]
    return [
        sample
        for number, sample in enumerate(known)
        if not number or sample.position != known[number - 1].position
    ]


def _grows(seen: Sequence[Sample], positions: int, factor: float) -> bool:
    """Return whether the lag never shrank and has grown by this factor, and the age has grown, too."""
    if positions < _POSITIONS_MIN or len(seen) < positions:
        return False
    records = [sample.records or 0 for sample in seen]
    if any(before > after for before, after in pairwise(records)):
        return False
    growth = records[-1] - records[0]
    if records[0] == 0 or growth == 0 or records[-1] < factor * records[0]:
        return False
    if records[-1] - records[-2] < growth / (2 * (positions - 1)):
        return False  # it grew once, e.g. when the query started, and not since
    ages_ms = [sample.age_ms for sample in seen if sample.age_ms is not None]
    # More records of the same age are a faster producer that the reader keeps up with.
    passed_ms = seen[-1].at_ms - seen[0].at_ms
    return len(ages_ms) < len(seen) or ages_ms[-1] - ages_ms[0] >= _AGE_GROWTH * passed_ms
