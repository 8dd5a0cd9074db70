"""A client of the fake Kafka that is quicker than that of `in_process`: requests and answers are not encoded.

Runs in tests only, for those that send very many requests. An answer is still made by its schema, so that it
has no field that a broker cannot give. `in_process` and the tests of the fake hold it to the wire format.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from penstock.client.net.connection import PendingResponse
from penstock.client.settings import ConnectionSettings
from penstock.errors import PenstockError, RequestTimeoutError
from penstock.testing import Clock, FakeKafka
from penstock.testing.fake._dispatch import Dispatcher
from penstock.testing.fake._server import Connection
from penstock.testing.fake._state import Node
from penstock.testing.fake._wire import API_VERSIONS, Fields, Frame, _schema
from penstock.testing.fake.control import Action, SeenRequest
from penstock.testing.fake.rights import ANONYMOUS
from tests.unit.in_process import BrokerSide, Client, response_of


class _DirectDispatcher(Dispatcher):
    """Serves requests of `DirectClient`."""

    _versions_response: Any = None
    """It is long, and always the same."""

    def serve_request(self, connection: Connection, request: Any, version: int) -> None:
        """Handle one request."""
        key = type(request).API_KEY
        seen = SeenRequest(self._served[key].api.name, version, request, connection.node_id, ANONYMOUS, None)
        self._act(connection, Frame(key, version, 1, b""), seen, self._controls.action_for(seen))

    def _answer(
        self, connection: Connection, frame: Frame, seen: SeenRequest, fields: Fields, action: Action | None
    ) -> None:
        assert isinstance(connection, _BrokerSide)
        response = self._versions_response if seen.api == API_VERSIONS else None
        if response is None:
            response = _quickly(response_of(type(seen.body).__name__), frame.version, fields)
        if seen.api == API_VERSIONS:
            self._versions_response = response
        connection.response = response


class _BrokerSide(BrokerSide):
    """The broker's side of one request."""

    response: Any = None


@cache
def _defaults(kind: Any, version: int) -> list[tuple[str, Any]]:
    """Return the fields that this version has, with their defaults, and those that each object has."""
    fields = kind.fields.values()
    own = [("_version", version), ("tags", None), ("unknown_tags", None)]
    return own + [(each.name, each.default) for each in fields if each.for_version_q(version)]


def _quickly(kind: Any, version: int, fields: Fields) -> Any:
    """Make what `_build` makes. kafka-python's constructor looks at each field of the schema each time."""
    made = kind.__new__(kind)
    for name, default in _defaults(kind, version):
        setattr(made, name, default)
    schema = _schema(kind, version)
    for name, value in fields.items():
        is_known, inner = schema[name]
        if not is_known:
            continue
        if value is None or inner is None:
            setattr(made, name, value)
        elif isinstance(value, Mapping):
            setattr(made, name, _quickly(inner, version, value))
        else:
            setattr(made, name, [_quickly(inner, version, each) for each in value])
    return made


class DirectKafka(FakeKafka):
    """A fake Kafka with one broker that listens to no port, and so needs no `close`."""

    def __init__(
        self, *, clock: Clock, transaction_version: int, max_versions: Mapping[str, int] | None = None
    ) -> None:
        super().__init__(0, clock=clock, transaction_version=transaction_version)
        self.dispatcher = _DirectDispatcher(self._state, self._controls, max_versions or {})
        self._state.nodes[1] = Node(1, "fake", 1)


class DirectClient(Client):
    """Connections to a `DirectKafka`."""

    def __init__(self, kafka: DirectKafka, settings: ConnectionSettings) -> None:
        super().__init__(kafka._state, kafka.dispatcher, kafka._controls, settings)
        self._direct = kafka.dispatcher

    def send(self, request: Any, node_id: int, timeout_ms: int | None = None) -> PendingResponse:
        name = type(request).__name__
        pending = PendingResponse(name, 1_000)
        connection = _BrokerSide(node_id)
        request.API_VERSION = version = self._versions.api_version(request)
        self._direct.serve_request(connection, request, version)
        if connection.response is None:
            wait_ms = timeout_ms or self.settings.request_timeout_ms
            pending.fail(self._no_answer(name, wait_ms))
        else:
            pending.succeed(connection.response)
        return pending

    def _no_answer(self, what: str, wait_ms: int) -> PenstockError:
        """Return the error of a request without an answer."""
        return RequestTimeoutError(f"{what}: no answer within {wait_ms} ms.", timeout_ms=wait_ms)
