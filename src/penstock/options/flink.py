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
    PROCESSING_TIME,
    SinkConfig,
    SourceConfig,
)
from penstock.options.declare import Declare, Dialect, Side, Status, declared_in
from penstock.options.metrics import METRICS_OPTIONS
from penstock.options.record_filter import RECORD_FILTER as RECORD_FILTER_TYPE
from penstock.options.table import FORMAT_OPTIONS, TABLE_OPTIONS
from penstock.options.table_spec import Connector, UpsertSpec
from penstock.options.time_text import MOMENT
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

_source, _sink, _both = (Declare(Dialect.FLINK, side) for side in (Side.SOURCE, Side.SINK, Side.BOTH))
_shared_source, _shared_sink = Declare(Dialect.SHARED, Side.SOURCE), Declare(Dialect.SHARED, Side.SINK)

CONNECTOR = _both(
    "connector",
    choice(*(each.value for each in Connector)),
    "The name of the connector in Flink. `kafka` and `penstock` mean the same: a record is a new row. "
    "`upsert-kafka`: a record updates the row with its key, or deletes it: "
    "[upsert-tables.md](upsert-tables.md).",
    default=Connector.PENSTOCK.value,
)
PROPERTY_VERSION = _both(
    "property-version",
    TEXT,
    "The version of Flink's table options. There is only one.",
    status=Status.NO_EFFECT,
)
PROPERTIES = _both(
    "properties.*",
    TEXT,
    "A property of Kafka's Java client, e.g. `properties.bootstrap.servers` (required). See [Kafka "
    "properties](#kafka-properties).",
)
TOPIC = Declare(Dialect.SHARED, Side.BOTH)(
    "topic",
    topic_list(";"),
    "Source (Flink's dialect): the topics to read; each must exist. Sink (both dialects): the topic to write "
    "to. Without it, each row names its topic in a column `topic`.",
)
TOPIC_PATTERN = _source(
    "topic-pattern", PATTERN, "Read every topic whose whole name matches. New topics are found too."
)
TOPIC_PARTITIONS = _source(
    "topic-partitions",
    ValueType("list", f"topic partitions, {offsets.TOPIC_PARTITIONS_FORM}", offsets.parse_topic_partitions),
    "Read exactly these topic partitions; each must exist. (Ours: Flink has it in its DataStream API only.)",
)
STARTUP_MODE = _source(
    "scan.startup.mode",
    choice("earliest-offset", "latest-offset", "specific-offsets", "group-offsets", "timestamp"),
    "Where a new query begins. It is resolved to offsets once; a query with a checkpoint continues from "
    "there. `group-offsets` (Flink's default) needs `properties.group.id`; a topic partition without a "
    "committed offset begins where `properties.auto.offset.reset` says, and is an error without that "
    "property.",
    default="earliest-offset",
)
STARTUP_SPECIFIC_OFFSETS = _source(
    "scan.startup.specific-offsets",
    ValueType("offsets", offsets.FLINK_OFFSETS_FORM, str),
    "Required with `scan.startup.mode` = `specific-offsets`, refused otherwise. -2 is earliest, -1 latest, "
    "-3 the committed offset of the group. A topic partition that is not named begins at the committed "
    "offset if `properties.group.id` is set and the group has one, otherwise at earliest.",
)
STARTUP_TIMESTAMP = _source(
    "scan.startup.timestamp-millis",
    TIMESTAMP_MS,
    "With `scan.startup.mode` = `timestamp` this or `scan.startup.timestamp` is required. Reading begins at "
    "the first record that is not older than this time. Without such a record it begins at the end of the "
    "log.",
)
STARTUP_TIME = _source(
    "scan.startup.timestamp",
    MOMENT,
    "The same as `scan.startup.timestamp-millis`, with a time in any of these forms. A time before now is "
    "resolved once, when the query is first planned; both ends use the same reading of the clock. (Ours.)",
)
BOUNDED_MODE = _source(
    "scan.bounded.mode",
    choice("unbounded", "latest-offset", "specific-offsets", "group-offsets", "timestamp"),
    "Where reading ends. It is resolved to offsets once and kept in the checkpoint, for the topic partitions "
    "that exist at the start. In a batch read `unbounded` means latest. A stream stops reading there; "
    "`penstock.run_until_bounded(query)` also stops the query. `group-offsets` needs a committed offset for "
    "each topic partition.",
    default="unbounded",
)
BOUNDED_SPECIFIC_OFFSETS = _source(
    "scan.bounded.specific-offsets",
    ValueType("offsets", offsets.FLINK_OFFSETS_FORM, str),
    "Required with `scan.bounded.mode` = `specific-offsets`, refused otherwise. The record at the offset is "
    "not read. A topic partition that is not named ends at the committed offset if `properties.group.id` is "
    "set and the group has one; otherwise it is not read.",
)
BOUNDED_TIMESTAMP = _source(
    "scan.bounded.timestamp-millis",
    TIMESTAMP_MS,
    "With `scan.bounded.mode` = `timestamp` this or `scan.bounded.timestamp` is required. Reading ends "
    "before the first record that is not older than this time. Without such a record it ends where the log "
    "ended at the start.",
)
BOUNDED_TIME = _source(
    "scan.bounded.timestamp",
    MOMENT,
    "The same as `scan.bounded.timestamp-millis`, with a time in any of these forms; see "
    "`scan.startup.timestamp`. (Ours.)",
)
DISCOVERY_INTERVAL = _source(
    "scan.topic-partition-discovery.interval",
    DURATION,
    "How often a stream looks for new topics and topic partitions; `0` means never.",
    default=DISCOVERY_INTERVAL_MS,
)
MAX_RECORDS_PER_BATCH = _source(
    "scan.max-records-per-batch",
    POSITIVE_LONG,
    "The largest number of offsets in one micro-batch, shared out by backlog. (Ours.)",
    default_text="no limit",
)
MAX_BYTES_PER_BATCH = _source(
    "scan.max-bytes-per-batch",
    SIZE,
    "About how many bytes one micro-batch reads from Kafka at most, shared out by backlog. Bytes are counted "
    "as stored and compressed, by the average record size of each topic partition. The user needs DESCRIBE "
    "on the cluster. (Ours.)",
    default_text="no limit",
)
MAX_RECORDS_PER_SPLIT = _source(
    "scan.max-records-per-split",
    POSITIVE_LONG,
    "The largest number of offsets in one task; larger ranges are divided. (Ours.)",
    default_text="no limit",
)
MIN_SPLITS = _source(
    "scan.min-splits",
    POSITIVE_INT,
    "The smallest number of tasks in a batch, if there are enough records. (Ours.)",
    default_text="none",
)
PACK_SMALL_RANGES = _shared_source(
    "scan.pack-small-ranges",
    BOOLEAN,
    "Topic partitions with few new records share a task; each of them keeps its order. `false` makes a task "
    "for each topic partition. (Ours.)",
    default=SourceConfig.packs_small_ranges,
)
TRIGGER = _shared_source(
    "scan.trigger",
    choice(PROCESSING_TIME),
    "Only for Spark 4.0 and 4.1, which do not tell a source the trigger of its query. `processing-time` says "
    "that it is `processingTime`, Spark's default, so that limits on a batch are safe. Without it these "
    "versions refuse the limits, because a query with `availableNow` would end after one batch. See [Spark "
    "versions](spark-versions.md). (Ours.)",
    default_text="unknown",
)
RECORD_FILTER = _shared_source(
    "scan.filter",
    RECORD_FILTER_TYPE,
    "Read only the records that satisfy these conditions. Records that `topic`, `partition`, `offset` or the "
    "lower bound of `timestamp` excludes are not fetched. Other records are left out before they become "
    "rows. Batch reads only. See [the source](source.md#skip-records-in-a-batch-read). (Ours.)",
)
ON_DATA_LOSS = _source(
    "scan.on-data-loss",
    choice("fail", "continue"),
    "What happens when records that the query needs are gone: `fail` stops with an error, `continue` logs it "
    "and continues after the gap. (Ours: Flink skips them without a message.)",
    default="fail",
)
ON_REMOVED_PARTITION = _source(
    "scan.on-removed-partition",
    choice("fail", "drop"),
    "What happens when a topic partition that the query was reading is deleted: `fail` stops with an error, "
    "`drop` logs it and continues with the others. (Ours: Flink continues without a message.)",
    default_text="the same as `scan.on-data-loss`",
)
COMMIT_OFFSETS = _shared_source(
    "commit.offsets.on.checkpoint",
    BOOLEAN,
    "Streams: commit the position to the consumer group `group.id` after Spark's checkpoint holds the batch. "
    "Use it for lag monitoring and for `group-offsets`. A failed commit is logged. It stops the query only "
    "if a continuous query has the group. `properties.commit.offsets.on.checkpoint` means the same.",
    default_text="true with a group id",
)
CLIENT_ID_PREFIX = _source(
    "client.id.prefix",
    TEXT,
    "The client id in the logs and quotas of the brokers; it overrides `properties.client.id`, with a "
    "warning. Driver and tasks use the same one.",
    default_text="penstock-source",
)
ALIGNMENT_MAX_DRIFT = _source(
    "scan.watermark.alignment.max-drift",
    DURATION,
    "Streams: how far the event time (record timestamp) of one topic partition may be ahead of the slowest "
    "one in a micro-batch; `0` means no limit. Choose a watermark delay of at least this plus the disorder "
    "within a topic partition; then Spark drops no row of a slow topic partition as late.",
    default=0,
)
IDLE_TIMEOUT = _source(
    "scan.idle-timeout",
    DURATION_OR_NEVER,
    "With `scan.watermark.alignment.max-drift`: a topic partition that was read to its end holds the others "
    "back until it has had no new record for this time. A topic partition without any record in this run "
    "does not hold them back, except with `never`: then its last record before this run counts. A run with "
    "fixed ends (`availableNow`) does not wait. (Flink: `scan.watermark.idle-timeout`.)",
    default=IDLE_TIMEOUT_MS,
)
MAX_FUTURE_SKEW = _source(
    "scan.watermark.alignment.max-future-skew",
    DURATION,
    "With `scan.watermark.alignment.max-drift`: a timestamp that is further ahead of the clock of the driver "
    "does not count, so a producer with a wrong clock holds nothing back. The record is read, counted and "
    "logged. `0` means no limit. (Ours.)",
    default=MAX_FUTURE_SKEW_MS,
)
STARTUP_INITIALIZER = _source(
    "scan.startup.initializer",
    TEXT,
    "Where a new query begins, as a Python object. `penstock.KafkaSource.builder()` sets it. It replaces "
    "`scan.startup.mode`. (Ours.)",
)
BOUNDED_INITIALIZER = _source(
    "scan.bounded.initializer",
    TEXT,
    "Where reading ends, as a Python object. `penstock.KafkaSource.builder()` sets it. It replaces "
    "`scan.bounded.mode`. (Ours.)",
)
INCLUDE_HEADERS = _source(
    "scan.include-headers", BOOLEAN, "Add the column `headers`. (Ours.)", default=SourceConfig.include_headers
)
DELIVERY_GUARANTEE = _shared_sink(
    "sink.delivery-guarantee",
    choice("none", "at-least-once", "exactly-once"),
    "`none`: acknowledgements follow `acks`; resent batches may be stored twice. `at-least-once`: all "
    "in-sync replicas acknowledge every record. `exactly-once`: each batch of the query is one decision, "
    "written with Kafka transactions; needs `sink.transactional-id-prefix`.",
    default=SinkConfig.delivery_guarantee.value,
)
TRANSACTIONAL_ID_PREFIX = _shared_sink(
    "sink.transactional-id-prefix",
    ValueType("text", "up to 200 of A-Z a-z 0-9 . _ -", parse_text),
    "Required for `exactly-once`: the names of this query's transactions begin with it. Each query needs its "
    "own prefix and keeps it.",
)
COMMIT_LOG_TOPIC = _shared_sink(
    "sink.commit-log.topic",
    TOPIC_NAME,
    "With `exactly-once`: the topic that holds the decisions. It is created if it is missing. (Ours.)",
    default_text="`<prefix>-decisions`",
)
ON_NEW_QUERY = _shared_sink(
    "sink.on-new-query",
    choice("warn", "fail"),
    "With `exactly-once`: what happens before the first batch of a query under a prefix that another query "
    "has used, for example after the checkpoint was deleted. It may write again what the other query wrote. "
    "`warn` logs a warning, `fail` writes nothing and stops the query. (Ours.)",
    default="warn",
)
PARTITIONER = _shared_sink(
    "sink.partitioner",
    ValueType(
        "word or name", "default, fixed, round-robin, or the dotted name of a Python class or function", str
    ),
    "`default`: Java's hash of the key. Rows without a key go to one topic partition until a record batch is "
    "full, then to the next. `fixed`: all rows of a task go to one topic partition. `round-robin`: rows go "
    "to all topic partitions in turn; use it for rows without keys. A name: a subclass of "
    "`penstock.flink.KafkaPartitioner`, or a function `(key, value, topic, partitions) -> partition`. "
    "`penstock.KafkaRecordSerializationSchema.builder()` takes an object. Only `default` allows a column "
    "`partition`.",
    default=DEFAULT_PARTITIONER,
)
WRITE_ID = _shared_sink(
    "sink.write-id",
    ValueType("text", "up to 200 of A-Z a-z 0-9 . _ : + / = @ -", parse_text),
    "With `exactly-once`: the name of this batch write among those of its prefix, e.g. `load-2026-11-22`. A "
    "write that is run again under its name writes nothing twice. Other rows under a used name are an error. "
    "Names are kept permanently. Not for streams, which are known by their checkpoint. (Ours.)",
)
QUERY_ID = _shared_sink(
    "sink.query-id",
    ValueType("text", "up to 100 of A-Z a-z 0-9 . _ -", parse_text),
    "The id of the query to which the micro-batch belongs that this batch write writes. It needs "
    "`sink.batch-id`. `penstock.write_batch` sets both in `foreachBatch`. `exactly-once` writes each batch "
    "of a query once. (Ours.)",
)
BATCH_ID = _shared_sink(
    "sink.batch-id",
    integer(0, LONG_MAX, name="long"),
    "The number of the micro-batch; see `sink.query-id`. (Ours.)",
)
SIBLING_PREFIXES = _shared_sink(
    "sink.sibling-prefixes",
    ValueType("names", "prefixes separated by `,`", parse_text),
    "The other values of `sink.transactional-id-prefix` under which the function of `foreachBatch` has "
    "already written the same micro-batch. `penstock.write_batch` sets it. (Ours.)",
)

