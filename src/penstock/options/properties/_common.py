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
    Property,
    no_effect,
    ours,
    translated,
    unsupported,
)
from penstock.options.values import BOOLEAN, WORDS, ValueType, choice, integer, unique

_COMMON = ClientRole.COMMON
_METRICS = "Java's reporters do not run here, and penstock has metrics.http.port instead."

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
    translated("bootstrap.servers", _COMMON, "The brokers to connect to first. Required.", BOOTSTRAP_SERVERS),
    unsupported(
        "bootstrap.controllers", ClientRole.ADMIN, "Name brokers in `bootstrap.servers` instead.", WORDS
    ),
    translated(
        "client.id",
        _COMMON,
        "The name of this client in the logs and quotas of the brokers. Unset: a name that says which part "
        "of penstock is calling.",
    ),
    translated(
        "client.dns.lookup",
        _COMMON,
        "How a host name is resolved to addresses.",
        choice("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        default="use_all_dns_ips",
    ),
    ours(
        "request.timeout.ms",
        _COMMON,
        "How long a request may wait for its answer before it is sent again.",
        MILLISECONDS_INT,
        default=30_000,
    ),
    ours(
        "default.api.timeout.ms",
        _COMMON,
        "How long an operation (a look-up on the driver, a task waiting for its next record) may take before "
        "it fails, including retries.",
        MILLISECONDS_INT,
        default=60_000,
    ),
    ours(
        "retry.backoff.ms",
        _COMMON,
        "The first pause before a failed request is sent again. It doubles with each failure.",
        MILLISECONDS,
        default=100,
    ),
    ours("retry.backoff.max.ms", _COMMON, "The longest pause before a retry.", MILLISECONDS, default=1_000),
    translated(
        "reconnect.backoff.ms",
        _COMMON,
        "The first pause before a lost connection is opened again. It doubles with each failure.",
        MILLISECONDS,
        default=50,
    ),
    translated(
        "reconnect.backoff.max.ms",
        _COMMON,
        "The longest pause before reconnecting.",
        MILLISECONDS,
        default=1_000,
    ),
    translated(
        "socket.connection.setup.timeout.ms",
        _COMMON,
        "How long opening a connection may take. It doubles with each failure.",
        MILLISECONDS,
        default=10_000,
    ),
    translated(
        "socket.connection.setup.timeout.max.ms",
        _COMMON,
        "The longest time to open a connection.",
        MILLISECONDS,
        default=30_000,
    ),
    translated(
        "connections.max.idle.ms",
        _COMMON,
        "Connections that were not used for this time are closed.",
        MILLISECONDS,
        default=540_000,
    ),
    translated(
        "metadata.max.age.ms",
        _COMMON,
        "Cluster metadata that is older than this is requested again.",
        MILLISECONDS,
        default=300_000,
    ),
    translated(
        "send.buffer.bytes",
        _COMMON,
        "The send buffer of the socket (SO_SNDBUF).",
        BUFFER_BYTES,
        default=-1,
        java_default="131072",
    ),
    translated(
        "receive.buffer.bytes",
        _COMMON,
        "The receive buffer of the socket (SO_RCVBUF).",
        BUFFER_BYTES,
        default=-1,
        java_default="65536",
    ),
    no_effect(
        "retries",
        _COMMON,
        "Time limits retries here: `delivery.timeout.ms` for writes, `default.api.timeout.ms` for everything "
        "else. `0` together with `enable.idempotence=true` is an error, as in Java.",
        integer(0),
        java_default="2147483647",
    ),
    no_effect(
        "metadata.recovery.strategy",
        _COMMON,
        "If no known broker answers, penstock always asks the bootstrap servers again.",
        choice("rebootstrap", "none"),
        unsupported_values={"none": "penstock always asks the bootstrap servers again: leave it out"},
    ),
    no_effect(
        "metadata.recovery.rebootstrap.trigger.ms",
        _COMMON,
        "See `metadata.recovery.strategy`.",
        MILLISECONDS,
    ),
    no_effect("enable.metrics.push", _COMMON, "Penstock pushes no client metrics to brokers.", BOOLEAN),
    no_effect("metric.reporters", _COMMON, _METRICS, WORDS),
    no_effect("metrics.num.samples", _COMMON, _METRICS, integer(1)),
    no_effect("metrics.recording.level", _COMMON, _METRICS, choice("INFO", "DEBUG", "TRACE")),
    no_effect("metrics.sample.window.ms", _COMMON, _METRICS, MILLISECONDS),
    ours(
        "config.providers",
        _COMMON,
        "The names that references to secrets use. Unset: `${env:NAME}`, `${file:/path:key}` and "
        "`${dir:/path:name}` work in `bootstrap.servers`, `sasl.*`, `ssl.*` and `security.*`.",
        WORDS,
    ),
    unsupported(
        "interceptor.classes",
        _COMMON,
        "Java classes do not run here. Change records with Spark, before writing or after reading.",
        WORDS,
    ),
)
