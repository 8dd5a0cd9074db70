"""A task takes the first transactional id, from its attempt on, that has no open transaction."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client.transactions.append import ProducerSession
from penstock.client.transactions.steps import (
    TransactionDescription,
    TransactionIdentity,
    TransactionProtocol,
    TransactionState,
)
from penstock.sink.exactly_once import task_writer
from penstock.sink.exactly_once._reused_ids import reused_ids
from penstock.sink.exactly_once.mandate import Mandate

MANDATE = Mandate(
    "app", ProducerSession(TransactionIdentity("app-committer", 1, 1)), TransactionProtocol.V2, 60_000, {}
)


class Coordinator:
    """Knows the state of some ids, and notes which ids each request names."""

    def __init__(self, states: dict[str, TransactionState]) -> None:
        self.states = states
        self.asked: list[list[str]] = []
        self.epochs: dict[str, int] = {}

    def ended(self, identity: TransactionIdentity) -> None:
        self.states[identity.transactional_id] = TransactionState.COMPLETE_COMMIT
        self.epochs[identity.transactional_id] = identity.producer_epoch + 1

    def describe(self, names: Collection[str]) -> dict[str, TransactionDescription | None]:
        self.asked.append(list(names))
        return {
            name: TransactionDescription(
                TransactionIdentity(name, 7, self.epochs.get(name, 0)), self.states[name], 0, 60_000, ()
            )
            if name in self.states
            else None
            for name in names
        }

    def init_producer(self, transactional_id: str, **_: Any) -> TransactionIdentity:
        return TransactionIdentity(transactional_id, 7, 1)


class Connections:
    """Stands for the connections of a process, which has its ids."""


def opened(monkeypatch: pytest.MonkeyPatch, coordinator: Coordinator, attempt: int) -> str:
    monkeypatch.setattr(task_writer, "Transactions", lambda connections: coordinator)
    connections: Any = SimpleNamespace()
    return task_writer.open_transaction(connections, MANDATE, 3, attempt).transactional_id


@pytest.mark.parametrize(
    "state", [None, *(state for state in TransactionState if state is not TransactionState.ONGOING)]
)
@pytest.mark.parametrize("attempt", [0, 2])
def test_the_usual_task_asks_about_its_own_id_alone(
    monkeypatch: pytest.MonkeyPatch, state: TransactionState | None, attempt: int
) -> None:
    own = f"app-3-{attempt}"
    coordinator = Coordinator({} if state is None else {own: state})
    assert opened(monkeypatch, coordinator, attempt) == own
    assert coordinator.asked == [[own]]


@pytest.mark.parametrize("open_count", [1, 5, 8, 9, 20])
def test_open_transactions_of_other_attempts_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, open_count: int
) -> None:
    coordinator = Coordinator(
        {f"app-3-{number}": TransactionState.ONGOING for number in range(1, 1 + open_count)}
    )
    assert opened(monkeypatch, coordinator, 1) == f"app-3-{1 + open_count}"
    assert coordinator.asked[0] == ["app-3-1"]
    assert len(coordinator.asked) <= 4


def test_first_attempts_of_later_batches_use_ids_of_the_process_and_retries_those_of_the_spark_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    coordinator = Coordinator({})
    monkeypatch.setattr(task_writer, "Transactions", lambda connections: coordinator)
    connections: Any = Connections()
    found = []
    for number in range(3):
        session = ProducerSession(TransactionIdentity("app-committer", 1, number))
        mandate = replace(MANDATE, session=session)
        for attempt in (0, 1):
            identity = task_writer.begin_transaction(connections, mandate, 3, attempt)
            reused_ids(connections, "app").give_back(mandate, identity)
            coordinator.ended(identity)
            found.append(identity)
    names = [each.transactional_id for each in found]
    assert names[:2] == ["app-3-0", "app-3-1"]
    assert names[2] == names[4]
    assert names[2].endswith("-0")
    assert names[2] != "app-3-0"
    assert names[3] == names[5] == "app-3-1"
    assert found[4].producer_epoch == found[2].producer_epoch + 1
