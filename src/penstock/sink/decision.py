"""A decision about one batch of one query: that it is written, by which transactions, what became of each.

Runs on the driver. Pure values. Invariant: an outcome, once known, does not change.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from penstock.sink.committable import Committable

BATCH_WRITE_PREFIX = "batch:"
"""Begins the query ids of batch writes, which have none of Spark's and are never replayed."""


def is_batch_write(query_id: str) -> bool:
    """Whether it is a batch write's, which Spark never replays."""
    return query_id.startswith(BATCH_WRITE_PREFIX)


def where(query_id: str, batch_id: int) -> str:
    """A batch, for messages."""
    if is_batch_write(query_id):
        return f"batch write {query_id.removeprefix(BATCH_WRITE_PREFIX)}"
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
    """The latest decision about one query. When FINISHED, its transactions are of no interest any more."""

    query_id: str
    batch_id: int
    status: DecisionStatus
    spark_partition_count: int
    record_count: int
    transactions: tuple[DecidedTransaction, ...] = ()
    at_ms: int = 0

    @property
    def is_batch_write(self) -> bool:
        """Whether a batch write decided this, which Spark never replays."""
        return is_batch_write(self.query_id)

    @property
    def where(self) -> str:
        """For messages."""
        return where(self.query_id, self.batch_id)

    def with_outcome(self, outcome: Outcome) -> list[Committable]:
        """The committables of this outcome."""
        return [each.committable for each in self.transactions if each.outcome is outcome]

    def settled(self, outcomes: Mapping[Committable, Outcome]) -> Decision:
        """This decision once each pending transaction has an outcome."""
        transactions = tuple(
            replace(each, outcome=outcomes.get(each.committable, each.outcome)) for each in self.transactions
        )
        found = {each.outcome for each in transactions}
        if found <= {Outcome.COMMITTED}:
            return replace(self, status=DecisionStatus.FINISHED, transactions=(), at_ms=now_ms())
        is_withdrawn = found == {Outcome.LOST}
        status = DecisionStatus.WITHDRAWN if is_withdrawn else DecisionStatus.LOST
        return replace(self, status=status, transactions=transactions, at_ms=now_ms())


def decide(
    query_id: str, batch_id: int, spark_partition_count: int, committables: Sequence[Committable]
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
    )


def decide_again(lost: Decision, replayed: Sequence[Committable]) -> Decision:
    """The decision that what a replay wrote stands for what was lost."""
    new = {each.spark_partition_id: DecidedTransaction(each) for each in replayed}
    transactions = tuple(
        new[each.committable.spark_partition_id] if each.outcome is Outcome.LOST else each
        for each in lost.transactions
    )
    return replace(lost, status=DecisionStatus.DECIDED, transactions=transactions, at_ms=now_ms())


def now_ms() -> int:
    """The time, as decisions carry it."""
    return time.time_ns() // 1_000_000
