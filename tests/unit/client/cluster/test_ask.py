"""Many keys asked of many brokers: partial answers, what is asked again, and for how long."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.cluster.ask import Question, Reply, ask, by_broker, kind_of, repeat
from penstock.client.cluster.results import Results
from penstock.client.net.backoff import Backoff, Problem, ProblemKind
from penstock.client.net.broker_errors import error_from_code
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.errors import AuthorizationError, BrokerUnavailableError, ClientError, PenstockError
from penstock.types import TopicPartition

OK, NOT_LEADER, TIMED_OUT, UNKNOWN_TOPIC, FORBIDDEN = 0, 6, 7, 3, 29
SILENT = "the response leaves the key out"
GONE = "the broker cannot be reached"
Answer = int | str


class Broker(NamedTuple):
    node_id: int


def pause(seconds: float) -> bool:
    time.sleep(seconds)
    return False


@dataclass
class Sent:
    """One request and the answers of a broker; stands in for a PendingResponse."""

    keys: Sequence[str]
    answers: Mapping[str, Answer]

    def result(self) -> Mapping[str, Answer]:
        if GONE in self.answers.values():
            raise BrokerUnavailableError("gone", is_retriable=True)
        return self.answers


@dataclass
class Cluster:
    """Brokers that answer by script: for each key its answers in order, the last one again and again."""

    script: dict[str, list[Answer]]
    nodes: dict[str, int] = field(default_factory=dict)
    sent: list[tuple[int, list[str]]] = field(default_factory=list)
    failures: list[tuple[str, int | None]] = field(default_factory=list)
    settings: ConnectionSettings = field(default_factory=lambda: ConnectionSettings(("fake:1",), "fake"))

    def send(self, request: Sequence[str], node_id: int, timeout_ms: int) -> Sent:
        self.sent.append((node_id, list(request)))
        answers = {key: self.script[key].pop(0) if len(self.script[key]) > 1 else self.script[key][0]
                   for key in request}  # fmt: skip
        return Sent(request, answers)

    def new_backoff(self) -> Backoff:
        return Backoff(1, 1, pause)

    def locate(
        self, keys: Collection[str], before: Mapping[str, Problem], timeout_ms: int
    ) -> tuple[dict[str, Broker], dict[str, Problem]]:
        return {key: Broker(self.nodes.get(key, 1)) for key in keys}, {}

    def failed(self, keys: Iterable[str], error_code: int | None) -> None:
        self.failures += [(key, error_code) for key in keys]

    def ask(self, *, timeout_ms: int = 200, keys_per_request: int | None = None) -> Results[str, str]:
        question = Question(list, read, error, kind_of, keys_per_request)
        connections = cast("KafkaConnections", self)
        return ask(connections, self.script.keys(), self, question, timeout_ms=timeout_ms)


def read(response: Any, asked: Mapping[str, Broker]) -> Iterator[Reply[str, str]]:
    for key, code in response.items():
        if code != SILENT:
            yield Reply(key, code, f"value of {key}")


def error(key: str, destination: Broker, code: int) -> PenstockError:
    return error_from_code(code, f"Asking {destination.node_id} about {key}")


def test_one_request_for_each_broker() -> None:
    cluster = Cluster({"a": [OK], "b": [OK], "c": [OK]}, {"a": 1, "b": 2, "c": 1})
    assert cluster.ask().values == {key: f"value of {key}" for key in "abc"}
    assert cluster.sent == [(1, ["a", "c"]), (2, ["b"])]


def test_no_more_keys_in_a_request_than_it_can_carry() -> None:
    cluster = Cluster({key: [OK] for key in "abcde"})
    assert len(cluster.ask(keys_per_request=2).values) == 5
    assert [keys for _, keys in cluster.sent] == [["a", "b"], ["c", "d"], ["e"]]


@pytest.mark.parametrize("passing", [NOT_LEADER, TIMED_OUT, SILENT, GONE])
def test_what_may_pass_is_asked_again_alone(passing: Answer) -> None:
    cluster = Cluster({"slow": [passing, passing, OK], "fine": [OK]}, {"slow": 1, "fine": 2})
    answers = cluster.ask(timeout_ms=5_000)
    assert (set(answers.values), answers.errors) == ({"slow", "fine"}, {})
    assert cluster.sent == [(1, ["slow"]), (2, ["fine"]), (1, ["slow"]), (1, ["slow"])]
    code = passing if isinstance(passing, int) else None
    assert cluster.failures == [("slow", code)] * 2


def test_a_final_error_is_not_asked_again_and_hides_no_value() -> None:
    cluster = Cluster({"forbidden": [FORBIDDEN], "fine": [OK]})
    answers = cluster.ask(timeout_ms=5_000)
    assert answers.values == {"fine": "value of fine"}
    assert isinstance(answers.errors["forbidden"], AuthorizationError)
    assert len(cluster.sent) == 1


def test_what_lasts_until_the_time_is_up_is_the_error() -> None:
    cluster = Cluster({"slow": [SILENT], "gone": [GONE], "fine": [OK]}, {"gone": 2})
    answers = cluster.ask(timeout_ms=30)
    assert answers.values == {"fine": "value of fine"}
    assert isinstance(answers.errors["gone"], BrokerUnavailableError)
    assert all(each.facts["is_retriable"] for each in answers.errors.values())


def test_nothing_is_asked_again_when_closing() -> None:
    cluster = Cluster({"slow": [NOT_LEADER]})
    cluster.new_backoff = lambda: Backoff(1, 1, lambda seconds: True)  # type: ignore[method-assign]  # closed
    assert cluster.ask(timeout_ms=60_000).errors.keys() == {"slow"}
    assert len(cluster.sent) == 1


ANSWERS = st.sampled_from([OK, NOT_LEADER, UNKNOWN_TOPIC, FORBIDDEN, SILENT, GONE])
SCRIPTS = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=2), st.lists(ANSWERS, max_size=4), max_size=8
)


@settings(deadline=None)
@given(SCRIPTS)
def test_each_key_gets_its_first_final_answer(script: dict[str, list[Answer]]) -> None:
    final = (OK, FORBIDDEN)
    first = {key: next((it for it in answers if it in final), OK) for key, answers in script.items()}
    cluster = Cluster({key: [*answers, OK] for key, answers in script.items()})
    # A broker that is gone fails a whole request, so each key has one of its own here.
    answers = cluster.ask(timeout_ms=60_000, keys_per_request=1)
    assert answers.values.keys() == {key for key, answer in first.items() if answer == OK}
    assert answers.errors.keys() == {key for key, answer in first.items() if answer == FORBIDDEN}


@given(st.dictionaries(st.integers(0, 50), st.integers(1, 4)), st.none() | st.integers(1, 5))
def test_requests_cover_each_key_once(nodes: dict[int, int], size: int | None) -> None:
    destinations = {key: Broker(node_id) for key, node_id in nodes.items()}
    requests = list(by_broker(destinations, size))
    assert sorted(key for _, keys in requests for key in keys) == sorted(nodes)
    assert all(destination.node_id == node_id for node_id, keys in requests for destination in keys.values())
    assert all(0 < len(keys) <= (size or len(nodes)) for _, keys in requests)
    if size is None:
        assert len(requests) == len(set(nodes.values()))


# ----- one answer or none


def attempts(*outcomes: PenstockError | str) -> tuple[Any, list[int]]:
    left, waited = list(outcomes), []

    def attempt(left_ms: int) -> str:
        waited.append(left_ms)
        outcome = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(outcome, PenstockError):
            raise outcome
        return outcome

    return attempt, waited


def test_repeated_until_it_succeeds_while_it_may_pass() -> None:
    cluster = cast("KafkaConnections", Cluster({}))
    attempt, waited = attempts(error_from_code(TIMED_OUT, "x"), BrokerUnavailableError("gone"), "done")
    assert repeat(cluster, attempt, 60_000) == "done"
    assert len(waited) == 3
    assert max(waited) <= 60_000


def test_not_repeated_after_a_final_error_or_the_deadline() -> None:
    cluster = cast("KafkaConnections", Cluster({}))
    attempt, waited = attempts(error_from_code(FORBIDDEN, "x"))
    with pytest.raises(AuthorizationError):
        repeat(cluster, attempt, 60_000)
    assert len(waited) == 1
    attempt, _ = attempts(error_from_code(TIMED_OUT, "x"))
    with pytest.raises(ClientError):
        repeat(cluster, attempt, 20)


# ----- results


def test_all_or_the_first_error() -> None:
    fine, *broken = (TopicPartition("t", partition) for partition in range(8))
    one = Results({fine: 1}, {broken[0]: BrokerUnavailableError("no leader", topic="t")})
    with pytest.raises(BrokerUnavailableError, match=r"^no leader$"):
        one.all_or_raise("Asking")
    with pytest.raises(BrokerUnavailableError, match=r"^no leader$"):
        one.value_or_raise(broken[0])
    assert one.value_or_raise(fine) == 1
    many = Results({fine: 1}, {each: BrokerUnavailableError("no leader", topic="t") for each in broken})
    with pytest.raises(
        BrokerUnavailableError, match=r"Asking failed for 7 .*t-5, \.\.\.\).*no leader"
    ) as caught:
        many.all_or_raise("Asking")
    assert caught.value.facts["topic_partitions"] == broken
    assert Results({fine: 1}).all_or_raise("Asking") == {fine: 1}


def test_a_final_problem_has_no_patience() -> None:
    assert kind_of(error_from_code(FORBIDDEN, "x")) is ProblemKind.FINAL
    assert kind_of(error_from_code(NOT_LEADER, "x")) is ProblemKind.PASSING
    assert kind_of(BrokerUnavailableError("gone")) is ProblemKind.PASSING
