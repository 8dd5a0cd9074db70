"""A client of the fake Kafka without sockets. It replaces `KafkaConnections`: requests are answered at once.

Runs in tests only. Invariant: requests and answers are encoded and decoded as on the wire, so a test cannot
use an answer that a broker cannot give. There is no other thread, so a test does not depend on the speed of
the machine.
"""

from __future__ import annotations

import threading
from typing import Any, cast

from kafka.protocol import consumer, metadata
from kafka.protocol.broker_version_data import BrokerVersionData

from penstock.client.net.backoff import Backoff
from penstock.client.net.connection import KafkaConnections, PendingResponse
from penstock.client.settings import ConnectionSettings
from penstock.errors import BrokerUnavailableError, PenstockError
from penstock.testing import FakeKafka
from penstock.testing.fake._dispatch import Dispatcher
from penstock.testing.fake._server import Connection
from penstock.testing.fake._state import State
from penstock.testing.fake.control import Action, Controls, SeenRequest


class _Connection(Connection):
    """The broker's side of one request."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.user = None
        self.is_mute = False
        self.answer: bytes | None = None

    def send(self, data: bytes) -> None:
        self.answer = data

    def close(self) -> None:
        self.answer = None


class Client:
    """Connections to brokers of this process.

    Attributes:
        seen: the requests, in their order, without those that another control of the test has taken.
        closed_by: the error of a request whose connection the broker closes; None: it is not available.
    """

    def __init__(self, state: State, dispatcher: Dispatcher, controls: Controls) -> None:
        self.seen: list[SeenRequest] = []
        self.closed_by: PenstockError | None = None
        self.settings = ConnectionSettings(("fake:1",), "fake", retry_backoff_ms=1, retry_backoff_max_ms=5)
        self._state = state
        self._dispatcher = dispatcher
        served = dispatcher._served.values()
        self._versions = BrokerVersionData(
            api_versions={each.api.key: (each.lowest, each.highest) for each in served}
        )
        for api in ("Fetch", "ListOffsets", "Metadata", "OffsetForLeaderEpoch"):
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
        return Backoff(
            self.settings.retry_backoff_ms, self.settings.retry_backoff_max_ms, threading.Event().wait
        )

    def knows_broker(self, node_id: int) -> bool:
        return node_id in self._state.nodes

    def learn_brokers(self, metadata_response: Any) -> None:
        assert metadata_response.brokers

    def request(self, request: Any, *, node_id: int | None = None, timeout_ms: int | None = None) -> Any:
        return self.send(request, min(self._state.nodes) if node_id is None else node_id).result()

    def send(self, request: Any, node_id: int, timeout_ms: int | None = None) -> PendingResponse:
        name = type(request).__name__
        pending = PendingResponse(name, 1_000)
        connection = _Connection(node_id)
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
            pending.succeed(_response_of(name).decode(connection.answer[4:], version=version, header=True))
        return pending


class InProcess(Client):
    """Connections to a fake Kafka."""

    def __init__(self, kafka: FakeKafka) -> None:
        super().__init__(kafka._state, kafka._dispatcher, kafka._controls)


def _response_of(request: str) -> Any:
    name = request.replace("Request", "Response")
    return next(getattr(room, name) for room in (consumer, metadata) if hasattr(room, name))
