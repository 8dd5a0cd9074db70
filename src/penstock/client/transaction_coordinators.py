"""Requests to transaction coordinators: many transactional ids at once, each asked of its own broker.

Runs on driver and executor. Invariants: each transactional id gets an answer or an error within the
time-out; whatever may pass (a coordinator that moves or loads, a transaction whose markers are still being
written) is asked again, so an answer is final. Requests built here must bear repetition, as all of Kafka's
about transactions do.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from kafka import errors as kafka_errors
from kafka.protocol.metadata import FindCoordinatorRequest

from penstock.client.backoff import Backoff, left_ms
from penstock.client.broker_errors import error_from_code, is_retriable
from penstock.client.connection import KafkaConnections, PendingResponse
from penstock.client.metadata import fetch_metadata
from penstock.errors import PenstockError

Answer = TypeVar("Answer")

_TRANSACTION = 1
_FIRST_VERSION_WITH_MANY_KEYS = 4

_FIRST_PAUSE_MS = 2
"""A coordinator writes its markers within milliseconds; Java's client and librdkafka wait 20 to 500."""
_LONGEST_PAUSE_MS = 250

_MOVED_CODES = frozenset(
    (kafka_errors.NotCoordinatorError.errno, kafka_errors.CoordinatorNotAvailableError.errno)
)


@dataclass(frozen=True, slots=True)
class Told(Generic[Answer]):
    """A coordinator's final word on one transactional id."""

    error_code: int
    answer: Answer


@dataclass
class ToldByCoordinators(Generic[Answer]):
    """For each transactional id the coordinator's word, or why there is none."""

    told: dict[str, Told[Answer]] = field(default_factory=dict)
    untold: dict[str, PenstockError] = field(default_factory=dict)


class TransactionCoordinators:
    """Knows which broker coordinates which transactional id; asks the cluster when it does not."""

    def __init__(self, connections: KafkaConnections) -> None:
        # A weak reference: this lives as a value under its connections, and must not keep them alive.
        self._weak_connections = weakref.ref(connections)
        self._lock = threading.Lock()
        self._node_ids: dict[str, int] = {}

    def locate(
        self, transactional_ids: Collection[str], timeout_ms: int
    ) -> tuple[dict[str, int], dict[str, PenstockError]]:
        """Look the coordinators up, those that are not known with one request, once.

        Returns:
            The broker of each id, or why none is known.
        """
        with self._lock:
            found = {each: self._node_ids[each] for each in transactional_ids if each in self._node_ids}
        missing = [each for each in transactional_ids if each not in found]
        if not missing:
            return found, {}
        connections = self._weak_connections()
        assert connections is not None, "whoever asks holds the connections"  # noqa: S101  # for mypy
        asked, problems = _find(connections, missing, timeout_ms)
        with self._lock:
            self._node_ids |= asked
        return found | asked, problems

    def forget(self, transactional_ids: Iterable[str]) -> None:
        """A broker turned out not to coordinate these, or not to answer."""
        with self._lock:
            for each in transactional_ids:
                self._node_ids.pop(each, None)


def _find(
    connections: KafkaConnections, transactional_ids: Sequence[str], timeout_ms: int
) -> tuple[dict[str, int], dict[str, PenstockError]]:
    request = FindCoordinatorRequest(
        key_type=_TRANSACTION,
        coordinator_keys=list(transactional_ids),
        min_version=_FIRST_VERSION_WITH_MANY_KEYS,
    )
    found: dict[str, int] = {}
    problems: dict[str, PenstockError] = {}
    try:
        response = connections.request(request, timeout_ms=timeout_ms)
        for coordinator in response.coordinators:
            where = f"Finding the coordinator of transactional id {coordinator.key!r}"
            if coordinator.error_code:
                problems[coordinator.key] = error_from_code(coordinator.error_code, where)
            else:
                found[coordinator.key] = int(coordinator.node_id)
        if not all(connections.knows_broker(node_id) for node_id in set(found.values())):
            fetch_metadata(connections, [], timeout_ms=timeout_ms)
    except PenstockError as error:
        return {}, dict.fromkeys(transactional_ids, error)
    for each in transactional_ids:
        if each not in found and each not in problems:
            where = f"Finding the coordinator of transactional id {each!r}"
            problems[each] = error_from_code(kafka_errors.CoordinatorNotAvailableError.errno, where)
    return found, problems


