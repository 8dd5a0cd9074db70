"""Ask a broker whether it serves clients, with one hand-written Metadata request.

Runs where the cluster is started. Invariant: only a well-formed answer to our request is accepted; the caller
has to compare its cluster id.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

_METADATA, _VERSION, _CORRELATION_ID = 3, 4, 0x70656E73
_MAX_ANSWER_BYTES = 1 << 20


@dataclass(frozen=True)
class ClusterAnswer:
    """A broker's answer about its cluster."""

    cluster_id: str | None
    controller_id: int
    node_ids: frozenset[int]


def ask_cluster(host: str, port: int, *, timeout_s: float) -> ClusterAnswer | None:
    """Return a broker's view of its cluster; None when no Kafka broker answers there in time."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(metadata_request())
            (size,) = struct.unpack(">i", _receive(connection, 4))
            if not 0 < size <= _MAX_ANSWER_BYTES:
                return None
            return parse_metadata_response(_receive(connection, size))
    except (OSError, EOFError, ValueError, struct.error):
        return None


def metadata_request() -> bytes:
    """Return a Metadata v4 request for no topic, with its size in front."""
    client_id = b"penstock-devbroker"
    header = struct.pack(
        f">hhih{len(client_id)}s", _METADATA, _VERSION, _CORRELATION_ID, len(client_id), client_id
    )
    body = struct.pack(">ib", 0, 0)  # no topics, never create one
    return struct.pack(">i", len(header) + len(body)) + header + body


def parse_metadata_response(data: bytes) -> ClusterAnswer:
    """Read a Metadata v4 response; raise ValueError or struct.error for anything else."""
    correlation_id, _throttle_time_ms, broker_count = struct.unpack_from(">iii", data)
    if correlation_id != _CORRELATION_ID or not 0 <= broker_count < 10_000:
        raise ValueError("not an answer to this request")
    at = 12
    node_ids = []
    for _ in range(broker_count):
        node_ids.append(struct.unpack_from(">i", data, at)[0])
        _host, at = _nullable_string(data, at + 4)
        _rack, at = _nullable_string(data, at + 4)  # past the port
    cluster_id, at = _nullable_string(data, at)
    (controller_id,) = struct.unpack_from(">i", data, at)
    return ClusterAnswer(cluster_id, controller_id, frozenset(node_ids))


def _nullable_string(data: bytes, at: int) -> tuple[str | None, int]:
    (size,) = struct.unpack_from(">h", data, at)
    at += 2
    if size < 0:
        return None, at
    if at + size > len(data):
        raise ValueError("a string reaches past the end")
    return data[at : at + size].decode(), at + size


def _receive(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        block = connection.recv(size - len(received))
        if not block:
            raise EOFError
        received += block
    return bytes(received)
