"""Find the batches of two queries that have read the same records, from their receipts and checkpoints.

Runs anywhere. Pure. A query's position moves on with each batch. If both queries have been at the same
position before and after some of their batches, these batches have read the same records, however they were
divided. Invariant: a batch of which it is unknown what it read or wrote ends the comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.sink.exactly_once.receipt import Receipt
from penstock.source.checkpoint_offset import Positions
from penstock.types import OffsetRange, TopicPartition


@dataclass(frozen=True)
class History:
    """What is known of the batches of a query.

    Attributes:
        receipts: in order of their numbers.
        positions: at the end of the done batches that the checkpoint still has, by number.
        decided: the newest batch that the decision log names; -1 for none.
        first: the first batch to compare.
    """

    receipts: Sequence[Receipt]
    positions: Mapping[int, Positions]
    decided: int
    first: int


@dataclass
class Side:
    """The positions of a query, batch after batch.

    Attributes:
        begins: where each topic partition begins, if that is known.
        cuts: the positions before the first batch, and at the end of each.
        batches: their numbers and receipts.
        stopped: why the batches after them are unknown; None: there are none.
    """

    begins: dict[TopicPartition, int] = field(default_factory=dict)
    cuts: list[dict[TopicPartition, int]] = field(default_factory=list)
    batches: list[tuple[int, Receipt | None]] = field(default_factory=list)
    stopped: str | None = None


@dataclass(frozen=True)
class Group:
    """Batches of both queries that have read the same records.

    Attributes:
        live: the numbers of the first and the last batch of the running job.
        shadow: those of the shadow.
        read: the ranges that both have read, where it is known where they begin.
        written: the receipts of the batches that wrote, of the running job and of the shadow.
    """

    live: tuple[int, int]
    shadow: tuple[int, int]
    read: tuple[OffsetRange, ...]
    written: tuple[tuple[Receipt, ...], tuple[Receipt, ...]]


def side_of(start: Positions, history: History) -> Side:
    """Return the positions of a query from a start on.

    Args:
        start: where its first batch begins.
        history: of the query.
    """
    side, now = Side(dict(start), [dict(start)]), dict(start)
    receipts = {each.batch_id: each for each in history.receipts if each.batch_id >= history.first}
    known = [each for each in history.positions if each >= history.first]
    last_receipt = max(receipts, default=history.first - 1)
    for batch_id in sorted({*receipts, *known}):
        receipt = receipts.get(batch_id)
        side.stopped = _why_unknown(history, receipts, batch_id, last_receipt)
        if side.stopped is None and receipt is not None and receipt.read is not None:
            side.stopped = _move(side, now, receipt)
        elif side.stopped is None:
            now.update(history.positions[batch_id])
        if side.stopped is not None:
            break
        side.cuts.append(dict(now))
        side.batches.append((batch_id, receipt))
    return side


def _why_unknown(
    history: History, receipts: Mapping[int, Receipt], batch_id: int, last_receipt: int
) -> str | None:
    """Return why it is unknown what a batch, or one before it, has read and written; None if it is known."""
    receipt = receipts.get(batch_id)
    if receipt is None:
        after = min((each for each in receipts if each > batch_id), default=None)
        is_told = (
            history.decided <= last_receipt
            if after is None
            else _wrote_nothing(history, receipts[after], batch_id)
        )
        return None if is_told else f"batch {batch_id} has no receipt"
    before = max((each for each in receipts if each < batch_id), default=None)
    floor = history.first - 1 if before is None else before
    if receipt.previous is not None and receipt.previous > floor:
        return f"batch {receipt.previous} has no receipt"
    if before is not None and receipt.previous != before:
        return f"batches between {before} and {batch_id} have no receipt"
    is_next = batch_id == floor + 1 or batch_id - 1 in history.positions
    is_told = receipt.idle is not None and _wrote_nothing(history, receipt, batch_id)
    if not is_next and not is_told:
        return f"it is unknown what the batches between {floor} and {batch_id} have read"
    if receipt.read is None and batch_id not in history.positions:
        return f"neither its receipt nor the checkpoint says what batch {batch_id} has read"
    return None


def _wrote_nothing(history: History, after: Receipt, batch_id: int) -> bool:
    """Return whether a receipt says that a batch before it, and those between, wrote nothing."""
    if after.previous is not None:
        return after.previous < batch_id
    # A query that came back from another prefix may have written them there.
    return not any(each.batch_id < batch_id for each in history.receipts)


def _move(side: Side, now: dict[TopicPartition, int], receipt: Receipt) -> str | None:
    """Move on by the ranges of a batch. Batches before it that wrote nothing may have read what is before."""
    for each in receipt.idle or ():
        side.begins.setdefault(each.topic_partition, each.starting_offset)
        now[each.topic_partition] = max(now.get(each.topic_partition, 0), each.stopping_offset)
    for each in receipt.read or ():
        at = each.topic_partition
        if now.get(at, 0) > each.starting_offset:
            return f"batch {receipt.batch_id} has read {at} again from offset {each.starting_offset}"
        side.begins.setdefault(at, each.starting_offset)
        now[at] = each.stopping_offset
    return None


def groups(live: Side, shadow: Side) -> Iterator[Group]:
    """Yield the batches that have read the same records, in order."""
    live_at = {_frozen(cut): number for number, cut in enumerate(live.cuts)}
    before = (0, 0)
    for number, cut in enumerate(shadow.cuts):
        found = live_at.get(_frozen(cut))
        is_last = number + 1 == len(shadow.cuts) or shadow.cuts[number + 1] != cut
        if not number or found is None or not is_last or found <= before[0]:
            continue
        yield _group(live, shadow, before, (found, number))
        before = found, number


def _group(live: Side, shadow: Side, before: tuple[int, int], after: tuple[int, int]) -> Group:
    start, end, begins = live.cuts[before[0]], live.cuts[after[0]], {**shadow.begins, **live.begins}
    ends = _without_idle(live, after[0]), _without_idle(shadow, after[1])
    chosen = live.batches[before[0] : ends[0]], shadow.batches[before[1] : ends[1]]
    return Group(
        (chosen[0][0][0], chosen[0][-1][0]),
        (chosen[1][0][0], chosen[1][-1][0]),
        tuple(
            OffsetRange(at, first, offset)
            for at, offset in sorted(end.items())
            if (first := start.get(at, begins.get(at, offset))) < offset
        ),
        (
            tuple(receipt for _, receipt in chosen[0] if receipt is not None),
            tuple(receipt for _, receipt in chosen[1] if receipt is not None),
        ),
    )


def _without_idle(side: Side, end: int) -> int:
    """Return the end of the batches before it without the last ones that have read and written nothing."""
    while end > 1 and side.cuts[end] == side.cuts[end - 1] and side.batches[end - 1][1] is None:
        end -= 1
    return end


def without_counterpart(side: Side, last: int) -> list[int]:
    """Return the batches after one, but not those right after it that have read and written nothing."""
    found = list[int]()
    for number, (batch_id, receipt) in enumerate(side.batches):
        is_idle = receipt is None and side.cuts[number + 1] == side.cuts[number]
        if batch_id > last and (found or not is_idle):
            found.append(batch_id)
    return found


def _frozen(cut: Mapping[TopicPartition, int]) -> frozenset[tuple[TopicPartition, int]]:
    return frozenset(cut.items())
