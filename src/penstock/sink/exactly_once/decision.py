"""A decision about one batch of one query: that it is written, by which transactions, what became of each.

Runs on the driver. Pure values. Invariants: an outcome, once known, does not change; what the batch holds
(count and digest of all its records) is known as long as a replay of it may come.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from penstock.sink.exactly_once.committable import Committable, TargetTopic
from penstock.sink.exactly_once.digest import RecordDigest

BATCH_WRITE_PREFIX = "batch:"
"""Begins the query ids of batch writes, which have none of Spark's and are never replayed."""

NAMED_WRITE_PREFIX = "write:"
"""Begins the query ids of batch writes with `sink.write-id`; such a write is repeated under the same name."""


def is_batch_write(query_id: str) -> bool:
    """Whether it is a batch write's, which Spark never replays."""
    return query_id.startswith(BATCH_WRITE_PREFIX)


def is_named_write(query_id: str) -> bool:
    """Whether it is that of a batch write with a name, which a repetition of the job bears too."""
    return query_id.startswith(NAMED_WRITE_PREFIX)


def where(query_id: str, batch_id: int) -> str:
    """A batch, for messages."""
    if is_batch_write(query_id):
        return f"batch write {query_id.removeprefix(BATCH_WRITE_PREFIX)}"
    if is_named_write(query_id):
        return f"batch write {query_id.removeprefix(NAMED_WRITE_PREFIX)} (sink.write-id)"
    return f"batch {batch_id} of query {query_id}"


class DecisionStatus(str, Enum):
    """What is to be done about a decided batch."""

    DECIDED = "decided"
    """It is written; its transactions have to be committed."""
    FINISHED = "finished"
    """All its transactions are committed."""
    LOST = "lost"
    """Some are committed, the others were aborted by the broker and wait for the batch's replay."""
    WITHDRAWN = "withdrawn"
    """None was committed: the batch is not written, its replay is taken as it comes."""


class Outcome(str, Enum):
    """What became of one decided transaction."""

    PENDING = "pending"
    COMMITTED = "committed"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class DecidedTransaction:
    """A transaction of a decided batch."""

    committable: Committable
    outcome: Outcome = Outcome.PENDING


