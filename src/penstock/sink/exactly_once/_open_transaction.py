"""Choose the id of a task's transaction, open it, and abort it after an error.

Runs on the executor. Invariant: a task takes an id only when no open transaction uses it. So two attempts at
one Spark partition that have the same number (a retried stage counts from 0 again) do not abort each other.
If both ask at the same moment, the later one fences the earlier one, which fails and is retried.
"""

from __future__ import annotations

from penstock.client.net.connection import KafkaConnections
from penstock.client.transactions.steps import TransactionIdentity, Transactions, TransactionState
from penstock.sink.exactly_once.mandate import Mandate
from penstock.sink.exactly_once.names import TransactionNames

_LOOKED_AT_ONCE = 8
"""Ids to look at once the attempt's own id is taken. Ids of one request may have several coordinators."""


def open_transaction(
    connections: KafkaConnections, mandate: Mandate, spark_partition_id: int, attempt: int
) -> TransactionIdentity:
    """Take a transactional id for this attempt; the transaction begins with its first record.

    Args:
        connections: to the cluster.
        mandate: of the batch.
        spark_partition_id: of the task.
        attempt: Spark's attempt number; the first id to try.
    """
    transactions = Transactions(connections)
    names = TransactionNames(mandate.prefix)
    transactional_id = _free_id(transactions, names, spark_partition_id, attempt)
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
