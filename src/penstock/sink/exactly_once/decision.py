"""A decision about one batch of one query: it is written, by which transactions, with which outcomes.

Runs on the driver. Pure values. Invariants: a known outcome does not change. Count and digest of all records
of the batch are known as long as a replay of it may come.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from penstock.sink.exactly_once.committable import Committable, TargetTopic
from penstock.sink.exactly_once.digest import RecordDigest

BATCH_WRITE_PREFIX = "batch:"
"""The beginning of the query ids of batch writes. They have no id of Spark and are never replayed."""

NAMED_WRITE_PREFIX = "write:"
"""The beginning of the query ids of batch writes with `sink.write-id`, which are repeated by name."""


def is_batch_write(query_id: str) -> bool:
    """Return whether the id belongs to a batch write, which Spark never replays."""
    return query_id.startswith(BATCH_WRITE_PREFIX)


def is_named_write(query_id: str) -> bool:
    """Return whether the id belongs to a batch write with a name; a repetition has the same id."""
    return query_id.startswith(NAMED_WRITE_PREFIX)


def where(query_id: str, batch_id: int) -> str:
    """Return how messages call a batch."""
    if is_batch_write(query_id):
        return f"batch write {query_id.removeprefix(BATCH_WRITE_PREFIX)}"
    if is_named_write(query_id):
        return f"batch write {query_id.removeprefix(NAMED_WRITE_PREFIX)} (sink.write-id)"
    return f"batch {batch_id} of query {query_id}"


class DecisionStatus(str, Enum):
    """The state of a decided batch."""

    DECIDED = "decided"
    """It is written. Its transactions have to be committed."""
    FINISHED = "finished"
    """All its transactions are committed."""
    LOST = "lost"
    """Some transactions are committed. The broker aborted the others; they wait for the batch's replay."""
    WITHDRAWN = "withdrawn"
    """No transaction was committed. The batch is not written, and any replay of it is written."""


class Outcome(str, Enum):
    """The outcome of one decided transaction."""

    PENDING = "pending"
    COMMITTED = "committed"
    LOST = "lost"


class EndReason(str, Enum):
    """Why a query writes nothing more under a prefix."""

    HANDED_OVER = "handed-over"
    """Another query has the prefix now, and continues where this one has ended."""
    SHADOW = "shadow"
    """The query repeats the work of the query of this prefix, to be compared with it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a query under a prefix, for ever.

    Attributes:
        reason: why.
        heir: the id of the query that continues; of a shadow: of the query that it repeats.
        checkpoint: the folder of the heir's checkpoint; of a shadow: of its own.
    """

    reason: EndReason
    heir: str
    checkpoint: str


@dataclass(frozen=True, slots=True)
class Begun:
    """The beginning of a query that continues another one. It is kept until the query has decided a batch.

    Attributes:
        from_query_id: the id of the other query.
        after: its last batch that counts; -1: none.
        checkpoint: the folder of the checkpoint.
        files: of the checkpoint: their texts by their names.
    """

    from_query_id: str
    after: int
    checkpoint: str
    files: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True, slots=True)
class DecidedTransaction:
    """A transaction of a decided batch."""

    committable: Committable
    outcome: Outcome = Outcome.PENDING


