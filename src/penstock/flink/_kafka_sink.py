"""Build a sink with PyFlink's methods: `KafkaSink.builder()`.

Runs in the user's program. Invariant: a sink is only columns of a DataFrame and options of
`format("penstock")`. Building it checks everything that needs neither Kafka nor Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock._pyspark import check_pyspark
from penstock.errors import MissingOptionError, OptionError
from penstock.flink.record_serialization import KafkaRecordSerializationSchema
from penstock.options.config import DeliveryGuarantee
from penstock.options.parse import parse_write
from penstock.spark.connect import functions_for
from penstock.spark.process.short_errors import short_errors_of_batches

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.spark.write_batch import MicroBatchWriter

_GUARANTEE = "sink.delivery-guarantee"
_PREFIX = "sink.transactional-id-prefix"


@dataclass(frozen=True)
class KafkaSink:
    """A sink. Use `KafkaSink.builder()`.

    Attributes:
        options: the equivalent options of `format("penstock")`.
        record_serializer: makes the columns that are written.
        parallelism: the number of tasks that write; None for one for each partition of the DataFrame.
    """

    options: Mapping[str, str] = field(repr=False)
    record_serializer: KafkaRecordSerializationSchema
    parallelism: int | None = None

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        """Return a builder."""
        return KafkaSinkBuilder()

    def records(self, rows: DataFrame) -> DataFrame:
        """Return the records of these rows, distributed over `parallelism` tasks.

        Raises:
            RowError: the columns do not fit the serializer.
        """
        records = self.record_serializer.records(rows)
        if self.parallelism is None:
            return records
        return records.repartition(self.parallelism, *_spread_by(records))

    def write(self, rows: DataFrame) -> None:
        """Write a batch DataFrame and return after it is written."""
        self.records(rows).write.format("penstock").options(**self.options).mode("append").save()

    def write_stream(
        self,
        rows: DataFrame,
        checkpoint_location: str,
        *,
        trigger: Mapping[str, Any] | None = None,
        output_mode: str = "append",
        query_name: str | None = None,
    ) -> StreamingQuery:
        """Start a query that writes a streaming DataFrame.

        Args:
            rows: the DataFrame to write.
            checkpoint_location: the folder where Spark keeps the state of the query.
            trigger: Spark's trigger, e.g. `{"processingTime": "10 seconds"}` or `{"availableNow": True}`.
            output_mode: append, complete or update.
            query_name: of the query.
        """
        records = self.records(rows)
        writer = records.writeStream.outputMode(output_mode).option("checkpointLocation", checkpoint_location)
        if query_name is not None:
            writer = writer.queryName(query_name)
        if trigger is not None:
            writer = writer.trigger(**trigger)
        if output_mode.lower() == "update":
            # Spark has no update mode for data sources in Python.
            written = short_errors_of_batches(_writer(self.options, checkpoint_location))
            return writer.foreachBatch(written).start()
        return writer.format("penstock").options(**self.options).start()

    def for_each_batch(self, checkpoint_location: str | None = None) -> MicroBatchWriter:
        """Return a function `(rows, batch_id)` for `foreachBatch`, or to call in your function for it.

        It writes the rows as `write` does. With EXACTLY_ONCE a repeated batch is written once.

        Args:
            checkpoint_location: of the query. EXACTLY_ONCE on Spark Connect needs it.
        """
        return _writer(self.options, checkpoint_location, self)


class KafkaSinkBuilder:
    """Builder with PyFlink's methods. Each method returns the builder."""

    def __init__(self) -> None:
        check_pyspark()
        self._properties: dict[str, str] = {}
        self._own: dict[str, str] = {}
        self._serializer: KafkaRecordSerializationSchema | None = None
        self._guarantee = DeliveryGuarantee.AT_LEAST_ONCE
        self._prefix: str | None = None
        self._parallelism: int | None = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSinkBuilder:
        """Set the brokers to connect to first, `host:port,host:port`. Required."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_record_serializer(self, record_serializer: KafkaRecordSerializationSchema) -> KafkaSinkBuilder:
        """Set how rows become records. Required."""
        if not isinstance(record_serializer, KafkaRecordSerializationSchema):
            raise OptionError(
                "Expected a KafkaRecordSerializationSchema as the record serializer, got "
                f"{type(record_serializer).__name__}. Call build() of its builder."
            )
        self._serializer = record_serializer
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
        """Set the delivery guarantee. It is AT_LEAST_ONCE without this call (Flink: NONE)."""
        if not isinstance(delivery_guarantee, DeliveryGuarantee):
            raise OptionError(
                f"Expected a penstock.DeliveryGuarantee, got {delivery_guarantee!r}.",
                option=_GUARANTEE,
            )
        self._guarantee = delivery_guarantee
        return self

    def set_transactional_id_prefix(self, prefix: str) -> KafkaSinkBuilder:
        """Set the prefix of the names of the transactions. Required for EXACTLY_ONCE; one for each query."""
        self._prefix = prefix
        return self

    def set_property(self, key: str, value: str) -> KafkaSinkBuilder:
        """Set a property of Kafka's Java producer."""
        self._properties[key] = _text(value)
        return self

    def set_properties(self, props: Mapping[str, str]) -> KafkaSinkBuilder:
        """Set several properties."""
        for key, value in props.items():
            self.set_property(key, value)
        return self

    def set_parallelism(self, parallelism: int) -> KafkaSinkBuilder:
        """Set the number of tasks that write (Flink: `sink_to(sink).set_parallelism(n)`).

        Spark shuffles the rows: rows with the same key and topic go to the same task.
        """
        if not isinstance(parallelism, int) or isinstance(parallelism, bool) or parallelism < 1:
            raise OptionError(
                f"The parallelism cannot be {parallelism!r}. Allowed: a whole number, at least 1.",
                option="sink.parallelism",
                value=parallelism,
            )
        self._parallelism = parallelism
        return self

    def set_option(self, key: str, value: str) -> KafkaSinkBuilder:
        """Set an option of penstock that has no method here, such as `sink.commit-log.topic`."""
        self._own[key] = _text(value)
        return self

    def build(self) -> KafkaSink:
        """Return the sink, after all checks that do not need Kafka.

        Raises:
            MissingOptionError: the bootstrap servers, the serializer, or the prefix for EXACTLY_ONCE is
                missing.
            OptionError: a value is not allowed, or options contradict each other.
        """
        if "bootstrap.servers" not in self._properties:
            raise MissingOptionError(
                "Property bootstrap.servers is required but not provided: call set_bootstrap_servers.",
                option="bootstrap.servers",
            )
        if self._serializer is None:
            raise MissingOptionError("No record serializer is set: call set_record_serializer.")
        if self._guarantee is DeliveryGuarantee.EXACTLY_ONCE and not self._prefix:
            raise MissingOptionError(
                "EXACTLY_ONCE needs a transactional id prefix, by which the transactions of this sink are "
                "found after a failure. Call set_transactional_id_prefix, with a different prefix for each "
                "query that writes to the same Kafka cluster.",
                option=_PREFIX,
            )
        options = self._options(self._serializer)
        twice = sorted({key.lower() for key in options} & {key.lower() for key in self._own})
        if twice:
            raise OptionError(
                f"set_option sets what other methods have set already: {', '.join(twice)}. Set each once."
            )
        options |= self._own
        _check(options, self._guarantee)
        return KafkaSink(options, self._serializer, self._parallelism)

    def _options(self, serializer: KafkaRecordSerializationSchema) -> dict[str, str]:
        options = {_GUARANTEE: self._guarantee.value, **serializer.options}
        if self._prefix is not None:
            options[_PREFIX] = self._prefix
        return options | {f"properties.{key}": value for key, value in self._properties.items()}


def _check(options: Mapping[str, str], guarantee: DeliveryGuarantee) -> None:
    config = parse_write(options).sink
    if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        from penstock.sink.exactly_once.names import TransactionNames  # noqa: PLC0415 - loads Arrow

        TransactionNames(config.transactional_id_prefix or "")


def _spread_by(records: DataFrame) -> list[Column]:
    """Return the columns that choose the task of a record: its key, to keep the order, or its value."""
    functions = functions_for(records)
    names = records.columns
    topic = [records["topic"]] if "topic" in names else []
    if "key" not in names:
        return [*topic, records["value"]]
    # Otherwise all records without a key would go to one task.
    keyless = functions.when(records["key"].isNull(), functions.xxhash64(records["value"]))
    return [*topic, records["key"], keyless]


def _writer(
    options: Mapping[str, str], checkpoint_location: str | None, sink: KafkaSink | None = None
) -> MicroBatchWriter:
    from penstock.spark.write_batch import MicroBatchWriter  # noqa: PLC0415 - loads PySpark

    return MicroBatchWriter(options, checkpoint_location, None if sink is None else sink.records)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
