"""The options of Flink's dialect, and ours in its style.

See `declare` for what the words mean. This is the canonical dialect.
"""

from __future__ import annotations

from typing import Any

from penstock.options import offsets
from penstock.options.declare import Dialect, Option, Reader, not_yet, refused
from penstock.options.values import (
    BOOLEAN,
    DURATION,
    PATTERN,
    POSITIVE_INT,
    POSITIVE_LONG,
    TEXT,
    ValueType,
    choice,
    topic_list,
)

_F = Dialect.FLINK
_SOURCE, _SINK, _BOTH = Reader.SOURCE, Reader.SINK, Reader.BOTH

CONNECTOR = Option(
    "connector",
    _F,
    _BOTH,
    choice("kafka", "penstock"),
    "Flink's name for the format; accepted so that table options can be copied whole.",
)
PROPERTIES = Option(
    "properties.*",
    _F,
    _BOTH,
    TEXT,
    "A property of Kafka's Java client, e.g. `properties.bootstrap.servers` (required). See "
    "[Kafka properties](#kafka-properties).",
)
TOPIC = Option(
    "topic",
    Dialect.SHARED,
    _BOTH,
    topic_list(";"),
    "Source (Flink's dialect): topics to read; each must exist. Sink (both dialects): the topic to write "
    "to; without it each row names its own in a `topic` column.",
)
TOPIC_PATTERN = Option(
    "topic-pattern", _F, _SOURCE, PATTERN, "Reads every topic whose whole name matches; new ones are found."
)
TOPIC_PARTITIONS = Option(
    "topic-partitions",
    _F,
    _SOURCE,
    ValueType("list", f"topic partitions, {offsets.TOPIC_PARTITIONS_FORM}", offsets.parse_topic_partitions),
    "Reads exactly these topic partitions; each must exist. (Ours: Flink has it in its DataStream API only.)",
)
STARTUP_MODE = Option(
    "scan.startup.mode",
    _F,
    _SOURCE,
    choice("earliest-offset", "latest-offset", "specific-offsets", "group-offsets", "timestamp"),
    "Where a new query begins; a query with a checkpoint goes on from there. `group-offsets` (Flink's "
    "default) and `timestamp` are not supported yet.",
    default="earliest-offset",
)
STARTUP_SPECIFIC_OFFSETS = Option(
    "scan.startup.specific-offsets",
    _F,
    _SOURCE,
    ValueType("offsets", offsets.FLINK_OFFSETS_FORM, str),
    "Required with `scan.startup.mode` = `specific-offsets`, refused otherwise. -2 is earliest, -1 latest.",
)
BOUNDED_MODE = Option(
    "scan.bounded.mode",
    _F,
    _SOURCE,
    choice("unbounded", "latest-offset", "specific-offsets", "group-offsets", "timestamp"),
    "Where a batch read ends; `unbounded` means latest there. In streams only `unbounded` is supported yet; "
    "`group-offsets` and `timestamp` are not supported yet.",
    default="unbounded",
)
BOUNDED_SPECIFIC_OFFSETS = Option(
    "scan.bounded.specific-offsets",
    _F,
    _SOURCE,
    ValueType("offsets", offsets.FLINK_OFFSETS_FORM, str),
    "Required with `scan.bounded.mode` = `specific-offsets`, refused otherwise. Ends are exclusive.",
)
DISCOVERY_INTERVAL = Option(
    "scan.topic-partition-discovery.interval",
    _F,
    _SOURCE,
    DURATION,
    "How often a stream looks for new topics and topic partitions; `0` never.",
    default="5 min",
)
MAX_RECORDS_PER_BATCH = Option(
    "scan.max-records-per-batch",
    _F,
    _SOURCE,
    POSITIVE_LONG,
    "Offsets that one micro-batch covers at most, shared out by backlog. (Ours.)",
    default="no limit",
)
MAX_RECORDS_PER_SPLIT = Option(
    "scan.max-records-per-split",
    _F,
    _SOURCE,
    POSITIVE_LONG,
    "Offsets that one task covers at most; larger ranges are divided. (Ours.)",
    default="no limit",
)
MIN_SPLITS = Option(
    "scan.min-splits",
    _F,
    _SOURCE,
    POSITIVE_INT,
    "Tasks to divide a batch into at least, as far as there are records. (Ours.)",
    default="one a topic partition",
)
ON_DATA_LOSS = Option(
    "scan.on-data-loss",
    _F,
    _SOURCE,
    choice("fail", "continue"),
    "When records that the query needs are gone: stop with an error, or log it and go on behind the gap. "
    "(Ours: Flink jumps in silence.)",
    default="fail",
)
INCLUDE_HEADERS = Option(
    "scan.include-headers",
    _F,
    _SOURCE,
    BOOLEAN,
    "Adds the column `headers`. (Ours.)",
    default="false",
)
DELIVERY_GUARANTEE = Option(
    "sink.delivery-guarantee",
    _F,
    _SINK,
    choice("none", "at-least-once", "exactly-once"),
    "`none`: acknowledgements as `acks` says, resent batches may double. `at-least-once`: every record is "
    "acknowledged by all replicas in sync. `exactly-once` is not supported yet.",
    default="at-least-once",
)
PARTITIONER = Option(
    "sink.partitioner",
    _F,
    _SINK,
    choice("default", "fixed", "round-robin"),
    "`default`: Java's hash of the key; without a key, full batches to one topic partition after another. "
    "`fixed` and `round-robin` are not supported yet.",
    default="default",
)

