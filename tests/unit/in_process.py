"""A client of the fake Kafka without sockets. It replaces `KafkaConnections`: requests are answered at once.

Runs in tests only. Invariant: requests and answers are encoded and decoded as on the wire, so a test cannot
use an answer that a broker cannot give. There is no other thread, so a test does not depend on the speed of
the machine. With the fixture `virtual_time` the pauses between attempts take no time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from functools import cache
from typing import Any, cast

from kafka.protocol import admin, consumer, metadata, producer
from kafka.protocol.broker_version_data import BrokerVersionData

from penstock.client.net.backoff import Backoff
from penstock.client.net.connection import KafkaConnections, PendingResponse
from penstock.client.settings import ConnectionSettings
from penstock.errors import BrokerUnavailableError, PenstockError
from penstock.testing import Clock, FakeKafka
from penstock.testing.fake._dispatch import Dispatcher
from penstock.testing.fake._server import Connection
from penstock.testing.fake._state import Node, State
from penstock.testing.fake.control import Action, Controls, SeenRequest

_QUICK = ConnectionSettings(("fake:1",), "fake", retry_backoff_ms=1, retry_backoff_max_ms=5)


class BrokerSide(Connection):
    """The broker's side of one request."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.user = None
        self.is_mute = False
        self.answer: bytes | bytearray | None = None

    def send(self, data: bytes | bytearray) -> None:
        self.answer = None if self.is_mute else data

    def close(self) -> None:
        self.answer = None


class Client:
    """Connections to brokers of this process.

    Attributes:
        seen: the requests, in their order, without those that another control of the test has taken.
        closed_by: the error of a request whose connection the broker closes; None: it is not available.
    """

    def __init__(
        self,
        state: State,
        dispatcher: Dispatcher,
        controls: Controls,
        settings: ConnectionSettings | None = None,
    ) -> None:
        self.seen: list[SeenRequest] = []
        self.closed_by: PenstockError | None = None
        self.settings = settings or _QUICK
        self._state = state
        self._dispatcher = dispatcher
        served = dispatcher._served.values()
        self._versions = BrokerVersionData(
            api_versions={each.api.key: (each.lowest, each.highest) for each in served}
        )
        for api in ("DescribeLogDirs", "Fetch", "ListOffsets", "Metadata", "OffsetForLeaderEpoch"):
            controls.add(api, self._note, None)

    def _note(self, seen: SeenRequest) -> Action | None:
        self.seen.append(seen)
        return None

    @property
    def connections(self) -> KafkaConnections:
        """Return what the client takes for its connections."""
        return cast(KafkaConnections, self)

    def count(self, api: str) -> int:
        """Return how many requests of an API were sent."""
        return sum(each.api == api for each in self.seen)

    # ----- what KafkaConnections offers

    def new_backoff(self) -> Backoff:
        return Backoff(self.settings.retry_backoff_ms, self.settings.retry_backoff_max_ms, _sleep)

    def knows_broker(self, node_id: int) -> bool:
        return node_id in self._state.nodes

    def learn_brokers(self, metadata_response: Any) -> None:
        assert metadata_response.brokers

    def request(self, request: Any, *, node_id: int | None = None, timeout_ms: int | None = None) -> Any:
        return self.send(request, min(self._state.nodes) if node_id is None else node_id).result()

    def send(self, request: Any, node_id: int, timeout_ms: int | None = None) -> PendingResponse:
        name = type(request).__name__
        pending = PendingResponse(name, 1_000)
        connection = BrokerSide(node_id)
        version = self._versions.api_version(request)
        request.API_VERSION = version
        request.with_header(correlation_id=1)
        self._dispatcher.serve(connection, bytes(request.encode(header=True)))
        if self._dispatcher.failures:
            raise self._dispatcher.failures.pop()
        if connection.answer is None:
            gone = BrokerUnavailableError(f"Broker {node_id} has closed the connection.")
            pending.fail(self.closed_by or gone)
        else:
            pending.succeed(response_of(name).decode(connection.answer[4:], version=version, header=True))
        return pending


class InProcess(Client):
    """Connections to a fake Kafka."""

    def __init__(self, kafka: FakeKafka, settings: ConnectionSettings | None = None) -> None:
        super().__init__(kafka._state, kafka._dispatcher, kafka._controls, settings)


class _ClockOfOneThread(Clock):
    """A clock for brokers without a thread: nothing could wake a wait, so it lasts until its time.

    It is the clock of `time.monotonic`, which `virtual_time` replaces.
    """

    def now_ms(self) -> int:
        return int(time.monotonic() * 1000) + self._shift_ms

    def wait(self, condition: threading.Condition, until_ms: int) -> None:
        time.sleep(max(0, until_ms - self.now_ms()) / 1000)


def kafka_without_sockets(brokers: int = 1, *, max_versions: Mapping[str, int] | None = None) -> FakeKafka:
    """Return a fake cluster for `InProcess` only. It has no threads, and nothing to close."""
    kafka = FakeKafka(brokers=0, clock=_ClockOfOneThread(), max_versions=max_versions)
    kafka._state.nodes |= {node_id: Node(node_id, "fake", node_id) for node_id in range(1, brokers + 1)}
    return kafka


def _sleep(seconds: float) -> bool:
    """Wait like for an event that is never set. `virtual_time` replaces the time."""
    time.sleep(seconds)
    return False


@cache
def response_of(request: str) -> Any:
    """Return the class of the answer to a request, by the name of the request's class."""
    name = request.replace("Request", "Response")
    return next(getattr(room, name) for room in (consumer, metadata, admin, producer) if hasattr(room, name))
