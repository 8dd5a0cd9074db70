"""What the driver's half of the sink needs of Kafka's transactions, as a protocol and for real.

Runs on the driver. `SinkTransactions` is the seam between the protocol's logic and its I/O: the tests put a
scripted cluster there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from penstock.client.cluster.metadata import fetch_metadata
from penstock.client.net.connection import KafkaConnections
from penstock.client.net.error_codes import UNKNOWN_TOPIC_OR_PARTITION
from penstock.client.transactions.limits import max_transaction_timeout_ms
from penstock.client.transactions.markers import TransactionEnd, Witness, transaction_end
from penstock.client.transactions.steps import (
    EndResult,
    TransactionDescription,
    TransactionIdentity,
    TransactionListing,
    TransactionProtocol,
    Transactions,
)


class SinkTransactions(Protocol):
    """The steps of `client.transactions.Transactions` that the driver takes, with the same contracts."""

    def protocol(self) -> TransactionProtocol:
        """Which protocol the cluster has agreed on."""

    def max_timeout_ms(self) -> int | None:
        """The longest time-out that the brokers allow; None: unknown."""

    def init_producer(
        self,
        transactional_id: str,
        *,
        transaction_timeout_ms: int,
        protocol: TransactionProtocol,
    ) -> TransactionIdentity:
        """Take a transactional id."""

    def end(
        self, identities: Collection[TransactionIdentity], *, is_commit: bool
    ) -> dict[TransactionIdentity, EndResult]:
        """Commit or abort transactions."""

    def describe(self, transactional_ids: Collection[str]) -> dict[str, TransactionDescription | None]:
        """Describe transactional ids."""

    def list_open(self, is_wanted: Callable[[str], bool]) -> list[TransactionListing]:
        """List open transactions."""

    def end_in_log(self, witness: Witness, identity: TransactionIdentity) -> TransactionEnd:
        """How a transaction ended, by its marker in the log."""

    def topic_ids(self, topics: Collection[str]) -> dict[str, str | None]:
        """The ids that topics have now, never from a cache; without those that do not exist.

        None: the brokers give no ids, or this user may not ask.
        """


class KafkaSinkTransactions(Transactions):
    """`SinkTransactions` over a cluster."""

    def __init__(self, connections: KafkaConnections) -> None:
        super().__init__(connections)
        self._log_connections = connections

    def max_timeout_ms(self) -> int | None:
        """The longest time-out that every broker allows; None: this user may not ask."""
        return max_transaction_timeout_ms(self._log_connections)

    def end_in_log(self, witness: Witness, identity: TransactionIdentity) -> TransactionEnd:
        """How a transaction ended, by its marker in the log."""
        return transaction_end(self._log_connections, witness, identity)

    def topic_ids(self, topics: Collection[str]) -> dict[str, str | None]:
        """The ids that topics have now; without those that do not exist. None: not told."""
        found = fetch_metadata(self._log_connections, topics).topics
        return {
            name: None if topic.topic_id is None or topic.error_code else str(topic.topic_id)
            for name, topic in found.items()
            if topic.error_code != UNKNOWN_TOPIC_OR_PARTITION
        }