@dataclass(frozen=True, slots=True)
class Decision:
    """The latest decision about one query. When FINISHED, its transactions are of no interest any more.

    `digest` is the text of the `RecordDigest` of all records: set when FINISHED, before that it is the sum of
    the transactions'. None then: 0.1.0 has finished it, which kept the count alone. `topics` are those
    that were written into; one whose id the tasks saw change is named twice. `is_taken_as_written`: a human
    has said so; `record_count` and `digest` are then those of the first replay since, and there is no digest
    until that has come. `doubt` says what a replay brought that is not what is written. `sibling_count`: so
    many other prefixes of a function of `foreachBatch` had written the batch before.
    """

    query_id: str
    batch_id: int
    status: DecisionStatus
    spark_partition_count: int
    record_count: int
    transactions: tuple[DecidedTransaction, ...] = ()
    at_ms: int = 0
    digest: str | None = None
    topics: tuple[TargetTopic, ...] = ()
    is_taken_as_written: bool = False
    doubt: str | None = None
    sibling_count: int = 0

    @property
    def is_batch_write(self) -> bool:
        """Whether a batch write decided this, which Spark never replays."""
        return is_batch_write(self.query_id)

    @property
    def is_named_write(self) -> bool:
        """Whether a batch write with `sink.write-id` decided this."""
        return is_named_write(self.query_id)

    @property
    def is_over(self) -> bool:
        """Whether it is never asked about again: a batch write that is written whole, or not at all."""
        return self.is_batch_write and self.status in (DecisionStatus.FINISHED, DecisionStatus.WITHDRAWN)

    @property
    def topic_names(self) -> frozenset[str]:
        """Of the topics written into; none for a decision of 0.1.0."""
        return frozenset(each.name for each in self.topics)

    @property
    def where(self) -> str:
        """For messages."""
        return where(self.query_id, self.batch_id)

    def with_outcome(self, outcome: Outcome) -> list[Committable]:
        """The committables of this outcome."""
        return [each.committable for each in self.transactions if each.outcome is outcome]

    def content_of(self, *outcomes: Outcome) -> RecordDigest:
        """Count and digest of the records in the transactions of these outcomes."""
        contents = (each.committable.content for each in self.transactions if each.outcome in outcomes)
        return sum(contents, RecordDigest())

    def settled(self, outcomes: Mapping[Committable, Outcome]) -> Decision:
        """This decision once each pending transaction has an outcome."""
        transactions = tuple(
            replace(each, outcome=outcomes.get(each.committable, each.outcome)) for each in self.transactions
        )
        found = {each.outcome for each in transactions}
        if found <= {Outcome.COMMITTED}:
            digest = str(self.content_of(Outcome.PENDING, Outcome.COMMITTED))
            return replace(
                self, status=DecisionStatus.FINISHED, transactions=(), at_ms=now_ms(), digest=digest
            )
        is_withdrawn = found == {Outcome.LOST}
        status = DecisionStatus.WITHDRAWN if is_withdrawn else DecisionStatus.LOST
        return replace(self, status=status, transactions=transactions, at_ms=now_ms())

    # ----- in doubt, and resolved by a human

    @property
    def is_in_doubt(self) -> bool:
        """Whether it waits for a replay that is the same, or a replay was not: a human may resolve it."""
        return self.status is DecisionStatus.LOST or self.doubt is not None

    @property
    def takes_any_replay(self) -> bool:
        """Whether the next replay is drained whatever it brings, because a human has said so."""
        return self.is_taken_as_written and self.digest is None

    def doubted(self, doubt: str | None) -> Decision:
        """This decision, after a replay that brought something else; None: the right one has come since."""
        return replace(self, doubt=doubt)

    def taken_as_written(self) -> Decision:
        """By a human's word: the batch counts as written, and one replay of it is drained as it comes."""
        return replace(
            self,
            status=DecisionStatus.FINISHED,
            transactions=(),
            at_ms=now_ms(),
            digest=None,
            is_taken_as_written=True,
            doubt=None,
        )

    def to_write_again(self) -> Decision:
        """By a human's word: the batch counts as not written, and its replay is written whole."""
        return replace(
            self,
            status=DecisionStatus.WITHDRAWN,
            transactions=(),
            at_ms=now_ms(),
            digest=None,
            is_taken_as_written=False,
            doubt=None,
        )

    def with_replay(self, replay: RecordDigest) -> Decision:
        """This decision, once it has taken a replay as it came: from now on it takes only the same."""
        # Whether the topics are still those that were written into was a part of the human's question.
        topics = tuple(sorted({TargetTopic(each.name) for each in self.topics}))
        return replace(
            self, at_ms=now_ms(), record_count=replay.record_count, digest=str(replay), topics=topics
        )


def decide(
    query_id: str,
    batch_id: int,
    spark_partition_count: int,
    committables: Sequence[Committable],
    topics: Iterable[TargetTopic] = (),
    sibling_count: int = 0,
) -> Decision:
    """The decision that a batch is written."""
    return Decision(
        query_id=query_id,
        batch_id=batch_id,
        status=DecisionStatus.DECIDED,
        spark_partition_count=spark_partition_count,
        record_count=sum(each.record_count for each in committables),
        transactions=tuple(map(DecidedTransaction, committables)),
        at_ms=now_ms(),
        topics=_each_once(topics),
        sibling_count=sibling_count,
    )


def decide_again(
    lost: Decision, replayed: Sequence[Committable], topics: Iterable[TargetTopic] = ()
) -> Decision:
    """The decision that what a replay wrote stands for what was lost."""
    new = {each.spark_partition_id: DecidedTransaction(each) for each in replayed}
    transactions = tuple(
        new[each.committable.spark_partition_id] if each.outcome is Outcome.LOST else each
        for each in lost.transactions
    )
    return replace(
        lost,
        status=DecisionStatus.DECIDED,
        transactions=transactions,
        at_ms=now_ms(),
        topics=_each_once((*lost.topics, *topics)),
    )


def _each_once(topics: Iterable[TargetTopic]) -> tuple[TargetTopic, ...]:
    return tuple(sorted(set(topics), key=lambda each: (each.name, each.topic_id or "")))


def now_ms() -> int:
    """The time, as decisions carry it."""
    return time.time_ns() // 1_000_000
