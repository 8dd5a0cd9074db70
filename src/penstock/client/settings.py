"""Turn Kafka client properties (Java's names) into settings for kafka-python and our own loops.

Runs on the driver, so that a mistake stops the query before a job starts; the settings are pickled to
the executors. Invariant: settings are frozen and hashable (they are the keys of the process-wide connection
cache), and neither their `repr` nor an error made here shows a secret.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from typing import Any

from penstock import __version__
from penstock.errors import MissingOptionError
from penstock.options.config import DeliveryGuarantee, KafkaProperties, SourceConfig
from penstock.options.properties import default_of, property_value
from penstock.options.properties.delivery_properties import delivery_properties
from penstock.security.kerberos import KerberosLogin
from penstock.security.oauth import OAuthLogin, PythonToken
from penstock.security.references import resolved
from penstock.security.settings import SaslSettings, SecuritySettings, security_settings

MAX_RESPONSE_BYTES = 256 << 20
"""The longest response that is accepted. A TLS alert, read as a length, is larger: so connecting without TLS
to a TLS port fails at once instead of timing out."""

_RESPONSE_MARGIN_BYTES = 16 << 20
_NO_CONNECTION_LIMIT = 1 << 20


def _property(name: str) -> Any:
    """Declare a field that is filled from a property; its default is the property's."""
    return field(default=default_of(name), metadata={"property": name})


def _of_properties(kind: type[Any], properties: KafkaProperties) -> dict[str, Any]:
    """Return the values of all fields of a class that are declared with `_property`."""
    named = {each.name: each.metadata["property"] for each in fields(kind) if "property" in each.metadata}
    return {name: property_value(properties, key) for name, key in named.items()}


@dataclass(frozen=True)
class ConnectionSettings:
    """Everything a connection to one cluster depends on. Equal settings share connections."""

    bootstrap_servers: tuple[str, ...]
    client_id: str
    security: SecuritySettings = field(default_factory=SecuritySettings)
    request_timeout_ms: int = _property("request.timeout.ms")
    default_api_timeout_ms: int = _property("default.api.timeout.ms")
    retry_backoff_ms: int = _property("retry.backoff.ms")
    retry_backoff_max_ms: int = _property("retry.backoff.max.ms")
    reconnect_backoff_ms: int = _property("reconnect.backoff.ms")
    reconnect_backoff_max_ms: int = _property("reconnect.backoff.max.ms")
    socket_connection_setup_timeout_ms: int = _property("socket.connection.setup.timeout.ms")
    socket_connection_setup_timeout_max_ms: int = _property("socket.connection.setup.timeout.max.ms")
    connections_max_idle_ms: int = _property("connections.max.idle.ms")
    metadata_max_age_ms: int = _property("metadata.max.age.ms")
    client_dns_lookup: str = _property("client.dns.lookup")
    send_buffer_bytes: int = _property("send.buffer.bytes")
    receive_buffer_bytes: int = _property("receive.buffer.bytes")
    max_response_bytes: int = MAX_RESPONSE_BYTES
    property_prefix: str = ""
    """The prefix that the user writes before the names of properties; for messages."""

    @cached_property
    def principal(self) -> str | None:
        """Return the name by which the brokers know this user, as ACLs have it; None: unknown here."""
        from penstock.security.principal import principal_of  # noqa: PLC0415 - for errors only

        return principal_of(self.security)

    def kafka_python_kwargs(self) -> dict[str, Any]:
        """Return the keyword arguments for kafka-python's `KafkaConnectionManager`."""
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
            # Our loops have their own limit; kafka-python would fail a request above its limit.
            "max_in_flight_requests_per_connection": _NO_CONNECTION_LIMIT,
            "socket_options": self._socket_options(),
            "security_protocol": self.security.protocol,
        }
        return kwargs | _sasl_kwargs(self.security.sasl) | self._tls_kwargs()

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

    def _tls_kwargs(self) -> dict[str, Any]:
        return {} if self.security.tls is None else {"ssl_context": self.security.tls.ssl_context()}


@dataclass(frozen=True)
class FetchSettings:
    """Sizes and time-outs of reading records."""

    max_partition_fetch_bytes: int = _property("max.partition.fetch.bytes")
    fetch_max_bytes: int = _property("fetch.max.bytes")
    fetch_max_wait_ms: int = _property("fetch.max.wait.ms")
    check_crcs: bool = _property("check.crcs")
    client_rack: str = _property("client.rack")
    request_timeout_ms: int = _property("request.timeout.ms")
    default_api_timeout_ms: int = _property("default.api.timeout.ms")
    property_prefix: str = ""


@dataclass(frozen=True)
class ProduceSettings:
    """Sizes, time-outs and guarantees of writing records. `acks` is -1 (all), 0 or 1."""

    acks: int = _property("acks")
    enable_idempotence: bool = True
    compression_type: str = _property("compression.type")
    compression_level: int | None = None
    batch_size_bytes: int = _property("batch.size")
    linger_ms: int = _property("linger.ms")
    max_request_size_bytes: int = _property("max.request.size")
    max_in_flight: int = _property("max.in.flight.requests.per.connection")
    request_timeout_ms: int = _property("request.timeout.ms")
    delivery_timeout_ms: int = _property("delivery.timeout.ms")
    retry_backoff_ms: int = _property("retry.backoff.ms")
    retry_backoff_max_ms: int = _property("retry.backoff.max.ms")
    max_block_ms: int = _property("max.block.ms")
    buffer_memory_bytes: int = _property("buffer.memory")
    property_prefix: str = ""
    logs_failures: bool = False
    """Whether a batch that Kafka does not take is logged and lost. Not with idempotence."""
    is_flushed: bool = True
    """Whether each task flushes. Without it a failure after the end of the task can only be logged."""


