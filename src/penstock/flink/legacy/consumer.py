"""Read with the older API: `FlinkKafkaConsumer`.

Runs in the user's program, on Spark classic and Connect. Invariant: `source` makes a `KafkaSource` of the
settings, so reading has no code of its own here. The constructor checks what needs neither Kafka nor Spark.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from penstock.errors import MissingOptionError, OptionError, UnsupportedOptionError
from penstock.flink._kafka_source import KafkaSource, KafkaSourceBuilder
from penstock.flink._watermark import with_watermark
from penstock.flink.legacy import _properties as properties_of
from penstock.flink.legacy._missing import NamesWhatToUse
from penstock.flink.legacy._properties import discovery_interval_ms
from penstock.flink.legacy._start_and_stop import EndsOfStreams, SpecificOffsets
from penstock.flink.offsets_initializer import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from penstock.options.flink import ALIGNMENT_MAX_DRIFT
from penstock.options.values import parse_duration_ms
from penstock.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.flink.legacy.watermarks import WatermarkStrategy

_C = TypeVar("_C", bound="FlinkKafkaConsumer")
_DIVIDED_BY = ("scan.min-splits", "scan.max-records-per-split")
"""Options that divide a topic partition among tasks."""


class FlinkKafkaConsumer(NamesWhatToUse):
    """A source with Flink's older methods. Each `set_` method returns the consumer.

    Args:
        topics: a topic, a list of topics, or a pattern of `re.compile` that matches whole names.
        deserialization_schema: makes the rows: SimpleStringSchema, JsonRowDeserializationSchema, a
            DeserializationSchema, KeyedDeserializationSchema or KafkaDeserializationSchema of your own, or a
            function of the value.
        properties: of Kafka and Flink, as a dict. Required: `bootstrap.servers`; `group.id` for offsets of a
            group.
        produced_type: the columns, if the schema does not declare them.

    By default it starts at the committed offsets of the group. Where the group has none it starts at
    `auto.offset.reset`, which is `latest` by default. A query with a checkpoint continues from there.

    Raises:
        MissingOptionError: a property or the columns are missing.
        OptionError: an argument is not allowed.
    """

    KEY_PARTITION_DISCOVERY_INTERVAL_MILLIS = properties_of.DISCOVERY
    """The property that turns discovery on."""
    KEY_DISABLE_METRICS = "flink.disable-metrics"
    """A property without an effect."""
    KEY_POLL_TIMEOUT = "flink.poll-timeout"
    """A property without an effect."""
    GET_PARTITIONS_RETRIES_KEY = "flink.get-partitions.retry"
    """A property without an effect."""

    _needs_group_id: ClassVar[bool] = False

    def __init__(
        self,
        topics: str | Sequence[str] | re.Pattern[str],
        deserialization_schema: Any,
        properties: Mapping[str, Any],
        *,
        produced_type: Any = None,
    ) -> None:
        found = properties_of.consumer_properties(properties)
        self._reset = _strategy(found.pop(properties_of.RESET, "latest"))
        self._discovery_ms = discovery_interval_ms(found.pop(properties_of.DISCOVERY, None))
        self._properties = found
        self._topics = topics
        self._schema = deserialization_schema
        self._produced_type = produced_type
        self._own: dict[str, str] = {}
        self._commits = True
        self._strategy: WatermarkStrategy | None = None
        self._event_time = "event_time"
        if self._needs_group_id:
            self._check_group_id(f"{type(self).__name__} is used")
        # The group may be missing until the user chooses another start.
        self._start: KafkaOffsetsInitializer | None = None
        self._builder(is_bounded=False, start=KafkaOffsetsInitializer.earliest()).build()

    def set_start_from_earliest(self: _C) -> _C:
        """Start at the first record of each topic partition."""
        self._start = KafkaOffsetsInitializer.earliest()
        return self

    def set_start_from_latest(self: _C) -> _C:
        """Start at the end of each topic partition."""
        self._start = KafkaOffsetsInitializer.latest()
        return self

    def set_start_from_timestamp(self: _C, startup_offsets_timestamp: int) -> _C:
        """Start at the first record that is not older; without one at the end.

        Args:
            startup_offsets_timestamp: milliseconds since 1970, not in the future.
        """
        time_ms, now_ms = startup_offsets_timestamp, time.time_ns() // 1_000_000
        if not isinstance(time_ms, int) or isinstance(time_ms, bool) or not 0 <= time_ms <= now_ms:
            raise OptionError(
                f"The startup timestamp cannot be {time_ms!r}. Allowed: a whole number of milliseconds "
                f"since 1970, from 0 to the present time ({now_ms}).",
                value=time_ms,
            )
        self._start = KafkaOffsetsInitializer.timestamp(time_ms)
        return self

    def set_start_from_group_offsets(self: _C) -> _C:
        """Start at the committed offsets of the group, and at `auto.offset.reset` where it has none."""
        self._start = None
        return self

    def set_start_from_specific_offsets(
        self: _C, specific_startup_offsets: Mapping[TopicPartition, int | None]
    ) -> _C:
        """Start at these offsets; a topic partition that is not named starts at its group offset.

        Args:
            specific_startup_offsets: `KafkaTopicPartition` to the offset of the next record to read.
        """
        self._start = SpecificOffsets.of(
            specific_startup_offsets, self._reset, has_group=bool(self._properties.get("group.id"))
        )
        return self

    def set_commit_offsets_on_checkpoints(self: _C, commit_on_checkpoints: bool) -> _C:
        """Set whether a stream commits its position to the group after each checkpoint. Default: true.

        Without `group.id` nothing is committed.
        """
        self._commits = bool(commit_on_checkpoints)
        return self

    def get_enable_commit_on_checkpoints(self) -> bool:
        """Return whether positions are committed."""
        return self._commits

    def disable_filter_restored_partitions_with_subscribed_topics(self: _C) -> _C:
        """Raise an error, because a query always stops reading topics that it does not subscribe to.

        Raises:
            UnsupportedOptionError: always.
        """
        raise UnsupportedOptionError(
            "disable_filter_restored_partitions_with_subscribed_topics is not supported: a query that "
            "continues from its checkpoint reads only the topics of this consumer. Nothing was read. To "
            "keep reading the earlier topics, name them in the constructor too."
        )

    def get_produced_type(self) -> Any:
        """Return the columns in the form of `DataFrameReader.schema`; None: Spark's columns of Kafka."""
        return self._builder(is_bounded=False, start=KafkaOffsetsInitializer.earliest()).build().schema

    def assign_timestamps_and_watermarks(
        self: _C, strategy: Any, *, event_time_column: str = "event_time"
    ) -> _C:
        """Add the event time to the rows, and let `load` set Spark's watermark on it.

        Topic partitions are aligned, so that Spark drops no row of a slow one as late. The delay of the
        watermark is the drift between topic partitions (1 min by default) plus the disorder in each of them.

        Args:
            strategy: a WatermarkStrategy, or a subclass of BoundedOutOfOrdernessTimestampExtractor or
                AscendingTimestampExtractor.
            event_time_column: the name of the column, of type TIMESTAMP.

        Raises:
            OptionError: it is not a strategy.
            UnsupportedOptionError: it makes watermarks by itself (punctuated, or its own periodic ones).
        """
        from penstock.flink.legacy.watermarks import strategy_of  # noqa: PLC0415 - it loads Arrow

        self._strategy, self._event_time = strategy_of(strategy), event_time_column
        return self

    def set_option(self: _C, key: str, value: str) -> _C:
        """Set an option of penstock, such as `scan.max-records-per-batch`. Flink does not have it."""
        self._own[key] = value
        return self

    def source(self, *, is_bounded: bool = False) -> KafkaSource:
        """Return the `KafkaSource` that this consumer stands for, with its options.

        Args:
            is_bounded: true for a batch read up to the present end of each topic partition.

        Raises:
            MissingOptionError: the start needs `group.id`.
            OptionError: an option is not allowed.
        """
        return self._with_event_time(self._builder(is_bounded=is_bounded, start=self._starting()).build())

    def _with_event_time(self, source: KafkaSource) -> KafkaSource:
        if self._strategy is None:
            return source
        return replace(source, schema=_with_column(source.schema, self._event_time))

    def load(self, spark: SparkSession) -> DataFrame:
        """Return the rows as a streaming DataFrame. It stands for `env.add_source(consumer)`.

        Raises:
            UnsupportedOptionError: the schema has its own `is_end_of_stream` (other than `return False`).
        """
        if self._ends():
            raise UnsupportedOptionError(
                f"{type(self._schema).__name__} has an is_end_of_stream, but the tasks of a stream do not "
                "know what earlier micro-batches have read, so rows after the end could appear. Nothing was "
                "read. Use load_batch(spark) or load_bounded(spark). If the stream never ends, delete the "
                "method, or let it contain only `return False`."
            )
        return self._stream(spark, self.source())

    def load_bounded(self, spark: SparkSession) -> DataFrame:
        """Return a streaming DataFrame that ends: at the present end of each topic partition.

        "Present" is when the query is first planned. If the schema has its own `is_end_of_stream`, a topic
        partition ends before the first such element. To find it, the driver reads each topic partition from
        its start up to that element, before the first micro-batch. The checkpoint keeps the ends, so a query
        that is started again ends at the same ones. See `penstock.run_until_bounded`.
        """
        stopping = KafkaOffsetsInitializer.latest()
        if self._ends():
            stopping = EndsOfStreams(self._schema)
        builder = self._builder(is_bounded=False, start=self._starting(), remembers_ends=False)
        return self._stream(spark, self._with_event_time(builder.set_unbounded(stopping).build()))

    def _stream(self, spark: SparkSession, source: KafkaSource) -> DataFrame:
        """Return the rows of a stream, with Spark's watermark if there is a strategy."""
        rows, strategy = source.load(spark), self._strategy
        if strategy is None or strategy.disorder_ms is None:
            return rows
        drift_ms = parse_duration_ms(source.options[ALIGNMENT_MAX_DRIFT.key])
        delay = f"{drift_ms + strategy.disorder_ms} milliseconds"
        return with_watermark(rows, self._event_time, delay, source=source)

    def load_batch(self, spark: SparkSession) -> DataFrame:
        """Return the rows up to the present end of each topic partition, as a batch DataFrame.

        If the schema has its own `is_end_of_stream`, a topic partition ends before the first such element.

        Raises:
            OptionError: an option divides topic partitions, and the schema has an `is_end_of_stream`.
        """
        if self._ends() and (given := [key for key in _DIVIDED_BY if key in self._own]):
            raise OptionError(
                f"Option '{given[0]}' divides a topic partition among tasks, and then a task does not know "
                "that an earlier part has ended. Leave it out, or is_end_of_stream.",
                option=given[0],
            )
        return self.source(is_bounded=True).load(spark)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._topics!r})"

    # Java's names.
    setStartFromEarliest = set_start_from_earliest
    setStartFromLatest = set_start_from_latest
    setStartFromTimestamp = set_start_from_timestamp
    setStartFromGroupOffsets = set_start_from_group_offsets
    setStartFromSpecificOffsets = set_start_from_specific_offsets
    setCommitOffsetsOnCheckpoints = set_commit_offsets_on_checkpoints
    getEnableCommitOnCheckpoints = get_enable_commit_on_checkpoints
    disableFilterRestoredPartitionsWithSubscribedTopics = (
        disable_filter_restored_partitions_with_subscribed_topics
    )
    getProducedType = get_produced_type
    assignTimestampsAndWatermarks = assign_timestamps_and_watermarks

    def _starting(self) -> KafkaOffsetsInitializer:
        """Return where reading begins; without a group, "group offsets" is the position of the reset."""
        start, has_group = self._start, bool(self._properties.get("group.id"))
        needs_offsets = start is None or isinstance(start, SpecificOffsets)
        if needs_offsets and self._reset is KafkaOffsetResetStrategy.NONE:
            self._check_group_id("auto.offset.reset = 'none'")
        if start is not None:
            return start
        if has_group:
            return KafkaOffsetsInitializer.committed_offsets(self._reset)
        if self._reset is KafkaOffsetResetStrategy.EARLIEST:
            return KafkaOffsetsInitializer.earliest()
        return KafkaOffsetsInitializer.latest()

    def _builder(
        self, *, is_bounded: bool, start: KafkaOffsetsInitializer, remembers_ends: bool = True
    ) -> KafkaSourceBuilder:
        """Return the builder of a source; see `ElementsOf` for `remembers_ends`."""
        builder = KafkaSource.builder().set_properties(self._properties).set_starting_offsets(start)
        if isinstance(self._topics, re.Pattern):
            builder.set_topic_pattern(_pattern(self._topics))
        else:
            builder.set_topics([self._topics] if isinstance(self._topics, str) else list(self._topics))
        interval_ms = -1 if is_bounded else self._discovery_ms
        builder.set_property("partition.discovery.interval.ms", str(interval_ms))
        if not self._commits:
            builder.set_property("commit.offsets.on.checkpoint", "false")
        self._set_deserializer(builder, remembers_ends=remembers_ends)
        for key, value in {**self._time_options(), **self._own}.items():
            builder.set_option(key, value)
        return builder.set_bounded(KafkaOffsetsInitializer.latest()) if is_bounded else builder

    def _time_options(self) -> dict[str, str]:
        return {} if self._strategy is None else self._strategy.options(self._event_time)

    def _set_deserializer(self, builder: KafkaSourceBuilder, *, remembers_ends: bool) -> None:
        from penstock.table.older_schemas import (  # noqa: PLC0415 - it loads Arrow
            ElementsOf,
            KafkaDeserializationSchema,
            KeyedDeserializationSchema,
        )
        from penstock.table.user_decoder import (  # noqa: PLC0415 - it loads Arrow
            ArrowDeserializationSchema,
            KafkaRecordDeserializationSchema,
        )

        schema, produced_type = self._schema, self._produced_type
        is_older = isinstance(schema, (KeyedDeserializationSchema, KafkaDeserializationSchema))
        if is_older or self._ends():
            elements = ElementsOf(schema, remembers_ends=remembers_ends)
            builder.set_deserializer(elements, produced_type=produced_type)
        elif isinstance(schema, (KafkaRecordDeserializationSchema, ArrowDeserializationSchema)):
            builder.set_deserializer(schema, produced_type=produced_type)
        else:
            builder.set_value_only_deserializer(schema, produced_type=produced_type)

    def _ends(self) -> bool:
        """Return whether the schema has its own `is_end_of_stream`."""
        from penstock.table.older_schemas import end_of_stream  # noqa: PLC0415 - it loads Arrow

        return end_of_stream(self._schema) is not None

    def _check_group_id(self, why: str) -> None:
        if not self._properties.get("group.id"):
            raise MissingOptionError(
                f"Property group.id is required, because {why}. Set it, or another start.", option="group.id"
            )


def _strategy(text: str) -> KafkaOffsetResetStrategy:
    try:
        return KafkaOffsetResetStrategy(text)
    except ValueError:
        raise OptionError(
            f"Property auto.offset.reset cannot be {text!r}. Allowed: latest, earliest, none, and of Kafka "
            "0.8 largest, smallest.",
            option=properties_of.RESET,
            value=text,
        ) from None


def _with_column(schema: Any, name: str) -> Any:
    """Return the columns of a read with one more of event time."""
    if isinstance(schema, str):
        return f"{schema}, `{name}` TIMESTAMP"
    return type(schema)(list(schema.fields)).add(name, "timestamp")


def _pattern(pattern: re.Pattern[str]) -> str:
    if pattern.flags & ~re.UNICODE:
        raise OptionError(
            f"The pattern {pattern.pattern!r} has flags, which do not travel to Spark. Write them into the "
            "pattern, such as '(?i)orders.*'."
        )
    return pattern.pattern
