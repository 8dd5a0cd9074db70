"""Declare the options of Spark's own dialect, so that `.format("kafka")` can become `.format("penstock")`.

Runs on the driver. Invariant: each option stands here once, in the order of docs/options.md.
See `declare` for what the words mean.
"""

from __future__ import annotations

from penstock.options import offset_text as offsets
from penstock.options.config import MAX_BATCH_DELAY_MS, SourceConfig
from penstock.options.declare import Declare, Dialect, Side, Status, declared_in
from penstock.options.properties import default_of
from penstock.options.time_text import MOMENT
from penstock.options.values import (
    BOOLEAN,
    DURATION,
    PATTERN,
    POSITIVE_INT,
    POSITIVE_LONG,
    TEXT,
    ValueType,
    choice,
    integer,
    topic_list,
)

_source = Declare(Dialect.SPARK, Side.SOURCE)
_OFFSETS = ValueType("offsets", f"earliest, latest, or {offsets.SPARK_OFFSETS_FORM}", str)
_TIMESTAMPS = ValueType("timestamps", offsets.SPARK_TIMESTAMPS_FORM, str)
_NO_RETRY_COUNT = (
    "Looking up offsets is retried until `kafka.default.api.timeout.ms` is over. The pause between two "
    "attempts grows from `kafka.retry.backoff.ms`."
)

KAFKA = Declare(Dialect.SPARK, Side.BOTH)(
    "kafka.*",
    TEXT,
    "A property of Kafka's Java client, e.g. `kafka.bootstrap.servers` (required). See "
    "[Kafka properties](#kafka-properties).",
)
SUBSCRIBE = _source("subscribe", topic_list(","), "The topics to read; each must exist.")
SUBSCRIBE_PATTERN = _source(
    "subscribePattern", PATTERN, "Read every topic whose whole name matches. New topics are found too."
)
ASSIGN = _source(
    "assign",
    ValueType("JSON", offsets.SPARK_ASSIGN_FORM, offsets.parse_spark_assign),
    "Read exactly these topic partitions; each must exist.",
)
STARTING_OFFSETS = _source(
    "startingOffsets",
    _OFFSETS,
    "Where a new query begins; a query with a checkpoint continues from there. A batch read cannot begin at "
    "latest.",
    default_text="latest in streams, earliest in batch reads",
)
STARTING_TIMESTAMP = _source(
    "startingTimestamp",
    MOMENT,
    "Begin at the first record that is not older than this time. A time before now is resolved once, when "
    "the query is first planned; `endingTimestamp` uses the same reading of the clock. It overrides "
    "`startingOffsetsByTimestamp` and `startingOffsets`.",
)
STARTING_OFFSETS_BY_TIMESTAMP = _source(
    "startingOffsetsByTimestamp",
    _TIMESTAMPS,
    "Begin at the first record that is not older than the time of its topic partition. Every topic partition "
    "must be named. It overrides `startingOffsets`.",
)
STARTING_OFFSETS_BY_TIMESTAMP_STRATEGY = _source(
    "startingOffsetsByTimestampStrategy",
    choice("error", "latest"),
    "What a topic partition without a record at or after the starting time means: an error, or begin at its "
    "end.",
    default="error",
)
ENDING_OFFSETS = _source(
    "endingOffsets",
    _OFFSETS,
    "Where a batch read ends: the record at the offset is not read. Not for streams, and never earliest.",
    default_text="latest",
)
ENDING_TIMESTAMP = _source(
    "endingTimestamp",
    MOMENT,
    "End before the first record that is not older than this time, or at latest without such a record. It "
    "overrides `endingOffsetsByTimestamp` and `endingOffsets`. Batch reads only.",
)
ENDING_OFFSETS_BY_TIMESTAMP = _source(
    "endingOffsetsByTimestamp",
    _TIMESTAMPS,
    "End before the first record that is not older than the time of its topic partition. Every topic "
    "partition must be named. It overrides `endingOffsets`. Batch reads only.",
)
MAX_OFFSETS_PER_TRIGGER = _source(
    "maxOffsetsPerTrigger",
    POSITIVE_LONG,
    "The largest number of offsets in one micro-batch, shared out by backlog.",
    default_text="no limit",
)
MIN_OFFSETS_PER_TRIGGER = _source(
    "minOffsetsPerTrigger",
    POSITIVE_LONG,
    "The smallest number of new offsets for which a trigger makes a batch, unless `maxTriggerDelay` is over "
    "since the last batch. It does not count for the first batch of a run, nor with `availableNow`.",
    default_text="no limit",
)
MAX_TRIGGER_DELAY = _source(
    "maxTriggerDelay",
    DURATION,
    "With `minOffsetsPerTrigger`: how long a small batch waits for more records.",
    default=MAX_BATCH_DELAY_MS,
)
MIN_PARTITIONS = _source(
    "minPartitions",
    POSITIVE_INT,
    "The smallest number of tasks in a batch, if there are enough records.",
    default_text="none",
)
MAX_RECORDS_PER_PARTITION = _source(
    "maxRecordsPerPartition",
    POSITIVE_LONG,
    "The largest number of offsets in one task; larger ranges are divided.",
    default_text="no limit",
)
FAIL_ON_DATA_LOSS = _source(
    "failOnDataLoss",
    BOOLEAN,
    "What happens when records that the query needs are gone: `true` stops with an error, `false` logs it "
    "and continues after the gap.",
    default=SourceConfig.fail_on_data_loss,
)
INCLUDE_HEADERS = _source(
    "includeHeaders", BOOLEAN, "Add the column `headers`.", default=SourceConfig.include_headers
)
POLL_TIMEOUT_MS = _source(
    "kafkaConsumer.pollTimeoutMs",
    POSITIVE_LONG,
    "How long a task waits for its next record. The same as `kafka.default.api.timeout.ms`, which overrides "
    "it.",
    default_text=str(default_of("default.api.timeout.ms")),
)
GROUP_ID_PREFIX = _source(
    "groupIdPrefix",
    TEXT,
    "Penstock joins no consumer group, so it names none. `kafka.group.id` names the group that offsets are "
    "committed to.",
    status=Status.NO_EFFECT,
)
FETCH_OFFSET_NUM_RETRIES = _source(
    "fetchOffset.numRetries", integer(0), _NO_RETRY_COUNT, status=Status.NO_EFFECT
)
FETCH_OFFSET_RETRY_INTERVAL_MS = _source(
    "fetchOffset.retryIntervalMs", integer(0, name="ms"), _NO_RETRY_COUNT, status=Status.NO_EFFECT
)

SPARK_OPTIONS = declared_in(globals())

_added = Declare(Dialect.SHARED, Side.BOTH)
CHECKPOINT_LOCATION = _added(
    "checkpointLocation",
    TEXT,
    "The folder where Spark keeps the state of the query. Spark adds it to a streaming write.",
)
SPARK_ADDED_OPTIONS = (
    CHECKPOINT_LOCATION,
    _added("queryName", TEXT, "Spark adds it to a streaming write. Not used."),
    _added("paths", TEXT, "Spark adds it to `load([path, ...])`. Not used."),
    _added("path", TEXT, "Spark adds it to `load(path)` and `save(path)`. Not used."),
)
"""What Spark itself adds. Penstock accepts it in silence."""
