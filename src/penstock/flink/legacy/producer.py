"""Write with the older API: `FlinkKafkaProducer`.

Runs in the user's program, on Spark classic and Connect. Invariant: it becomes a `KafkaSink`. A setting with
which records may be lost is logged once.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from penstock.errors import OptionError, UnsupportedOptionError
from penstock.flink.legacy._base_producer import TIMEOUT, BaseProducer, Semantic
from penstock.flink.legacy.partitioners import DefaultPartitioner, FlinkFixedPartitioner
from penstock.flink.legacy.serialization import KafkaSerializationSchema, KeyedSerializationSchema
from penstock.options.config import DeliveryGuarantee
from penstock.options.warn import warn_once

_log = logging.getLogger("penstock.older")

_Promise = Semantic
"""For annotations in a class that has the name `Semantic` too."""


class FlinkKafkaProducer(BaseProducer):
    """A sink with Flink's older methods. Each method returns the producer.

    Constructors, as in Flink; the fourth and later arguments may also be given by name:

    - `(broker list, topic, schema)`
    - `(topic, schema, properties)`, and after these a partitioner (None: Kafka's own choice), a Semantic
      and a pool size, in any order

    Args:
        topic: the topic to write to.
        serialization_schema: SimpleStringSchema, a SerializationSchema or KeyedSerializationSchema of your
            own, a KafkaSerializationSchema, or anything that KafkaRecordSerializationSchema takes for values.
        producer_config: properties of Kafka. Required: `bootstrap.servers`.
        semantic: AT_LEAST_ONCE by default.
        custom_partitioner: a FlinkKafkaPartitioner or function; None for Kafka's own choice (Java's hash of
            the key). The default is FlinkFixedPartitioner, with which all rows of a task go to one partition.
            With properties and a schema of values it is None, because PyFlink's constructor passes none.
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
        custom_partitioner: Any = DefaultPartitioner,
        kafka_producer_pool_size: int | None = None,
    ) -> None:
        for argument in more:
            if isinstance(argument, _Promise):
                semantic = argument
            elif isinstance(argument, int) and not isinstance(argument, bool):
                kafka_producer_pool_size = argument
            else:
                custom_partitioner = argument
        if custom_partitioner is DefaultPartitioner:
            custom_partitioner = self._default_partitioner(serialization_schema, producer_config)
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
        """Accept true: producers for Kafka 0.11 and newer always flush.

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
            "ignore_failures_after_transaction_timeout has no effect: penstock writes the records of a "
            "timed-out transaction again, or names them in an error.",
        )
        return self

    @classmethod
    def _default_partitioner(cls, serialization_schema: Any, producer_config: Any) -> Any:
        """Return the partitioner of a constructor without one: PyFlink's, or one that only Java has."""
        is_of_rows = isinstance(serialization_schema, (KeyedSerializationSchema, KafkaSerializationSchema))
        is_pyflinks = isinstance(producer_config, Mapping) and not is_of_rows
        return None if is_pyflinks else FlinkFixedPartitioner

    setFlushOnCheckpoint = set_flush_on_checkpoint
    setWriteTimestampToKafka = set_write_timestamp_to_kafka
    setTransactionalIdPrefix = set_transactional_id_prefix
    ignoreFailuresAfterTransactionTimeout = ignore_failures_after_transaction_timeout

    def _settings(self, guarantee: DeliveryGuarantee) -> dict[str, str]:
        if guarantee is DeliveryGuarantee.EXACTLY_ONCE and TIMEOUT not in self._properties:
            warn_once(
                _log,
                "Flink's default of transaction.timeout.ms is 1 hour, which most brokers do not allow. The "
                "brokers' transaction.max.timeout.ms is used instead.",
            )
        return super()._settings(guarantee)


class FlinkKafkaProducer011(FlinkKafkaProducer):
    """The producer for Kafka 0.11. It writes to every broker that penstock supports."""

    @classmethod
    def _default_partitioner(cls, serialization_schema: Any, producer_config: Any) -> Any:
        """Return the default of Java's constructors."""
        return FlinkFixedPartitioner


def _checked_semantic(semantic: Any) -> Semantic:
    if semantic is None:
        return Semantic.AT_LEAST_ONCE
    if not isinstance(semantic, Semantic):
        raise OptionError(f"Expected a penstock.flink.legacy.Semantic, got {semantic!r}.")
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
