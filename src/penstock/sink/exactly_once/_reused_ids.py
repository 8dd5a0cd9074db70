"""Use the transactional ids of a worker process again, batch after batch, without taking them each time.

Runs on the executor. To take an id is two requests for each task, and a write of the coordinator. Instead a
process asks once for each batch about all ids that it has used.

With protocol V2 the end of a transaction gives its id the next epoch. The process that wrote the transaction
with epoch e is the only one that may use epoch e + 1, because another process that takes the id gets a later
epoch. With V1 the epoch stays, so no id is used again.

Invariants:

- Each identity (id, producer id and epoch) is used for one transaction at most. Two transactions of one
  identity would have the same sequence numbers, and a broker would take records of the second for duplicates.
- An identity is used only after its coordinator has said, under the mandate of the present batch, that the
  transaction before has ended completely and that the id has exactly this identity now.
- Only ids of this process are used again. They have a number that the process has drawn, so that no other
  task takes them. A process in its first batch uses the ids of Spark partitions, because a process that
  serves only one batch must not leave ids of its own behind in the coordinators.
"""

from __future__ import annotations

import logging
import random
import threading
import weakref
from collections.abc import Callable, Collection
from dataclasses import replace

from penstock.client.net.connection import KafkaConnections
from penstock.client.transactions.steps import (
    TransactionDescription,
    TransactionIdentity,
    TransactionProtocol,
    TransactionState,
)
from penstock.errors import PenstockError
from penstock.sink.exactly_once.mandate import Mandate
from penstock.sink.exactly_once.names import TransactionNames

_log = logging.getLogger(__name__)

Describe = Callable[[Collection[str]], dict[str, TransactionDescription | None]]
"""`Transactions.describe`, or a function that does the same."""

_NUMBER_MIN, _NUMBER_END = 1_000_000_000, 10_000_000_000
"""The numbers that processes draw. No DataFrame has so many Spark partitions."""
_LAST_EPOCH = 32_766
"""The last epoch that a producer writes with. Its end gives the id another producer id."""
_ENDED = frozenset((TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT))
_ENDING = frozenset((TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT))


class ReusedIds:
    """The transactional ids of one process for one prefix. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # From the system, because Spark's workers are forks, which have the same state of `random`.
        self._number = random.SystemRandom().randrange(_NUMBER_MIN, _NUMBER_END)
        self._name_count = 0
        self._mandate: TransactionIdentity | None = None
        self._is_first_batch = True
        self._used: list[TransactionIdentity] = []
        """The next identities of used ids. They are asked about under the next mandate."""
        self._ready: list[TransactionIdentity] = []
        """The identities that may be used under the present mandate."""

    def take(self, mandate: Mandate, describe: Describe) -> TransactionIdentity | None:
        """Return the identity for a new transaction; None if there is none. Asks once for each mandate."""
        with self._lock:
            if mandate.session.identity != self._mandate:
                self._begin_batch(mandate, describe)
            return self._ready.pop() if self._ready else None

    def new_name(self, mandate: Mandate) -> tuple[int, int] | None:
        """Return the numbers of a new id of this process; None if it must not have any."""
        with self._lock:
            if self._is_first_batch or mandate.protocol is not TransactionProtocol.V2:
                return None
            self._name_count += 1
            return self._number, self._name_count - 1

    def give_back(self, mandate: Mandate, used: TransactionIdentity) -> None:
        """Note that a transaction is written and acknowledged whole. Another process ends it."""
        name = TransactionNames(mandate.prefix).parse(used.transactional_id)
        if name is None or name.spark_partition_id != self._number:
            return
        # A broker with KAFKA-20090 may leave the epoch after the last one, and cannot end its transaction.
        if used.producer_epoch >= _LAST_EPOCH:
            return
        with self._lock:
            self._used.append(replace(used, producer_epoch=used.producer_epoch + 1))

    def _begin_batch(self, mandate: Mandate, describe: Describe) -> None:
        self._is_first_batch = self._mandate is None
        self._mandate = mandate.session.identity
        asked, self._used, self._ready = self._used + self._ready, [], []
        if not asked or mandate.protocol is not TransactionProtocol.V2:
            return
        try:
            described = describe([each.transactional_id for each in asked])
        except PenstockError as error:
            _log.warning(
                "cannot describe the transactional ids of this process; it takes new ones: %s", error
            )
            return
        for each in asked:
            found = described[each.transactional_id]
            if found is None or not found.identity.has_same_epoch(each):
                continue
            if found.state in _ENDED and found.timeout_ms == mandate.transaction_timeout_ms:
                self._ready.append(each)
            elif found.state in _ENDING:
                self._used.append(each)


_of_connections: weakref.WeakKeyDictionary[KafkaConnections, dict[str, ReusedIds]] = (
    weakref.WeakKeyDictionary()
)


def reused_ids(connections: KafkaConnections, prefix: str) -> ReusedIds:
    """Return the ids of a prefix that belong to these connections, and so to this process."""
    # `setdefault` is atomic, so that no lock is needed, which a forked child could inherit while it is held.
    of_prefixes = _of_connections.get(connections)
    if of_prefixes is None:
        of_prefixes = _of_connections.setdefault(connections, {})
    found = of_prefixes.get(prefix)
    return found if found is not None else of_prefixes.setdefault(prefix, ReusedIds())