def connection_settings(properties: KafkaProperties, *, client_id: str) -> ConnectionSettings:
    """Make the settings of connections.

    Args:
        properties: under Java's names.
        client_id: used unless the user gives `client.id`.

    Raises:
        OptionError: a property is missing, malformed or contradicts another.
    """
    properties = resolved(properties)
    value = partial(property_value, properties)
    servers = value("bootstrap.servers")
    if servers is None:
        raise MissingOptionError(
            f"Option '{properties.spelled('bootstrap.servers')}' is required. Set it to one or more "
            "Kafka brokers, as 'host:port,host:port'.",
            option=properties.spelled("bootstrap.servers"),
        )
    return ConnectionSettings(
        bootstrap_servers=servers,
        client_id=value("client.id") or client_id,
        property_prefix=properties.prefix,
        security=security_settings(properties),
        max_response_bytes=max(MAX_RESPONSE_BYTES, value("fetch.max.bytes") + _RESPONSE_MARGIN_BYTES),
        **_of_properties(ConnectionSettings, properties),
    )


def check_connection(properties: KafkaProperties) -> None:
    """Check on the driver the logins and certificates that every task would fail with. Does not connect.

    Raises:
        OptionError: a property is missing, malformed or contradicts another, or a certificate or key is bad.
    """
    security = connection_settings(properties, client_id="penstock").security
    if security.tls is not None:
        security.tls.ssl_context()
    _check_login(security.sasl)


def fetch_settings(properties: KafkaProperties) -> FetchSettings:
    """Make the settings of a fetch loop. Raises OptionError if a property is malformed."""
    return FetchSettings(property_prefix=properties.prefix, **_of_properties(FetchSettings, properties))


def produce_settings(
    properties: KafkaProperties,
    guarantee: DeliveryGuarantee,
    *,
    logs_failures: bool = False,
    is_flushed: bool = True,
) -> ProduceSettings:
    """Make the settings of a produce loop, and check them against the delivery guarantee.

    Raises:
        OptionError: a property is malformed, or contradicts another or the guarantee.
    """
    value = partial(property_value, properties)
    delivery = delivery_properties(properties, guarantee)
    compression_type = value("compression.type")
    has_level = compression_type in ("gzip", "lz4", "zstd")
    values = _of_properties(ProduceSettings, properties) | {
        "acks": delivery.acks,
        "max_in_flight": delivery.max_in_flight,
        "delivery_timeout_ms": delivery.delivery_timeout_ms,
        "batch_size_bytes": max(1, value("batch.size")),  # 0, as in Java: each record is a batch
        "max_request_size_bytes": max(1, value("max.request.size")),
    }
    return ProduceSettings(
        enable_idempotence=delivery.enable_idempotence,
        compression_level=value(f"compression.{compression_type}.level") if has_level else None,
        property_prefix=properties.prefix,
        logs_failures=logs_failures,
        is_flushed=is_flushed,
        **values,
    )


def _sasl_kwargs(sasl: SaslSettings | None) -> dict[str, Any]:
    """Return keyword arguments for kafka-python's `KafkaConnectionManager`."""
    if sasl is None:
        return {}
    if isinstance(sasl, OAuthLogin):
        from penstock.client._logins import TokenProvider  # noqa: PLC0415 - few connections need it

        return {"sasl_mechanism": sasl.mechanism, "sasl_oauth_token_provider": TokenProvider(sasl)}
    if isinstance(sasl, KerberosLogin):
        # `client.net` puts a context instead of the login before it logs in.
        return {"sasl_mechanism": sasl.mechanism, "sasl_kerberos_name": sasl}
    username = sasl.username
    if sasl.mechanism.startswith("SCRAM-"):
        # RFC 5802: these two are signs of the message itself. kafka-python sends the name as it is.
        username = username.replace("=", "=3D").replace(",", "=2C")
    if sasl.is_delegation_token:
        from penstock.client._logins import TokenId  # noqa: PLC0415 - few connections need it

        username = TokenId(username)
    return {
        "sasl_mechanism": sasl.mechanism,
        "sasl_plain_username": username,
        "sasl_plain_password": sasl.password,
    }


def _check_login(sasl: SaslSettings | None) -> None:
    """Find on the driver what each login would fail with, without connecting.

    Raises:
        OptionError: a function, a package or a file of the options is not there.
    """
    if isinstance(sasl, KerberosLogin):
        from penstock.security.tickets import check_kerberos  # noqa: PLC0415 - few need it

        check_kerberos(sasl)
    if isinstance(sasl, OAuthLogin) and isinstance(sasl.source, PythonToken):
        from penstock.security.token_sources import load_function  # noqa: PLC0415 - few need it

        load_function(sasl.source)


def source_connection_settings(config: SourceConfig) -> ConnectionSettings:
    """Return the settings of all connections of one source.

    Equal configs give equal settings, so the tasks of one process share their connections.
    """
    return connection_settings(config.properties, client_id="penstock-source")