class CoordinatorRequests(Generic[Answer]):
    """One question about many transactional ids, asked until each answer is final."""

    def __init__(
        self,
        connections: KafkaConnections,
        what: str,
        build: Callable[[Sequence[str]], Any],
        read: Callable[[Any, Sequence[str]], Iterable[tuple[str, int, Answer]]],
        *,
        ids_per_request: int = 1,
        asks_again: Callable[[int], bool] = lambda error_code: False,
    ) -> None:
        """Make the question.

        Args:
            connections: to the cluster.
            what: e.g. "Ending the transaction", for errors.
            build: the request about these transactional ids.
            read: (transactional id, error code, answer) out of a response to it.
            ids_per_request: how many a request can carry.
            asks_again: error codes, besides Kafka's retriable ones, that may pass.
        """
        self._connections = connections
        self._coordinators = coordinators_of(connections)
        self._what = what
        self._build = build
        self._read = read
        self._ids_per_request = ids_per_request
        self._asks_again = asks_again

    def ask(
        self, transactional_ids: Collection[str], timeout_ms: int | None = None
    ) -> ToldByCoordinators[Answer]:
        """Ask until each id has a final answer, or an error that lasted too long."""
        if timeout_ms is None:
            timeout_ms = self._connections.settings.default_api_timeout_ms
        deadline = time.monotonic() + timeout_ms / 1000
        backoff = Backoff(_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS, self._sleep)
        answers: ToldByCoordinators[Answer] = ToldByCoordinators()
        pending = list(dict.fromkeys(transactional_ids))
        while pending:
            problems = self._round(pending, answers, left_ms(deadline))
            answers.untold |= {each: error for each, error in problems.items() if not is_retriable(error)}
            pending = [each for each in pending if each in problems and each not in answers.untold]
            if pending and not backoff.pause(deadline):
                answers.untold |= {each: problems[each] for each in pending}
                break
        return answers

    def _sleep(self, seconds: float) -> bool:
        time.sleep(seconds)
        return self._connections.is_closed

    def _round(
        self, pending: Sequence[str], answers: ToldByCoordinators[Answer], timeout_ms: int
    ) -> dict[str, PenstockError]:
        """Ask each coordinator once, all at the same time; returns what stands in the way of the rest."""
        node_ids, problems = self._coordinators.locate(pending, timeout_ms)
        by_node: defaultdict[int, list[str]] = defaultdict(list)
        for each, node_id in node_ids.items():
            by_node[node_id].append(each)
        attempt_ms = min(timeout_ms, self._connections.settings.request_timeout_ms)
        sent = [
            (asked, self._connections.send(self._build(asked), node_id, attempt_ms))
            for node_id, of_node in by_node.items()
            for asked in _chunks(of_node, self._ids_per_request)
        ]
        for asked, response in sent:
            problems |= self._collect(asked, response, answers)
        return problems

    def _collect(
        self, asked: Sequence[str], response: PendingResponse, answers: ToldByCoordinators[Answer]
    ) -> dict[str, PenstockError]:
        try:
            told = {each: Told(code, answer) for each, code, answer in self._read(response.result(), asked)}
        except PenstockError as error:
            self._coordinators.forget(asked)
            return dict.fromkeys(asked, error)
        problems: dict[str, PenstockError] = {}
        for each in asked:
            code = told[each].error_code if each in told else kafka_errors.CoordinatorNotAvailableError.errno
            if self._may_pass(code):
                problems[each] = self._passing(code, each)
                if code in _MOVED_CODES:
                    self._coordinators.forget([each])
            else:
                answers.told[each] = told[each]
        return problems

    def _may_pass(self, code: int) -> bool:
        return code != 0 and (
            issubclass(kafka_errors.for_code(code), kafka_errors.RetriableError) or self._asks_again(code)
        )

    def _passing(self, code: int, transactional_id: str) -> PenstockError:
        where = f"{self._what} of transactional id {transactional_id!r}"
        error = error_from_code(code, where, transactional_id=transactional_id)
        error.facts["is_retriable"] = True
        return error


def _chunks(items: Sequence[str], size: int) -> Iterable[Sequence[str]]:
    return (items[first : first + size] for first in range(0, len(items), size))


_known: weakref.WeakKeyDictionary[KafkaConnections, TransactionCoordinators] = weakref.WeakKeyDictionary()


def coordinators_of(connections: KafkaConnections) -> TransactionCoordinators:
    """The one cache of coordinators that belongs to these connections."""
    # `setdefault` is atomic: there is no lock that a forked child could inherit while it is held.
    return _known.get(connections) or _known.setdefault(connections, TransactionCoordinators(connections))
