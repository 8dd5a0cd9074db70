"""Coordinators: remembered while they answer, found again after a move or an error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from kafka.protocol.metadata import FindCoordinatorResponse

from penstock.client.cluster.ask import Reply
from penstock.client.cluster.coordinators import ask_group_coordinator, ask_transaction_coordinators
from penstock.client.cluster.results import Results
from penstock.client.net.backoff import Backoff
from penstock.client.net.broker_errors import error_from_code
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.errors import AuthorizationError, BrokerUnavailableError, ClientError, PenstockError

OK, LOADING, NOT_COORDINATOR, NOT_AVAILABLE, FORBIDDEN, BAD_EPOCH = 0, 14, 16, 15, 53, 47


@dataclass(eq=False)
class Brokers:
    """Stands in for KafkaConnections: answers FindCoordinator by `coordinator`, the rest by `on_request`."""

    on_request: Callable[[int], int | PenstockError]
    find_version: int = 4
    coordinator: int = 1
    find_errors: list[int] = field(default_factory=list)
    found: list[list[str]] = field(default_factory=list)
    asked: list[tuple[int, list[str]]] = field(default_factory=list)
    is_closed: bool = False
    settings: ConnectionSettings = field(default_factory=lambda: ConnectionSettings(("fake:1",), "fake"))

    def request(self, request: Any, *, timeout_ms: int) -> Any:
        self.found.append(list(request.coordinator_keys))
        code = self.find_errors.pop(0) if self.find_errors else 0
        answer = {
            "node_id": self.coordinator,
            "host": "h",
            "port": 1,
            "error_code": code,
            "error_message": None,
        }
        response = FindCoordinatorResponse
        if self.find_version < 4:
            return response(version=self.find_version, throttle_time_ms=0, **answer)
        return response(
            version=4,
            throttle_time_ms=0,
            coordinators=[
                response.Coordinator(version=4, key=key, **answer) for key in request.coordinator_keys
            ],
        )

    def knows_broker(self, node_id: int) -> bool:
        return True

    def new_backoff(self) -> Backoff:
        return Backoff(1, 1, lambda seconds: self.is_closed)

    def send(self, request: list[str], node_id: int, timeout_ms: int) -> Any:
        self.asked.append((node_id, request))
        return _Response(request, self.on_request(node_id))

    @property
    def connections(self) -> KafkaConnections:
        return cast("KafkaConnections", self)


@dataclass
class _Response:
    keys: list[str]
    outcome: int | PenstockError

    def result(self) -> _Response:
        if isinstance(self.outcome, PenstockError):
            raise self.outcome
        return self


def ask_ids(brokers: Brokers, *ids: str, at_once: int = 9, timeout_ms: int = 5_000) -> Results[str, str]:
    return ask_transaction_coordinators(
        brokers.connections,
        ids,
        list,
        lambda response, asked: [Reply(key, response.outcome, f"of {key}") for key in response.keys],
        lambda key, code: error_from_code(code, f"Asking about {key}"),
        ids_per_request=at_once,
        timeout_ms=timeout_ms,
    )


def test_ids_are_located_with_one_request_and_remembered() -> None:
    brokers = Brokers(lambda node_id: OK)
    assert ask_ids(brokers, "a", "b", at_once=1).values == {"a": "of a", "b": "of b"}
    assert ask_ids(brokers, "a", "b", "c").values.keys() == {"a", "b", "c"}
    assert brokers.found == [["a", "b"], ["c"]]
    assert brokers.asked == [(1, ["a"]), (1, ["b"]), (1, ["a", "b", "c"])]


@pytest.mark.parametrize("at_old_one", [NOT_COORDINATOR, NOT_AVAILABLE, BrokerUnavailableError("gone")])
def test_a_coordinator_that_moved_is_found_again(at_old_one: int | PenstockError) -> None:
    def answer(node_id: int) -> int | PenstockError:
        brokers.coordinator = 2
        return at_old_one if node_id == 1 else OK

    brokers = Brokers(answer)
    assert ask_ids(brokers, "a").values == {"a": "of a"}
    assert ask_ids(brokers, "a").values == {"a": "of a"}
    assert brokers.found == [["a"], ["a"]]
    assert [node_id for node_id, _ in brokers.asked] == [1, 2, 2]


def test_a_coordinator_that_loads_is_asked_again_without_looking_it_up() -> None:
    codes = [LOADING, LOADING, OK]
    brokers = Brokers(lambda node_id: codes.pop(0))
    assert ask_ids(brokers, "a").values == {"a": "of a"}
    assert (len(brokers.found), len(brokers.asked)) == (1, 3)


def test_a_final_answer_of_a_coordinator_is_not_asked_again() -> None:
    brokers = Brokers(lambda node_id: BAD_EPOCH)
    assert ask_ids(brokers, "a").errors["a"].facts["error_code"] == BAD_EPOCH
    assert len(brokers.asked) == 1


def test_what_finding_says_is_waited_out_or_told() -> None:
    brokers = Brokers(lambda node_id: OK, find_errors=[NOT_AVAILABLE])
    assert ask_ids(brokers, "a").values == {"a": "of a"}
    brokers = Brokers(lambda node_id: OK, find_errors=[FORBIDDEN])
    error = ask_ids(brokers, "a").errors["a"]
    assert isinstance(error, AuthorizationError)
    assert "Finding the coordinator of transactional id 'a'" in str(error)


def ask_group(brokers: Brokers, read: Callable[[Any], str], timeout_ms: int = 5_000) -> str:
    return ask_group_coordinator(
        brokers.connections, "g", "Asking", lambda: ["g"], read, timeout_ms=timeout_ms
    )


@pytest.mark.parametrize("find_version", [1, 4])
def test_a_groups_coordinator_is_found_again_after_an_error(find_version: int) -> None:
    codes = [LOADING, NOT_COORDINATOR, OK]
    brokers = Brokers(lambda node_id: codes.pop(0), find_version)

    def read(response: _Response) -> str:
        if response.outcome:
            raise error_from_code(cast("int", response.outcome), "Asking")
        return "offsets"

    assert ask_group(brokers, read) == "offsets"
    assert brokers.found == [["g"]] * 3


def test_a_groups_coordinator_is_remembered_while_it_answers() -> None:
    brokers = Brokers(lambda node_id: OK)
    for _ in range(3):
        assert ask_group(brokers, lambda response: "offsets") == "offsets"
    assert brokers.found == [["g"]]
    assert len(brokers.asked) == 3


def test_what_the_whole_group_is_refused_is_raised_at_once() -> None:
    brokers = Brokers(lambda node_id: OK)

    def read(response: _Response) -> str:
        raise ClientError("the group has members of its own")

    with pytest.raises(ClientError, match="members"):
        ask_group(brokers, read, timeout_ms=60_000)
    assert len(brokers.asked) == 1
