"""Declare the properties of every Kafka client: addresses, time-outs, back-off, metadata, metrics.

Runs on the driver. Invariant: each property stands here once. See `declare` for what the words mean.
"""

from __future__ import annotations

import re

from penstock.options.properties._declare import (
    BUFFER_BYTES,
    MILLISECONDS,
    MILLISECONDS_INT,
    ClientRole,
    Declare,
    Property,
)
from penstock.options.values import BOOLEAN, WORDS, ValueType, choice, integer, unique

_every = Declare(ClientRole.COMMON)
_METRICS = "Java's reporters do not run here. Use `metrics.http.port` instead."

_SERVER = re.compile(r"(?:[0-9a-zA-Z%._-]*://)?(\[[0-9a-fA-F:.%]+\]|[0-9a-zA-Z._-]+):([0-9]{1,5})")


def _parse_servers(text: str) -> tuple[str, ...]:
    servers = []
    for word in text.split(","):
        match = _SERVER.fullmatch(word.strip())
        if word.strip() and (match is None or not 0 < int(match[2]) < 65_536):
            raise ValueError("host:port,host:port with ports from 1 to 65535")
        if match is not None:
            servers.append(f"{match[1]}:{match[2]}")
    if not servers:
        raise ValueError("at least one host:port")
    return unique(servers)


BOOTSTRAP_SERVERS = ValueType("list", "`host:port,host:port`", _parse_servers)

COMMON_PROPERTIES: tuple[Property, ...] = (
    _every.translated("bootstrap.servers", "The brokers to connect to first. Required.", BOOTSTRAP_SERVERS),
    Declare(ClientRole.ADMIN).unsupported(
        "bootstrap.controllers", "Name brokers in `bootstrap.servers` instead.", WORDS
    ),
    _every.translated(
        "client.id",
        "The name of this client in the logs and quotas of the brokers. Unset: a name that says which part "
        "of penstock is calling.",
    ),
    _every.translated(
        "client.dns.lookup",
        "How a host name is resolved to addresses.",
        choice("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        default="use_all_dns_ips",
    ),
    _every.ours(
        "request.timeout.ms",
        "How long a request may wait for its answer before it is sent again.",
        MILLISECONDS_INT,
        default=30_000,
    ),
    _every.ours(
        "default.api.timeout.ms",
        "How long an operation (a look-up on the driver, a task waiting for its next record) may take before "
        "it fails, including retries.",
        MILLISECONDS_INT,
        default=60_000,
    ),
    _every.ours(
        "retry.backoff.ms",
        "The first pause before a failed request is sent again. It doubles with each failure.",
        MILLISECONDS,
        default=100,
    ),
    _every.ours("retry.backoff.max.ms", "The longest pause before a retry.", MILLISECONDS, default=1_000),
    _every.translated(
        "reconnect.backoff.ms",
        "The first pause before a lost connection is opened again. It doubles with each failure.",
        MILLISECONDS,
        default=50,
    ),
    _every.translated(
        "reconnect.backoff.max.ms", "The longest pause before reconnecting.", MILLISECONDS, default=1_000
    ),
    _every.translated(
        "socket.connection.setup.timeout.ms",
        "How long opening a connection may take. It doubles with each failure.",
        MILLISECONDS,
        default=10_000,
    ),
    _every.translated(
        "socket.connection.setup.timeout.max.ms",
        "The longest time to open a connection.",
        MILLISECONDS,
        default=30_000,
    ),
    _every.translated(
        "connections.max.idle.ms",
        "Connections that were not used for this time are closed.",
        MILLISECONDS,
        default=540_000,
    ),
    _every.translated(
        "metadata.max.age.ms",
        "Cluster metadata that is older than this is requested again.",
        MILLISECONDS,
        default=300_000,
    ),
    _every.translated(
        "send.buffer.bytes",
        "The send buffer of the socket (SO_SNDBUF).",
        BUFFER_BYTES,
        default=-1,
        java_default="131072",
    ),
    _every.translated(
        "receive.buffer.bytes",
        "The receive buffer of the socket (SO_RCVBUF).",
        BUFFER_BYTES,
        default=-1,
        java_default="65536",
    ),
    _every.no_effect(
        "retries",
        "Time limits retries here: `delivery.timeout.ms` for writes, `default.api.timeout.ms` for everything "
        "else. `0` together with `enable.idempotence=true` is an error, as in Java.",
        integer(0),
        java_default="2147483647",
    ),
    _every.no_effect(
        "metadata.recovery.strategy",
        "What happens if no known broker answers.",
        choice("rebootstrap", "none"),
        unsupported_values={"none": "penstock always asks the bootstrap servers again, so leave it out"},
    ),
    _every.no_effect(
        "metadata.recovery.rebootstrap.trigger.ms", "See `metadata.recovery.strategy`.", MILLISECONDS
    ),
    _every.no_effect("enable.metrics.push", "Penstock pushes no client metrics to brokers.", BOOLEAN),
    _every.no_effect("metric.reporters", _METRICS, WORDS),
    _every.no_effect("metrics.num.samples", _METRICS, integer(1)),
    _every.no_effect("metrics.recording.level", _METRICS, choice("INFO", "DEBUG", "TRACE")),
    _every.no_effect("metrics.sample.window.ms", _METRICS, MILLISECONDS),
    _every.ours(
        "config.providers",
        "The names that references to secrets use. Unset: `${env:NAME}`, `${file:/path:key}` and "
        "`${dir:/path:name}` work in `bootstrap.servers`, `sasl.*`, `ssl.*` and `security.*`.",
        WORDS,
    ),
    _every.unsupported(
        "interceptor.classes",
        "Java classes do not run here. Change records with Spark, before writing or after reading.",
        WORDS,
    ),
)
