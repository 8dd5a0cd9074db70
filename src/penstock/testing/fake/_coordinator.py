"""The coordinator of transactions: transactional ids, their epochs, states and time-outs, and their markers.

Runs in tests only, under the cluster's lock. The rules are those of Kafka 4's `TransactionCoordinator`, with
both protocols. Invariant: a decided transaction gets its markers at once, unless a test holds them back.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from penstock.client.net import error_codes as codes
from penstock.testing.fake._groups import Groups

_NONE = -1
_EXHAUSTED_EPOCH = 32_766
_V2 = 2

EMPTY, ONGOING = "Empty", "Ongoing"
PREPARE = {True: "PrepareCommit", False: "PrepareAbort"}
COMPLETE = {True: "CompleteCommit", False: "CompleteAbort"}


class Outcome(NamedTuple):
    """The answer to a step: an error code, or the producer's id and epoch from now on."""

    code: int
    producer_id: int = _NONE
    producer_epoch: int = _NONE


@dataclass
class Transaction:
    """A transactional id and its transaction."""

    name: str
    producer_id: int
    timeout_ms: int
    epoch: int = _NONE
    last_epoch: int = _NONE
    """The epoch that the producer had before this one, by which its resend of InitProducerId is recognised.

    It is -1 after an InitProducerId that names no producer, so that an older one is fenced."""
    previous_producer_id: int = _NONE
    state: str = EMPTY
    started_ms: int = _NONE
    marker: tuple[int, int] = (_NONE, _NONE)
    """The producer's id and epoch in the markers of its last transaction."""
    partitions: set[tuple[str, int]] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)

    @property
    def is_prepared(self) -> bool:
        """Return whether it is decided and its markers are not all written."""
        return self.state in PREPARE.values()

    def is_of(self, producer_id: int, epoch: int, *, is_v2: bool) -> bool:
        """Return whether a producer with this id holds it, or did until its epochs were used up."""
        return producer_id == self.producer_id or (is_v2 and self._has_rotated(producer_id, epoch))

    def is_after(self, producer_id: int, epoch: int) -> bool:
        """Return whether the end of a transaction has taken this producer to the present epoch."""
        if producer_id == self.producer_id:
            return self.epoch == epoch + 1
        return self._has_rotated(producer_id, epoch)

    def _has_rotated(self, producer_id: int, epoch: int) -> bool:
        is_last = epoch == _EXHAUSTED_EPOCH and self.epoch == 0
        return is_last and producer_id == self.previous_producer_id

    @property
    def outcome(self) -> Outcome:
        """Return the answer that names the producer."""
        return Outcome(codes.NO_ERROR, self.producer_id, self.epoch)


class Cluster(Protocol):
    """What the coordinator asks of its cluster."""

    changed: threading.Condition
    properties: dict[str, str]
    transaction_version: int

    @property
    def now_ms(self) -> int: ...

    def end_transaction(self, topic: str, index: int, producer: tuple[int, int], *, is_commit: bool) -> None:
        """Write a marker into a topic partition, if it is still there."""