@dataclass(frozen=True, slots=True)
class Decision:
    """The latest decision about one query. When FINISHED, it has no transactions any more.

    Attributes:
        digest: the text of the `RecordDigest` of all records, set when FINISHED. Before, it is the sum of
            the transactions' digests. None when FINISHED: 0.1.0 finished it, which kept only the count.
        topics: those that were written into; a topic whose id changed between tasks is there twice.
        is_taken_as_written: set by hand. `record_count` and `digest` are then those of the first replay
            since; there is no digest before that replay.
        doubt: the difference between a replay and what is written.
        sibling_count: how many other prefixes of a function of `foreachBatch` had written the batch before.
        ended: set if the query may write nothing more into these topics. Its last batch stays in `batch_id`.
        begun: set if the query continues another one and has decided no batch yet. Its batch 0 is then what
            the other query has done.
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
    ended: Ended | None = None
    begun: Begun | None = None

    @property
    def is_batch_write(self) -> bool:
        return is_batch_write(self.query_id)

    @property
    def is_named_write(self) -> bool:
        return is_named_write(self.query_id)

    @property
    def is_over(self) -> bool:
        """Return whether it is no longer needed: a batch write that is written whole, or not at all."""
        return self.is_batch_write and self.status in (DecisionStatus.FINISHED, DecisionStatus.WITHDRAWN)

    @property
    def topic_names(self) -> frozenset[str]:
        """Return the names of the topics written into; none for a decision of 0.1.0."""
        return frozenset(each.name for each in self.topics)

    @property
    def where(self) -> str:
        return where(self.query_id, self.batch_id)

    def with_outcome(self, outcome: Outcome) -> list[Committable]:
        return [each.committable for each in self.transactions if each.outcome is outcome]

    def content_of(self, *outcomes: Outcome) -> RecordDigest:
        contents = (each.committable.content for each in self.transactions if each.outcome in outcomes)
        return sum(contents, RecordDigest())

    def settled(self, outcomes: Mapping[Committable, Outcome]) -> Decision:
        """Return this decision with an outcome for each pending transaction."""
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

    # ----- in doubt, and resolved by hand

    @property
    def is_in_doubt(self) -> bool:
        """Return whether it may be resolved by hand: it waits for its replay, or a replay was different."""
        return self.status is DecisionStatus.LOST or self.doubt is not None

    @property
    def takes_any_replay(self) -> bool:
        """Return whether the next replay is drained with any rows, because of a resolution by hand."""
        return self.is_taken_as_written and self.digest is None

    def doubted(self, doubt: str | None) -> Decision:
        """Return this decision after a replay with other rows; None: the right rows have come."""
        return replace(self, doubt=doubt)

    def taken_as_written(self) -> Decision:
        """Return it resolved by hand: the batch counts as written, and any one replay of it is drained."""
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
        """Return it resolved by hand: the batch counts as not written, and its whole replay is written."""
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
        """Return this decision with the replay that it has taken; from now on it takes only the same rows."""
        # The resolution by hand also covers topics that are not those that were written into.
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
    """Return the decision that a batch is written."""
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


def shadow(query_id: str, heir: str, checkpoint: str, topics: Iterable[str]) -> Decision:
    """Return the decision that a query is a shadow of another one, and never writes into its topics."""
    return Decision(
        query_id=query_id,
        batch_id=0,
        status=DecisionStatus.FINISHED,
        spark_partition_count=0,
        record_count=0,
        at_ms=now_ms(),
        topics=_each_once(map(TargetTopic, topics)),
        ended=Ended(EndReason.SHADOW, heir, checkpoint),
    )


def hand_over(last: Decision, heir: str, begun: Begun) -> tuple[Decision, Decision]:
    """Return the decisions that a query has ended, and that another one continues it.

    Args:
        last: the newest decision of the query.
        heir: the id of the query that continues.
        begun: how it begins.
    """
    ended = replace(last, ended=Ended(EndReason.HANDED_OVER, heir, begun.checkpoint), begun=None)
    begins = Decision(
        query_id=heir,
        batch_id=0,
        status=DecisionStatus.FINISHED,
        spark_partition_count=0,
        record_count=0,
        at_ms=now_ms(),
        digest=str(RecordDigest()),
        topics=last.topics,
        begun=begun,
    )
    return ended, begins


def decide_again(
    lost: Decision, replayed: Sequence[Committable], topics: Iterable[TargetTopic] = ()
) -> Decision:
    """Replace the lost transactions of a decision by those of its replay."""
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
    return time.time_ns() // 1_000_000
