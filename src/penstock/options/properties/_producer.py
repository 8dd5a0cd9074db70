"""Properties of Kafka's Java producer, and what becomes of them in a sink.

See `declare` for what the words mean.
"""

from __future__ import annotations

from penstock.options.properties._declare import (
    BYTES,
    MILLISECONDS,
    MILLISECONDS_INT,
    Property,
    Role,
    no_effect,
    ours,
    unsupported,
)
from penstock.options.values import BOOLEAN, LONG_MAX, ValueType, choice, integer

_P = Role.PRODUCER
_BYTE_ARRAY = "org.apache.kafka.common.serialization.ByteArraySerializer"
_BYTES_IN = (
    f"Keys and values are written as bytes. Only `{_BYTE_ARRAY}` is accepted, and changes nothing; encode "
    "with Spark, e.g. `to_json`."
)
_STICKY = (
    "Records without a key stay with one topic partition until a record batch is full, then move on; broker "
    "load is not measured."
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
    ours(
        "acks",
        _P,
        "Who must have a record before it counts as written: all replicas in sync, the leader (1), nobody "
        "(0). Anything but all is refused with an idempotent producer or a delivery guarantee.",
        ACKS,
        default=-1,
    ),
    ours(
        "enable.idempotence",
        _P,
        "A batch that is sent again is stored once, and in order. Unset: on, except with "
        "`sink.delivery-guarantee` = `none`.",
        BOOLEAN,
        java_default="true",
    ),
    ours(
        "compression.type",
        _P,
        "How record batches are compressed.",
        choice("none", "gzip", "snappy", "lz4", "zstd"),
        default="none",
    ),
    ours(
        "compression.gzip.level",
        _P,
        "Used with `compression.type` = `gzip`.",
        GZIP_LEVEL,
        default=-1,
    ),
    ours(
        "compression.lz4.level",
        _P,
        "Used with `compression.type` = `lz4`.",
        integer(1, 17),
        default=9,
    ),
    ours(
        "compression.zstd.level",
        _P,
        "Used with `compression.type` = `zstd`.",
        integer(-131_072, 22),
        default=3,
    ),
    ours(
        "batch.size",
        _P,
        "Bytes, as they are sent, at which a record batch is closed. How far rows compress is estimated by "
        "the batches before; before compression they may take up to `max.request.size`.",
        BYTES,
        default=262_144,
        java_default="16384",
    ),
    ours(
        "linger.ms",
        _P,
        "How long a record batch that is not full waits at most for more rows of its task. One that has "
        "waited half as long goes along with another to its broker. One that may not be sent yet gathers "
        "rows until it may: `max.in.flight.requests.per.connection` are under way, a batch goes again, or "
        "the one before it is its task's first there or has old timestamps. The end of a task sends "
        "everything at once.",
        MILLISECONDS,
        default=20,
        java_default="5",
    ),
    ours(
        "max.request.size",
        _P,
        "Bytes of the largest record that is sent. A larger one fails the task and is named.",
        BYTES,
        default=1_048_576,
    ),
    ours(
        "max.in.flight.requests.per.connection",
        _P,
        "Requests under way to one broker; at most 5 with idempotence, as Kafka allows.",
        integer(1),
        default=5,
    ),
    ours(
        "delivery.timeout.ms",
        _P,
        "How long a batch may take from being full (or `linger.ms` old) to being acknowledged, retries "
        "included, before the task fails. At least `linger.ms` + `request.timeout.ms`.",
        MILLISECONDS_INT,
        default=120_000,
    ),
    ours(
        "max.block.ms",
        _P,
        "How long a task waits for a topic's metadata or for room in `buffer.memory`.",
        MILLISECONDS,
        default=60_000,
    ),
    ours(
        "buffer.memory",
        _P,
        "Bytes that one task holds unacknowledged before it stops taking rows.",
        integer(0, LONG_MAX, name="bytes"),
        default=33_554_432,
    ),
    ours(
        "transaction.timeout.ms",
        _P,
        "With the guarantee exactly-once: after so long without being ended a transaction is aborted by the "
        "broker. Without it, as long as the brokers allow (their transaction.max.timeout.ms).",
        MILLISECONDS_INT,
        java_default="60000",
    ),
    unsupported(
        "transaction.two.phase.commit.enable", _P, "Kafka's own two-phase commit is not used: leave it out."
    ),
    unsupported(
        "transactional.id",
        _P,
        "A sink names its transactions itself: leave it out.",
        ValueType("text", "", str),
    ),
    no_effect(
        "metadata.max.idle.ms",
        _P,
        "Metadata is kept while a task writes, and no longer.",
        MILLISECONDS,
    ),
    no_effect("key.serializer", _P, _BYTES_IN, choice(_BYTE_ARRAY)),
    no_effect("value.serializer", _P, _BYTES_IN, choice(_BYTE_ARRAY)),
    unsupported(
        "partitioner.class",
        _P,
        "Java classes do not run here: use `sink.partitioner`, which takes Python's. Without it keys are "
        "hashed as Java's producer hashes them.",
    ),
    no_effect(
        "partitioner.ignore.keys",
        _P,
        "Rows with a key are always placed by its hash.",
        BOOLEAN,
        unsupported_values={"true": "use `sink.partitioner`, or write a null key"},
    ),
    no_effect("partitioner.adaptive.partitioning.enable", _P, _STICKY, BOOLEAN),
    no_effect("partitioner.availability.timeout.ms", _P, _STICKY, MILLISECONDS),
)
