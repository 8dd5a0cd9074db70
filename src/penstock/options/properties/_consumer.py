"""Declare the properties of Kafka's Java consumer and what a source does with them.

Runs on the driver. Invariant: each property stands here once. See `declare` for what the words mean.
"""

from __future__ import annotations

from penstock.options.properties._declare import (
    BYTES,
    MILLISECONDS,
    MILLISECONDS_INT,
    ClientRole,
    Property,
    no_effect,
    ours,
    translated,
    unsupported,
)
from penstock.options.values import BOOLEAN, WORDS, choice, integer

_C = ClientRole.CONSUMER
_NO_GROUP = "Spark assigns the work, so penstock joins no consumer group."
_BYTE_ARRAY = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
_BYTES_OUT = (
    f"Keys and values are read as bytes. Only `{_BYTE_ARRAY}` is accepted, and changes nothing; decode with "
    "Spark, e.g. `CAST(value AS STRING)`."
)

CONSUMER_PROPERTIES: tuple[Property, ...] = (
    translated(
        "isolation.level",
        _C,
        "Which records of transactions are read. With read_committed, latest means the last stable offset.",
        choice("read_uncommitted", "read_committed"),
        default="read_uncommitted",
    ),
    ours(
        "max.partition.fetch.bytes",
        _C,
        "The largest number of bytes in one request of a split. It is larger than Java's because a request "
        "serves one split only. A larger record batch is still read.",
        BYTES,
        default=4_194_304,
        java_default="1048576",
    ),
    ours("fetch.max.bytes", _C, "The largest number of bytes in one answer.", BYTES, default=52_428_800),
    no_effect(
        "fetch.min.bytes",
        _C,
        "The records of a split are in the log already: waiting for more bytes would only delay it.",
        BYTES,
    ),
    ours(
        "fetch.max.wait.ms",
        _C,
        "How long the broker may wait for records before it answers.",
        MILLISECONDS_INT,
        default=500,
    ),
    ours("check.crcs", _C, "Check the CRC-32C of each record batch.", BOOLEAN, default=True),
    ours(
        "client.rack",
        _C,
        "The rack of this client. It reads from a replica in the same rack if the broker names one.",
        default="",
    ),
    ours(
        "group.id",
        _C,
        "The group to which a stream commits its offsets (`commit.offsets.on.checkpoint`) and whose offsets "
        "`group-offsets` uses. Spark's checkpoint keeps the position; penstock never joins the group.",
    ),
    ours(
        "commit.offsets.on.checkpoint",
        _C,
        "The same as the option `commit.offsets.on.checkpoint`, which overrides it.",
        BOOLEAN,
    ),
    ours(
        "auto.offset.reset",
        _C,
        "Where `scan.startup.mode` = `group-offsets` begins without a committed offset. Otherwise it has no "
        "effect and causes a warning, because penstock never skips missing records without a message: see "
        "`scan.on-data-loss`. Refused in Spark's dialect, as by Spark.",
        choice("latest", "earliest", "none"),
        java_default="latest",
    ),
    no_effect(
        "enable.auto.commit",
        _C,
        "Only penstock commits offsets, after Spark's checkpoint. Refused in Spark's dialect, as by Spark.",
        BOOLEAN,
        unsupported_values={"true": "leave it out and see `commit.offsets.on.checkpoint`"},
    ),
    no_effect("auto.commit.interval.ms", _C, "See `enable.auto.commit`.", MILLISECONDS),
    no_effect(
        "allow.auto.create.topics",
        _C,
        "Reading never creates a topic.",
        BOOLEAN,
        default=False,
        java_default="true",
        unsupported_values={
            "true": "create the topic before you read it: penstock never creates a topic by reading"
        },
    ),
    no_effect(
        "exclude.internal.topics",
        _C,
        "A pattern never matches Kafka's internal topics.",
        BOOLEAN,
        unsupported_values={"false": "name an internal topic in the topic list to read it"},
    ),
    no_effect("key.deserializer", _C, _BYTES_OUT, choice(_BYTE_ARRAY)),
    no_effect("value.deserializer", _C, _BYTES_OUT, choice(_BYTE_ARRAY)),
    no_effect("group.instance.id", _C, _NO_GROUP),
    no_effect("group.protocol", _C, _NO_GROUP, choice("classic", "consumer")),
    no_effect("group.remote.assignor", _C, _NO_GROUP),
    no_effect("heartbeat.interval.ms", _C, _NO_GROUP, MILLISECONDS),
    no_effect("session.timeout.ms", _C, _NO_GROUP, MILLISECONDS),
    no_effect("max.poll.interval.ms", _C, _NO_GROUP, MILLISECONDS),
    no_effect("partition.assignment.strategy", _C, _NO_GROUP, WORDS),
    no_effect(
        "max.poll.records",
        _C,
        "Penstock chooses the size of Arrow batches. Limit a micro-batch with `scan.max-records-per-batch`.",
        integer(1),
    ),
    no_effect(
        "partition.discovery.interval.ms",
        _C,
        "Flink's SQL connector ignores it too: use `scan.topic-partition-discovery.interval`.",
        integer(-1),
    ),
    unsupported("share.acknowledgement.mode", _C, "Penstock does not read as a share group: leave it out."),
    unsupported("share.acquire.mode", _C, "Penstock does not read as a share group: leave it out."),
)
