"""Known bugs of Kafka's coordinator, which a history may have: the sink must not be harmed by them.

Each is a `Mutant` of the cluster, whose `seed` is None: no history is known that breaks a promise.
"""

from __future__ import annotations

from penstock.client.net import error_codes as codes
from penstock.testing.fake._coordinator import EMPTY, ONGOING, Outcome, Transaction, TransactionCoordinator
from tests.simulation.mutants import Mutant

_fence, _end = TransactionCoordinator.fence, TransactionCoordinator.end


def _fences_twice(coordinator: TransactionCoordinator, found: Transaction) -> None:
    """Raise the epoch twice (KAFKA-19367). Its other half, the last epoch, is not modelled."""
    _fence(coordinator, found)
    if coordinator._state.transaction_version == 2 and found.epoch < 32_765:
        found.epoch += 1


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
        return Outcome(codes.INVALID_TXN_STATE)
    return outcome


HARMLESS = (
    Mutant("KAFKA-19367", ((TransactionCoordinator, "fence", _fences_twice),), None),
    Mutant("KAFKA-20785", ((TransactionCoordinator, "end", _refuses_late_ends),), None),
)
