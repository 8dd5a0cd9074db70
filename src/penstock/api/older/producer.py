"""Write with the older API: `FlinkKafkaProducer`, and the classes with a version of Kafka in their name.

Runs in the user's program, on Spark classic and Connect. Invariant: `sink` makes a `KafkaSink` of the
settings, so writing has no code of its own here. A setting with which records may be lost is logged once.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from penstock.api._kafka_sink import KafkaSink
from penstock.api.older._missing import NamesWhatToUse
from penstock.api.older._properties import BOOTSTRAP, producer_properties
from penstock.api.older.conformance import MEMBERS, Verdict
from penstock.api.older.partitioners import FlinkFixedPartitioner
from penstock.api.older.serialization import (
    KafkaSerializationSchema,
    KeyedSerializationSchema,
    OlderRecords,
)
from penstock.api.record_serialization import KafkaRecordSerializationSchema
from penstock.errors import MissingOptionError, OptionError, UnsupportedOptionError
from penstock.options.config import FIXED_PARTITIONER, DeliveryGuarantee
from penstock.options.warn import warn_once

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger("penstock.older")

_TIMEOUT = "transaction.timeout.ms"
_P = TypeVar("_P", bound="_Producer")


class Semantic(Enum):
    """The promise of a FlinkKafkaProducer."""

    EXACTLY_ONCE = "exactly-once"
    """Each micro-batch is written once, with Kafka's transactions."""
    AT_LEAST_ONCE = "at-least-once"
    """Every record is acknowledged by all in-sync replicas. A repeated micro-batch may double records."""
    NONE = "none"
    """Acknowledgements follow `acks`. Records may be lost or doubled."""


_Promise = Semantic
"""For annotations in a class that has the name `Semantic` too."""


