"""What a start under a prefix refuses to go past: transactions of a stranger, a batch write in part.

Runs on the driver, in recovery. Invariant: refusing changes nothing, and the error names the command that
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
    """Before a prefix is first taken: raise PrefixTakenError when transactions are open under its names.

    Tasks begin after the prefix is taken, so these are not ours. Flink's sink names its own alike.
    """
    listed = kafka.list_open(lambda each: names.parse(each) is not None)
    ongoing = [each.transactional_id for each in listed if each.state is TransactionState.ONGOING]
    if not ongoing:
        return
    shown = ", ".join(ongoing[:_SHOWN]) + (", ..." if len(ongoing) > _SHOWN else "")
    raise PrefixTakenError(
        f"{len(ongoing)} open transactions have names of the transactional id prefix {names.prefix}, which "
        f"penstock has never used on this cluster: {shown}. Another program has them open, for instance a "
        "Flink job with this prefix, whose transactions are named alike. Nothing was written or aborted. "
        "Choose another sink.transactional-id-prefix, as long as that job may run. If it is gone for good, "
        f"`penstock transactions abort --prefix {names.prefix} --yes` aborts them; so does their time-out.",
        prefix=names.prefix,
        transactional_ids=ongoing,
    )


def check_no_lost_write(decisions: Iterable[Decision], prefix: str, query_id: str | None) -> None:
    """Raise TransactionsLostError when a batch write is in its target in part; its own repetition may start.

    A stream's batch that is not whole is refused when the next one comes; here that is any other writer.

    Args:
        decisions: of the prefix.
        prefix: the same.
        query_id: of the write that starts; None where it is a stream, which has no name yet.
    """
    for decision in decisions:
        is_write = decision.is_batch_write or decision.is_named_write
        if is_write and decision.status is DecisionStatus.LOST and decision.query_id != query_id:
            raise lost_error(decision, prefix)