ON_DELIVERY_FAILURE = _shared_sink(
    "sink.on-delivery-failure",
    choice("fail", "log"),
    "What happens when Kafka does not take records: `fail` fails the task, `log` logs an error, **loses "
    "these records** and continues. `log` needs `sink.delivery-guarantee` = `none`, and turns idempotence "
    "off. (Flink's older producers: `setLogFailuresOnly`.)",
    default="fail",
)
FLUSH_ON_CHECKPOINT = _shared_sink(
    "sink.flush-on-checkpoint",
    BOOLEAN,
    "Streams: whether a micro-batch ends only after Kafka has acknowledged its records. With `false`, which "
    "needs `sink.delivery-guarantee` = `none`, **records are lost** if a worker process ends or its broker "
    "fails before that. Batch writes always wait. (Flink's older producers: `setFlushOnCheckpoint`.)",
    default=SinkConfig.flushes_on_checkpoint,
)
BUFFER_FLUSH_MAX_ROWS = _sink(
    "sink.buffer-flush.max-rows",
    integer(0),
    "Upsert tables: a task collects this many rows, and then writes only the last row of each key. It writes "
    "the rest at the end of its micro-batch. 0 turns it off. Needs `sink.buffer-flush.interval`, as in "
    "Flink. Cannot be set with `sink.delivery-guarantee` = `exactly-once`.",
    default=UpsertSpec.flush_max_rows,
)
BUFFER_FLUSH_INTERVAL = _sink(
    "sink.buffer-flush.interval",
    DURATION,
    "Upsert tables: required with `sink.buffer-flush.max-rows`, as in Flink. It has no other effect, because "
    "a micro-batch ends by itself.",
    default=0,
)
_ONE_SOURCE = (
    "Only the topic partitions of one source are aligned with each other, not several sources: leave it out."
)

