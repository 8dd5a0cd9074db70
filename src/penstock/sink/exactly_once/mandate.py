"""The mandate: which driver may decide on a batch, and what its tasks must know about earlier batches.

Recovery makes it on the driver. It is pickled to the tasks, and its session comes back in every report.
Invariant: of all mandates of a prefix only the newest can decide. Kafka itself ensures that: the session is
that of the committer's transactional id, and each recovery takes that id again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from penstock.client.transactions.append import ProducerSession
from penstock.client.transactions.steps import TransactionProtocol
from penstock.errors import BatchOrderError
from penstock.options.by_hand import ByHand
from penstock.sink.exactly_once.decision import Decision, DecisionStatus, Ended, Outcome
from penstock.sink.exactly_once.ended import query_ended_error


class TaskPlan(Enum):
    """The ways in which a task treats its rows."""

    WRITE = "write them in a transaction"
    DRAIN = "read them to the end and write nothing: the batch is written"
    REWRITE = "write them again in place of a lost transaction"


@dataclass(frozen=True, slots=True)
class KnownBatch:
    """The part of a query's newest decided batch that tasks need."""

    batch_id: int
    status: DecisionStatus
    lost_spark_partition_ids: frozenset[int] = frozenset()
    at_ms: int = 0
    """The time at which it got this status."""
    ended: Ended | None = None
    """Set if the query may write nothing more under this prefix."""


@dataclass(frozen=True, slots=True)
class Mandate:
    """The right to decide on one batch. Plain values; pickles."""

    prefix: str
    session: ProducerSession
    protocol: TransactionProtocol
    transaction_timeout_ms: int
    known: Mapping[str, KnownBatch]
    by_hand: ByHand = field(default_factory=ByHand)
    """Makes commands, for messages."""

    def plan(self, query_id: str, batch_id: int, spark_partition_id: int) -> TaskPlan:
        """Return what the task of this Spark partition has to do.

        Raises:
            BatchOrderError: a later batch of the query is written already, or an earlier one is incomplete.
            QueryEndedError: the query may write nothing more under this prefix.
        """
        known = self.known.get(query_id)
        if known is None:
            return TaskPlan.WRITE
        if known.ended is not None:
            raise query_ended_error(self.prefix, query_id, known.ended)
        if batch_id > known.batch_id:
            _check_whole(self.prefix, query_id, batch_id, known, self.by_hand)
            return TaskPlan.WRITE
        check_order(self.prefix, query_id, batch_id, known.batch_id)
        if known.status is DecisionStatus.WITHDRAWN:
            return TaskPlan.WRITE
        is_lost = spark_partition_id in known.lost_spark_partition_ids
        return TaskPlan.REWRITE if is_lost else TaskPlan.DRAIN


def check_order(prefix: str, query_id: str, batch_id: int, newest_batch_id: int) -> None:
    """Raise BatchOrderError if a later batch of the query is already written."""
    if batch_id >= newest_batch_id:
        return
    raise BatchOrderError(
        f"Batch {batch_id} of query {query_id} is repeated, although batch {newest_batch_id} is already "
        f"written (transactional id prefix {prefix}). The checkpoint is older than the target, for instance "
        "because it was restored from a backup. Nothing was written. Continue with the newest checkpoint. Or "
        "start with a new checkpoint location, which reads from the startup mode's offsets and may write "
        "records again.",
        prefix=prefix,
        query_id=query_id,
        batch_id=batch_id,
        newest_batch_id=newest_batch_id,
    )


def _check_whole(prefix: str, query_id: str, batch_id: int, known: KnownBatch, by_hand: ByHand) -> None:
    """Raise BatchOrderError if the known batch is incomplete.

    The decision about the new batch would replace the one that tells what is lost.
    """
    if known.status is not DecisionStatus.LOST:
        return
    lost = ", ".join(map(str, sorted(known.lost_spark_partition_ids)[:10]))
    resolving = by_hand.of_prefix(
        "abort", prefix, "--query", query_id, "--resolution", "take-as-written", "--yes"
    )
    raise BatchOrderError(
        f"Batch {batch_id} of query {query_id} cannot be written, because batch {known.batch_id} is "
        f"incomplete: the records of its Spark partitions {lost} are lost and have to be written again "
        f"first (transactional id prefix {prefix}). Nothing of batch {batch_id} was written. Let the query "
        "fail when a write fails (do not catch the error in foreachBatch), and restart it from the "
        f"checkpoint that repeats batch {known.batch_id}. Or decide by hand: `{resolving}` continues without "
        "the lost records.",
        prefix=prefix,
        query_id=query_id,
        batch_id=batch_id,
        newest_batch_id=known.batch_id,
    )


def known_batch(decision: Decision) -> KnownBatch:
    lost = decision.with_outcome(Outcome.LOST) if decision.status is DecisionStatus.LOST else []
    lost_ids = frozenset(each.spark_partition_id for each in lost)
    return KnownBatch(decision.batch_id, decision.status, lost_ids, decision.at_ms, decision.ended)
