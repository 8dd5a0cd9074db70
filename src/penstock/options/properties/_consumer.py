"""Declare the properties of Kafka's Java consumer and what a source does with them.

Runs on the driver. Invariant: each property stands here once. See `declare` for what the words mean.
"""

from __future__ import annotations

from penstock.options.properties._declare import (
    BYTES,
    MILLISECONDS,
    MILLISECONDS_INT,
    ClientRole,
    Declare,
    Property,
)
from penstock.options.values import BOOLEAN, WORDS, choice, integer

_reading = Declare(ClientRole.CONSUMER)
_NO_GROUP = "Spark assigns the work, so penstock joins no consumer group."
_BYTE_ARRAY = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
_BYTES_OUT = (
    f"Keys and values are read as bytes. Only `{_BYTE_ARRAY}` is accepted, and changes nothing; decode with "
    "Spark, e.g. `CAST(value AS STRING)`."
)

CONSUMER_PROPERTIES: tuple[Property, ...] = (
    _reading.translated(
        "isolation.level",
        "Which records of transactions are read. With read_committed, latest means the last stable offset.",
        choice("read_uncommitted", "read_committed"),
        default="read_uncommitted",
    ),
    _reading.ours(
        "max.partition.fetch.bytes",
        "The largest number of bytes in one request of a split. It is larger than Java's because a request "
        "serves one split only. A larger record batch is still read.",
        BYTES,
        default=4_194_304,
        java_default="1048576",
    ),
    _reading.ours("fetch.max.bytes", "The largest number of bytes in one answer.", BYTES, default=52_428_800),
    _reading.no_effect(
        "fetch.min.bytes",
        "The records of a split are in the log already, so that waiting for more bytes would only delay the "
        "read.",
        BYTES,
    ),
    _reading.ours(
        "fetch.max.wait.ms",
        "How long the broker may wait for records before it answers.",
        MILLISECONDS_INT,
        default=500,
    ),
    _reading.ours("check.crcs", "Check the CRC-32C of each record batch.", BOOLEAN, default=True),
    _reading.ours(
        "client.rack",
        "The rack of this client. It reads from a replica in the same rack if the broker names one.",
        default="",
    ),
    _reading.ours(
        "group.id",
        "The group to which a stream commits its offsets (`commit.offsets.on.checkpoint`) and whose offsets "
        "`group-offsets` uses. Spark's checkpoint keeps the position; penstock never joins the group.",
    ),
    _reading.ours(
        "commit.offsets.on.checkpoint",
        "The same as the option `commit.offsets.on.checkpoint`, which overrides it.",
        BOOLEAN,
    ),
    _reading.ours(
        "auto.offset.reset",
        "Where `scan.startup.mode` = `group-offsets` begins without a committed offset. Otherwise it has no "
        "effect and causes a warning, because penstock never skips missing records without a message: see "
        "`scan.on-data-loss`. Refused in Spark's dialect, as by Spark.",
        choice("latest", "earliest", "none"),
        java_default="latest",
    ),
    _reading.no_effect(
        "enable.auto.commit",
        "Only penstock commits offsets, after Spark's checkpoint. Refused in Spark's dialect, as by Spark.",
        BOOLEAN,
        unsupported_values={"true": "leave it out and see `commit.offsets.on.checkpoint`"},
    ),
    _reading.no_effect("auto.commit.interval.ms", "See `enable.auto.commit`.", MILLISECONDS),
    _reading.no_effect(
        "allow.auto.create.topics",
        "Whether reading creates a topic that does not exist.",
        BOOLEAN,
        default=False,
        java_default="true",
        unsupported_values={"true": "penstock never creates a topic by reading, so create it before"},
    ),
    _reading.no_effect(
        "exclude.internal.topics",
        "A pattern never matches Kafka's internal topics.",
        BOOLEAN,
        unsupported_values={"false": "name an internal topic in the topic list to read it"},
    ),
    _reading.no_effect("key.deserializer", _BYTES_OUT, choice(_BYTE_ARRAY)),
    _reading.no_effect("value.deserializer", _BYTES_OUT, choice(_BYTE_ARRAY)),
    _reading.no_effect("group.instance.id", _NO_GROUP),
    _reading.no_effect("group.protocol", _NO_GROUP, choice("classic", "consumer")),
    _reading.no_effect("group.remote.assignor", _NO_GROUP),
    _reading.no_effect("heartbeat.interval.ms", _NO_GROUP, MILLISECONDS),
    _reading.no_effect("session.timeout.ms", _NO_GROUP, MILLISECONDS),
    _reading.no_effect("max.poll.interval.ms", _NO_GROUP, MILLISECONDS),
    _reading.no_effect("partition.assignment.strategy", _NO_GROUP, WORDS),
    _reading.no_effect(
        "max.poll.records",
        "Penstock chooses the size of Arrow batches. Limit a micro-batch with `scan.max-records-per-batch`.",
        integer(1),
    ),
    _reading.no_effect(
        "partition.discovery.interval.ms",
        "Flink's SQL connector ignores it too: use `scan.topic-partition-discovery.interval`.",
        integer(-1),
    ),
    _reading.unsupported(
        "share.acknowledgement.mode", "Penstock does not read as a share group: leave it out."
    ),
    _reading.unsupported("share.acquire.mode", "Penstock does not read as a share group: leave it out."),
)
