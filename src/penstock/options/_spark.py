"""The options of Spark's own dialect, so that `.format("kafka")` can become `.format("penstock")`.

See `declare` for what the words mean.
"""

from __future__ import annotations

from penstock.options import offset_text as offsets
from penstock.options.config import MAX_BATCH_DELAY_MS, SourceConfig
from penstock.options.declare import Dialect, Option, Reader, Status, declared_in
from penstock.options.properties import default_of
from penstock.options.values import (
    BOOLEAN,
    DURATION,
    PATTERN,
    POSITIVE_INT,
    POSITIVE_LONG,
    TEXT,
    TIMESTAMP_MS,
    ValueType,
    choice,
    integer,
    topic_list,
)

_S = Dialect.SPARK
_SOURCE, _SINK, _BOTH = Reader.SOURCE, Reader.SINK, Reader.BOTH
_OFFSETS = ValueType("offsets", f"earliest, latest, or {offsets.SPARK_OFFSETS_FORM}", str)
_TIMESTAMPS = ValueType("timestamps", offsets.SPARK_TIMESTAMPS_FORM, str)
_NO_RETRY_COUNT = (
    "Look-ups of offsets are tried again until `kafka.default.api.timeout.ms` is over, with a pause that "
    "grows from `kafka.retry.backoff.ms`."
)

KAFKA = Option(
    "kafka.*",
    _S,
    _BOTH,
    TEXT,
    "A property of Kafka's Java client, e.g. `kafka.bootstrap.servers` (required). See "
    "[Kafka properties](#kafka-properties).",
)
SUBSCRIBE = Option("subscribe", _S, _SOURCE, topic_list(","), "Topics to read; each must exist.")
SUBSCRIBE_PATTERN = Option(
    "subscribePattern",
    _S,
    _SOURCE,
    PATTERN,
    "Reads every topic whose whole name matches; new ones are found.",
)
ASSIGN = Option(
    "assign",
    _S,
    _SOURCE,
    ValueType("JSON", offsets.SPARK_ASSIGN_FORM, offsets.parse_spark_assign),
    "Reads exactly these topic partitions; each must exist.",
)
STARTING_OFFSETS = Option(
    "startingOffsets",
    _S,
    _SOURCE,
    _OFFSETS,
    "Where a new query begins; a query with a checkpoint goes on from there. A batch cannot begin at latest.",
    default_text="latest in streams, earliest in batch reads",
)
STARTING_TIMESTAMP = Option(
    "startingTimestamp",
    _S,
    _SOURCE,
    TIMESTAMP_MS,
    "Begins at the first record that is not older; beats `startingOffsetsByTimestamp` and `startingOffsets`.",
)
STARTING_OFFSETS_BY_TIMESTAMP = Option(
    "startingOffsetsByTimestamp",
    _S,
    _SOURCE,
    _TIMESTAMPS,
    "The same for each topic partition by itself; all are named. Beats `startingOffsets`.",
)
STARTING_OFFSETS_BY_TIMESTAMP_STRATEGY = Option(
    "startingOffsetsByTimestampStrategy",
    _S,
    _SOURCE,
    choice("error", "latest"),
    "What a topic partition without a record of that time or later means: an error, or begin at its end.",
    default="error",
)
ENDING_OFFSETS = Option(
    "endingOffsets",
    _S,
    _SOURCE,
    _OFFSETS,
    "Where a batch read ends (exclusive); not for streams, and never earliest.",
    default_text="latest",
)
ENDING_TIMESTAMP = Option(
    "endingTimestamp",
    _S,
    _SOURCE,
    TIMESTAMP_MS,
    "Ends before the first record that is not older, or at latest; beats `endingOffsetsByTimestamp` and "
    "`endingOffsets`. Batch reads only.",
)
ENDING_OFFSETS_BY_TIMESTAMP = Option(
    "endingOffsetsByTimestamp",
    _S,
    _SOURCE,
    _TIMESTAMPS,
    "The same for each topic partition by itself; all are named. Beats `endingOffsets`. Batch reads only.",
)
MAX_OFFSETS_PER_TRIGGER = Option(
    "maxOffsetsPerTrigger",
    _S,
    _SOURCE,
    POSITIVE_LONG,
    "Offsets that one micro-batch covers at most, shared out by backlog.",
    default_text="no limit",
)
MIN_OFFSETS_PER_TRIGGER = Option(
    "minOffsetsPerTrigger",
    _S,
    _SOURCE,
    POSITIVE_LONG,
    "A trigger makes no batch before so many offsets wait, or `maxTriggerDelay` is over since the last one. "
    "Not for the first batch of a run, nor with `availableNow`.",
    default_text="no limit",
)
MAX_TRIGGER_DELAY = Option(
    "maxTriggerDelay",
    _S,
    _SOURCE,
    DURATION,
    "With `minOffsetsPerTrigger`: how long a small batch is held back.",
    default=MAX_BATCH_DELAY_MS,
)
MIN_PARTITIONS = Option(
    "minPartitions",
    _S,
    _SOURCE,
    POSITIVE_INT,
    "Tasks to divide a batch into at least, as far as there are records.",
    default_text="one a topic partition",
)
MAX_RECORDS_PER_PARTITION = Option(
    "maxRecordsPerPartition",
    _S,
    _SOURCE,
    POSITIVE_LONG,
    "Offsets that one task covers at most; larger ranges are divided.",
    default_text="no limit",
)
FAIL_ON_DATA_LOSS = Option(
    "failOnDataLoss",
    _S,
    _SOURCE,
    BOOLEAN,
    "When records that the query needs are gone: stop with an error, or log it and go on behind the gap.",
    default=SourceConfig.fail_on_data_loss,
)
INCLUDE_HEADERS = Option(
    "includeHeaders", _S, _SOURCE, BOOLEAN, "Adds the column `headers`.", default=SourceConfig.include_headers
)
POLL_TIMEOUT_MS = Option(
    "kafkaConsumer.pollTimeoutMs",
    _S,
    _SOURCE,
    POSITIVE_LONG,
    "How long a task waits for its next record: the same as `kafka.default.api.timeout.ms`, which counts "
    "where both are set.",
    default_text=str(default_of("default.api.timeout.ms")),
)
GROUP_ID_PREFIX = Option(
    "groupIdPrefix",
    _S,
    _SOURCE,
    TEXT,
    "No consumer group is joined, so none is named. `kafka.group.id` names the one that offsets go to.",
    status=Status.NO_EFFECT,
)
FETCH_OFFSET_NUM_RETRIES = Option(
    "fetchOffset.numRetries", _S, _SOURCE, integer(0), _NO_RETRY_COUNT, status=Status.NO_EFFECT
)
FETCH_OFFSET_RETRY_INTERVAL_MS = Option(
    "fetchOffset.retryIntervalMs",
    _S,
    _SOURCE,
    integer(0, name="ms"),
    _NO_RETRY_COUNT,
    status=Status.NO_EFFECT,
)

SPARK_OPTIONS = declared_in(globals())
