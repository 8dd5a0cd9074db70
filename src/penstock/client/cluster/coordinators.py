"""Ask the coordinators of transactional ids and consumer groups.

Runs on driver and executor. Invariants: as in `ask`. A coordinator is cached until it moves or does not
answer.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeVar

from kafka.protocol.metadata import FindCoordinatorRequest

from penstock.client.cluster.ask import Question, Reply, ask, kind_of
from penstock.client.cluster.metadata import fetch_metadata
from penstock.client.cluster.results import Results
from penstock.client.net import error_codes as codes
from penstock.client.net.backoff import Backoff, Problem
from penstock.client.net.broker_errors import error_from_code
from penstock.client.net.connection import KafkaConnections
from penstock.client.net.versions import FIND_COORDINATOR, FIND_COORDINATORS, Versions
from penstock.errors import PenstockError

V = TypeVar("V")

_UNAVAILABLE = codes.COORDINATOR_NOT_AVAILABLE
_FIRST_PAUSE_MS = 2
"""A coordinator writes its markers within milliseconds; Java's client and librdkafka wait 20 to 500."""
_LONGEST_PAUSE_MS = 250

_MOVED_CODES = frozenset((codes.NOT_COORDINATOR, _UNAVAILABLE))
DID_NOTHING: frozenset[int] = _MOVED_CODES | {codes.COORDINATOR_LOAD_IN_PROGRESS}
"""The error codes with which a broker that cannot answer as the coordinator refuses any request."""


class CoordinatorKind(IntEnum):
    """The kinds of coordinators, by Kafka's number."""

    GROUP = 0
    TRANSACTION = 1

    @property
    def thing(self) -> str:
        return "group" if self is CoordinatorKind.GROUP else "transactional id"

    @property
    def find_versions(self) -> Versions:
        return FIND_COORDINATOR if self is CoordinatorKind.GROUP else FIND_COORDINATORS


@dataclass(frozen=True, slots=True)
class Coordinator:
    """The broker that coordinates one group or transactional id."""

    node_id: int


CoordinatorOf = Mapping[str, Coordinator]
"""The groups or transactional ids of one request."""


def ask_transaction_coordinators(
    connections: KafkaConnections,
    transactional_ids: Collection[str],
    build: Callable[[CoordinatorOf], Any],
    read: Callable[[Any, CoordinatorOf], Iterable[Reply[str, V]]],
    error: Callable[[str, int], PenstockError],
    *,
    ids_per_request: int = 1,
    timeout_ms: int | None = None,
) -> Results[str, V]:
    """Ask the coordinator of each transactional id, until the answer is final; see `ask`.

    Args:
        connections: to the cluster.
        transactional_ids: to ask about.
        build: makes the request about some of them.
        read: returns the replies in its response.
        error: makes the error for a transactional id and an error code.
        ids_per_request: at most in one request; None: any number.
        timeout_ms: default `default_api_timeout_ms`.
    """

    def sleep(seconds: float) -> bool:
        time.sleep(seconds)
        return connections.is_closed

    return ask(
        connections,
        transactional_ids,
        transaction_coordinators(connections),
        Question(build, read, lambda key, _, code: error(key, code), kind_of, ids_per_request),
        backoff=Backoff(_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS, sleep),
        timeout_ms=timeout_ms,
    )


def ask_group_coordinator(
    connections: KafkaConnections,
    group_id: str,
    what: str,
    build: Callable[[], Any],
    read: Callable[[Any], V],
    *,
    timeout_ms: int | None = None,
) -> V:
    """Ask the coordinator of one group, even when it moves, until it answers or the time is up.

    Args:
        connections: to the cluster.
        group_id: the group.
        what: e.g. "Committing offsets", for errors.
        build: makes the request.
        read: returns the answer in its response. After a temporary error that it raises, it is asked again.
        timeout_ms: default `default_api_timeout_ms`.
    """

    def read_reply(response: Any, asked: CoordinatorOf) -> Iterable[Reply[str, V]]:
        yield Reply(group_id, 0, read(response))

    def error(key: str, _: Coordinator, code: int) -> PenstockError:
        return error_from_code(code, f"{what} of group {key!r}", group_id=key)

    locator = group_coordinators(connections)
    question = Question(lambda asked: build(), read_reply, error, kind_of)
    return ask(connections, [group_id], locator, question, timeout_ms=timeout_ms).value_or_raise(group_id)


