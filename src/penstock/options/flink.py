"""The options of Flink's dialect, and ours in its style.

See `declare` for what the words mean. This is the canonical dialect.
"""

from __future__ import annotations

from penstock.options import offset_text as offsets
from penstock.options.config import (
    DEFAULT_PARTITIONER,
    DISCOVERY_INTERVAL_MS,
    IDLE_TIMEOUT_MS,
    SinkConfig,
    SourceConfig,
)
from penstock.options.declare import Dialect, Option, Reader, Status, declared_in, not_yet, refused
from penstock.options.formats import FORMAT_PREFIXES, PLAIN_FORMAT_OF_CHANGELOG
from penstock.options.table import FORMAT_OPTIONS, TABLE_OPTIONS
from penstock.options.table_spec import Connector
from penstock.options.values import (
    BOOLEAN,
    DURATION,
    LONG_MAX,
    PATTERN,
    POSITIVE_INT,
    POSITIVE_LONG,
    SIZE,
    TEXT,
    TIMESTAMP_MS,
    ValueType,
    choice,
    integer,
    parse_text,
    topic_list,
)
from penstock.options.values import TOPIC as TOPIC_NAME

_F = Dialect.FLINK
_SOURCE, _SINK, _BOTH = Reader.SOURCE, Reader.SINK, Reader.BOTH
_CONNECTORS = tuple(each.value for each in Connector)


def _parse_connector(text: str) -> str:
    if text.strip().lower() == "upsert-kafka":
        raise ValueError(
            f"{', '.join(_CONNECTORS)}; upsert tables are not supported by this version of penstock yet"
        )
    return choice(*_CONNECTORS).parse(text)