class _Producer(NamesWhatToUse):
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

    def sink(self) -> KafkaSink:
        """Return the `KafkaSink` that this producer stands for, with its options.

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
        for key, value in {**self._more_options(), **self._own}.items():
            builder.set_option(key, value)
        return builder.build()

    def write(self, rows: DataFrame) -> None:
        """Write a batch DataFrame and return after it is written."""
        self.sink().write(rows)

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
        """Return the options of a version."""
        return {}

    def _settings(self, guarantee: DeliveryGuarantee) -> dict[str, str]:
        """Return the properties of Kafka that count with this guarantee."""
        if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            return self._properties
        return {key: text for key, text in self._properties.items() if key != _TIMEOUT}

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
        if isinstance(schema, KeyedSerializationSchema) and _chooses_topics(schema):
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


class FlinkKafkaProducer(_Producer):
    """A sink with Flink's older methods. Each method returns the producer.

    Constructors, as in Flink; the fourth and later arguments may also be given by name:

    - `(broker list, topic, schema)`
    - `(topic, schema, properties)`, and after these a partitioner (None: Java's hash of the key), a Semantic
      and a pool size, in any order

    Args:
        topic: the topic to write to.
        serialization_schema: SimpleStringSchema, a SerializationSchema or KeyedSerializationSchema of your
            own, a KafkaSerializationSchema, or anything that KafkaRecordSerializationSchema takes for values.
        producer_config: properties of Kafka. Required: `bootstrap.servers`.
        semantic: AT_LEAST_ONCE by default.
        custom_partitioner: a FlinkKafkaPartitioner or function; None for Java's hash of the key. By default
            all rows of a task go to one partition (FlinkFixedPartitioner), as in Flink.
        kafka_producer_pool_size: accepted. It has no meaning, because penstock needs no pool.
    """

    SAFE_SCALE_DOWN_FACTOR = 5
    """It has no meaning here: the decision log knows every transaction, whatever the number of tasks."""
    DEFAULT_KAFKA_PRODUCERS_POOL_SIZE = 5
    """It has no meaning here; see `kafka_producer_pool_size`."""
    KEY_DISABLE_METRICS = "flink.disable-metrics"
    """A property without an effect."""
    Semantic = Semantic

    def __init__(
        self,
        topic: str,
        serialization_schema: Any,
        producer_config: Any,
        *more: Any,
        semantic: _Promise | None = None,
        custom_partitioner: Any = FlinkFixedPartitioner,
        kafka_producer_pool_size: int | None = None,
    ) -> None:
        for argument in more:
            if isinstance(argument, _Promise):
                semantic = argument
            elif isinstance(argument, int) and not isinstance(argument, bool):
                kafka_producer_pool_size = argument
            else:
                custom_partitioner = argument
        super().__init__(topic, serialization_schema, producer_config, partitioner=custom_partitioner)
        self._semantic = _checked_semantic(semantic)
        _check_pool_size(kafka_producer_pool_size)
        if self._semantic is _Promise.NONE:
            warn_once(
                _log,
                "Semantic.NONE: records may be LOST or doubled when a broker or a task fails. Use "
                "Semantic.AT_LEAST_ONCE, the default, if no record may be lost.",
            )

    def set_flush_on_checkpoint(self, flush_on_checkpoint: bool) -> FlinkKafkaProducer:
        """Accept true, which is always so from Kafka 0.11 on.

        Raises:
            UnsupportedOptionError: it is false. Java's class does not have this method at all.
        """
        if not flush_on_checkpoint:
            raise UnsupportedOptionError(
                f"{type(self).__name__} cannot turn flushing off. Use Semantic.NONE, or the producer of "
                "Kafka 0.10 or older."
            )
        return self

    def set_write_timestamp_to_kafka(
        self, write_timestamp_to_kafka: bool, *, timestamp_column: str | None = None
    ) -> FlinkKafkaProducer:
        """Set whether records get the event time of their rows. Default: false, the time of writing.

        Args:
            write_timestamp_to_kafka: true for the event time.
            timestamp_column: its column. Default: `event_time`, or else `timestamp`.
        """
        self._writes_timestamps = bool(write_timestamp_to_kafka)
        self._timestamp_column = timestamp_column
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> FlinkKafkaProducer:
        """Set the prefix of the names of transactions. Required for EXACTLY_ONCE; one for each query."""
        self._prefix = transactional_id_prefix
        return self

    def ignore_failures_after_transaction_timeout(self) -> FlinkKafkaProducer:
        """Accept the call without an effect.

        In Flink it prevents endless restarts, and loses the records of a transaction that timed out. penstock
        writes them again if the micro-batch is repeated, and otherwise names them in an error.
        """
        warn_once(
            _log,
            "ignore_failures_after_transaction_timeout has no effect: penstock does not lose the records of "
            "a transaction that timed out without an error.",
        )
        return self

    setFlushOnCheckpoint = set_flush_on_checkpoint
    setWriteTimestampToKafka = set_write_timestamp_to_kafka
    setTransactionalIdPrefix = set_transactional_id_prefix
    ignoreFailuresAfterTransactionTimeout = ignore_failures_after_transaction_timeout

    def _settings(self, guarantee: DeliveryGuarantee) -> dict[str, str]:
        if guarantee is DeliveryGuarantee.EXACTLY_ONCE and _TIMEOUT not in self._properties:
            warn_once(
                _log,
                "Flink's default of transaction.timeout.ms is 1 hour, which most brokers do not allow. The "
                "brokers' transaction.max.timeout.ms is used instead.",
            )
        return super()._settings(guarantee)


class FlinkKafkaProducer011(FlinkKafkaProducer):
    """The producer for Kafka 0.11. It writes to every broker that penstock supports."""


class FlinkKafkaProducer08(_Producer):
    """The producer for Kafka 0.8.

    Constructors: `(broker list, topic, schema)`, and `(topic, schema, properties)` with a partitioner after
    these. As in Flink, it does **not** flush on checkpoints by default, so a stream may lose records. Batch
    writes always flush.
    """

    _default_semantic = Semantic.NONE

    def __init__(
        self,
        topic: str,
        serialization_schema: Any,
        producer_config: Any,
        custom_partitioner: Any = FlinkFixedPartitioner,
    ) -> None:
        self._flushes = False
        super().__init__(topic, serialization_schema, producer_config, partitioner=custom_partitioner)

    def set_flush_on_checkpoint(self: _F, flush_on_checkpoint: bool) -> _F:
        """Set whether a micro-batch waits until its records are acknowledged. Default: false.

        True is at-least-once, together with `set_log_failures_only(False)`.
        """
        self._flushes = bool(flush_on_checkpoint)
        self._semantic = Semantic.AT_LEAST_ONCE if flush_on_checkpoint else Semantic.NONE
        return self

    setFlushOnCheckpoint = set_flush_on_checkpoint

    def _more_options(self) -> dict[str, str]:
        if self._flushes:
            return {}
        warn_once(
            _log,
            f"{type(self).__name__} does not flush on checkpoints by default, so a stream may LOSE records "
            "when a worker process or a broker fails. Call set_flush_on_checkpoint(True) for at-least-once.",
        )
        return {"sink.flush-on-checkpoint": "false"}


_F = TypeVar("_F", bound=FlinkKafkaProducer08)


class FlinkKafkaProducer09(FlinkKafkaProducer08):
    """The producer for Kafka 0.9; see FlinkKafkaProducer08."""


class FlinkKafkaProducer010(FlinkKafkaProducer09):
    """The producer for Kafka 0.10; see FlinkKafkaProducer08. It can write timestamps."""

    def set_write_timestamp_to_kafka(
        self, write_timestamp_to_kafka: bool, *, timestamp_column: str | None = None
    ) -> FlinkKafkaProducer010:
        """See `FlinkKafkaProducer.set_write_timestamp_to_kafka`."""
        self._writes_timestamps = bool(write_timestamp_to_kafka)
        self._timestamp_column = timestamp_column
        return self

    @staticmethod
    def write_to_kafka_with_timestamps(
        in_stream: DataFrame,
        topic: str,
        serialization_schema: Any,
        producer_config: Mapping[str, Any],
        custom_partitioner: Any = FlinkFixedPartitioner,
    ) -> FlinkKafkaProducer010Configuration:
        """Return the settings of a write of `in_stream`; `write_stream` starts it.

        As in Flink, timestamps are written only after `set_write_timestamp_to_kafka(True)`.
        """
        producer = FlinkKafkaProducer010(topic, serialization_schema, producer_config, custom_partitioner)
        return FlinkKafkaProducer010Configuration(in_stream, producer)

    setWriteTimestampToKafka = set_write_timestamp_to_kafka
    writeToKafkaWithTimestamps = write_to_kafka_with_timestamps


class FlinkKafkaProducer010Configuration(NamesWhatToUse):
    """The settings of `write_to_kafka_with_timestamps`. Each `set_` method returns them."""

    def __init__(self, in_stream: DataFrame, producer: FlinkKafkaProducer010) -> None:
        self._rows = in_stream
        self.producer = producer

    def set_log_failures_only(self, log_failures_only: bool) -> FlinkKafkaProducer010Configuration:
        """See `FlinkKafkaProducer08.set_log_failures_only`."""
        self.producer.set_log_failures_only(log_failures_only)
        return self

    def set_flush_on_checkpoint(self, flush_on_checkpoint: bool) -> FlinkKafkaProducer010Configuration:
        """See `FlinkKafkaProducer08.set_flush_on_checkpoint`."""
        self.producer.set_flush_on_checkpoint(flush_on_checkpoint)
        return self

    def set_write_timestamp_to_kafka(
        self, write_timestamp_to_kafka: bool, *, timestamp_column: str | None = None
    ) -> FlinkKafkaProducer010Configuration:
        """See `FlinkKafkaProducer.set_write_timestamp_to_kafka`."""
        self.producer.set_write_timestamp_to_kafka(
            write_timestamp_to_kafka, timestamp_column=timestamp_column
        )
        return self

    def write(self) -> None:
        """Write a batch DataFrame and return after it is written."""
        self.producer.write(self._rows)

    def write_stream(
        self, checkpoint_location: str, *, trigger: Mapping[str, Any] | None = None
    ) -> StreamingQuery:
        """Start a query that writes a streaming DataFrame; see `FlinkKafkaProducer.write_stream`."""
        return self.producer.write_stream(self._rows, checkpoint_location, trigger=trigger)

    setLogFailuresOnly = set_log_failures_only
    setFlushOnCheckpoint = set_flush_on_checkpoint
    setWriteTimestampToKafka = set_write_timestamp_to_kafka


class _TargetTopic:
    """Chooses the topic of a row: that of the schema, or else that of the producer."""

    def __init__(self, schema: KeyedSerializationSchema, topic: str) -> None:
        self.user_object = schema
        self._topic = topic

    def __call__(self, row: Row) -> str:
        return self.user_object.get_target_topic(row) or self._topic


def _chooses_topics(schema: KeyedSerializationSchema) -> bool:
    return type(schema).get_target_topic is not KeyedSerializationSchema.get_target_topic


def _check_members(schema: Any) -> None:
    """Refuse a schema with methods that nothing would call."""
    if not isinstance(schema, KafkaSerializationSchema):
        return
    owner = KafkaSerializationSchema.__name__
    for one in MEMBERS:
        is_refused = one.owner == owner and one.verdict is Verdict.ERROR
        if is_refused and (hasattr(schema, one.name) or hasattr(schema, one.python_name)):
            raise UnsupportedOptionError(
                f"{type(schema).__name__} has the method {one.python_name}, which penstock never calls. "
                f"{one.note}"
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


def _checked_semantic(semantic: Any) -> Semantic:
    if semantic is None:
        return Semantic.AT_LEAST_ONCE
    if not isinstance(semantic, Semantic):
        raise OptionError(f"Expected a penstock.Semantic, got {semantic!r}.")
    return semantic


def _check_pool_size(size: Any) -> None:
    if size is None:
        return
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise OptionError(
            f"The pool size of Kafka producers cannot be {size!r}. Allowed: a whole number, at least 1."
        )
    if size != FlinkKafkaProducer.DEFAULT_KAFKA_PRODUCERS_POOL_SIZE:
        warn_once(
            _log,
            "The pool size of Kafka producers has no effect: each task of a micro-batch has its own "
            "transaction, and the decision log knows all of them. No record is lost by it.",
        )
