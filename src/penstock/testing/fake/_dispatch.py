"""From the bytes of a request to the bytes of its answer, with what a test has ordered in between.

Runs in tests only, on the threads of connections. Invariant: a request is handled while the cluster's lock is
held, so that requests never see one another half done.
"""

from __future__ import annotations

import logging
import struct
import threading
from collections.abc import Mapping

from penstock.client.net import error_codes as codes
from penstock.testing.fake._api_login import user_of
from penstock.testing.fake._apis import api_versions, served_apis
from penstock.testing.fake._server import Connection
from penstock.testing.fake._state import Call, State
from penstock.testing.fake._wire import API_VERSIONS, Api, Fields, Frame
from penstock.testing.fake.control import (
    Action,
    Answer,
    AnswerAfter,
    Close,
    Controls,
    Hold,
    LoseAnswer,
    LoseRequest,
    Refuse,
    SeenRequest,
    Twice,
)
from penstock.testing.fake.rights import ANONYMOUS

_log = logging.getLogger(__name__)

_BEFORE_LOGIN = frozenset((API_VERSIONS, "SaslHandshake", "SaslAuthenticate"))
_CLIENT_ID = struct.Struct(">h")


class Dispatcher:
    """Serves the requests of all brokers of a cluster."""

    def __init__(self, state: State, controls: Controls, max_versions: Mapping[str, int]) -> None:
        self._state = state
        self._controls = controls
        self._served = served_apis(max_versions)
        self._handlers = {each.api.name: each.handler for each in self._served.values()}
        self._late_lock = threading.Lock()
        self._late: list[tuple[str, Connection, bytes | bytearray]] = []
        self.failures: list[BaseException] = []
        """Errors of the fake itself, which `FakeKafka.close` raises."""

    def serve(self, connection: Connection, data: bytes) -> None:
        """Handle one request. An error of the fake closes the connection and fails the test."""
        try:
            self._serve(connection, Frame.of(data))
        except Exception as error:  # noqa: BLE001  # told to the test, which runs on another thread
            _log.exception("the fake broker failed")
            self.failures.append(error)
            connection.close()

    def _serve(self, connection: Connection, frame: Frame) -> None:
        served = self._served.get(frame.api_key)
        if served is None:
            connection.close()  # as a broker does with an API that it does not have
            return
        if not served.lowest <= frame.version <= served.highest:
            self._refuse_version(connection, frame, served.api)
            return
        body = served.api.decode(frame)
        user = connection.user or ANONYMOUS
        if self._state.rights.passwords and connection.user is None and served.api.name not in _BEFORE_LOGIN:
            connection.close()  # as a broker does with a request before the login
            return
        seen = SeenRequest(served.api.name, frame.version, body, connection.node_id, user, _client_id(frame))
        self._act(connection, frame, seen, self._controls.action_for(seen))

    def _refuse_version(self, connection: Connection, frame: Frame, api: Api) -> None:
        if api.name != API_VERSIONS:
            connection.close()
            return
        call = self._call(SeenRequest(api.name, 0, None, connection.node_id, ANONYMOUS, None), 0)
        fields = {**api_versions(call, self._served), "error_code": codes.UNSUPPORTED_VERSION}
        connection.send(api.encode(0, frame.correlation_id, fields))

    def _act(self, connection: Connection, frame: Frame, seen: SeenRequest, action: Action | None) -> None:
        if isinstance(action, Hold):
            action.wait()
        if isinstance(action, LoseRequest):
            connection.is_mute = True
            return
        if isinstance(action, Close) and not action.is_handled:
            connection.close()
            return
        if isinstance(action, Answer):
            fields = action.fields
        else:
            if isinstance(action, Twice):
                self._handle(connection, seen, 0)
            fields = self._handle(connection, seen, action.error_code if isinstance(action, Refuse) else 0)
        if isinstance(action, LoseAnswer):
            connection.is_mute = True
        elif isinstance(action, Close):
            connection.close()
        else:
            self._answer(connection, frame, seen, fields, action)

    def _handle(self, connection: Connection, seen: SeenRequest, refused_with: int) -> Fields:
        call = self._call(seen, refused_with)
        with self._state.changed:
            self._state.expire()
            if seen.api == API_VERSIONS:
                return api_versions(call, self._served)
            fields = self._handlers[seen.api](call)
            if seen.api == "SaslAuthenticate" and not fields["error_code"]:
                connection.user = user_of(call, bytes(seen.body.auth_bytes))
            return fields

    def _call(self, seen: SeenRequest, refused_with: int) -> Call:
        return Call(
            self._state, seen.api, seen.version, seen.body, seen.node_id, seen.principal, refused_with
        )

    def _answer(
        self, connection: Connection, frame: Frame, seen: SeenRequest, fields: Fields, action: Action | None
    ) -> None:
        api = self._served[frame.api_key].api
        if not api.expects_answer(seen.body):
            return
        data = api.encode(frame.version, frame.correlation_id, fields)
        if isinstance(action, AnswerAfter):
            with self._late_lock:
                self._late.append((action.api, connection, data))
            return
        connection.send(data)
        with self._late_lock:
            due = [late for late in self._late if late[0] == seen.api]
            self._late = [late for late in self._late if late[0] != seen.api]
        for _, other, late_data in due:
            other.send(late_data)


def _client_id(frame: Frame) -> str | None:
    (size,) = _CLIENT_ID.unpack_from(frame.data, 8)
    return frame.data[10 : 10 + size].decode("utf-8", errors="replace") if size >= 0 else None
