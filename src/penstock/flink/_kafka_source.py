"""Build a source with PyFlink's methods: `KafkaSource.builder()`.

Runs in the user's program, on Spark classic and Connect. Invariants: `build()` finds errors without talking
to Kafka. A source is only its options and columns. Its repr shows no value that may be a secret.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock._pyspark import check_pyspark
from penstock.errors import MissingOptionError, OptionError
from penstock.flink._pickling import to_text
from penstock.flink.offsets_initializer import (
    Committed,
    Earliest,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    Latest,
    Specific,
    Timestamp,
)
from penstock.options.offset_text import COMMITTED_OFFSET, format_flink_offsets, format_topic_partitions
from penstock.options.parse import ReadConfig, parse_read
from penstock.options.table_spec import TableSpec
from penstock.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.flink._deserialization import Deserialization

_log = logging.getLogger(__name__)

_RESET = "auto.offset.reset"
_DISCOVERY = "partition.discovery.interval.ms"
_COMMIT = "commit.offsets.on.checkpoint"
_SHOWN = ("topic", "topic-pattern", "topic-partitions", "scan.startup.", "scan.bounded.")
"""Options whose values a repr shows: topics, start and end. Their values are never secrets."""
_PICKLED = ".initializer"
_SOURCE_KEYS = ("client.id.prefix", "register.consumer.metrics", _COMMIT)
"""Options of the source that Flink's builder accepts as properties, although Kafka does not have them."""


@dataclass(frozen=True)
class KafkaSource:
    """A source. Use `KafkaSource.builder()`.

    Attributes:
        options: the equivalent options of `format("penstock")`.
        is_bounded: whether it is a batch read (true) or a stream.
        schema: the columns of the rows if a deserializer makes them, in the form of `DataFrameReader.schema`.
    """

    options: Mapping[str, str]
    is_bounded: bool = False
    schema: Any = None

    def __repr__(self) -> str:
        """Show servers, topics, start and end, and count the other options, which may be secrets."""
        shown = {key: value for key, value in self.options.items() if _is_shown(key)}
        parts = [f"{key}={'...' if key.endswith(_PICKLED) else repr(value)}" for key, value in shown.items()]
        if len(self.options) > len(shown):
            parts.append(f"options not shown: {len(self.options) - len(shown)}")
        parts += [f"is_bounded={self.is_bounded}", f"schema={self.schema!r}"]
        return f"KafkaSource({', '.join(parts)})"

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        """Return a builder.

        Required: `set_bootstrap_servers` and one of `set_topics`, `set_topic_pattern`, `set_partitions`.
        By default the source is a stream from the earliest offset, with keys and values as bytes.
        """
        return KafkaSourceBuilder()

    def load(self, spark: SparkSession) -> DataFrame:
        """Return the records as a DataFrame. It is a streaming one, unless the source is bounded."""
        reader = spark.read if self.is_bounded else spark.readStream
        reader = reader.format("penstock").options(**self.options)
        return (reader if self.schema is None else reader.schema(self.schema)).load()

    def as_table(self, spark: SparkSession, name: str) -> DataFrame:
        """Return the records like `load`, and create the temporary view `name` of them, for SQL."""
        records = self.load(spark)
        records.createOrReplaceTempView(name)
        return records


