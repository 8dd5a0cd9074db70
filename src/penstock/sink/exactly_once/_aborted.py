"""Transactions that end before their batch is decided: by a time-out, or because their id is taken.

Runs on the driver, before a decision, and in tasks whose transaction is refused. Invariant: nothing that
these transactions wrote is visible, and no decision names them: the batch can be written again whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.client.transactions.steps import (
    TransactionDescription,
    TransactionIdentity,
    TransactionProtocol,
    TransactionState,
)
from penstock.errors import TransactionsLostError
from penstock.sink.exactly_once.committable import Committable
from penstock.sink.exactly_once.decision import Decision, where
from penstock.sink.exactly_once.kafka import SinkTransactions

_STATES_OF_ITS_PRODUCER = frozenset((TransactionState.EMPTY, TransactionState.ONGOING))
"""That an id can only be in while a producer holds it."""
_AGAIN = "{written} wrote is not visible. The batch is written again as soon as the query is restarted"


def check_all_open(kafka: SinkTransactions, decision: Decision, written: Sequence[Committable]) -> None:
    """Before a batch is decided: raise TransactionsLostError when a transaction is open no more.

    A batch that fails here can be written again whole, whatever its plan; one that is decided first and
    found lost in part afterwards needs a replay that is the same.
    """
    described = kafka.describe([each.identity.transactional_id for each in written])
    lost = [each for each in written if not _is_open(described[each.identity.transactional_id], each)]
    if not lost:
        return
    taken = [each for each in lost if _is_taken(described[each.identity.transactional_id], each.identity)]
    what = (
        f"{len(lost)} of {len(written)} transactions of {decision.where} were aborted before the batch could "
        "be decided"
    )
    again = _AGAIN.format(written="What they")
    text = (
        _taken_text(what, str(taken[0]), again)
        if taken
        else _ended_text(f"{what}, the first {lost[0]}", again)
    )
    raise TransactionsLostError(
        text,
        query_id=decision.query_id,
        batch_id=decision.batch_id,
        spark_partition_ids=sorted(each.spark_partition_id for each in lost),
    )


def task_lost_error(
    transactional_id: str,
    ours: TransactionIdentity | None,
    now: TransactionDescription | None,
    *,
    query_id: str,
    batch_id: int,
    spark_partition_id: int,
) -> TransactionsLostError:
    """The error of a task whose producer is fenced, although the prefix is still its driver's.

    Args:
        transactional_id: of the task's transaction.
        ours: the producer that the task had; None where another one came between while it took the id.
        now: what the coordinator says of the id.
        query_id: of the batch.
        batch_id: the same.
        spark_partition_id: of the task.
    """
    what = (
        f"The transaction of Spark partition {spark_partition_id} of {where(query_id, batch_id)} was aborted "
        "while it was being written"
    )
    again = _AGAIN.format(written="What this task")
    is_taken = ours is None or _is_taken(now, ours)
    text = (
        _taken_text(what, transactional_id, again)
        if is_taken
        else _ended_text(f"{what} ({transactional_id})", again)
    )
    return TransactionsLostError(
        text,
        query_id=query_id,
        batch_id=batch_id,
        spark_partition_ids=[spark_partition_id],
        transactional_id=transactional_id,
    )


def _taken_text(what: str, taken: str, again: str) -> str:
    return (
        f"{what}: another producer has taken the transactional id of {taken}. {again}. Either a task of "
        "an older driver of the query was still running: then that is all. Or two queries use the same "
        "sink.transactional-id-prefix: then give each its own."
    )


def _ended_text(what: str, again: str) -> str:
    return (
        f"{what}. Most likely more than transaction.timeout.ms passed between its "
        "first record and the end of the batch's slowest task; if not, another writer with this "
        f"sink.transactional-id-prefix has aborted it. {again}; shorter batches or a longer "
        "transaction.timeout.ms (also the broker's transaction.max.timeout.ms) prevent a time-out."
    )


def _is_open(description: TransactionDescription | None, committable: Committable) -> bool:
    return (
        description is not None
        and description.state is TransactionState.ONGOING
        and description.identity.has_same_epoch(committable.identity)
    )


def _is_taken(description: TransactionDescription | None, ours: TransactionIdentity) -> bool:
    """Whether the id has a later producer; what cannot be told apart from a time-out is none.

    A time-out leaves the next epoch behind; under V2, before the fix of KAFKA-19367, the one after.
    """
    if description is None:
        return False
    now = description.identity
    epochs_later = now.producer_epoch - ours.producer_epoch
    return (
        now.producer_id != ours.producer_id
        or epochs_later > (2 if ours.protocol is TransactionProtocol.V2 else 1)
        or (epochs_later > 0 and description.state in _STATES_OF_ITS_PRODUCER)
    )
