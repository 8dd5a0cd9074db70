"""Make errors for transactions that end before their batch is decided: a time-out, or another producer.

Runs on the driver, before a decision, and in tasks whose transaction is refused. Invariant: nothing that
these transactions wrote is visible, and no decision names them. So the whole batch can be written again.
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
from penstock.sink.exactly_once.names import TransactionNames

_STATES_OF_ITS_PRODUCER = frozenset((TransactionState.EMPTY, TransactionState.ONGOING))
"""An id is in these states only while a producer holds it."""
_AGAIN = "Nothing that {who} wrote is visible. The batch is written again when the query is restarted."


def check_all_open(
    kafka: SinkTransactions, decision: Decision, written: Sequence[Committable], names: TransactionNames
) -> None:
    """Raise TransactionsLostError before a decision when a transaction is no longer open.

    A batch that fails here can be written again whole, with any rows. A batch that is decided first and found
    lost in part later needs a replay with the same rows.
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
    again = _AGAIN.format(who="they")
    text = (
        _taken_text(what, str(taken[0]), again)
        if taken
        else _ended_text(f"{what}, the first {lost[0]}", again, names.timeout_option)
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
    timeout_option: str,
) -> TransactionsLostError:
    """Return the error for a task whose producer is fenced although its driver still has the prefix.

    Args:
        transactional_id: of the task's transaction.
        ours: the task's producer; None if another one took the id at the same moment.
        now: what the coordinator says about the id.
        query_id: of the batch.
        batch_id: of the batch.
        spark_partition_id: of the task.
        timeout_option: `transaction.timeout.ms` as the user has to write it.
    """
    what = (
        f"The transaction of Spark partition {spark_partition_id} of {where(query_id, batch_id)} was aborted "
        "while it was being written"
    )
    again = _AGAIN.format(who="this task")
    is_taken = ours is None or _is_taken(now, ours)
    text = (
        _taken_text(what, transactional_id, again)
        if is_taken
        else _ended_text(f"{what} ({transactional_id})", again, timeout_option)
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
        f"{what}: another producer has taken the transactional id of {taken}. {again} Possible causes: a "
        "task of an older driver of the query was still running (a restart is enough), or two queries use "
        "the same sink.transactional-id-prefix (give each its own)."
    )


def _ended_text(what: str, again: str, timeout_option: str) -> str:
    return (
        f"{what}. Most likely more than '{timeout_option}' passed between its first record and the end of "
        "the slowest task. Otherwise another writer with this sink.transactional-id-prefix has aborted it. "
        f"{again} To prevent a time-out, make batches shorter, or raise '{timeout_option}' (and the brokers' "
        "transaction.max.timeout.ms)."
    )


def _is_open(description: TransactionDescription | None, committable: Committable) -> bool:
    return (
        description is not None
        and description.state is TransactionState.ONGOING
        and description.identity.has_same_epoch(committable.identity)
    )


def _is_taken(description: TransactionDescription | None, ours: TransactionIdentity) -> bool:
    """Return whether the id certainly has a later producer, and not only a time-out.

    A time-out leaves the next epoch behind. Under V2, before the fix of KAFKA-19367, it leaves the one after.
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