class KafkaSourceBuilder:
    """Builder with PyFlink's methods. Each method returns the builder.

    Without a deserializer the rows have Spark's columns (key, value, topic, partition, offset, timestamp
    ...). Decode them with Spark's functions.
    """

    def __init__(self) -> None:
        check_pyspark()
        self._properties: dict[str, str] = {}
        self._own: dict[str, str] = {}
        self._subscription: tuple[str, dict[str, str]] | None = None
        self._starting: KafkaOffsetsInitializer = KafkaOffsetsInitializer.earliest()
        self._stopping: KafkaOffsetsInitializer | None = None
        self._is_bounded = False
        self._deserialization: Deserialization | None = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSourceBuilder:
        """Set the brokers to connect to first, `host:port,host:port`. Required."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_group_id(self, group_id: str) -> KafkaSourceBuilder:
        """Set the consumer group whose offsets are used and committed. Penstock never joins it."""
        return self.set_property("group.id", group_id)

    def set_topics(self, *topics: str | Collection[str]) -> KafkaSourceBuilder:
        """Read these topics: `set_topics("a", "b")`, or a list of names."""
        return self._subscribe("topics", {"topic": ";".join(_topic_names(topics))})

    def set_topic_pattern(self, topic_pattern: str) -> KafkaSourceBuilder:
        """Read every topic whose whole name matches, and topics that are created later."""
        return self._subscribe("topic pattern", {"topic-pattern": topic_pattern})

    def set_partitions(self, partitions: Collection[TopicPartition]) -> KafkaSourceBuilder:
        """Read exactly these topic partitions."""
        wanted = sorted(TopicPartition(*tp) for tp in partitions)
        return self._subscribe("partitions", {"topic-partitions": format_topic_partitions(wanted)})

    def set_starting_offsets(
        self, starting_offsets_initializer: KafkaOffsetsInitializer
    ) -> KafkaSourceBuilder:
        """Set where a new query begins (default: earliest). A checkpoint overrides it."""
        self._starting = _checked(starting_offsets_initializer)
        return self

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Stop before these offsets. `load` then returns a batch DataFrame."""
        self._stopping, self._is_bounded = _checked(stopping_offsets_initializer), True
        return self

    def set_unbounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Stop a stream before these offsets; see `penstock.run_until_bounded`."""
        self._stopping, self._is_bounded = _checked(stopping_offsets_initializer), False
        return self

    def set_value_only_deserializer(
        self, deserialization_schema: Any, *, produced_type: Any = None
    ) -> KafkaSourceBuilder:
        """Set how values become rows.

        Args:
            deserialization_schema: SimpleStringSchema, JsonRowDeserializationSchema or another schema of a
                format, which decode in compiled code; your own DeserializationSchema, a Kafka-style
                Deserializer, or a function of the bytes of the value.
            produced_type: the columns, if the schema does not define them: a StructType, a text such as
                `id BIGINT, name STRING`, or a type for a column `value`.
        """
        from penstock.flink._deserialization import value_deserialization  # noqa: PLC0415 - it loads Arrow

        return self._deserialize(value_deserialization(deserialization_schema, produced_type))

    def set_deserializer(self, record_deserializer: Any, *, produced_type: Any = None) -> KafkaSourceBuilder:
        """Set how whole records (key, value, headers, topic, partition, offset, timestamp) become rows.

        Args:
            record_deserializer: a KafkaRecordDeserializationSchema, an ArrowDeserializationSchema (for
                batches of records, much faster), a JSONKeyValueDeserializationSchema, or a function of a
                ConsumerRecord.
            produced_type: the same as for `set_value_only_deserializer`.
        """
        from penstock.flink._deserialization import record_deserialization  # noqa: PLC0415 - it loads Arrow

        return self._deserialize(record_deserialization(record_deserializer, produced_type))

    def _deserialize(self, deserialization: Deserialization) -> KafkaSourceBuilder:
        if self._deserialization is not None:
            raise OptionError("The source has a deserializer already: set it once.")
        self._deserialization = deserialization
        return self

    def set_client_id_prefix(self, prefix: str) -> KafkaSourceBuilder:
        """Set the name of the clients of this source in the logs and quotas of the brokers."""
        return self.set_property("client.id.prefix", prefix)

    def set_property(self, key: str, value: str) -> KafkaSourceBuilder:
        """Set a property of Kafka's Java client, or one of Flink's four source properties."""
        self._properties[key] = _text(value)
        return self

    def set_properties(self, props: Mapping[str, str]) -> KafkaSourceBuilder:
        """Set several properties."""
        for key, value in props.items():
            self.set_property(key, value)
        return self

    def set_option(self, key: str, value: str) -> KafkaSourceBuilder:
        """Set an option of penstock that has no method here, such as `scan.max-records-per-batch`."""
        self._own[key] = _text(value)
        return self

    def build(self) -> KafkaSource:
        """Return the source, after all checks that do not need Kafka.

        Raises:
            MissingOptionError: the bootstrap servers, the topics, or a group id that is needed are missing.
            OptionError: a value is not allowed, or options contradict each other.
        """
        if "bootstrap.servers" not in self._properties:
            raise MissingOptionError(
                "Property bootstrap.servers is required but not provided: call set_bootstrap_servers.",
                option="bootstrap.servers",
            )
        if self._subscription is None:
            raise MissingOptionError(
                "The source does not know what to read: call one of set_topics, set_topic_pattern and "
                "set_partitions."
            )
        self._check_group_id()
        options = self._options(self._subscription[1])
        made = self._deserialization
        if made is not None:
            options |= made.options
        twice = sorted(options.keys() & {key.lower() for key in self._own})
        if twice:
            raise OptionError(
                f"set_option sets what other methods have set already: {', '.join(twice)}. Set each once."
            )
        options |= self._own
        _check_formats(parse_read(options, streaming=not self._is_bounded))
        return KafkaSource(options, self._is_bounded, None if made is None else made.schema)

    def _subscribe(self, what: str, option: dict[str, str]) -> KafkaSourceBuilder:
        if self._subscription is not None:
            raise OptionError(
                f"The source already reads {self._subscription[0]}, so it cannot also read {what}. Set one "
                "of topics, topic pattern and partitions, once."
            )
        self._subscription = (what, option)
        return self

    def _check_group_id(self) -> None:
        if self._properties.get("group.id"):
            return
        for key in (_COMMIT, "enable.auto.commit"):
            if self._properties.get(key, "").strip().lower() == "true":
                raise _needs_group_id(f"{key} is true")
        for initializer in (self._starting, self._stopping):
            if isinstance(initializer, Committed):
                raise _needs_group_id("committed offsets are used")
            if isinstance(initializer, Specific):
                for tp, offset in initializer.given:
                    if offset == COMMITTED_OFFSET:
                        raise _needs_group_id(f"{tp} has the committed offset (-3)")

    def _options(self, subscription: Mapping[str, str]) -> dict[str, str]:
        properties, options = dict(self._properties), dict(subscription)
        self._override_reset(properties)
        options |= {key: properties.pop(key) for key in _SOURCE_KEYS if key in properties}
        interval = properties.pop(_DISCOVERY, None)
        if self._is_bounded:
            if interval not in (None, "-1"):
                _warn_overridden(_DISCOVERY, interval, "-1")
            interval = "-1"
        if interval is not None:
            options["scan.topic-partition-discovery.interval"] = _discovery_interval(interval)
        options |= _end_options("startup", self._starting)
        if self._stopping is not None:
            options |= _end_options("bounded", self._stopping)
        return options | {f"properties.{key}": value for key, value in properties.items()}

    def _override_reset(self, properties: dict[str, str]) -> None:
        """Use the strategy of the starting initializer instead of the property, as Flink does."""
        strategy = self._starting.get_auto_offset_reset_strategy().value
        given = properties.pop(_RESET, None)
        if given not in (None, strategy):
            _warn_overridden(_RESET, given, strategy)
        if isinstance(self._starting, Committed):
            properties[_RESET] = strategy


def _is_shown(key: str) -> bool:
    return key == "properties.bootstrap.servers" or key.startswith(_SHOWN)


def _topic_names(given: Collection[Any]) -> list[str]:
    names: list[str] = []
    for each in given:
        names += each if isinstance(each, (list, tuple, set, frozenset)) else [each]
    for name in names:
        if not isinstance(name, str):
            raise OptionError(
                f"Expected names of topics, got {type(name).__name__}. Write set_topics('a', 'b')."
            )
    return names


def _check_formats(config: ReadConfig) -> None:
    """Let each format check its own options."""
    if isinstance(config.table, TableSpec):
        from penstock.formats import format_of  # noqa: PLC0415 - it loads Arrow

        for spec in (config.table.value_format, config.table.key_format):
            if spec is not None:
                format_of(spec)


def _end_options(end: str, initializer: KafkaOffsetsInitializer) -> dict[str, str]:
    """Return the options for one end; `end` is "startup" or "bounded"."""
    mode = f"scan.{end}.mode"
    if isinstance(initializer, Earliest):
        if end == "bounded":
            raise OptionError("Reading cannot end at the earliest offset: nothing would be read.")
        return {mode: "earliest-offset"}
    if isinstance(initializer, Latest):
        return {mode: "latest-offset"}
    if isinstance(initializer, Timestamp):
        form = "timestamp-millis" if isinstance(initializer.given, int) else "timestamp"
        return {mode: "timestamp", f"scan.{end}.{form}": initializer.text}
    if isinstance(initializer, Committed):
        return {mode: "group-offsets"}
    if isinstance(initializer, Specific) and (
        end == "bounded" or initializer.strategy is KafkaOffsetResetStrategy.EARLIEST
    ):
        return {
            mode: "specific-offsets",
            f"scan.{end}.specific-offsets": format_flink_offsets(initializer.given),
        }
    return {f"scan.{end}.initializer": to_text(initializer)}


def _discovery_interval(text: str) -> str:
    try:
        interval_ms = int(text)
    except ValueError:
        raise OptionError(
            f"Property {_DISCOVERY} cannot be {text!r}. Allowed: a number of milliseconds; 0 or less turns "
            "discovery off.",
            option=_DISCOVERY,
            value=text,
        ) from None
    return f"{max(0, interval_ms)} ms"


def _checked(initializer: KafkaOffsetsInitializer) -> KafkaOffsetsInitializer:
    if not isinstance(initializer, KafkaOffsetsInitializer):
        raise OptionError(
            f"Expected an offsets initializer, got {type(initializer).__name__}. Use "
            "KafkaOffsetsInitializer.earliest() and its other static methods, or subclass it."
        )
    return initializer


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _needs_group_id(why: str) -> MissingOptionError:
    return MissingOptionError(
        f"Property group.id is required, because {why}: call set_group_id.", option="group.id"
    )


def _warn_overridden(key: str, given: str | None, used: str) -> None:
    _log.warning("Property %s is provided but will be overridden from %s to %s", key, given, used)
