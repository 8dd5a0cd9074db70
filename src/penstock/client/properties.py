"""Kafka client properties under the Java client's names, as settings for kafka-python and our own loops.

Runs on the driver (so that a mistake stops the query before a job starts); the settings are pickled to
the executors. Invariant: settings are frozen and hashable (they key the process-wide connection cache),
and neither their `repr` nor an error made here shows a secret.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from typing import Any

from penstock import __version__
from penstock.client.security import SecuritySettings

MAX_RESPONSE_BYTES = 256 << 20
"""A longer answer is no answer of Kafka's. Below a TLS alert read as a length, so that a TLS port taken
for a plain one is noticed at once instead of after a time-out."""

_NO_CONNECTION_LIMIT = 1 << 20


@dataclass(frozen=True)
class ConnectionSettings:
    """Everything a connection to one cluster depends on. Equal settings share connections."""

    bootstrap_servers: tuple[str, ...]
    client_id: str
    security: SecuritySettings = field(default_factory=SecuritySettings)
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    socket_connection_setup_timeout_ms: int = 10_000
    socket_connection_setup_timeout_max_ms: int = 30_000
    connections_max_idle_ms: int = 540_000
    metadata_max_age_ms: int = 300_000
    client_dns_lookup: str = "use_all_dns_ips"
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    max_response_bytes: int = MAX_RESPONSE_BYTES

    def kafka_python_kwargs(self) -> dict[str, Any]:
        """Keyword arguments for kafka-python's `KafkaConnectionManager`."""
        kwargs: dict[str, Any] = {
            "bootstrap_servers": list(self.bootstrap_servers),
            "client_id": self.client_id,
            "client_software_name": "penstock",
            "client_software_version": __version__,
            "client_dns_lookup": self.client_dns_lookup,
            "request_timeout_ms": self.request_timeout_ms,
            "reconnect_backoff_ms": self.reconnect_backoff_ms,
            "reconnect_backoff_max_ms": self.reconnect_backoff_max_ms,
            "socket_connection_setup_timeout_ms": self.socket_connection_setup_timeout_ms,
            "socket_connection_setup_timeout_max_ms": self.socket_connection_setup_timeout_max_ms,
            "connections_max_idle_ms": self.connections_max_idle_ms,
            "metadata_max_age_ms": self.metadata_max_age_ms,
            "receive_message_max_bytes": self.max_response_bytes,
            # Our loops limit themselves; kafka-python would fail a request above its own limit.
            "max_in_flight_requests_per_connection": _NO_CONNECTION_LIMIT,
            "socket_options": self._socket_options(),
            "security_protocol": self.security.protocol,
        }
        return kwargs | self._sasl_kwargs() | self._tls_kwargs()

    def _socket_options(self) -> list[tuple[int, int, int]]:
        options = [
            (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        ]
        if self.send_buffer_bytes > 0:
            options.append((socket.SOL_SOCKET, socket.SO_SNDBUF, self.send_buffer_bytes))
        if self.receive_buffer_bytes > 0:
            options.append((socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_buffer_bytes))
        return options

    def _sasl_kwargs(self) -> dict[str, Any]:
        if self.security.sasl_mechanism is None:
            return {}
        return {
            "sasl_mechanism": self.security.sasl_mechanism,
            "sasl_plain_username": self.security.sasl_username,
            "sasl_plain_password": self.security.sasl_password,
        }

    def _tls_kwargs(self) -> dict[str, Any]:
        return {} if self.security.tls is None else {"ssl_context": self.security.tls.ssl_context()}


@dataclass(frozen=True)
class FetchSettings:
    """How the fetch loop of one split asks for records."""

    max_partition_fetch_bytes: int = 4 << 20
    fetch_max_bytes: int = 50 << 20
    fetch_min_bytes: int = 1
    fetch_max_wait_ms: int = 500
    check_crcs: bool = True
    client_rack: str = ""
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000


@dataclass(frozen=True)
class ProduceSettings:
    """How the produce loop of one task sends records. `acks` is -1 (all), 0 or 1."""

    acks: int = -1
    enable_idempotence: bool = True
    compression_type: str = "none"
    compression_level: int | None = None
    batch_size_bytes: int = 256 << 10
    linger_ms: int = 0
    max_request_size_bytes: int = 1 << 20
    max_in_flight: int = 5
    request_timeout_ms: int = 30_000
    delivery_timeout_ms: int = 120_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    max_block_ms: int = 60_000
    buffer_memory_bytes: int = 32 << 20
