"""Finish a decided batch: commit its transactions, and find out for certain what became of each.

Runs on the driver, in `commit` and in recovery. Invariants: a transaction is called lost only if the broker
is known to have aborted it, and committed only if it is known to be. If neither can be known, the batch stays
decided and the error says so. Finishing twice gives the same result.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from penstock.client.transactions.append import ProducerSession
from penstock.client.transactions.markers import TransactionEnd
from penstock.client.transactions.steps import (
    COMMIT_STATES,
    EndState,
    TransactionProtocol,
    TransactionState,
)
from penstock.errors import TransactionError, TransactionsInDoubtError, TransactionsLostError
from penstock.sink.exactly_once._probes import Step, reached
from penstock.sink.exactly_once.committable import Committable
from penstock.sink.exactly_once.decision import Decision, DecisionStatus, Outcome
from penstock.sink.exactly_once.kafka import SinkTransactions
from penstock.sink.exactly_once.log import DecisionLog
from penstock.sink.exactly_once.names import TransactionNames

_MARKER_WAIT_MS = 30_000
_MARKER_POLL_SECONDS = 0.05

_ABORT_STATES = frozenset((TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT))


def finish(
    kafka: SinkTransactions,
    log: DecisionLog,
    names: TransactionNames,
    session: ProducerSession,
    decision: Decision,
    finished: Step,
) -> tuple[ProducerSession, Decision]:
    """Commit the pending transactions of a decision, and write down the outcome.

    Returns:
        The session, and the decision as FINISHED, LOST or WITHDRAWN.

    Raises:
        TransactionsInDoubtError: it cannot be found out what became of a transaction.
        PenstockError: no answer in time; the batch stays decided, and the next recovery continues.
    """
    pending = decision.with_outcome(Outcome.PENDING)
    settled = decision.settled(_commit(kafka, decision, pending, names))
    reached(finished)
    return log.append(session, settled), settled


def _commit(
    kafka: SinkTransactions, decision: Decision, pending: Sequence[Committable], names: TransactionNames
) -> dict[Committable, Outcome]:
    results = kafka.end([each.identity for each in pending], is_commit=True)
    outcomes: dict[Committable, Outcome] = {}
    for each in pending:
        result = results[each.identity]
        if result.state is EndState.UNKNOWN and result.error is not None:
            raise result.error
        is_done = result.state is EndState.DONE
        outcomes[each] = Outcome.COMMITTED if is_done else _find_out(kafka, decision, each, names)
    return outcomes


def _find_out(
    kafka: SinkTransactions, decision: Decision, committable: Committable, names: TransactionNames
) -> Outcome:
    """Find out what became of a transaction that the coordinator refuses to commit.

    The log comes first, because a later producer of the same id cannot hide the markers there.
    """
    if committable.witness is not None:
        deadline = time.monotonic() + _MARKER_WAIT_MS / 1000
        while (end := kafka.end_in_log(committable.witness, committable.identity)) is TransactionEnd.OPEN:
            if time.monotonic() > deadline:
                raise TransactionError(
                    f"The coordinator refuses to commit transaction {committable} of {decision.where}, and "
                    f"no end marker reached the log within {_MARKER_WAIT_MS} ms. The batch stays decided. "
                    "It is unknown whether the transaction is committed. Restart the query to find out.",
                    transactional_id=committable.identity.transactional_id,
                )
            time.sleep(_MARKER_POLL_SECONDS)
        if end is TransactionEnd.COMMITTED:
            return Outcome.COMMITTED
        if end is TransactionEnd.ABORTED:
            return Outcome.LOST
    outcome = _coordinator_says(kafka, committable)
    if outcome is None:
        raise TransactionsInDoubtError(
            f"It is unknown whether transaction {committable} of {decision.where} is committed: its "
            f"coordinator cannot tell any more, and {_no_witness(committable)}. The decision stays as it is "
            "and the query stops. Look for those records in the target. Then decide: "
            f"`{names.resolving(decision.query_id, 'take-as-written')}` takes "
            "the batch as written. The same with `--resolution write-again` lets the batch be written again.",
            query_id=decision.query_id,
            batch_id=decision.batch_id,
            transactional_id=committable.identity.transactional_id,
            spark_partition_id=committable.spark_partition_id,
        )
    return outcome


def _no_witness(committable: Committable) -> str:
    if committable.witness is None:
        return "no answer of a broker told the offset of one of its records"
    return "its records are no longer in the log (deleted by retention, or with their topic)"


def _coordinator_says(kafka: SinkTransactions, committable: Committable) -> Outcome | None:
    """Return the outcome if the coordinator's state can mean only one.

    A V2 transaction of epoch e leaves epoch e + 1 behind, a V1 transaction leaves e. A later producer of the
    id raises the epoch further. So does a time-out under V1, or before the fix of KAFKA-19367. Nothing is
    concluded from a raised epoch.
    """
    identity = committable.identity
    description = kafka.describe([identity.transactional_id])[identity.transactional_id]
    if description is None or description.identity.producer_id != identity.producer_id:
        return None
    bump = 1 if identity.protocol is TransactionProtocol.V2 else 0
    if description.identity.producer_epoch != identity.producer_epoch + bump:
        return None
    if description.state in COMMIT_STATES:
        return Outcome.COMMITTED
    return Outcome.LOST if description.state in _ABORT_STATES else None


def lost_error(decision: Decision, names: TransactionNames) -> TransactionsLostError:
    """Return the error for a batch of which transactions were lost, and for writers that must not pass it."""
    prefix, timeout_option = names.prefix, names.timeout_option
    resolving = f"`{names.resolving(decision.query_id, 'take-as-written')}`"
    lost = decision.with_outcome(Outcome.LOST)
    spark_partition_ids = sorted(each.spark_partition_id for each in lost)
    record_count = sum(each.record_count for each in lost)
    is_withdrawn = decision.status is DecisionStatus.WITHDRAWN
    what = "All" if is_withdrawn else f"{len(lost)} of {len(decision.transactions)}"
    text = (
        f"{what} transactions of {decision.where} were aborted by the broker before they could be committed "
        f"({record_count} records of Spark partitions {_shortened(spark_partition_ids)}). Most likely more "
        f"than '{timeout_option}' passed, or a task of another driver with prefix {prefix} took a "
        "transactional id. "
    )
    if decision.is_named_write:
        text += (
            "Nothing of it is visible. Run it again."
            if is_withdrawn
            else "The records of its other transactions are visible. Run the write again with the same rows "
            "and the same sink.write-id: exactly the lost records are written. Until then no other write "
            f"with prefix {prefix} starts. To leave it as it is, run {resolving}."
        )
    elif decision.is_batch_write:
        text += (
            "Nothing of it is visible. Run it again."
            if is_withdrawn
            else "The records of its other transactions are visible, so running it again doubles them. No "
            f"other write with prefix {prefix} starts until you resolve this: remove the records that are in "
            f"the target, or add those that are missing, then run {resolving}. To prevent "
            f"this, raise '{timeout_option}' (and the brokers' transaction.max.timeout.ms), or set "
            "sink.write-id: a write with a name is repaired by running it again."
        )
    elif is_withdrawn:
        text += "Nothing of the batch is visible. It is written again when the query is restarted."
    else:
        text += (
            "The others are committed. Restart the query: Spark replays the batch, and exactly the lost "
            "records are written again."
        )
    return TransactionsLostError(
        text,
        query_id=decision.query_id,
        batch_id=decision.batch_id,
        spark_partition_ids=spark_partition_ids,
        record_count=record_count,
    )


def _shortened(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:10])) + (", ..." if len(numbers) > 10 else "")
