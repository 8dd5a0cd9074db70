"""Declare the options of Flink's dialect, and ours in its style.

Runs on the driver. Invariant: this dialect is the canonical one; each option stands here once, in the order
of docs/options.md. See `declare` for what the words mean.
"""

from __future__ import annotations

from penstock.options import offset_text as offsets
from penstock.options.config import (
    DEFAULT_PARTITIONER,
    DISCOVERY_INTERVAL_MS,
    IDLE_TIMEOUT_MS,
    MAX_FUTURE_SKEW_MS,
    SinkConfig,
    SourceConfig,
)
from penstock.options.declare import Dialect, Option, Side, Status, declared_in, refused
from penstock.options.metrics import METRICS_OPTIONS
from penstock.options.moments import MOMENT
from penstock.options.record_filter import RECORD_FILTER as RECORD_FILTER_TYPE
from penstock.options.table import FORMAT_OPTIONS, TABLE_OPTIONS
from penstock.options.table_spec import Connector, UpsertSpec
from penstock.options.values import (
    BOOLEAN,
    DURATION,
    DURATION_OR_NEVER,
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
_SOURCE, _SINK, _BOTH = Side.SOURCE, Side.SINK, Side.BOTH
CONNECTOR = Option(
    "connector",
    _F,
    _BOTH,
    choice(*(each.value for each in Connector)),
    "The name of the connector in Flink. `kafka` and `penstock` mean the same: a record is a new row. "
    "`upsert-kafka`: a record updates the row with its key, or deletes it: "
    "[formats.md](formats.md#upsert-tables).",
    default=Connector.PENSTOCK.value,
)
PROPERTY_VERSION = Option(
    "property-version",
    _F,
    _BOTH,
    TEXT,
    "The version of Flink's table options. There is only one.",
    status=Status.NO_EFFECT,
)
PROPERTIES = Option(
    "properties.*",
    _F,
    _BOTH,
    TEXT,
    "A property of Kafka's Java client, e.g. `properties.bootstrap.servers` (required). See [Kafka "
    "properties](#kafka-properties).",
)
TOPIC = Option(
    "topic",
    Dialect.SHARED,
    _BOTH,
    topic_list(";"),
    "Source (Flink's dialect): the topics to read; each must exist. Sink (both dialects): the topic to write "
    "to. Without it, each row names its topic in a column `topic`.",
)
TOPIC_PATTERN = Option(
    "topic-pattern",
    _F,
    _SOURCE,
    PATTERN,
    "Read every topic whose whole name matches. New topics are found too.",
)
TOPIC_PARTITIONS = Option(
    "topic-partitions",
    _F,
    _SOURCE,
    ValueType("list", f"topic partitions, {offsets.TOPIC_PARTITIONS_FORM}", offsets.parse_topic_partitions),
    "Read exactly these topic partitions; each must exist. (Ours: Flink has it in its DataStream API only.)",
)
STARTUP_MODE = Option(
    "scan.startup.mode",
    _F,
    _SOURCE,
    choice("earliest-offset", "latest-offset", "specific-offsets", "group-offsets", "timestamp"),
    "Where a new query begins. It is resolved to offsets once; a query with a checkpoint continues from "
    "there. `group-offsets` (Flink's default) needs `properties.group.id`; a topic partition without a "
    "committed offset begins where `properties.auto.offset.reset` says, and is an error without that "
    "property.",
    default="earliest-offset",
)
STARTUP_SPECIFIC_OFFSETS = Option(
    "scan.startup.specific-offsets",
    _F,
    _SOURCE,
    ValueType("offsets", offsets.FLINK_OFFSETS_FORM, str),
    "Required with `scan.startup.mode` = `specific-offsets`, refused otherwise. -2 is earliest, -1 latest, "
    "-3 the committed offset of the group. A topic partition that is not named begins at the committed "
    "offset if `properties.group.id` is set and the group has one, otherwise at earliest.",
)
STARTUP_TIMESTAMP = Option(
    "scan.startup.timestamp-millis",
    _F,
    _SOURCE,
    TIMESTAMP_MS,
    "With `scan.startup.mode` = `timestamp` this or `scan.startup.timestamp` is required. Reading begins at "
    "the first record that is not older than this time. Without such a record it begins at the end of the "
    "log.",
)
STARTUP_TIME = Option(
    "scan.startup.timestamp",
    _F,
    _SOURCE,
    MOMENT,
    "The same as `scan.startup.timestamp-millis`, with a time in any of these forms. A time before now is "
    "resolved once, when the query is first planned; both ends use the same reading of the clock. (Ours.)",
)
BOUNDED_MODE = Option(
    "scan.bounded.mode",
    _F,
    _SOURCE,
    choice("unbounded", "latest-offset", "specific-offsets", "group-offsets", "timestamp"),
    "Where reading ends. It is resolved to offsets once and kept in the checkpoint, for the topic partitions "
    "that exist at the start. In a batch read `unbounded` means latest. A stream stops reading there; "
    "`penstock.run_until_bounded(query)` also stops the query. `group-offsets` needs a committed offset for "
    "each topic partition.",
    default="unbounded",
)
BOUNDED_SPECIFIC_OFFSETS = Option(
    "scan.bounded.specific-offsets",
    _F,
    _SOURCE,
    ValueType("offsets", offsets.FLINK_OFFSETS_FORM, str),
    "Required with `scan.bounded.mode` = `specific-offsets`, refused otherwise. The record at the offset is "
    "not read any more. A topic partition that is not named ends at the committed offset if "
    "`properties.group.id` is set and the group has one; otherwise it is not read.",
)
BOUNDED_TIMESTAMP = Option(
    "scan.bounded.timestamp-millis",
    _F,
    _SOURCE,
    TIMESTAMP_MS,
    "With `scan.bounded.mode` = `timestamp` this or `scan.bounded.timestamp` is required. Reading ends "
    "before the first record that is not older than this time. Without such a record it ends where the log "
    "ended at the start.",
)
BOUNDED_TIME = Option(
    "scan.bounded.timestamp",
    _F,
    _SOURCE,
    MOMENT,
    "The same as `scan.bounded.timestamp-millis`, with a time in any of these forms; see "
    "`scan.startup.timestamp`. (Ours.)",
)
DISCOVERY_INTERVAL = Option(
    "scan.topic-partition-discovery.interval",
    _F,
    _SOURCE,
    DURATION,
    "How often a stream looks for new topics and topic partitions; `0` means never.",
    default=DISCOVERY_INTERVAL_MS,
)
MAX_RECORDS_PER_BATCH = Option(
    "scan.max-records-per-batch",
    _F,
    _SOURCE,
    POSITIVE_LONG,
    "The largest number of offsets in one micro-batch, shared out by backlog. (Ours.)",
    default_text="no limit",
)
MAX_BYTES_PER_BATCH = Option(
    "scan.max-bytes-per-batch",
    _F,
    _SOURCE,
    SIZE,
    "About how many bytes one micro-batch reads from Kafka at most, shared out by backlog. Bytes are counted "
    "as stored and compressed, by the average record size of each topic partition. The user needs DESCRIBE "
    "on the cluster. (Ours.)",
    default_text="no limit",
)
MAX_RECORDS_PER_SPLIT = Option(
    "scan.max-records-per-split",
    _F,
    _SOURCE,
    POSITIVE_LONG,
    "The largest number of offsets in one task; larger ranges are divided. (Ours.)",
    default_text="no limit",
)
MIN_SPLITS = Option(
    "scan.min-splits",
    _F,
    _SOURCE,
    POSITIVE_INT,
    "The smallest number of tasks in a batch, if there are enough records. (Ours.)",
    default_text="none",
)
PACK_SMALL_RANGES = Option(
    "scan.pack-small-ranges",
    Dialect.SHARED,
    _SOURCE,
    BOOLEAN,
    "Topic partitions with few new records share a task; each of them keeps its order. `false` makes a task "
    "for each topic partition. (Ours.)",
    default=SourceConfig.packs_small_ranges,
)
RECORD_FILTER = Option(
    "scan.filter",
    Dialect.SHARED,
    _SOURCE,
    RECORD_FILTER_TYPE,
    "Read only the records that satisfy these conditions. What `topic`, `partition`, `offset` and the lower "
    "bound of `timestamp` rule out is not fetched. Other records are left out before they become rows. Batch "
    "reads only. See [the source](source.md#skip-records-in-a-batch-read). (Ours.)",
)
ON_DATA_LOSS = Option(
    "scan.on-data-loss",
    _F,
    _SOURCE,
    choice("fail", "continue"),
    "What happens when records that the query needs are gone: `fail` stops with an error, `continue` logs it "
    "and continues after the gap. (Ours: Flink skips them without a message.)",
    default="fail",
)
ON_REMOVED_PARTITION = Option(
    "scan.on-removed-partition",
    _F,
    _SOURCE,
    choice("fail", "drop"),
    "What happens when a topic partition that the query was reading is deleted: `fail` stops with an error, "
    "`drop` logs it and continues with the others. (Ours: Flink continues without a message.)",
    default_text="the same as `scan.on-data-loss`",
)
COMMIT_OFFSETS = Option(
    "commit.offsets.on.checkpoint",
    Dialect.SHARED,
    _SOURCE,
    BOOLEAN,
    "Streams: commit the position to the consumer group `group.id` after Spark's checkpoint holds the batch. "
    "Use it for lag monitoring and for `group-offsets`. A commit that fails is logged and never stops the "
    "query. `properties.commit.offsets.on.checkpoint` means the same.",
    default_text="true with a group id",
)
CLIENT_ID_PREFIX = Option(
    "client.id.prefix",
    _F,
    _SOURCE,
    TEXT,
    "The client id in the logs and quotas of the brokers; it overrides `properties.client.id`, with a "
    "warning. Driver and tasks use the same one.",
    default_text="penstock-source",
)
ALIGNMENT_MAX_DRIFT = Option(
    "scan.watermark.alignment.max-drift",
    _F,
    _SOURCE,
    DURATION,
    "Streams: how far the event time (record timestamp) of one topic partition may be ahead of the slowest "
    "one in a micro-batch; `0` means no limit. Choose a watermark delay of at least this plus the disorder "
    "within a topic partition; then Spark drops no row of a slow topic partition as late.",
    default=0,
)
IDLE_TIMEOUT = Option(
    "scan.idle-timeout",
    _F,
    _SOURCE,
    DURATION_OR_NEVER,
    "With `scan.watermark.alignment.max-drift`: a topic partition that was read to its end holds the others "
    "back until it has had no new record for this time. A topic partition without any record in this run "
    "does not hold them back, except with `never`: then its last record before this run counts. A run with "
    "fixed ends (`availableNow`) does not wait. (Flink: `scan.watermark.idle-timeout`.)",
    default=IDLE_TIMEOUT_MS,
)
MAX_FUTURE_SKEW = Option(
    "scan.watermark.alignment.max-future-skew",
    _F,
    _SOURCE,
    DURATION,
    "With `scan.watermark.alignment.max-drift`: a timestamp that is further ahead of the clock of the driver "
    "does not count, so a producer with a wrong clock holds nothing back. The record is read, counted and "
    "logged. `0` means no limit. (Ours.)",
    default=MAX_FUTURE_SKEW_MS,
)
STARTUP_INITIALIZER = Option(
    "scan.startup.initializer",
    _F,
    _SOURCE,
    TEXT,
    "Where a new query begins, as a Python object. `penstock.KafkaSource.builder()` sets it. It replaces "
    "`scan.startup.mode`. (Ours.)",
)
BOUNDED_INITIALIZER = Option(
    "scan.bounded.initializer",
    _F,
    _SOURCE,
    TEXT,
    "Where reading ends, as a Python object. `penstock.KafkaSource.builder()` sets it. It replaces "
    "`scan.bounded.mode`. (Ours.)",
)
INCLUDE_HEADERS = Option(
    "scan.include-headers",
    _F,
    _SOURCE,
    BOOLEAN,
    "Add the column `headers`. (Ours.)",
    default=SourceConfig.include_headers,
)
DELIVERY_GUARANTEE = Option(
    "sink.delivery-guarantee",
    Dialect.SHARED,
    _SINK,
    choice("none", "at-least-once", "exactly-once"),
    "`none`: acknowledgements follow `acks`; resent batches may be stored twice. `at-least-once`: all "
    "in-sync replicas acknowledge every record. `exactly-once`: each batch of the query is one decision, "
    "written with Kafka transactions; needs `sink.transactional-id-prefix`.",
    default=SinkConfig.delivery_guarantee.value,
)
TRANSACTIONAL_ID_PREFIX = Option(
    "sink.transactional-id-prefix",
    Dialect.SHARED,
    _SINK,
    ValueType("text", "up to 200 of A-Z a-z 0-9 . _ -", parse_text),
    "Required for `exactly-once`: the names of this query's transactions begin with it. Each query needs its "
    "own prefix and keeps it.",
)
COMMIT_LOG_TOPIC = Option(
    "sink.commit-log.topic",
    Dialect.SHARED,
    _SINK,
    TOPIC_NAME,
    "With `exactly-once`: the topic that holds the decisions. It is created if it is missing. (Ours.)",
    default_text="`<prefix>-decisions`",
)
ON_NEW_QUERY = Option(
    "sink.on-new-query",
    Dialect.SHARED,
    _SINK,
    choice("warn", "fail"),
    "With `exactly-once`: what happens before the first batch of a query under a prefix that another query "
    "has used, for example after the checkpoint was deleted. It may write again what the other query wrote. "
    "`warn` logs a warning, `fail` writes nothing and stops the query. (Ours.)",
    default="warn",
)
PARTITIONER = Option(
    "sink.partitioner",
    Dialect.SHARED,
    _SINK,
    ValueType(
        "word or name", "default, fixed, round-robin, or the dotted name of a Python class or function", str
    ),
    "`default`: Java's hash of the key; rows without a key fill one topic partition after another, a full "
    "batch each. `fixed`: all rows of a task go to one topic partition. `round-robin`: rows go to all in "
    "turn; for rows without keys. A name: a subclass of `penstock.flink.KafkaPartitioner`, or a function "
    "`(key, value, topic, partitions) -> partition`; `penstock.KafkaRecordSerializationSchema.builder()` "
    "sets objects. Only `default` allows a column `partition`.",
    default=DEFAULT_PARTITIONER,
)
WRITE_ID = Option(
    "sink.write-id",
    Dialect.SHARED,
    _SINK,
    ValueType("text", "up to 200 of A-Z a-z 0-9 . _ : + / = @ -", parse_text),
    "With `exactly-once`: the name of this batch write among those of its prefix, e.g. `load-2026-11-22`. A "
    "write that is run again under its name writes nothing twice. Other rows under a used name are an error. "
    "Names are kept permanently. Not for streams, which are known by their checkpoint. (Ours.)",
)
QUERY_ID = Option(
    "sink.query-id",
    Dialect.SHARED,
    _SINK,
    ValueType("text", "up to 100 of A-Z a-z 0-9 . _ -", parse_text),
    "The query whose micro-batch this batch write carries out; needs `sink.batch-id`. `penstock.write_batch` "
    "sets both in `foreachBatch`. `exactly-once` writes each batch of a query once. (Ours.)",
)
BATCH_ID = Option(
    "sink.batch-id",
    Dialect.SHARED,
    _SINK,
    integer(0, LONG_MAX, name="long"),
    "The number of the micro-batch; see `sink.query-id`. (Ours.)",
)
SIBLING_PREFIXES = Option(
    "sink.sibling-prefixes",
    Dialect.SHARED,
    _SINK,
    ValueType("names", "prefixes separated by `,`", parse_text),
    "The other values of `sink.transactional-id-prefix` under which the function of `foreachBatch` has "
    "already written the same micro-batch. `penstock.write_batch` sets it. (Ours.)",
)

ON_DELIVERY_FAILURE = Option(
    "sink.on-delivery-failure",
    Dialect.SHARED,
    _SINK,
    choice("fail", "log"),
    "What happens when Kafka does not take records: `fail` fails the task, `log` logs an error, **loses "
    "these records** and continues. `log` needs `sink.delivery-guarantee` = `none`, and turns idempotence "
    "off. (Flink's older producers: `setLogFailuresOnly`.)",
    default="fail",
)
FLUSH_ON_CHECKPOINT = Option(
    "sink.flush-on-checkpoint",
    Dialect.SHARED,
    _SINK,
    BOOLEAN,
    "Streams: whether a micro-batch ends only after Kafka has acknowledged its records. With `false`, which "
    "needs `sink.delivery-guarantee` = `none`, **records are lost** if a worker process ends or its broker "
    "fails before that. Batch writes always wait. (Flink's older producers: `setFlushOnCheckpoint`.)",
    default=SinkConfig.flushes_on_checkpoint,
)
BUFFER_FLUSH_MAX_ROWS = Option(
    "sink.buffer-flush.max-rows",
    _F,
    _SINK,
    integer(0),
    "Upsert tables: a task keeps so many rows back, and writes only the last one of each key. It writes what "
    "it has at the end of its micro-batch. 0 turns it off. Needs `sink.buffer-flush.interval`, as in Flink. "
    "Cannot be set with `sink.delivery-guarantee` = `exactly-once`.",
    default=UpsertSpec.flush_max_rows,
)
BUFFER_FLUSH_INTERVAL = Option(
    "sink.buffer-flush.interval",
    _F,
    _SINK,
    DURATION,
    "Upsert tables: required with `sink.buffer-flush.max-rows`, as in Flink. It has no other effect, because "
    "a micro-batch ends by itself.",
    default=0,
)
_ONE_SOURCE = (
    "Only the topic partitions of one source are aligned with each other, not several sources: leave it out."
)

_NOT_SUPPORTED = (
    refused(
        "sink.parallelism",
        _F,
        _SINK,
        "A data source cannot choose how many tasks write. Use `df.repartition(n, 'key')` before writing, or "
        "`set_parallelism(n)` of `penstock.KafkaSink.builder()`; docs/sink.md says when that keeps the "
        "order of each key.",
    ),
    refused("partition.discovery.interval.ms", _F, _SOURCE, "Use `scan.topic-partition-discovery.interval`."),
    refused("register.consumer.metrics", _F, _SOURCE, "Penstock uses no Java consumer: leave it out."),
    refused("scan.watermark.idle-timeout", _F, _SOURCE, "Use `scan.idle-timeout`."),
    refused("scan.watermark.alignment.group", _F, _SOURCE, _ONE_SOURCE),
    refused(
        "scan.watermark.alignment.update-interval",
        _F,
        _SOURCE,
        "Every micro-batch is aligned: leave it out.",
    ),
    refused("scan.watermark.emit.*", _F, _SOURCE, "Spark's watermark moves with each batch: leave it out."),
    refused("scan.parallelism", _F, _SOURCE, "Use `scan.min-splits`."),
    refused("sink.semantic", _F, _SINK, "Use `sink.delivery-guarantee`."),
    refused(
        "sink.transaction-naming-strategy",
        _F,
        _SINK,
        "Penstock has one way to name transactions: leave it out.",
    ),
)

FLINK_OPTIONS = (*declared_in(globals()), *METRICS_OPTIONS, *TABLE_OPTIONS, *FORMAT_OPTIONS, *_NOT_SUPPORTED)
