"""Receipts: what each decided batch has read and written, kept in the decision log for `penstock receipts`.

Runs on the driver. Pure. A receipt is a record of its own in the decision log, written in the transaction of
the decision: there is a receipt if and only if there was the decision. Nothing depends on it: a query runs
and recovers without receipts. Its key is not that of a decision, so versions without receipts skip it:

    key    {"prefix": "app/receipt", "query_id": "receipt:17"}
    value  {"version": 1, "query_id": "6f7a...", "batch_id": 41, "at_ms": ..., "record_count": 10,
            "digest": "1:ab12...", "penstock": "0.1.0", "spark": "4.2.1",
            "read": {"orders": [[0, 5, 10]]}, "topic_ids": {"orders": "...", "orders-copy": "..."},
            "transactions": [[<producer id>, <epoch>, <count>, "1:...", "tp",
                              [["orders-copy", 0, <count>, <first>, <last>, true]]], ...]}

`read` has partition, first offset and end of each topic partition that the batch read; it is missing if
Spark's checkpoint was not on this machine. `topic_ids` has the topics whose id is known. `previous` is the
last batch of the query that was decided before under this prefix: those between have written nothing, because
each batch that writes is decided. `idle` has what those between read, in the form of `read`. Lists are
bounded (`RANGES_MAX`, `SPANS_MAX`). The number in the key goes round (`SLOTS`), so compaction keeps the
newest receipts and the log stays bounded. A replay of lost parts has a receipt of its own, without the
offsets of the parts that stayed; `newest` joins both. If a batch is taken as written by hand, another receipt
of it has `taken_lost`, the number of its records that are not written, and `unknown`, the transactions that
may be committed or not, in the form of `transactions`. Its key has the batch, because such a receipt takes
fewer offsets of the log than a batch. If `previous` is missing, `idle` has what all batches before read.

Invariant: what this version cannot read is an error, never a guess.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from penstock.client.produce.spans import WrittenSpan
from penstock.sink.exactly_once.committable import Committable, TaskReport, TaskSpan
from penstock.sink.exactly_once.decision import Decision, Outcome, where
from penstock.sink.exactly_once.digest import RecordDigest
from penstock.types import OffsetRange, TopicPartition

VERSION = 1
SLOTS = 10_000
"""How many receipts a log keeps at most. Prefixes that share a log share them, as the number is the log's."""
OFFSETS_OF_BATCH = 5
"""A batch takes at least so many offsets of the log: decision, receipt, outcome, and two markers."""
RANGES_MAX = 500
"""A batch that reads more topic partitions has no ranges in its receipt, because they would be too long."""
SPANS_MAX = 500
"""A batch whose transactions have more spans in all has none in its receipt, for the same reason."""
IDLE_MAX = 100
"""If more batches in a row have written nothing, the receipt does not say what they read. Spark's checkpoint
does not keep the offsets of more."""
RECEIPT_PREFIX = "/receipt"
_RECEIPT = "receipt:"


def _unknown(_: int) -> tuple[OffsetRange, ...] | None:
    return None


class Facts(NamedTuple):
    """What the caller of `commit` knows of a batch.

    Attributes:
        penstock, spark: versions.
        read: None: unknown.
        topic_ids: of what it read.
        read_since: returns what the batches after this one read, up to the one before; None: unknown.
    """

    penstock: str = ""
    spark: str = ""
    read: tuple[OffsetRange, ...] | None = None
    topic_ids: Mapping[str, str] = MappingProxyType({})
    read_since: Callable[[int], tuple[OffsetRange, ...] | None] = _unknown


NO_FACTS = Facts()