class Coordinators:
    """Locates groups or transactional ids; asks the cluster for what it does not know. Thread-safe."""

    def __init__(self, connections: KafkaConnections, kind: CoordinatorKind) -> None:
        # A weak reference: this may live as a value under its connections, and must not keep them alive.
        self._weak_connections = weakref.ref(connections)
        self._kind = kind
        self._lock = threading.Lock()
        self._known: dict[str, Coordinator] = {}

    def locate(
        self, keys: Collection[str], before: Mapping[str, Problem], timeout_ms: int
    ) -> tuple[dict[str, Coordinator], dict[str, Problem]]:
        """See `Locator`. Look up all unknown coordinators with one request."""
        with self._lock:
            found = {key: self._known[key] for key in keys if key in self._known}
        missing = [key for key in keys if key not in found]
        if not missing:
            return found, {}
        connections = self._weak_connections()
        assert connections is not None, "the caller holds the connections"  # noqa: S101  # for mypy
        try:
            asked, errors = self._find(connections, missing, timeout_ms)
        except PenstockError as error:
            return found, dict.fromkeys(missing, Problem(kind_of(error), error))
        with self._lock:
            self._known |= asked
        return found | asked, {key: Problem(kind_of(error), error) for key, error in errors.items()}

    def _find(
        self, connections: KafkaConnections, keys: list[str], timeout_ms: int
    ) -> tuple[dict[str, Coordinator], dict[str, PenstockError]]:
        request = FindCoordinatorRequest(
            key=keys[0],
            key_type=int(self._kind),
            coordinator_keys=keys,
            **self._kind.find_versions.bounds,
        )
        response = connections.request(request, timeout_ms=timeout_ms)
        # Before version 4 the response is about one key and has no list.
        answers = {each.key: each for each in response.coordinators or ()} or {keys[0]: response}
        found: dict[str, Coordinator] = {}
        errors: dict[str, PenstockError] = {}
        for key in keys:
            code = answers[key].error_code if key in answers else _UNAVAILABLE
            if code:
                where = f"Finding the coordinator of {self._kind.thing} {key!r}"
                errors[key] = error_from_code(code, where, key=key)
            else:
                found[key] = Coordinator(int(answers[key].node_id))
        if not all(connections.knows_broker(node_id) for node_id in {it.node_id for it in found.values()}):
            fetch_metadata(connections, [], timeout_ms=timeout_ms)
        return found, errors

    def failed(self, keys: Iterable[str], error_code: int | None) -> None:
        """Forget coordinators that did not answer, or said that they are not the coordinator."""
        if error_code is None or error_code in _MOVED_CODES:
            with self._lock:
                for key in keys:
                    self._known.pop(key, None)


_Caches = weakref.WeakKeyDictionary[KafkaConnections, Coordinators]
_of_transactions: _Caches = weakref.WeakKeyDictionary()
_of_groups: _Caches = weakref.WeakKeyDictionary()


def transaction_coordinators(connections: KafkaConnections) -> Coordinators:
    return _cache(_of_transactions, connections, CoordinatorKind.TRANSACTION)


def group_coordinators(connections: KafkaConnections) -> Coordinators:
    return _cache(_of_groups, connections, CoordinatorKind.GROUP)


def _cache(caches: _Caches, connections: KafkaConnections, kind: CoordinatorKind) -> Coordinators:
    # `setdefault` is atomic, so that no lock is needed, which a forked child could inherit while it is held.
    return caches.get(connections) or caches.setdefault(connections, Coordinators(connections, kind))
