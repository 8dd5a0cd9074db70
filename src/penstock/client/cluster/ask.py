"""Ask brokers about many keys at once: one request for each broker, repeated until each key has its answer.

Runs on driver and executor. Invariants: each key gets a value or an error within the time-out; a key that is
slow, unknown or without a broker does not delay the values of the others; a temporary problem is asked again,
so an answer is final. Requests must be safe to repeat.

A `Question` makes requests and reads responses; a `Locator` finds the broker of a key. Callers use
`ask_leaders` (`leaders`), `ask_group_coordinator` and `ask_transaction_coordinators` (`coordinators`).

    locate -> one request for each broker, all under way together -> values, errors, problems that may pass
       ^---------------------------- pause, for the keys with such a problem -----------'

`repeat` is for a question with a single answer: from any broker, or from all brokers together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from penstock.client.cluster.results import Results
from penstock.client.net import error_codes as codes
from penstock.client.net.backoff import Backoff, Patience, Problem, ProblemKind, left_ms
from penstock.client.net.broker_errors import is_retriable, naming_principal
from penstock.client.net.connection import KafkaConnections, PendingResponse
from penstock.errors import PenstockError


class Destination(Protocol):
    """The broker that answers for a key, and the details that a request to it needs."""

    @property
    def node_id(self) -> int: ...


K = TypeVar("K")
V = TypeVar("V")
P = TypeVar("P", bound=Destination)
T = TypeVar("T")


def kind_of(error: PenstockError) -> ProblemKind:
    """Return the kind of an error: one that Kafka calls retriable is temporary."""
    return ProblemKind.PASSING if is_retriable(error) else ProblemKind.FINAL


@dataclass(frozen=True, slots=True)
class Reply(Generic[K, V]):
    """The answer of a broker about one key. `value` is valid when `error_code` is 0."""

    key: K
    error_code: int
    value: V


@dataclass(frozen=True, slots=True)
class Question(Generic[K, P, V]):
    """How to build a request, read its response and make its errors."""

    build: Callable[[Mapping[K, P]], Any]
    """Makes the request to one broker about these keys."""
    read: Callable[[Any, Mapping[K, P]], Iterable[Reply[K, V]]]
    """Reads the replies in its response. An error that it raises is the error of all these keys."""
    error: Callable[[K, P, int], PenstockError]
    """Makes the error for the error code that a broker gave a key."""
    kind: Callable[[PenstockError], ProblemKind] = kind_of
    keys_per_request: int | None = None
    """How many keys a request can carry; None: any number."""


class Locator(Protocol[K, P]):
    """Knows which broker answers for a key."""

    def locate(
        self, keys: Collection[K], before: Mapping[K, Problem], timeout_ms: int
    ) -> tuple[dict[K, P], dict[K, Problem]]:
        """Return the destination of each key, or the problem why it has none now.

        Args:
            keys: each of them gets one or the other.
            before: the last problems of keys that were asked before; their destinations may have been wrong.
            timeout_ms: how long to wait at most.
        """

    def failed(self, keys: Iterable[K], error_code: int | None) -> None:
        """Note that the broker answered these keys with an error code, or (None) did not answer."""


def ask(
    connections: KafkaConnections,
    keys: Collection[K],
    locator: Locator[K, P],
    question: Question[K, P, V],
    *,
    backoff: Backoff | None = None,
    timeout_ms: int | None = None,
) -> Results[K, V]:
    """Ask until each key has a value, or an error that is final or has lasted too long. Raises nothing.

    Args:
        connections: to the cluster.
        keys: to ask about.
        locator: finds the broker of each key.
        question: builds requests and reads responses.
        backoff: the pauses between attempts; default `connections.new_backoff()`.
        timeout_ms: default `default_api_timeout_ms`.
    """
    patience = Patience.from_now(connections.settings, timeout_ms)
    backoff = backoff or connections.new_backoff()
    results: Results[K, V] = Results()
    problems: dict[K, Problem] = {}
    pending = list(dict.fromkeys(keys))
    while pending:
        problems = _ask_once(
            connections, pending, problems, locator, question, results, left_ms(patience.deadline)
        )
        final = {
            key: naming_principal(it.error, connections.settings)
            for key, it in problems.items()
            if it.kind is ProblemKind.FINAL
        }
        results.errors |= final
        pending = [key for key in pending if key in problems and key not in final]
        # Ask on until the latest deadline of any key.
        if pending and not backoff.pause(max(patience.ends_for(problems[key]) for key in pending)):
            results.errors |= {key: problems[key].error for key in pending}
            break
    return results


def _ask_once(
    connections: KafkaConnections,
    pending: Sequence[K],
    before: Mapping[K, Problem],
    locator: Locator[K, P],
    question: Question[K, P, V],
    results: Results[K, V],
    timeout_ms: int,
) -> dict[K, Problem]:
    """Ask each broker once, all at the same time; add the values, return the problems of the other keys."""
    destinations, problems = locator.locate(pending, before, timeout_ms)
    attempt_ms = min(timeout_ms, connections.settings.request_timeout_ms)
    sent = [
        (asked, connections.send(question.build(asked), node_id, attempt_ms))
        for node_id, asked in by_broker(destinations, question.keys_per_request)
    ]
    for asked, response in sent:
        problems |= _collect(asked, response, locator, question, results)
    return problems


def by_broker(destinations: Mapping[K, P], keys_per_request: int | None) -> Iterator[tuple[int, dict[K, P]]]:
    """Yield the broker and the keys of each request."""
    of_brokers: defaultdict[int, list[K]] = defaultdict(list)
    for key, destination in destinations.items():
        of_brokers[destination.node_id].append(key)
    for node_id, keys in of_brokers.items():
        size = keys_per_request or len(keys)
        for first in range(0, len(keys), size):
            yield node_id, {key: destinations[key] for key in keys[first : first + size]}


def _collect(
    asked: Mapping[K, P],
    response: PendingResponse,
    locator: Locator[K, P],
    question: Question[K, P, V],
    results: Results[K, V],
) -> dict[K, Problem]:
    """Wait for one response; add its values, return the problems of its other keys."""
    try:
        replies = {reply.key: reply for reply in question.read(response.result(), asked)}
    except PenstockError as error:
        locator.failed(asked, None)
        return dict.fromkeys(asked, Problem(kind_of(error), error))
    problems = {}
    for key, destination in asked.items():
        reply = replies.get(key)
        if reply is not None and not reply.error_code:
            results.values[key] = reply.value
            continue
        locator.failed([key], reply.error_code if reply is not None else None)
        problems[key] = _problem(question, key, destination, reply)
    return problems


def _problem(question: Question[K, P, V], key: K, destination: P, reply: Reply[K, V] | None) -> Problem:
    if reply is not None:
        error = question.error(key, destination, reply.error_code)
        return Problem(question.kind(error), error)
    # A key that is missing in the response has no answer.
    error = question.error(key, destination, codes.UNKNOWN_SERVER_ERROR)
    error.facts["is_retriable"] = True
    return Problem(ProblemKind.PASSING, error)


def repeat(connections: KafkaConnections, attempt: Callable[[int], T], timeout_ms: int | None = None) -> T:
    """Return the attempt's result; repeat the attempt after temporary errors while there is time.

    Args:
        connections: to the cluster.
        attempt: gets the milliseconds that are left. Must be safe to repeat.
        timeout_ms: default `default_api_timeout_ms`.
    """
    patience = Patience.from_now(connections.settings, timeout_ms)
    backoff = connections.new_backoff()
    while True:
        try:
            return attempt(left_ms(patience.deadline))
        except PenstockError as error:  # each attempt may fail
            if not is_retriable(error) or not backoff.pause(patience.deadline):
                raise
