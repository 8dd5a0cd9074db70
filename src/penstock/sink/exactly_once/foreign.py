"""Look at all open transactions of a cluster, and abort one of another program by hand.

Runs on the machine of a command. Invariants: looking changes nothing. Only a transaction whose name penstock
never gives is aborted here, because the decision log says what becomes of penstock's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.client.net.connection import KafkaConnections
from penstock.client.transactions.hanging import Hanging, find_hanging
from penstock.client.transactions.holders import NO_TRANSACTION, describe_producers
from penstock.client.transactions.steps import TransactionDescription, Transactions, TransactionState
from penstock.errors import OptionError, TransactionError
from penstock.sink.exactly_once.names import prefix_of
from penstock.types import TopicPartition

_TIMEOUT_MS = 60_000
"""Of transactions that this producer never begins. One of two phases has a time-out that brokers refuse."""


@dataclass(frozen=True, slots=True)
class AnyTransaction:
    """An open transaction of any program.

    Attributes:
        description: as its coordinator gives it.
        starts: the first offset in each of its topic partitions, if the brokers tell it.
        hangs: why its end, which is decided, does not reach its topic partitions; None if it does not hang.
    """

    description: TransactionDescription
    starts: Mapping[TopicPartition, int]
    hangs: Hanging | None = None

    @property
    def transactional_id(self) -> str:
        return self.description.identity.transactional_id

    @property
    def prefix(self) -> str | None:
        """Return the transactional id prefix, if the name has the form that penstock and Flink give."""
        return prefix_of(self.transactional_id)


def open_on_cluster(
    connections: KafkaConnections, is_wanted: Callable[[str], bool] = lambda _: True
) -> list[AnyTransaction]:
    """Return the open transactions with a wanted name, ordered by name.

    The cluster leaves out transactions that this user may not describe. If the end of one is decided, this
    waits for some seconds, to find out whether it hangs.

    Raises:
        ClientError: a broker does not answer in time.
    """
    steps = Transactions(connections)
    names = [each.transactional_id for each in steps.list_open(is_wanted)]
    described = steps.describe(names) if names else {}
    found = [each for _, each in sorted(described.items()) if each is not None and each.state.is_open]
    hanging = find_hanging(connections, found)
    leaderless = {tp for each in hanging.values() for tp in each.leaderless}  # they do not answer
    asked = {tp for each in found for tp in each.topic_partitions} - leaderless
    producers = describe_producers(connections, asked).values if asked else {}
    starts = {
        (producer.producer_id, tp): producer.transaction_start
        for tp, of_partition in producers.items()
        for producer in of_partition
        if producer.transaction_start != NO_TRANSACTION
    }
    return [
        AnyTransaction(
            each,
            {
                tp: starts[each.identity.producer_id, tp]
                for tp in each.topic_partitions
                if (each.identity.producer_id, tp) in starts
            },
            hanging.get(each.identity.transactional_id),
        )
        for each in found
    ]


def check_foreign(transactional_id: str) -> None:
    """Raise OptionError for a name that penstock gives, because its transaction may be decided."""
    prefix = prefix_of(transactional_id)
    if prefix is not None:
        raise OptionError(
            f"Transaction {transactional_id} has a name of the prefix {prefix}, as penstock and Flink give "
            "them. Its decision log may say that it must be committed. Nothing was aborted. Use --prefix "
            f"{prefix} instead of --transactional-id: it commits what is decided, and aborts the rest.",
            option="--transactional-id",
            value=transactional_id,
        )


def find_ongoing(connections: KafkaConnections, transactional_id: str) -> TransactionDescription | None:
    """Return the transaction that can be aborted; None if none is open, or it is already ending.

    Raises:
        AuthorizationError: the transactional id may not be described.
        ClientError: no answer in time.
    """
    found = Transactions(connections).describe([transactional_id])[transactional_id]
    return found if found is not None and found.state is TransactionState.ONGOING else None


def abort_foreign(connections: KafkaConnections, ongoing: TransactionDescription) -> None:
    """Abort a transaction as a new producer with its name does: whole, and its own producer is fenced.

    Raises:
        OptionError: see `check_foreign`.
        TransactionError: the transaction is still open.
        ClientError: refused, or no answer in time.
    """
    name = ongoing.identity.transactional_id
    check_foreign(name)
    steps = Transactions(connections)
    timeout_ms = min(ongoing.timeout_ms, _TIMEOUT_MS)
    steps.init_producer(name, transaction_timeout_ms=timeout_ms, protocol=steps.protocol())
    now = steps.describe([name])[name]
    if now is not None and now.state is TransactionState.ONGOING:
        raise TransactionError(
            f"Transaction {name} was aborted, and its program has begun another one since. Stop the program "
            "first.",
            transactional_id=name,
        )
