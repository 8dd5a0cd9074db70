"""Names of properties in other Kafka clients: librdkafka (confluent-kafka, kcat) and kafka-python.

Runs on the driver. Invariant: no name here is a property of Kafka's Java clients; each entry says what to
write instead, in Java's names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_LOG_IN = (
    "set `sasl.jaas.config` = 'org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="..." password="...";\' (with SCRAM the class is '
    "org.apache.kafka.common.security.scram.ScramLoginModule)"
)
_PEM_STORE = (
    "set `ssl.keystore.location` to one PEM file of key and certificates, `ssl.keystore.type` = 'PEM'"
)
_POSITION = "leave it out: Spark's checkpoint keeps the position"
_NOT_NEEDED = "leave it out: penstock has no such setting"
_LOGGING = "leave it out: penstock logs with Python's logging, as 'penstock'"
_ALWAYS = "leave it out: penstock always does it"
_GO = "leave it out: a task reads its range of offsets and ends"


def _use(name: str) -> str:
    return f"use `{name}`"


FOREIGN_NAMES: Mapping[str, str] = {
    # Addresses and security.
    "metadata.broker.list": _use("bootstrap.servers"),
    "broker.list": _use("bootstrap.servers"),
    "sasl.mechanisms": _use("sasl.mechanism"),
    "sasl.username": _LOG_IN,
    "sasl.password": _LOG_IN,
    "sasl.plain.username": _LOG_IN,
    "sasl.plain.password": _LOG_IN,
    "ssl.ca.location": "set `ssl.truststore.location` to that file (PEM) and `ssl.truststore.type` = 'PEM'",
    "ssl.cafile": "set `ssl.truststore.location` to that file (PEM) and `ssl.truststore.type` = 'PEM'",
    "ssl.ca.pem": "set `ssl.truststore.certificates` to that text and `ssl.truststore.type` = 'PEM'",
    "ssl.certificate.location": _PEM_STORE,
    "ssl.certfile": _PEM_STORE,
    "ssl.key.location": _PEM_STORE,
    "ssl.keyfile": _PEM_STORE,
    "ssl.certificate.pem": "set `ssl.keystore.certificate.chain` to the text, `ssl.keystore.type` = 'PEM'",
    "ssl.key.pem": "set `ssl.keystore.key` to that text and `ssl.keystore.type` = 'PEM'",
    "ssl.password": _use("ssl.key.password"),
    "ssl.check.hostname": "for no check of the host name set `ssl.endpoint.identification.algorithm` to ''",
    "enable.ssl.certificate.verification": "certificates are always checked; for no check of the host name "
    "set `ssl.endpoint.identification.algorithm` to ''",
    # Connections.
    "socket.timeout.ms": _use("request.timeout.ms"),
    "socket.send.buffer.bytes": _use("send.buffer.bytes"),
    "socket.receive.buffer.bytes": _use("receive.buffer.bytes"),
    "socket.keepalive.enable": _ALWAYS,
    "socket.nagle.disable": _ALWAYS,
    "api.version.request": _ALWAYS,
    "topic.metadata.refresh.interval.ms": _use("metadata.max.age.ms"),
    "statistics.interval.ms": _NOT_NEEDED,
    "log.connection.close": _LOGGING,
    "log_level": _LOGGING,
    "debug": _LOGGING,
    # Reading.
    "auto.commit.enable": _POSITION,
    "enable.auto.offset.store": _POSITION,
    "offset.store.method": _POSITION,
    "enable.partition.eof": _GO,
    "fetch.wait.max.ms": _use("fetch.max.wait.ms"),
    "fetch.message.max.bytes": _use("max.partition.fetch.bytes"),
    "receive.message.max.bytes": _use("fetch.max.bytes"),
    "fetch.error.backoff.ms": _use("retry.backoff.ms"),
    "queued.min.messages": _NOT_NEEDED,
    "queued.max.messages.kbytes": _NOT_NEEDED,
    # Writing.
    "queue.buffering.max.ms": _use("linger.ms"),
    "queue.buffering.max.kbytes": "use `buffer.memory`, in bytes",
    "queue.buffering.max.messages": "use `buffer.memory`, in bytes",
    "batch.num.messages": "use `batch.size`, in bytes",
    "message.max.bytes": _use("max.request.size"),
    "message.timeout.ms": _use("delivery.timeout.ms"),
    "message.send.max.retries": _use("delivery.timeout.ms"),
    "request.required.acks": _use("acks"),
    "compression.codec": _use("compression.type"),
    "max.in.flight": _use("max.in.flight.requests.per.connection"),
    "partitioner": "use the option `sink.partitioner`",
    "delivery.report.only.error": _NOT_NEEDED,
}
"""Lower-case name to what to do, with option names in backticks and Java's spelling."""

_SEPARATORS = re.compile(r"[-_]")


def advice_for(name: str) -> str | None:
    """Return what to do instead of setting a property that other clients have; None for any other name."""
    lower = name.lower()
    return FOREIGN_NAMES.get(lower) or FOREIGN_NAMES.get(_SEPARATORS.sub(".", lower))
