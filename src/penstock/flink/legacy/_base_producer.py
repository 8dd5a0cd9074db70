"""The shared part of the older producers.

Runs in the user's program. Invariant: `sink` makes a `KafkaSink` of the settings, so writing has no code of
its own here. The constructor checks what needs neither Kafka nor Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from penstock.errors import MissingOptionError, OptionError, UnsupportedOptionError
from penstock.flink._kafka_sink import KafkaSink
from penstock.flink.legacy._missing import ABSENT, NamesWhatToUse, snake_case
from penstock.flink.legacy._properties import BOOTSTRAP, producer_properties
from penstock.flink.legacy.partitioners import FlinkFixedPartitioner
from penstock.flink.legacy.serialization import (
    KafkaSerializationSchema,
    KeyedSerializationSchema,
    OlderRecords,
)
from penstock.flink.record_serialization import KafkaRecordSerializationSchema
from penstock.options.config import FIXED_PARTITIONER, DeliveryGuarantee

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.streaming.query import StreamingQuery

TIMEOUT = "transaction.timeout.ms"
_P = TypeVar("_P", bound="BaseProducer")


class Semantic(Enum):
    """The promise of a FlinkKafkaProducer."""

    EXACTLY_ONCE = "exactly-once"
    """Each micro-batch is written once, with Kafka's transactions."""
    AT_LEAST_ONCE = "at-least-once"
    """Every record is acknowledged by all in-sync replicas. A repeated micro-batch may double records."""
    NONE = "none"
    """Acknowledgements follow `acks`. Records may be lost or doubled."""


class BaseProducer(NamesWhatToUse):
    """The shared part of all producers."""

    _default_semantic: ClassVar[Semantic] = Semantic.AT_LEAST_ONCE

    def __init__(
        self,
        topic: str,
        serialization_schema: Any,
        producer_config: Mapping[str, Any] | str,
        *,
        partitioner: Any = FlinkFixedPartitioner,
    ) -> None:
        if not isinstance(producer_config, Mapping):  # (broker list, topic, schema)
            brokers, topic, serialization_schema = topic, serialization_schema, producer_config
            producer_config = {BOOTSTRAP: brokers}
        self._topic = topic
        self._schema = serialization_schema
        _check_members(serialization_schema)
        self._properties = producer_properties(producer_config)
        self._partitioner = _checked_partitioner(partitioner, serialization_schema)
        self._semantic = self._default_semantic
        self._prefix: str | None = None
        self._logs_failures = False
        self._writes_timestamps = False
        self._timestamp_column: str | None = None
        self._own: dict[str, str] = {}
        self._serializer()

    def set_log_failures_only(self: _P, log_failures_only: bool) -> _P:
        """Set whether records that Kafka does not take are only logged, and lost. Default: false."""
        self._logs_failures = bool(log_failures_only)
        return self

    def set_option(self: _P, key: str, value: str) -> _P:
        """Set an option of penstock, such as `sink.commit-log.topic`. Flink does not have it."""
        self._own[key] = value
        return self

    def sink(self, *, is_batch: bool = False) -> KafkaSink:
        """Return the `KafkaSink` that this producer stands for, with its options.

        Args:
            is_batch: true for a batch write, which always waits until Kafka has acknowledged its records.

        Raises:
            MissingOptionError: EXACTLY_ONCE has no prefix.
            OptionError: an option is not allowed.
        """
        guarantee = self._guarantee()
        builder = KafkaSink.builder().set_properties(self._settings(guarantee))
        builder.set_record_serializer(self._serializer()).set_delivery_guarantee(guarantee)
        if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            builder.set_transactional_id_prefix(self._needed_prefix())
        if self._logs_failures:
            builder.set_option("sink.on-delivery-failure", "log")
        more = {} if is_batch else self._more_options()
        for key, value in {**more, **self._own}.items():
            builder.set_option(key, value)
        return builder.build()

    def write(self, rows: DataFrame) -> None:
        """Write a batch DataFrame and return after it is written."""
        self.sink(is_batch=True).write(rows)

    def write_stream(
        self, rows: DataFrame, checkpoint_location: str, *, trigger: Mapping[str, Any] | None = None
    ) -> StreamingQuery:
        """Start a query that writes a streaming DataFrame. It stands for `stream.add_sink(producer)`.

        Args:
            rows: the DataFrame to write.
            checkpoint_location: the folder where Spark keeps the state of the query.
            trigger: Spark's trigger, e.g. `{"processingTime": "10 seconds"}`, like the checkpoint interval.
        """
        return self.sink().write_stream(rows, checkpoint_location, trigger=trigger)

    @staticmethod
    def get_properties_from_broker_list(broker_list: str) -> dict[str, str]:
        """Return the properties of a producer for these brokers, `host:port,host:port`."""
        return {BOOTSTRAP: broker_list}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._topic!r})"

    setLogFailuresOnly = set_log_failures_only
    getPropertiesFromBrokerList = get_properties_from_broker_list

    def _guarantee(self) -> DeliveryGuarantee:
        if not self._logs_failures:
            return DeliveryGuarantee(self._semantic.value)
        if self._semantic is Semantic.EXACTLY_ONCE:
            raise OptionError(
                "set_log_failures_only(True) loses records, which contradicts Semantic.EXACTLY_ONCE. Leave "
                "it out, or use another semantic."
            )
        return DeliveryGuarantee.NONE

    def _more_options(self) -> dict[str, str]:
        """Return the options of streams with this version."""
        return {}

    def _settings(self, guarantee: DeliveryGuarantee) -> dict[str, str]:
        """Return the properties of Kafka that count with this guarantee."""
        if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            return self._properties
        return {key: text for key, text in self._properties.items() if key != TIMEOUT}

    def _needed_prefix(self) -> str:
        if self._prefix is None:
            raise MissingOptionError(
                "Semantic.EXACTLY_ONCE needs a transactional id prefix, by which the transactions of this "
                "query are found after a failure. Flink takes it from the name of the task, which Spark does "
                "not have. Call set_transactional_id_prefix, with a different prefix for each query.",
                option="sink.transactional-id-prefix",
            )
        return self._prefix

    def _serializer(self) -> OlderRecords:
        schema = self._schema
        common = {"writes_timestamps": self._writes_timestamps, "event_time_column": self._timestamp_column}
        if isinstance(schema, KafkaSerializationSchema):
            return OlderRecords(None, whole=schema, **common)  # type: ignore[arg-type]  # of both attributes
        builder = KafkaRecordSerializationSchema.builder()
        if isinstance(schema, KeyedSerializationSchema):
            builder.set_key_serialization_schema(schema.serialize_key)
            builder.set_value_serialization_schema(schema.serialize_value)
        else:
            builder.set_value_serialization_schema(schema)
        if isinstance(schema, KeyedSerializationSchema) and _topic_method(schema) is not None:
            builder.set_topic_selector(_TargetTopic(schema, self._topic))
        else:
            builder.set_topic(self._topic)
        if self._partitioner is not None:
            builder.set_partitioner(self._partitioner)
        made = builder.build()
        return OlderRecords(
            made.value_schema,
            made.key_schema,
            made.topic,
            made.topic_selector,
            partitioner=made.partitioner,
            **common,  # type: ignore[arg-type]  # of both attributes
        )