CONNECTOR = Option(
    "connector",
    _F,
    _BOTH,
    ValueType("word", ", ".join(_CONNECTORS), _parse_connector),
    "Flink's name for the format; accepted so that table options can be copied whole.",
)
PROPERTY_VERSION = Option(
    "property-version",
    _F,
    _BOTH,
    TEXT,
    "Flink's version of table options, of which there is one.",
    status=Status.NO_EFFECT,
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
    "Where a new query begins, resolved to numbers once; a query with a checkpoint goes on from there. "
    "`group-offsets` (Flink's default) needs `properties.group.id`; a topic partition without a committed "
    "offset begins as `properties.auto.offset.reset` says, and is an error without it.",
    default="earliest-offset",
)
STARTUP_SPECIFIC_OFFSETS = Option(
    "scan.startup.specific-offsets",
    _F,
    _SOURCE,
    ValueType("offsets", offsets.FLINK_OFFSETS_FORM, str),
    "Required with `scan.startup.mode` = `specific-offsets`, refused otherwise. -2 is earliest, -1 latest, "
    "-3 the group's committed offset. What is not named begins at the group's committed offset if "
    "`properties.group.id` is set and has one, else at earliest.",
)
STARTUP_TIMESTAMP = Option(
    "scan.startup.timestamp-millis",
    _F,
    _SOURCE,
    TIMESTAMP_MS,
    "Required with `scan.startup.mode` = `timestamp`, refused otherwise: begins at the first record that is "
    "not older, or at the end where there is none.",
)
BOUNDED_MODE = Option(
    "scan.bounded.mode",
    _F,
    _SOURCE,
    choice("unbounded", "latest-offset", "specific-offsets", "group-offsets", "timestamp"),
    "Where reading ends, resolved to numbers once, kept in the checkpoint; for the topic partitions that are "
    "there at the start. In a batch read `unbounded` means latest. A stream stops reading there; "
    "`penstock.run_until_bounded(query)` also stops the query. `group-offsets` needs a committed offset for "
    "each topic partition.",
    default="unbounded",
)
BOUNDED_SPECIFIC_OFFSETS = Option(
    "scan.bounded.specific-offsets",
    _F,
    _SOURCE,
    ValueType("offsets", offsets.FLINK_OFFSETS_FORM, str),
    "Required with `scan.bounded.mode` = `specific-offsets`, refused otherwise. Ends are exclusive. What is "
    "not named ends at the group's committed offset if `properties.group.id` is set and has one, else it is "
    "not read.",
)
BOUNDED_TIMESTAMP = Option(
    "scan.bounded.timestamp-millis",
    _F,
    _SOURCE,
    TIMESTAMP_MS,
    "Required with `scan.bounded.mode` = `timestamp`, refused otherwise: ends before the first record that "
    "is not older, or at the end of the log as of the start.",
)
DISCOVERY_INTERVAL = Option(
    "scan.topic-partition-discovery.interval",
    _F,
    _SOURCE,
    DURATION,
    "How often a stream looks for new topics and topic partitions; `0` never.",
    default=DISCOVERY_INTERVAL_MS,
)
MAX_RECORDS_PER_BATCH = Option(
    "scan.max-records-per-batch",
    _F,
    _SOURCE,
    POSITIVE_LONG,
    "Offsets that one micro-batch covers at most, shared out by backlog. (Ours.)",
    default_text="no limit",
)
MAX_BYTES_PER_BATCH = Option(
    "scan.max-bytes-per-batch",
    _F,
    _SOURCE,
    SIZE,
    "Bytes that one micro-batch reads from Kafka, about at most, shared out by backlog: as stored and "
    "compressed, judged by the average size of a record in each topic partition. The user needs DESCRIBE on "
    "the cluster. (Ours.)",
    default_text="no limit",
)
MAX_RECORDS_PER_SPLIT = Option(
    "scan.max-records-per-split",
    _F,
    _SOURCE,
    POSITIVE_LONG,
    "Offsets that one task covers at most; larger ranges are divided. (Ours.)",
    default_text="no limit",
)
MIN_SPLITS = Option(
    "scan.min-splits",
    _F,
    _SOURCE,
    POSITIVE_INT,
    "Tasks to divide a batch into at least, as far as there are records. (Ours.)",
    default_text="one a topic partition",
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
ON_REMOVED_PARTITION = Option(
    "scan.on-removed-partition",
    _F,
    _SOURCE,
    choice("fail", "drop"),
    "When a topic partition that the query was reading is deleted: stop with an error, or log it and go on "
    "with the others. (Ours: Flink reads on in silence.)",
    default_text="as `scan.on-data-loss`: fail",
)
COMMIT_OFFSETS = Option(
    "commit.offsets.on.checkpoint",
    Dialect.SHARED,
    _SOURCE,
    BOOLEAN,
    "Streams: commit the position to the consumer group `group.id` once Spark's checkpoint holds the batch, "
    "for lag monitoring and for `group-offsets`. A commit that fails is logged and never stops the query. "
    "Also understood as `properties.commit.offsets.on.checkpoint`.",
    default_text="true with a group id",
)
CLIENT_ID_PREFIX = Option(
    "client.id.prefix",
    _F,
    _SOURCE,
    TEXT,
    "The client id that brokers see in their logs and quotas; counts before `properties.client.id`, with a "
    "warning. Driver and tasks bear the same one.",
    default_text="penstock-source",
)
ALIGNMENT_MAX_DRIFT = Option(
    "scan.watermark.alignment.max-drift",
    _F,
    _SOURCE,
    DURATION,
    "Streams: how far the event time (record timestamp) of one topic partition may be ahead of the slowest "
    "one in a micro-batch; `0` no limit. With a watermark delay of at least this, plus the disorder within a "
    "topic partition, Spark drops no row of a slow one as late.",
    default=0,
)
IDLE_TIMEOUT = Option(
    "scan.idle-timeout",
    _F,
    _SOURCE,
    DURATION,
    "With `scan.watermark.alignment.max-drift`: a topic partition that was read to its end holds the others "
    "back until nothing new came for so long. One of which no record was seen in this run does not. (Flink: "
    "`scan.watermark.idle-timeout`.)",
    default=IDLE_TIMEOUT_MS,
)
STARTUP_INITIALIZER = Option(
    "scan.startup.initializer",
    _F,
    _SOURCE,
    TEXT,
    "Where a new query begins, as a Python object; set by `penstock.KafkaSource.builder()`. Instead of "
    "`scan.startup.mode`. (Ours.)",
)
BOUNDED_INITIALIZER = Option(
    "scan.bounded.initializer",
    _F,
    _SOURCE,
    TEXT,
    "Where reading ends, as a Python object; set by `penstock.KafkaSource.builder()`. Instead of "
    "`scan.bounded.mode`. (Ours.)",
)
INCLUDE_HEADERS = Option(
    "scan.include-headers",
    _F,
    _SOURCE,
    BOOLEAN,
    "Adds the column `headers`. (Ours.)",
    default=SourceConfig.include_headers,
)
DELIVERY_GUARANTEE = Option(
    "sink.delivery-guarantee",
    Dialect.SHARED,
    _SINK,
    choice("none", "at-least-once", "exactly-once"),
    "`none`: acknowledgements as `acks` says, resent batches may double. `at-least-once`: every record is "
    "acknowledged by all replicas in sync. `exactly-once`: every batch of the query is one decision, carried "
    "out by Kafka transactions; needs `sink.transactional-id-prefix`.",
    default=SinkConfig.delivery_guarantee.value,
)
TRANSACTIONAL_ID_PREFIX = Option(
    "sink.transactional-id-prefix",
    Dialect.SHARED,
    _SINK,
    ValueType("text", "up to 200 of A-Z a-z 0-9 . _ -", parse_text),
    "Required for `exactly-once`: what the names of this query's transactions begin with. Every query needs "
    "one of its own, and keeps it.",
)
COMMIT_LOG_TOPIC = Option(
    "sink.commit-log.topic",
    Dialect.SHARED,
    _SINK,
    TOPIC_NAME,
    "With `exactly-once`: the topic that holds what was decided; made if it is missing. (Ours.)",
    default_text="`<prefix>-decisions`",
)
PARTITIONER = Option(
    "sink.partitioner",
    Dialect.SHARED,
    _SINK,
    ValueType(
        "word or name", "default, fixed, round-robin, or the dotted name of a Python class or function", str
    ),
    "`default`: Java's hash of the key; without a key, full batches to one topic partition after another. "
    "`fixed`: all rows of a task to one. `round-robin`: row by row to all in turn, for rows without keys. A "
    "name: a subclass of `penstock.KafkaPartitioner`, or a function `(key, value, topic, partitions) -> "
    "partition`; `penstock.KafkaRecordSerializationSchema.builder()` sets objects. All but `default` exclude "
    "a column `partition`.",
    default=DEFAULT_PARTITIONER,
)
WRITE_ID = Option(
    "sink.write-id",
    Dialect.SHARED,
    _SINK,
    ValueType("text", "up to 200 of A-Z a-z 0-9 . _ : + / = @ -", parse_text),
    "The name of this batch write among those of its prefix, e.g. `load-2026-11-22`: with `exactly-once` a "
    "write that is run again under its name writes nothing twice. Other rows under a used name are an error. "
    "Names are kept for good. Not for streams, which are known by their checkpoint. (Ours.)",
)
QUERY_ID = Option(
    "sink.query-id",
    Dialect.SHARED,
    _SINK,
    ValueType("text", "up to 100 of A-Z a-z 0-9 . _ -", parse_text),
    "The query whose micro-batch a batch write carries out, set by `penstock.write_batch` in `foreachBatch`; "
    "with `sink.batch-id`. `exactly-once` writes each batch of a query once. (Ours.)",
)
BATCH_ID = Option(
    "sink.batch-id",
    Dialect.SHARED,
    _SINK,
    integer(0, LONG_MAX, name="long"),
    "The number of that micro-batch. (Ours.)",
)
SIBLING_PREFIXES = Option(
    "sink.sibling-prefixes",
    Dialect.SHARED,
    _SINK,
    ValueType("names", "prefixes, with commas between", parse_text),
    "Other `sink.transactional-id-prefix`es under which the function of `foreachBatch` has written the same "
    "micro-batch before, set by `penstock.write_batch`. (Ours.)",
)

_CHANGELOGS = (
    "It belongs to a changelog (CDC) format, of which there are none yet; docs/formats.md says how such "
    "records can be read."
)
_ONE_SOURCE = "The topic partitions of one source are aligned with each other, sources are not: leave it out."

_NOT_SUPPORTED = (
    refused(
        "sink.parallelism",
        _F,
        _SINK,
        "A data source cannot choose how many tasks write: use `df.repartition(n, 'key')` before writing, "
        "or `set_parallelism(n)` of `penstock.KafkaSink.builder()`; docs/sink.md says when that keeps the "
        "order of each key.",
    ),
    not_yet("sink.buffer-flush.*", _F, _SINK, "Only for upsert tables, which are not supported yet."),
    *(
        not_yet(f"{side}{name}.*", _F, _BOTH, _CHANGELOGS)
        for name in PLAIN_FORMAT_OF_CHANGELOG
        for side in FORMAT_PREFIXES
    ),
    refused("partition.discovery.interval.ms", _F, _SOURCE, "Use `scan.topic-partition-discovery.interval`."),
    refused("register.consumer.metrics", _F, _SOURCE, "There is no Java consumer: leave it out."),
    refused("scan.watermark.idle-timeout", _F, _SOURCE, "Use `scan.idle-timeout`."),
    refused("scan.watermark.alignment.group", _F, _SOURCE, _ONE_SOURCE),
    refused(
        "scan.watermark.alignment.update-interval",
        _F,
        _SOURCE,
        "Every micro-batch is aligned anew: leave it out.",
    ),
    refused("scan.watermark.emit.*", _F, _SOURCE, "Spark's watermark moves with each batch: leave it out."),
    refused("scan.parallelism", _F, _SOURCE, "Use `scan.min-splits`."),
    refused("sink.semantic", _F, _SINK, "Use `sink.delivery-guarantee`."),
    refused(
        "sink.transaction-naming-strategy", _F, _SINK, "penstock names transactions one way: leave it out."
    ),
)

FLINK_OPTIONS = (*declared_in(globals()), *TABLE_OPTIONS, *FORMAT_OPTIONS, *_NOT_SUPPORTED)
