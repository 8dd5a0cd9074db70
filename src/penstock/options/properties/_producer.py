"""Declare the properties of Kafka's Java producer and what a sink does with them.

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
from penstock.options.values import BOOLEAN, LONG_MAX, ValueType, choice, integer

_writing = Declare(ClientRole.PRODUCER)
_BYTE_ARRAY = "org.apache.kafka.common.serialization.ByteArraySerializer"
_BYTES_IN = (
    f"Keys and values are written as bytes. Only `{_BYTE_ARRAY}` is accepted, and changes nothing; encode "
    "with Spark, e.g. `to_json`."
)
_STICKY = (
    "Records without a key go to one topic partition until a record batch is full, then to the next. The "
    "load of brokers is not measured."
)


def _parse_acks(text: str) -> int:
    word = text.strip().lower()
    if word not in ("all", "-1", "0", "1"):
        raise ValueError("one of all, -1, 0, 1")
    return -1 if word == "all" else int(word)


def _parse_gzip_level(text: str) -> int:
    level = integer(-1, 9).parse(text)
    if level == 0:
        raise ValueError("a whole number from 1 to 9, or -1")
    return level


ACKS = ValueType("word", "all, -1, 0, 1", _parse_acks, lambda acks: "all" if acks == -1 else str(acks))
GZIP_LEVEL = ValueType("integer", "from 1 to 9, or -1", _parse_gzip_level)

PRODUCER_PROPERTIES: tuple[Property, ...] = (
    _writing.ours(
        "acks",
        "Which replicas must have a record before it counts as written: all in-sync replicas, the leader "
        "(1), or none (0). An idempotent producer and a delivery guarantee need all.",
        ACKS,
        default=-1,
    ),
    _writing.ours(
        "enable.idempotence",
        "A batch that is sent again is stored once and in order. Unset: on, except with "
        "`sink.delivery-guarantee` = `none`.",
        BOOLEAN,
        java_default="true",
    ),
    _writing.ours(
        "compression.type",
        "How record batches are compressed.",
        choice("none", "gzip", "snappy", "lz4", "zstd"),
        default="none",
    ),
    _writing.ours("compression.gzip.level", "Used with `compression.type` = `gzip`.", GZIP_LEVEL, default=-1),
    _writing.ours(
        "compression.lz4.level", "Used with `compression.type` = `lz4`.", integer(1, 17), default=9
    ),
    _writing.ours(
        "compression.zstd.level", "Used with `compression.type` = `zstd`.", integer(-131_072, 22), default=3
    ),
    _writing.ours(
        "batch.size",
        "The size in bytes, as sent, at which a record batch is closed. The compressed size is estimated "
        "from earlier batches. Before compression a batch may take up to `max.request.size`.",
        BYTES,
        default=262_144,
        java_default="16384",
    ),
    _writing.ours(
        "linger.ms",
        "How long a record batch that is not full waits for more rows of its task. After half of this time "
        "it is sent if another batch goes to the same broker. A batch that may not be sent yet collects rows "
        "for longer. That is so while `max.in.flight.requests.per.connection` requests are under way, while "
        "a batch is sent again, and while the batch before it is the first of its task there or has old "
        "timestamps. At the end of a task all batches are sent at once.",
        MILLISECONDS,
        default=20,
        java_default="5",
    ),
    _writing.ours(
        "max.request.size",
        "The size in bytes of the largest record that is sent. A larger record fails the task; the error "
        "names the record.",
        BYTES,
        default=1_048_576,
    ),
    _writing.ours(
        "max.in.flight.requests.per.connection",
        "The largest number of requests under way to one broker; at most 5 with idempotence, as Kafka "
        "requires.",
        integer(1),
        default=5,
    ),
    _writing.ours(
        "delivery.timeout.ms",
        "How long a batch may wait for its acknowledgement after it is full (or `linger.ms` old), including "
        "retries, before the task fails. At least `linger.ms` + `request.timeout.ms`.",
        MILLISECONDS_INT,
        default=120_000,
    ),
    _writing.ours(
        "max.block.ms",
        "How long a task waits for the metadata of a topic or for space in `buffer.memory`.",
        MILLISECONDS,
        default=60_000,
    ),
    _writing.ours(
        "buffer.memory",
        "The largest number of unacknowledged bytes in one task; at this size the task takes no more rows.",
        integer(0, LONG_MAX, name="bytes"),
        default=33_554_432,
    ),
    _writing.ours(
        "transaction.timeout.ms",
        "With `exactly-once`: the broker aborts a transaction that is still open after this time. Unset: the "
        "largest value that the brokers allow (their `transaction.max.timeout.ms`).",
        MILLISECONDS_INT,
        java_default="60000",
    ),
    _writing.unsupported(
        "transaction.two.phase.commit.enable",
        "Penstock does not use Kafka's own two-phase commit: leave it out.",
    ),
    _writing.unsupported(
        "transactional.id",
        "A sink chooses the names of its transactions: leave it out.",
        ValueType("text", "", str),
    ),
    _writing.no_effect("metadata.max.idle.ms", "A task keeps metadata until the task ends.", MILLISECONDS),
    _writing.no_effect("key.serializer", _BYTES_IN, choice(_BYTE_ARRAY)),
    _writing.no_effect("value.serializer", _BYTES_IN, choice(_BYTE_ARRAY)),
    _writing.unsupported(
        "partitioner.class",
        "Java classes do not run here: use `sink.partitioner`, which takes Python classes. Without it keys "
        "are hashed as in Java's producer.",
    ),
    _writing.no_effect(
        "partitioner.ignore.keys",
        "The hash of the key always chooses the partition of a row with a key.",
        BOOLEAN,
        unsupported_values={"true": "use `sink.partitioner`, or write a null key"},
    ),
    _writing.no_effect("partitioner.adaptive.partitioning.enable", _STICKY, BOOLEAN),
    _writing.no_effect("partitioner.availability.timeout.ms", _STICKY, MILLISECONDS),
)
