"""The producers for Kafka 0.8 to 0.10, which do not flush on checkpoints by default.

Runs in the user's program, on Spark classic and Connect. Invariant: each has the defaults of its version. The
option by which a stream may lose records logs that itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.flink.legacy._base_producer import BaseProducer, Semantic
from penstock.flink.legacy._missing import NamesWhatToUse
from penstock.flink.legacy.partitioners import FlinkFixedPartitioner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


class FlinkKafkaProducer08(BaseProducer):
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
        return {} if self._flushes else {"sink.flush-on-checkpoint": "false"}


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
