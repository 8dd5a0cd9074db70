"""The transaction operations that the driver needs: a protocol (scripted in tests), and that of Kafka.

Runs on the driver. `SinkTransactions` separates the logic of exactly-once writes from their I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from penstock.client.cluster.metadata import fetch_metadata
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
    """The steps of `client.transactions` that the driver takes, with the same contracts."""

    def protocol(self) -> TransactionProtocol:
        """Return the protocol that the cluster has agreed on."""

    def max_timeout_ms(self) -> int | None:
        """Return the longest time-out that every broker allows; None if this user may not ask."""

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
        """Read from the log, by its marker, how a transaction ended."""

    def topic_ids(self, topics: Collection[str]) -> dict[str, str | None]:
        """Return the ids that topics have now, never from a cache, without topics that do not exist.

        None instead of an id: the brokers give no ids, or this user may not ask.
        """


class KafkaSinkTransactions(Transactions):
    """`SinkTransactions` over a cluster."""

    def max_timeout_ms(self) -> int | None:
        return max_transaction_timeout_ms(self._connections)

    def end_in_log(self, witness: Witness, identity: TransactionIdentity) -> TransactionEnd:
        return transaction_end(self._connections, witness, identity)

    def topic_ids(self, topics: Collection[str]) -> dict[str, str | None]:
        found = fetch_metadata(self._connections, topics).topics
        return {
            name: None if topic.topic_id is None or topic.error_code else str(topic.topic_id)
            for name, topic in found.items()
            if topic.error_code != UNKNOWN_TOPIC_OR_PARTITION
        }
