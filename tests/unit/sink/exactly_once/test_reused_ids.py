"""A worker process uses its transactional ids again, and each identity for one transaction only."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from penstock.client.transactions.append import ProducerSession
from penstock.client.transactions.steps import (
    TransactionDescription,
    TransactionIdentity,
    TransactionProtocol,
    TransactionState,
)
from penstock.errors import RequestTimeoutError
from penstock.sink.exactly_once._reused_ids import ReusedIds
from penstock.sink.exactly_once.mandate import Mandate
from penstock.sink.exactly_once.names import TransactionNames

PREFIX = "app-2"
TIMEOUT_MS = 60_000
COMMITTED = TransactionState.COMPLETE_COMMIT


class Coordinator:
    """Describes what a test has set, and notes which ids each request names."""

    def __init__(self) -> None:
        self.known: dict[str, TransactionDescription] = {}
        self.asked: list[list[str]] = []

    def set(
        self,
        name: str,
        epoch: int,
        state: TransactionState = COMMITTED,
        producer_id: int = 7,
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        identity = TransactionIdentity(name, producer_id, epoch)
        self.known[name] = TransactionDescription(identity, state, -1, timeout_ms, ())

    def describe(self, names: Collection[str]) -> dict[str, TransactionDescription | None]:
        self.asked.append(list(names))
        return {name: self.known.get(name) for name in names}


def mandate(number: int, protocol: TransactionProtocol = TransactionProtocol.V2) -> Mandate:
    session = ProducerSession(TransactionIdentity(f"{PREFIX}-committer", 1, number))
    return Mandate(PREFIX, session, protocol, TIMEOUT_MS, {})


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


@pytest.fixture
def ids(coordinator: Coordinator) -> ReusedIds:
    """A process on its second batch."""
    ids = ReusedIds()
    for number in (0, 1):
        assert ids.take(mandate(number), coordinator.describe) is None
    return ids


def written(ids: ReusedIds, epoch: int = 4) -> str:
    """Write a transaction with a new id of the process under mandate 1."""
    numbers = ids.new_name(mandate(1))
    assert numbers is not None
    name = TransactionNames(PREFIX).data_id(*numbers)
    ids.give_back(mandate(1), TransactionIdentity(name, 7, epoch))
    return name


def test_a_producer_goes_on_with_its_next_epoch_once(ids: ReusedIds, coordinator: Coordinator) -> None:
    names = [written(ids) for _ in range(3)]
    for name in names:
        coordinator.set(name, 5)
    found = [ids.take(mandate(2), coordinator.describe) for _ in range(4)]
    assert found.pop() is None
    assert sorted(map(str, found)) == sorted(str(TransactionIdentity(name, 7, 5)) for name in names)
    assert coordinator.asked == [names]


def test_one_that_was_not_needed_is_there_for_the_next_batch(
    ids: ReusedIds, coordinator: Coordinator
) -> None:
    names = [written(ids) for _ in range(2)]
    for name in names:
        coordinator.set(name, 5)
    first = ids.take(mandate(2), coordinator.describe)
    second = ids.take(mandate(3), coordinator.describe)
    assert {first, second} == {TransactionIdentity(name, 7, 5) for name in names}
    assert ids.take(mandate(3), coordinator.describe) is None
    assert len(coordinator.asked) == 2


def test_one_is_not_used_again_in_its_own_batch(ids: ReusedIds, coordinator: Coordinator) -> None:
    """Its transaction is open until the batch is decided; the coordinator is not even asked."""
    coordinator.set(written(ids), 5)
    assert ids.take(mandate(1), coordinator.describe) is None
    assert coordinator.asked == []


@pytest.mark.parametrize(
    "state", [state for state in TransactionState if not state.name.startswith("COMPLETE")]
)
def test_one_whose_transaction_has_not_ended_is_not_used(
    ids: ReusedIds, coordinator: Coordinator, state: TransactionState
) -> None:
    name = written(ids)
    coordinator.set(name, 5, state)
    assert ids.take(mandate(2), coordinator.describe) is None


def test_one_that_is_ending_is_asked_about_again(ids: ReusedIds, coordinator: Coordinator) -> None:
    name = written(ids)
    coordinator.set(name, 5, TransactionState.PREPARE_COMMIT)
    assert ids.take(mandate(2), coordinator.describe) is None
    coordinator.set(name, 5)
    assert ids.take(mandate(2), coordinator.describe) is None
    assert ids.take(mandate(3), coordinator.describe) == TransactionIdentity(name, 7, 5)


@pytest.mark.parametrize(
    ("epoch", "producer_id", "timeout_ms"),
    [
        (4, 7, TIMEOUT_MS),  # not ended
        (6, 7, TIMEOUT_MS),  # taken by another, or ended twice
        (5, 8, TIMEOUT_MS),
        (5, 7, TIMEOUT_MS + 1),
    ],
)
def test_one_that_has_changed_is_dropped(
    ids: ReusedIds, coordinator: Coordinator, epoch: int, producer_id: int, timeout_ms: int
) -> None:
    name = written(ids)
    coordinator.set(name, epoch, COMMITTED, producer_id, timeout_ms)
    assert ids.take(mandate(2), coordinator.describe) is None
    coordinator.set(name, 5)
    assert ids.take(mandate(3), coordinator.describe) is None


def test_the_epoch_after_the_last_one_is_not_used(ids: ReusedIds, coordinator: Coordinator) -> None:
    """A time-out at the last epoch may leave it, and Kafka cannot end a transaction of it. 4.3.0 does not."""
    name = written(ids, epoch=32_766)
    coordinator.set(name, epoch=32_767, state=TransactionState.COMPLETE_ABORT)
    assert ids.take(mandate(2), coordinator.describe) is None


def test_the_last_epoch_is_used(ids: ReusedIds, coordinator: Coordinator) -> None:
    name = written(ids, epoch=32_765)
    coordinator.set(name, epoch=32_766)
    assert ids.take(mandate(2), coordinator.describe) == TransactionIdentity(name, 7, 32_766)


def test_one_that_the_cluster_has_forgotten_is_dropped(ids: ReusedIds, coordinator: Coordinator) -> None:
    written(ids)
    assert ids.take(mandate(2), coordinator.describe) is None


def test_without_an_answer_new_ids_are_opened(ids: ReusedIds) -> None:
    written(ids)

    def silent(names: Collection[str]) -> dict[str, TransactionDescription | None]:
        raise RequestTimeoutError("no answer")

    assert ids.take(mandate(2), silent) is None


def test_the_first_batch_of_a_process_uses_ids_of_spark_partitions(coordinator: Coordinator) -> None:
    ids = ReusedIds()
    assert ids.take(mandate(0), coordinator.describe) is None
    assert ids.new_name(mandate(0)) is None
    first = TransactionIdentity(TransactionNames(PREFIX).data_id(0, 0), 7, 4)
    ids.give_back(mandate(0), first)  # another process may take this id for the same Spark partition
    coordinator.set(first.transactional_id, 5)
    assert ids.take(mandate(1), coordinator.describe) is None
    assert coordinator.asked == []


def test_with_the_first_protocol_nothing_is_kept(ids: ReusedIds, coordinator: Coordinator) -> None:
    """The epoch stays the same there, and with it the sequence numbers go on."""
    name = written(ids)
    coordinator.set(name, 5)
    assert ids.take(mandate(2, TransactionProtocol.V1), coordinator.describe) is None
    assert ids.new_name(mandate(2, TransactionProtocol.V1)) is None


def test_processes_have_different_ids_of_the_prefix() -> None:
    names = TransactionNames(PREFIX)
    found = set()
    for _ in range(100):
        ids = ReusedIds()
        for number in (0, 1):
            ids.take(mandate(number), Coordinator().describe)
        found |= {names.data_id(*numbers) for _ in range(2) if (numbers := ids.new_name(mandate(1)))}
    assert len(found) == 200
    assert all(names.parse(each) is not None for each in found)
    assert all(TransactionNames("app").parse(each) is None for each in found)