_NOT_SUPPORTED = (
    _sink.refused(
        "sink.parallelism",
        "A data source cannot choose how many tasks write. Use `df.repartition(n, 'key')` before writing, or "
        "`set_parallelism(n)` of `penstock.KafkaSink.builder()`; docs/sink.md says when that keeps the "
        "order of each key.",
    ),
    _source.refused("partition.discovery.interval.ms", "Use `scan.topic-partition-discovery.interval`."),
    _source.refused("register.consumer.metrics", "Penstock uses no Java consumer: leave it out."),
    _source.refused("scan.watermark.idle-timeout", "Use `scan.idle-timeout`."),
    _source.refused("scan.watermark.alignment.group", _ONE_SOURCE),
    _source.refused(
        "scan.watermark.alignment.update-interval", "Every micro-batch is aligned: leave it out."
    ),
    _source.refused("scan.watermark.emit.*", "Spark's watermark moves with each batch: leave it out."),
    _source.refused("scan.parallelism", "Use `scan.min-splits`."),
    _sink.refused("sink.semantic", "Use `sink.delivery-guarantee`."),
    _sink.refused(
        "sink.transaction-naming-strategy", "Penstock has one way to name transactions: leave it out."
    ),
)

FLINK_OPTIONS = (*declared_in(globals()), *METRICS_OPTIONS, *TABLE_OPTIONS, *FORMAT_OPTIONS, *_NOT_SUPPORTED)