_TABLES = "Tables with formats are not supported yet: decode with Spark, e.g. `from_json`."
# Each also as an option under `key.` and `value.`.
_FORMATS = (
    "raw",
    "json",
    "csv",
    "avro",
    "avro-confluent",
    "json-confluent",
    "protobuf",
    "protobuf-confluent",
    "debezium-json",
    "debezium-avro-confluent",
    "canal-json",
    "maxwell-json",
    "ogg-json",
)

FLINK_OPTIONS: tuple[Option[Any], ...] = (
    CONNECTOR,
    PROPERTIES,
    TOPIC,
    TOPIC_PATTERN,
    TOPIC_PARTITIONS,
    STARTUP_MODE,
    STARTUP_SPECIFIC_OFFSETS,
    BOUNDED_MODE,
    BOUNDED_SPECIFIC_OFFSETS,
    DISCOVERY_INTERVAL,
    MAX_RECORDS_PER_BATCH,
    MAX_RECORDS_PER_SPLIT,
    MIN_SPLITS,
    ON_DATA_LOSS,
    INCLUDE_HEADERS,
    DELIVERY_GUARANTEE,
    PARTITIONER,
    not_yet("scan.startup.timestamp-millis", _F, _SOURCE, "Starting by time."),
    not_yet("scan.bounded.timestamp-millis", _F, _SOURCE, "Stopping by time."),
    not_yet("scan.idle-timeout", _F, _SOURCE, "Per-partition event time."),
    not_yet("scan.watermark.alignment.max-drift", _F, _SOURCE, "Per-partition event time."),
    not_yet("scan.on-removed-partition", _F, _SOURCE, "A topic partition that vanishes stops the query."),
    not_yet("scan.max-bytes-per-batch", _F, _SOURCE, "Use `scan.max-records-per-batch`."),
    not_yet("scan.on-decode-error", _F, _SOURCE, _TABLES),
    not_yet("scan.dead-letter.topic", _F, _SOURCE, _TABLES),
    not_yet("commit.offsets.on.checkpoint", _F, _SOURCE, "No offsets are committed to a consumer group."),
    not_yet("client.id.prefix", _F, _SOURCE, "Use `properties.client.id`."),
    not_yet("sink.transactional-id-prefix", _F, _SINK, "Transactions are not used."),
    not_yet("sink.commit-log.topic", _F, _SINK, "Transactions are not used."),
    not_yet("sink.parallelism", _F, _SINK, "Use `df.repartition(n)` before writing."),
    not_yet("sink.buffer-flush.*", _F, _SINK, "Upsert sinks."),
    not_yet("format", _F, _BOTH, _TABLES),
    not_yet("key.format", _F, _BOTH, _TABLES),
    not_yet("value.format", _F, _BOTH, _TABLES),
    not_yet("key.fields", _F, _BOTH, _TABLES),
    not_yet("key.fields-prefix", _F, _BOTH, _TABLES),
    not_yet("value.fields-include", _F, _BOTH, _TABLES),
    *(not_yet(f"{side}{name}.*", _F, _BOTH, _TABLES) for name in _FORMATS for side in ("", "key.", "value.")),
    refused("partition.discovery.interval.ms", _F, _SOURCE, "Use `scan.topic-partition-discovery.interval`."),
    refused("register.consumer.metrics", _F, _SOURCE, "There is no Java consumer: leave it out."),
    refused("scan.parallelism", _F, _SOURCE, "Use `scan.min-splits`."),
    refused("sink.semantic", _F, _SINK, "Use `sink.delivery-guarantee`."),
    refused(
        "sink.transaction-naming-strategy", _F, _SINK, "penstock names transactions one way: leave it out."
    ),
)
