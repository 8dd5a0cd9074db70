"""Logins with a delegation token (KIP-48), which the test gets from the broker by hand."""

from __future__ import annotations

import base64
import socket
import struct
from collections.abc import Iterator

import pytest

from penstock.client.net.connection import close_shared_connections
from penstock.devbroker import DevCluster
from penstock.errors import AuthenticationError
from tests.fix_broker import MakeTopic
from tests.guarded_broker import HORSE, JAAS, SCRAM, TRUST, properties_for
from tests.kafka.sink_by_options import check_write_and_read
from tests.kafka.source_runs import read_batch
from tests.waiting import PATIENCE_S, wait_until

HANDSHAKE, AUTHENTICATE, CREATE_TOKEN = 17, 36, 38


def ask(sock: socket.socket, api_key: int, body: bytes) -> bytes:
    """Send a request of version 1 and return the answer without its head."""
    request = struct.pack(">hhih", api_key, 1, 1, -1) + body
    sock.sendall(struct.pack(">i", len(request)) + request)
    (size,) = struct.unpack(">i", sock.recv(4, socket.MSG_WAITALL))
    return sock.recv(size, socket.MSG_WAITALL)[4:]


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def taken_text(data: bytes) -> tuple[str, bytes]:
    size = 2 + int.from_bytes(data[:2], "big")
    return data[2:size].decode(), data[size:]


def create_token(server: str) -> tuple[str, str]:
    """Log in as alice and return the id and the HMAC (base64) of a new token."""
    host, port = server.split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as sock:
        assert ask(sock, HANDSHAKE, text("PLAIN"))[:2] == b"\0\0"
        login = b"\0alice\0" + HORSE.encode()
        assert ask(sock, AUTHENTICATE, struct.pack(">i", len(login)) + login)[:2] == b"\0\0"
        answer = ask(sock, CREATE_TOKEN, struct.pack(">iq", 0, -1))
    assert answer[:2] == b"\0\0", answer
    _, rest = taken_text(answer[2:])
    _, rest = taken_text(rest)
    token_id, rest = taken_text(rest[24:])
    size = 4 + int.from_bytes(rest[:4], "big")
    return token_id, base64.b64encode(rest[4:size]).decode()


@pytest.fixture(autouse=True)
def _no_shared_connections() -> Iterator[None]:
    yield
    close_shared_connections()


def options(cluster: DevCluster, topic: str, mechanism: str, token_id: str, hmac: str) -> dict[str, str]:
    jaas = f'{JAAS[mechanism]} required username="{token_id}" password="{hmac}" tokenauth="true";'
    given = TRUST | {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas}
    given = properties_for(cluster, "BOTH", given)
    return {"topic": topic, **{f"properties.{name}": value for name, value in given.items()}}


@pytest.mark.parametrize("mechanism", SCRAM)
def test_a_token_logs_in(guarded: DevCluster, make_topic: MakeTopic, mechanism: str) -> None:
    topic = make_topic(cluster=guarded)
    token = create_token(guarded.bootstrap_servers_of("SASL"))
    given = options(guarded, topic, mechanism, *token)

    def is_known() -> bool:
        """The controller has made the token; the broker has it a moment later."""
        try:
            read_batch(given)
        except AuthenticationError:
            return False
        return True

    wait_until(is_known, "the broker to know the token")
    check_write_and_read(guarded.bootstrap_servers, given)


def test_a_token_that_nobody_gave_is_refused(guarded: DevCluster) -> None:
    given = options(guarded, "mistakes", "SCRAM-SHA-256", "no-token", "wrong-staple")
    with pytest.raises(AuthenticationError, match="SaslAuthenticationFailedError") as caught:
        read_batch(given)
    assert "wrong-staple" not in str(caught.value)