@dataclass(frozen=True, slots=True)
class WrittenTransaction:
    """One transaction of a batch. `form`: see `digest.form_of`. No `spans`: its offsets are unknown."""

    producer_id: int
    producer_epoch: int
    content: RecordDigest
    form: str | None = None
    spans: tuple[TaskSpan, ...] = ()

    @property
    def producer(self) -> tuple[int, int]:
        return self.producer_id, self.producer_epoch


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a decided batch has read and written.

    Attributes:
        previous: the last batch that was decided before; None: unknown, or there was none.
        idle: what the batches between `previous` and this one read, which wrote nothing; None: unknown.
            Without `previous`: what all batches before read, which wrote nothing under this prefix.
        taken_lost: how many of its records are not written, because it was taken as written by hand.
        unknown: transactions that may be committed or not, when it was taken as written by hand.
        superseded: transactions of earlier decisions about this batch that the newest one does not name.
    """

    query_id: str
    batch_id: int
    at_ms: int
    transactions: tuple[WrittenTransaction, ...]
    penstock: str = ""
    spark: str = ""
    read: tuple[OffsetRange, ...] | None = None
    topic_ids: Mapping[str, str] = field(default_factory=dict, hash=False)
    previous: int | None = None
    idle: tuple[OffsetRange, ...] | None = None
    taken_lost: int = 0
    unknown: tuple[WrittenTransaction, ...] = ()
    superseded: tuple[WrittenTransaction, ...] = field(default=(), compare=False)

    @property
    def content(self) -> RecordDigest:
        return sum((each.content for each in self.transactions), RecordDigest())

    @property
    def where(self) -> str:
        return where(self.query_id, self.batch_id)

    def written(self) -> dict[TopicPartition, int]:
        """Return how many records it has written into each topic partition, where that is known."""
        counts: dict[TopicPartition, int] = {}
        for topic_partition, span in (each for one in self.transactions for each in one.spans):
            counts[topic_partition] = counts.get(topic_partition, 0) + span.record_count
        return counts


def receipt_of(
    decision: Decision, reports: Iterable[TaskReport], facts: Facts, previous: int | None = None
) -> Receipt:
    """Return the receipt of a decision that is about to be written. `previous`: see `Receipt`."""
    by_part = {each.committable: each for each in reports if each.committable is not None}
    named = [each.committable for each in decision.transactions if each.outcome is not Outcome.LOST]
    transactions = tuple(_written(each, by_part.get(each)) for each in named)
    if sum(len(each.spans) for each in transactions) > SPANS_MAX:
        transactions = tuple(replace(each, spans=()) for each in transactions)
    return Receipt(
        decision.query_id,
        decision.batch_id,
        decision.at_ms,
        transactions,
        facts.penstock,
        facts.spark,
        facts.read if facts.read is None or len(facts.read) <= RANGES_MAX else None,
        _topic_ids(decision, facts) if len(decision.topics) <= SPANS_MAX else {},
        previous,
        _idle(decision, facts, previous),
    )


def _idle(decision: Decision, facts: Facts, previous: int | None) -> tuple[OffsetRange, ...] | None:
    after = -1 if previous is None else previous
    if not 1 < decision.batch_id - after <= IDLE_MAX:
        return None
    found = facts.read_since(after)
    return None if found is None or len(found) > RANGES_MAX else found


def receipt_of_taken(lost: Decision, taken: Decision, penstock: str) -> Receipt:
    """Return the receipt of a batch that is taken as written by hand. `lost`: its decision before."""
    by_outcome = {
        outcome: tuple(
            _written(each.committable, None) for each in lost.transactions if each.outcome is outcome
        )
        for outcome in Outcome
    }
    return Receipt(
        lost.query_id,
        lost.batch_id,
        taken.at_ms,
        by_outcome[Outcome.COMMITTED],
        penstock,
        taken_lost=lost.content_of(Outcome.LOST).record_count,
        unknown=by_outcome[Outcome.PENDING],
    )


def _topic_ids(decision: Decision, facts: Facts) -> dict[str, str]:
    """Return the ids of the topics. A topic that has had two ids has none here.

    That is also so for a source of another cluster that has the name of the target.
    """
    known: dict[str, set[str | None]] = {name: {topic_id} for name, topic_id in facts.topic_ids.items()}
    for name, topic_id in decision.topics:
        known.setdefault(name, set()).add(topic_id)
    return {
        name: topic_id
        for name, ids in sorted(known.items())
        if len(ids) == 1 and (topic_id := next(iter(ids))) is not None
    }


def _written(committable: Committable, report: TaskReport | None) -> WrittenTransaction:
    identity = committable.identity
    producer = identity.producer_id, identity.producer_epoch
    if report is None:
        return WrittenTransaction(*producer, committable.content)
    return WrittenTransaction(*producer, committable.content, report.digest_form, report.spans)


def newest(receipts: Iterable[Receipt]) -> list[Receipt]:
    """Return one receipt of each batch, in order of time, from all that a log has, the oldest first."""
    found: dict[tuple[str, int], Receipt] = {}
    for each in receipts:
        batch = each.query_id, each.batch_id
        before = found.pop(batch, None)
        found[batch] = each if before is None else _merged(before, each)
    return sorted(found.values(), key=lambda each: (each.at_ms, each.query_id, each.batch_id))


def _merged(before: Receipt, after: Receipt) -> Receipt:
    known = {each.producer: each for each in before.transactions if each.spans}
    transactions = tuple(
        each if each.spans else known.get(each.producer, each) for each in after.transactions
    )
    unknown = tuple(known.get(each.producer, each) for each in after.unknown)
    kept = {each.producer for each in (*transactions, *unknown)}
    gone = (each for each in (*before.superseded, *before.transactions) if each.producer not in kept)
    is_first = after.previous is None
    return replace(
        after,
        spark=after.spark or before.spark,
        transactions=transactions,
        unknown=unknown,
        read=before.read if after.read is None else after.read,
        topic_ids={**before.topic_ids, **after.topic_ids},
        previous=before.previous if is_first else after.previous,
        idle=before.idle if is_first else after.idle,
        superseded=tuple(gone),
    )


# ----- the record


def key_of_receipt(prefix: str, log_offset: int) -> bytes:
    """Return the key of the receipt of a decision that is written when the log has reached this offset."""
    slot = log_offset // OFFSETS_OF_BATCH % SLOTS
    stored = {"prefix": prefix + RECEIPT_PREFIX, "query_id": f"{_RECEIPT}{slot}"}
    return json.dumps(stored, sort_keys=True).encode()


def key_of_taken(prefix: str, query_id: str, batch_id: int) -> bytes:
    """Return the key of the receipt of a batch that was taken as written by hand."""
    stored = {"prefix": prefix + RECEIPT_PREFIX, "query_id": f"{_RECEIPT}{query_id}:{batch_id}"}
    return json.dumps(stored, sort_keys=True).encode()


def is_receipt_key(prefix: str, key: bytes | None) -> bool:
    """Return whether a record of a decision log is a receipt of this prefix."""
    try:
        return str(json.loads(key or b"")["prefix"]) == prefix + RECEIPT_PREFIX
    except (KeyError, TypeError, ValueError):
        return False


def encode_receipt(receipt: Receipt) -> bytes:
    """Return the value of a receipt's record."""
    content = receipt.content
    stored: dict[str, Any] = {
        "version": VERSION,
        "query_id": receipt.query_id,
        "batch_id": receipt.batch_id,
        "at_ms": receipt.at_ms,
        "record_count": content.record_count,
        "digest": str(content),
        "penstock": receipt.penstock,
        "spark": receipt.spark,
        "transactions": [_transaction_to_json(each) for each in receipt.transactions],
    }
    if receipt.read is not None:
        stored["read"] = ranges_to_json(receipt.read)
    if receipt.topic_ids:
        stored["topic_ids"] = dict(receipt.topic_ids)
    if receipt.previous is not None:
        stored["previous"] = receipt.previous
    if receipt.idle is not None:
        stored["idle"] = ranges_to_json(receipt.idle)
    if receipt.taken_lost:
        stored["taken_lost"] = receipt.taken_lost
    if receipt.unknown:
        stored["unknown"] = [_transaction_to_json(each) for each in receipt.unknown]
    return json.dumps(stored, separators=(",", ":")).encode()