class TransactionCoordinator:
    """All transactional ids of a cluster. Each belongs to one broker, but this object serves all of them."""

    def __init__(self, state: Cluster, groups: Groups) -> None:
        self._state = state
        self._groups = groups
        self._next_producer_id = 0
        self.ids: dict[str, Transaction] = {}
        self.holds_markers = False

    def new_producer_id(self) -> int:
        """Return an id that no producer has had."""
        self._next_producer_id += 1
        return self._next_producer_id - 1

    # ----- InitProducerId

    def init(self, name: str, timeout_ms: int, producer_id: int, epoch: int) -> Outcome:
        """Take a transactional id, and fence its older producers."""
        if not 0 < timeout_ms <= int(self._state.properties["transaction.max.timeout.ms"]):
            return Outcome(codes.INVALID_TRANSACTION_TIMEOUT)
        found = self.ids.get(name)
        if found is None:
            found = self.ids[name] = Transaction(name, self.new_producer_id(), timeout_ms)
        if found.is_prepared:
            return Outcome(codes.CONCURRENT_TRANSACTIONS)
        is_named = producer_id != _NONE
        if is_named and not _is_known(found, producer_id, epoch):
            return Outcome(codes.PRODUCER_FENCED)
        if found.state == ONGOING:
            self.fence(found)
            return Outcome(codes.CONCURRENT_TRANSACTIONS)
        if not is_named or found.epoch in (epoch, _NONE):
            self._raise_epoch(found)
            found.last_epoch = found.last_epoch if is_named else _NONE
        elif epoch != found.last_epoch:
            return Outcome(codes.PRODUCER_FENCED)
        # Otherwise the answer to an earlier attempt was lost.
        found.timeout_ms, found.state, found.started_ms = timeout_ms, EMPTY, _NONE
        return found.outcome

    def _raise_epoch(self, found: Transaction) -> None:
        if found.epoch >= _EXHAUSTED_EPOCH:
            found.previous_producer_id, found.producer_id = found.producer_id, self.new_producer_id()
            found.epoch, found.last_epoch = 0, found.epoch
        else:
            found.epoch, found.last_epoch = found.epoch + 1, found.epoch

    def fence(self, found: Transaction) -> None:
        """Abort a transaction without its producer, who gets fenced. With V2 the last epoch ends its id."""
        is_last = self._state.transaction_version == _V2 and found.epoch >= _EXHAUSTED_EPOCH
        found.epoch += 1
        self._end(found, is_commit=False, bumps=False)
        if is_last:
            self._raise_epoch(found)
        found.last_epoch = _NONE

    # ----- topic partitions and groups

    def add(
        self,
        name: str,
        producer_id: int,
        epoch: int,
        partitions: set[tuple[str, int]],
        groups: set[str] | None = None,
    ) -> int:
        """Add topic partitions and groups to a transaction, which begins with the first."""
        found = self.ids.get(name)
        if found is not None and found.is_prepared:
            return codes.CONCURRENT_TRANSACTIONS  # also for a producer that is fenced
        if (code := self._refusal(found, producer_id, epoch)) or found is None:
            return code
        if found.state != ONGOING:
            found.partitions, found.groups = set(), set()
            found.state, found.started_ms = ONGOING, self._state.now_ms
        found.partitions |= partitions
        found.groups |= groups or set()
        return codes.NO_ERROR

    def _refusal(self, found: Transaction | None, producer_id: int, epoch: int) -> int:
        if found is None or found.producer_id != producer_id:
            return codes.INVALID_PRODUCER_ID_MAPPING
        if found.epoch != epoch:
            return codes.PRODUCER_FENCED
        return codes.CONCURRENT_TRANSACTIONS if found.is_prepared else codes.NO_ERROR

    def verify(self, name: str, producer_id: int, epoch: int, partition: tuple[str, int]) -> int:
        """Return an error if a topic partition is not in the producer's transaction."""
        found = self.ids.get(name)
        if (code := self._refusal(found, producer_id, epoch)) or found is None:
            return code
        is_there = found.state == ONGOING and partition in found.partitions
        return codes.NO_ERROR if is_there else codes.TRANSACTION_ABORTABLE

    def verify_group(self, name: str, producer_id: int, epoch: int, group: str) -> int:
        """Return an error if a group is not in the producer's transaction."""
        found = self.ids.get(name)
        if (code := self._refusal(found, producer_id, epoch)) or found is None:
            return code
        is_there = found.state == ONGOING and group in found.groups
        return codes.NO_ERROR if is_there else codes.INVALID_TXN_STATE

    # ----- EndTxn

    def end(self, name: str, producer_id: int, epoch: int, *, is_commit: bool, is_v2: bool) -> Outcome:
        """Commit or abort a transaction. With V2 its producer gets another epoch."""
        found = self.ids.get(name)
        if found is not None and found.is_prepared and is_v2:
            return Outcome(codes.CONCURRENT_TRANSACTIONS)  # whatever the epoch and the decision (KAFKA-18464)
        if found is None or not found.is_of(producer_id, epoch, is_v2=is_v2):
            return Outcome(codes.INVALID_PRODUCER_ID_MAPPING)
        is_retry = is_v2 and found.is_after(producer_id, epoch)
        if found.epoch != epoch and not is_retry:
            return Outcome(codes.PRODUCER_FENCED)
        if found.state == COMPLETE[is_commit] and (is_retry or not is_v2):
            return found.outcome
        may_end_nothing = is_v2 and not is_commit and not is_retry
        if code := _end_refusal(found, is_retry=is_retry, may_end_nothing=may_end_nothing):
            return Outcome(code)
        self._end(found, is_commit=is_commit, bumps=is_v2)
        return found.outcome

    def _end(self, found: Transaction, *, is_commit: bool, bumps: bool) -> None:
        found.marker = (found.producer_id, found.epoch)
        if bumps:
            # The markers name the epoch after the bump. The last epoch of a producer id is kept for them.
            found.marker = (found.producer_id, found.epoch + 1)
            self._raise_epoch(found)
        if found.state != ONGOING:
            found.partitions, found.groups = set(), set()
        found.state = PREPARE[is_commit]
        if not self.holds_markers:
            self._complete(found, is_commit=is_commit)

    def release_markers(self) -> None:
        """Write the markers that were held back."""
        self.holds_markers = False
        for found in self.ids.values():
            if found.is_prepared:
                self._complete(found, is_commit=found.state == PREPARE[True])
        self._state.changed.notify_all()

    def _complete(self, found: Transaction, *, is_commit: bool) -> None:
        for topic, index in sorted(found.partitions):
            self._state.end_transaction(topic, index, found.marker, is_commit=is_commit)
        for group in found.groups:
            self._groups.end_transaction(group, found.marker[0], is_commit=is_commit)
        found.state = COMPLETE[is_commit]
        found.partitions, found.groups = set(), set()
        self._state.changed.notify_all()

    # ----- time

    def expire(self) -> None:
        """Abort the transactions whose time is over."""
        for found in list(self.ids.values()):
            is_over = self._state.now_ms - found.started_ms >= found.timeout_ms
            if found.state == ONGOING and is_over:
                self.fence(found)

    def open(self) -> Iterator[Transaction]:
        """Yield the transactions that are not ended."""
        return (each for each in self.ids.values() if each.state == ONGOING or each.is_prepared)


def _is_known(found: Transaction, producer_id: int, epoch: int) -> bool:
    """Return whether a producer that InitProducerId names (KIP-360) holds the id, or did before this one."""
    if producer_id == found.producer_id or found.epoch == _NONE:
        return True
    return producer_id == found.previous_producer_id and epoch >= _EXHAUSTED_EPOCH


def _end_refusal(found: Transaction, *, is_retry: bool, may_end_nothing: bool) -> int:
    if found.is_prepared:
        return codes.CONCURRENT_TRANSACTIONS
    if is_retry and found.state in (ONGOING, EMPTY):
        return codes.PRODUCER_FENCED
    return codes.NO_ERROR if found.state == ONGOING or may_end_nothing else codes.INVALID_TXN_STATE