class _TargetTopic:
    """Chooses the topic of a row: that of the schema, or else that of the producer."""

    def __init__(self, schema: KeyedSerializationSchema, topic: str) -> None:
        self.user_object = schema
        self._topic = topic

    def __call__(self, row: Row) -> str:
        chosen = _topic_method(self.user_object)
        return (None if chosen is None else chosen(row)) or self._topic


def _topic_method(schema: KeyedSerializationSchema) -> Callable[[Row], str | None] | None:
    """Return the method of the user that chooses topics, by its name in Java or Python; None without one."""
    found: Callable[[Row], str | None] | None = getattr(schema, "getTargetTopic", None)
    if found is not None:
        return found
    is_default = type(schema).get_target_topic is KeyedSerializationSchema.get_target_topic
    return None if is_default else schema.get_target_topic


def _check_members(schema: Any) -> None:
    """Refuse a schema with methods that nothing would call."""
    if not isinstance(schema, KafkaSerializationSchema):
        return
    for java, note in ABSENT[KafkaSerializationSchema.__name__].items():
        name = snake_case(java)
        if hasattr(schema, java) or hasattr(schema, name):
            raise UnsupportedOptionError(
                f"{type(schema).__name__} has the method {name}, which penstock never calls. {note}"
            )


def _checked_partitioner(partitioner: Any, schema: Any) -> Any:
    """Return the argument of `set_partitioner`; None for Java's hash of the key."""
    is_fixed = partitioner is FlinkFixedPartitioner or isinstance(partitioner, FlinkFixedPartitioner)
    if not isinstance(schema, KafkaSerializationSchema):
        return FIXED_PARTITIONER if is_fixed else partitioner
    if not is_fixed and partitioner is not None:
        raise OptionError(
            "A partitioner cannot be used with a KafkaSerializationSchema, which chooses the partition "
            "itself: ProducerRecord(..., partition=...). Leave the partitioner out."
        )
    return None