def ranges_to_json(ranges: Sequence[OffsetRange]) -> dict[str, list[list[int]]]:
    """Return partition, first offset and end of each range, by topic."""
    by_topic: dict[str, list[list[int]]] = {}
    for each in ranges:
        topic, partition = each.topic_partition
        by_topic.setdefault(topic, []).append([partition, each.starting_offset, each.stopping_offset])
    return by_topic


def decode_receipt(value: bytes) -> Receipt:
    """Return the receipt of a value; KeyError, TypeError or ValueError if this version cannot read it."""
    stored: Mapping[str, Any] = json.loads(value)
    if stored["version"] != VERSION:
        msg = f"version {stored['version']}, while this is version {VERSION}"
        raise ValueError(msg)
    receipt = Receipt(
        str(stored["query_id"]),
        int(stored["batch_id"]),
        int(stored["at_ms"]),
        tuple(_transaction_from_json(each) for each in stored["transactions"]),
        str(stored["penstock"]),
        str(stored["spark"]),
        _ranges_from_json(stored["read"]) if "read" in stored else None,
        {str(name): str(topic_id) for name, topic_id in stored.get("topic_ids", {}).items()},
        int(stored["previous"]) if "previous" in stored else None,
        _ranges_from_json(stored["idle"]) if "idle" in stored else None,
        int(stored.get("taken_lost", 0)),
        tuple(_transaction_from_json(each) for each in stored.get("unknown", ())),
    )
    content = receipt.content
    if (content.record_count, str(content)) != (stored["record_count"], stored["digest"]):
        msg = f"its transactions have {content.record_count} records, its total {stored['record_count']}"
        raise ValueError(msg)
    return receipt


def _ranges_from_json(stored: Mapping[str, list[list[int]]]) -> tuple[OffsetRange, ...]:
    return tuple(
        OffsetRange(TopicPartition(topic, partition), first, end)
        for topic, ranges in stored.items()
        for partition, first, end in ranges
    )


def _transaction_to_json(each: WrittenTransaction) -> list[Any]:
    spans = [[*topic_partition, *span] for topic_partition, span in each.spans]
    content = each.content
    return [each.producer_id, each.producer_epoch, content.record_count, str(content), each.form, spans]


def _transaction_from_json(stored: Sequence[Any]) -> WrittenTransaction:
    producer_id, producer_epoch, count, digest, form, spans = stored
    return WrittenTransaction(
        int(producer_id),
        int(producer_epoch),
        RecordDigest.from_text(int(count), str(digest)),
        None if form is None else str(form),
        tuple(TaskSpan(TopicPartition(*each[:2]), WrittenSpan(*each[2:])) for each in spans),
    )
