"""Choose the id of a task's transaction, open it, and abort it after an error.

Runs on the executor. Invariant: a task takes the id of a Spark partition only when no open transaction uses
it. So two attempts at one Spark partition that have the same number (a retried stage counts from 0 again) do
not abort each other. If both ask at the same moment, the later one fences the earlier one, which fails and is
retried. An id of the process itself has no other user (`_reused_ids`).
"""

from __future__ import annotations

from penstock.client.net.connection import KafkaConnections
from penstock.client.transactions.steps import TransactionIdentity, Transactions, TransactionState
from penstock.sink.exactly_once._reused_ids import reused_ids
from penstock.sink.exactly_once.mandate import Mandate
from penstock.sink.exactly_once.names import TransactionNames

_LOOKED_AT_ONCE = 8
"""Ids to look at once the attempt's own id is taken. Ids of one request may have several coordinators."""


def begin_transaction(
    connections: KafkaConnections, mandate: Mandate, spark_partition_id: int, attempt: int
) -> TransactionIdentity:
    """Return the identity for a new transaction: of an id that this process has used, or of a new one."""
    # A retry takes an id of its Spark partition. Its first attempt may have failed because of a used id.
    if attempt == 0:
        transactions = Transactions(connections)
        ids = reused_ids(connections, mandate.prefix)
        identity = ids.take(mandate, transactions.describe)
        if identity is not None:
            return identity
        if (own := ids.new_name(mandate)) is not None:
            return _take(transactions, mandate, TransactionNames(mandate.prefix).data_id(*own))
    return open_transaction(connections, mandate, spark_partition_id, attempt)


def open_transaction(
    connections: KafkaConnections, mandate: Mandate, spark_partition_id: int, attempt: int
) -> TransactionIdentity:
    """Take an id of the Spark partition for this attempt; the transaction begins with its first record."""
    transactions = Transactions(connections)
    names = TransactionNames(mandate.prefix)
    return _take(transactions, mandate, _free_id(transactions, names, spark_partition_id, attempt))


def _take(transactions: Transactions, mandate: Mandate, transactional_id: str) -> TransactionIdentity:
    return transactions.init_producer(
        transactional_id,
        transaction_timeout_ms=mandate.transaction_timeout_ms,
        protocol=mandate.protocol,
    )


def _free_id(
    transactions: Transactions, names: TransactionNames, spark_partition_id: int, attempt: int
) -> str:
    first, count = attempt, 1
    while True:
        wanted = [names.data_id(spark_partition_id, number) for number in range(first, first + count)]
        described = transactions.describe(wanted)
        for each in wanted:
            description = described[each]
            if description is None or description.state is not TransactionState.ONGOING:
                return each
        first, count = first + count, _LOOKED_AT_ONCE


def abort_transaction(connections: KafkaConnections, identity: TransactionIdentity) -> None:
    """Abort a task's own transaction after an error. If that fails, recovery aborts it."""
    Transactions(connections).end([identity], is_commit=False)
