"""Strays: open transactions of a prefix's tasks that no unfinished decision names.

Runs on the driver: while it recovers, after it commits a batch, and for an operator. Invariant: a transaction
that an unfinished decision names is never aborted, because its rows count as written.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace

from penstock.client.transactions.steps import (
    EndState,
    TransactionIdentity,
    TransactionProtocol,
    TransactionState,
)
from penstock.sink.exactly_once.decision import DecisionStatus, Outcome
from penstock.sink.exactly_once.kafka import SinkTransactions
from penstock.sink.exactly_once.log import DecisionLog
from penstock.sink.exactly_once.names import TransactionNames

_log = logging.getLogger(__name__)


def stray_transactions(
    kafka: SinkTransactions, log: DecisionLog, names: TransactionNames, protocol: TransactionProtocol
) -> list[TransactionIdentity]:
    """Return the open transactions of the prefix's tasks that no unfinished decision names."""
    decided = _decided_ids(log)
    listed = kafka.list_open(lambda each: names.parse(each) is not None and each not in decided)
    # Those that are already ending need no abort.
    ongoing = [each.transactional_id for each in listed if each.state is TransactionState.ONGOING]
    if not ongoing:
        return []
    described = kafka.describe(ongoing).values()
    return [
        replace(each.identity, protocol=protocol)
        for each in described
        if each is not None and each.state is TransactionState.ONGOING
    ]


def without_decided(log: DecisionLog, strays: Collection[TransactionIdentity]) -> list[TransactionIdentity]:
    """Return the transactions that no unfinished decision names, as the log is now."""
    decided = _decided_ids(log)
    return [each for each in strays if each.transactional_id not in decided]


def _decided_ids(log: DecisionLog) -> set[str]:
    return {
        committable.identity.transactional_id
        for decision in log.decisions.values()
        if decision.status is DecisionStatus.DECIDED
        for committable in decision.with_outcome(Outcome.PENDING)
    }


def abort_strays(
    kafka: SinkTransactions, names: TransactionNames, strays: Collection[TransactionIdentity]
) -> list[TransactionIdentity]:
    """Abort exactly these transactions, and not what a producer has open that took their ids since then.

    With V2 their producers are fenced, too. With V1 a producer that still runs may begin again. Nothing that
    it writes can be decided, and the next recovery aborts it.

    Returns:
        The transactions that were aborted.
    """
    if not strays:
        return []
    aborted = []
    for stray, result in kafka.end(strays, is_commit=False).items():
        if result.state is EndState.DONE:
            aborted.append(stray)
        elif result.state is EndState.UNKNOWN and result.error is not None:
            raise result.error
    if aborted:
        shown = ", ".join(each.transactional_id for each in aborted[:10])
        _log.info("prefix %s: aborted %d open transactions: %s", names.prefix, len(aborted), shown)
    return aborted
