"""Known bugs of Kafka's coordinator, as switches of the model: is the sink harmed, and does the judge see it?

Invariant: `planted` tells where the bug has changed something, so that a test cannot pass without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from penstock.client.net import error_codes as codes
from penstock.testing.fake._coordinator import EMPTY, ONGOING, Outcome, Transaction, TransactionCoordinator

_LAST_EPOCH = 32_766
_end, _expire, _fence, _init = (
    TransactionCoordinator.end,
    TransactionCoordinator.expire,
    TransactionCoordinator.fence,
    TransactionCoordinator.init,
)
_happened: list[str] = []


@dataclass(frozen=True)
class KnownBug:
    """A bug of the coordinator.

    Attributes:
        name: of Kafka's issue.
        buggy: methods of the coordinator with the bug, by their names.
        seeds: of histories in which it happens.
        is_harmful: whether a promise is broken in these histories. Otherwise all are kept.
        effect: what becomes of a query, and why.
    """

    name: str
    buggy: dict[str, Callable[..., Any]]
    seeds: Sequence[int]
    is_harmful: bool
    effect: str

    @contextmanager
    def planted(self) -> Iterator[list[str]]:
        """Give the cluster the bug. The list gets the transactional id each time that it shows."""
        _happened.clear()
        with ExitStack() as stack:
            for method, buggy in self.buggy.items():
                stack.enter_context(mock.patch.object(TransactionCoordinator, method, buggy))
            yield _happened


def _is_v2(coordinator: TransactionCoordinator) -> bool:
    return coordinator._state.transaction_version == 2


# ----- epochs


def _ends_with_old_producer(
    coordinator: TransactionCoordinator, name: str, producer_id: int, epoch: int, **how: bool
) -> Outcome:
    """Answer the end at the last epoch with the old producer id (KAFKA-18660)."""
    outcome = _end(coordinator, name, producer_id, epoch, **how)
    if how["is_v2"] and not outcome.code and epoch == _LAST_EPOCH:
        _happened.append(name)
        return Outcome(codes.NO_ERROR, producer_id, epoch + 1)
    return outcome


def _fences_twice(coordinator: TransactionCoordinator, found: Transaction) -> None:
    """Raise the epoch twice (KAFKA-19367)."""
    _fence(coordinator, found)
    if _is_v2(coordinator):
        found.epoch += 1
        _happened.append(found.name)


def _cannot_be_taken(
    coordinator: TransactionCoordinator, name: str, timeout_ms: int, producer_id: int, epoch: int
) -> Outcome:
    """Fail at an epoch that does not fit into 16 bits (KAFKA-19367), with the transaction open."""
    found = coordinator.ids.get(name)
    if _is_v2(coordinator) and found is not None and found.state == ONGOING and found.epoch >= _LAST_EPOCH:
        _happened.append(name)
        return Outcome(codes.UNKNOWN_SERVER_ERROR)
    return _init(coordinator, name, timeout_ms, producer_id, epoch)


def _never_expires_at_the_end(coordinator: TransactionCoordinator) -> None:
    """Fail at each time-out of a transaction of the last epoch, which stays open (KAFKA-20090)."""
    kept = {}
    for name, found in coordinator.ids.items():
        is_over = coordinator._state.now_ms - found.started_ms >= found.timeout_ms
        if _is_v2(coordinator) and found.state == ONGOING and is_over and found.epoch >= _LAST_EPOCH:
            _happened.append(name)
            kept[name] = found.timeout_ms
            found.timeout_ms = 1 << 60
    _expire(coordinator)
    for name, timeout_ms in kept.items():
        coordinator.ids[name].timeout_ms = timeout_ms


# ----- what is interrupted


def _forgets_markers(coordinator: TransactionCoordinator) -> None:
    """Never write the markers of V2 that were interrupted (KAFKA-19999)."""
    coordinator.holds_markers = False
    for found in coordinator.ids.values():
        _happened.extend([found.name] if found.is_prepared else [])


def _fences_the_taker(
    coordinator: TransactionCoordinator, name: str, timeout_ms: int, producer_id: int, epoch: int
) -> Outcome:
    """Fence the producer that takes an id, when it asks again (KAFKA-20310, KAFKA-20357)."""
    found = coordinator.ids.get(name)
    was_open = found is not None and found.state == ONGOING
    if found is not None and getattr(found, "is_interrupted", False):
        setattr(found, "is_interrupted", False)  # noqa: B010 - the model has no such field
        _happened.append(name)
        return Outcome(codes.PRODUCER_FENCED)
    outcome = _init(coordinator, name, timeout_ms, producer_id, epoch)
    if found is not None and was_open:
        setattr(found, "is_interrupted", True)  # noqa: B010
    return outcome


def _refuses_late_ends(
    coordinator: TransactionCoordinator, name: str, producer_id: int, epoch: int, **how: bool
) -> Outcome:
    """Answer a V2 end of a transaction that has timed out with INVALID_TXN_STATE (KAFKA-20785)."""
    found = coordinator.ids.get(name)
    outcome = _end(coordinator, name, producer_id, epoch, **how)
    was_ended = found is not None and found.state not in (EMPTY, ONGOING)
    if how["is_v2"] and was_ended and outcome.code == codes.PRODUCER_FENCED:
        _happened.append(name)
        return Outcome(codes.INVALID_TXN_STATE)
    return outcome


KNOWN_BUGS = (
    KnownBug(
        "KAFKA-18660",
        {"end": _ends_with_old_producer},
        (0, 4),
        is_harmful=False,
        effect="the committer's next record is refused. The next start finishes the batch",
    ),
    KnownBug(
        "KAFKA-19367, the epoch",
        {"fence": _fences_twice},
        (5, 6),
        is_harmful=False,
        effect="nothing is concluded from an epoch that is later than expected",
    ),
    KnownBug(
        "KAFKA-19367, the last epoch",
        {"init": _cannot_be_taken},
        (109,),
        is_harmful=True,
        effect="if the committer's transaction is open at its last epoch, no start can take the prefix",
    ),
    KnownBug(
        "KAFKA-19999",
        {"release_markers": _forgets_markers},
        (6, 18),
        is_harmful=True,
        effect="the transaction stays in PREPARE, readers wait, and no start gets past it. No row is doubled",
    ),
    KnownBug(
        "KAFKA-20090",
        {"expire": _never_expires_at_the_end, "init": _cannot_be_taken},
        (6, 36),
        is_harmful=True,
        effect="a transaction of the last epoch that its driver has left open cannot be taken over",
    ),
    KnownBug(
        "KAFKA-20310, KAFKA-20357",
        {"init": _fences_the_taker},
        (24, 30),
        is_harmful=False,
        effect="the take-over is asked again, and gets the prefix",
    ),
    KnownBug(
        "KAFKA-20785",
        {"end": _refuses_late_ends},
        (3, 5),
        is_harmful=False,
        effect="the end counts as refused. The markers in the log say what became of the transaction",
    ),
)
