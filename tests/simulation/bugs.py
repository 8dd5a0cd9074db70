"""Known bugs of Kafka's coordinator, which a history may have: the sink must not be harmed by them.

Invariant: `planted` tells whether the bug changed an answer, so that a test cannot pass without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from penstock.client.net import error_codes as codes
from penstock.testing.fake._coordinator import EMPTY, ONGOING, Outcome, Transaction, TransactionCoordinator

_fence, _end = TransactionCoordinator.fence, TransactionCoordinator.end
_happened: list[str] = []


@dataclass(frozen=True)
class KnownBug:
    """A bug of the coordinator.

    Attributes:
        name: of Kafka's issue.
        method: of the coordinator, that has the bug.
        buggy: that method with the bug.
        seeds: of histories in which it happens.
    """

    name: str
    method: str
    buggy: Any
    seeds: tuple[int, ...]

    @contextmanager
    def planted(self) -> Iterator[list[str]]:
        """Give the cluster the bug. The list gets the transactional id of each answer that it changes."""
        _happened.clear()
        with mock.patch.object(TransactionCoordinator, self.method, self.buggy):
            yield _happened


def _fences_twice(coordinator: TransactionCoordinator, found: Transaction) -> None:
    """Raise the epoch twice (KAFKA-19367). Its other half, the last epoch, is not modelled."""
    _fence(coordinator, found)
    if coordinator._state.transaction_version == 2 and found.epoch < 32_765:
        found.epoch += 1
        _happened.append(found.name)


def _refuses_late_ends(
    coordinator: TransactionCoordinator,
    name: str,
    producer_id: int,
    epoch: int,
    *,
    is_commit: bool,
    is_v2: bool,
) -> Outcome:
    """Answer a V2 end of a transaction that has timed out with INVALID_TXN_STATE (KAFKA-20785)."""
    found = coordinator.ids.get(name)
    outcome = _end(coordinator, name, producer_id, epoch, is_commit=is_commit, is_v2=is_v2)
    was_ended = found is not None and found.state not in (EMPTY, ONGOING)
    if is_v2 and was_ended and outcome.code == codes.PRODUCER_FENCED:
        _happened.append(name)
        return Outcome(codes.INVALID_TXN_STATE)
    return outcome


KNOWN_BUGS = (
    KnownBug("KAFKA-19367", "fence", _fences_twice, (60, 90)),
    KnownBug("KAFKA-20785", "end", _refuses_late_ends, (232, 347)),
)
