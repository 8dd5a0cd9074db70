"""Refuse a start under a prefix: another program's transactions are open, or a batch write is there in part.

Runs on the driver, in recovery. Invariant: a refusal changes nothing, and its error names the command that
ends the refusal.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.client.transactions.steps import TransactionState
from penstock.errors import PrefixTakenError
from penstock.sink.exactly_once._finish import lost_error
from penstock.sink.exactly_once.decision import Decision, DecisionStatus
from penstock.sink.exactly_once.kafka import SinkTransactions
from penstock.sink.exactly_once.names import TransactionNames

_SHOWN = 10


def check_none_foreign(kafka: SinkTransactions, names: TransactionNames) -> None:
    """Raise PrefixTakenError before a prefix is first taken, if transactions with its names are open.

    Our tasks begin after the prefix is taken, so these are not ours. Flink's sink uses the same names.
    """
    listed = kafka.list_open(lambda each: names.parse(each) is not None)
    ongoing = [each.transactional_id for each in listed if each.state is TransactionState.ONGOING]
    if not ongoing:
        return
    shown = ", ".join(ongoing[:_SHOWN]) + (", ..." if len(ongoing) > _SHOWN else "")
    raise PrefixTakenError(
        f"Expected no open transactions with the transactional id prefix {names.prefix}, which penstock has "
        f"never used on this cluster, got {len(ongoing)}: {shown}. They belong to another program, for "
        "instance a Flink job with this prefix, because Flink uses the same names. Nothing was written or "
        "aborted. If that job may still run, choose another sink.transactional-id-prefix. If it will never "
        f"run again, run `{names.command('abort', '--yes')}`, or wait for the time-out of its transactions.",
        prefix=names.prefix,
        transactional_ids=ongoing,
    )


def check_no_lost_write(decisions: Iterable[Decision], names: TransactionNames, query_id: str | None) -> None:
    """Raise TransactionsLostError if a batch write is in its target in part. Its own repetition may start.

    A stream's incomplete batch is refused when its next batch comes. A batch write stops any other writer.

    Args:
        decisions: of the prefix.
        names: of the prefix.
        query_id: of the write that starts; None for a stream, which has no name yet.
    """
    for decision in decisions:
        is_write = decision.is_batch_write or decision.is_named_write
        if is_write and decision.status is DecisionStatus.LOST and decision.query_id != query_id:
            raise lost_error(decision, names)
