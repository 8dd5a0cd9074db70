"""Say how rows become Kafka records, with PyFlink's methods: `KafkaRecordSerializationSchema`.

Runs in the user's program. Invariant: a schema becomes columns of a DataFrame (key, value, topic, headers,
timestamp) and options of `format("penstock")`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.errors import MissingOptionError, OptionError
from penstock.flink._functions import RecordPart, function_column
from penstock.flink._pickling import to_text
from penstock.flink.schemas import check_schema, serialized
from penstock.options.config import ROUND_ROBIN_PARTITIONER
from penstock.options.python_objects import PARTITIONER
from penstock.options.values import check_topic_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from penstock.sink.custom_partitioner import KafkaPartitioner

Headers = Mapping[str, "bytes | str | None"] | Sequence[tuple[str, "bytes | str | None"]]


class KafkaTopicSelector(ABC):
    """Choose the topic of each row. You may use a plain function instead."""

    @abstractmethod
    def apply(self, data: Row) -> str:
        """Return the topic of a row."""


class HeaderProvider(ABC):
    """Make the headers of each row. You may use a plain function instead."""

    @abstractmethod
    def get_headers(self, data: Row) -> Headers | None:
        """Return names and values of the headers; None for no headers."""


@dataclass(frozen=True)
class KafkaRecordSerializationSchema:
    """The way in which rows become Kafka records. Use `builder()`."""

    value_schema: Any = field(repr=False)
    key_schema: Any = field(default=None, repr=False)
    topic: str | None = None
    topic_selector: Callable[[Row], str] | None = field(default=None, repr=False)
    header_provider: Callable[[Row], Headers | None] | None = field(default=None, repr=False)
    timestamp_column: str | None = None
    partitioner: str | None = field(default=None, repr=False)

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """Return a builder."""
        return KafkaRecordSerializationSchemaBuilder()

    @property
    def options(self) -> dict[str, str]:
        """Return the equivalent options of `format("penstock")`."""
        given = {"topic": self.topic, "sink.partitioner": self.partitioner}
        return {key: text for key, text in given.items() if text is not None}

    def records(self, rows: DataFrame) -> DataFrame:
        """Return the rows with the columns that `format("penstock")` writes.

        Raises:
            RowError: a column does not fit its schema.
        """
        columns = {"value": serialized(self.value_schema, rows, RecordPart.VALUE)}
        if self.key_schema is not None:
            columns["key"] = serialized(self.key_schema, rows, RecordPart.KEY)
        if self.topic_selector is not None:
            columns["topic"] = function_column(rows, self.topic_selector, RecordPart.TOPIC)
        if self.header_provider is not None:
            columns["headers"] = function_column(rows, self.header_provider, RecordPart.HEADERS)
        if self.timestamp_column is not None:
            columns["timestamp"] = rows[self.timestamp_column]
        return rows.select([column.alias(name) for name, column in columns.items()])


class KafkaRecordSerializationSchemaBuilder:
    """Builder with PyFlink's methods. Each method returns the builder."""

    def __init__(self) -> None:
        self._topic: str | None = None
        self._topic_selector: Callable[[Row], str] | None = None
        self._value_schema: Any = None
        self._key_schema: Any = None
        self._header_provider: Callable[[Row], Headers | None] | None = None
        self._partitioner: str | None = None
        self._timestamp_column: str | None = None

    def set_topic(self, topic: str) -> KafkaRecordSerializationSchemaBuilder:
        """Write all rows to this topic."""
        self._check_no_topic()
        try:
            self._topic = check_topic_name(topic)
        except ValueError as error:
            raise OptionError(f"The topic cannot be {topic!r}. Allowed: {error}.", option="topic") from None
        return self

    def set_topic_selector(
        self, topic_selector: KafkaTopicSelector | Callable[[Row], str]
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Choose a topic for each row, with a selector or a function of the row."""
        self._check_no_topic()
        self._topic_selector = _method(topic_selector, KafkaTopicSelector, "apply", "topic selector")
        return self

    def set_value_serialization_schema(
        self, value_serialization_schema: Any
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set how rows become values. Required.

        Args:
            value_serialization_schema: SimpleStringSchema, ByteArraySchema, your own SerializationSchema,
                a function of the row, or a Spark expression such as `to_json(struct("*"))`.
        """
        if self._value_schema is not None:
            raise OptionError("The value serialization schema is set already: set it once.")
        self._value_schema = check_schema(value_serialization_schema, RecordPart.VALUE)
        return self

    def set_key_serialization_schema(
        self, key_serialization_schema: Any
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set how rows become keys, as `set_value_serialization_schema` does for values. Default: no keys."""
        if self._key_schema is not None:
            raise OptionError("The key serialization schema is set already: set it once.")
        self._key_schema = check_schema(key_serialization_schema, RecordPart.KEY)
        return self

    def set_partitioner(
        self,
        partitioner: KafkaPartitioner | str | Callable[[bytes | None, bytes | None, str, Sequence[int]], int],
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set how the partition of each record is chosen. The default is Java's hash of the key.

        Args:
            partitioner: a `penstock.flink.KafkaPartitioner`, a function `(key, value, topic, partitions) ->
                partition`, or a value of the option `sink.partitioner`.
        """
        from penstock.sink.custom_partitioner import as_partitioner  # noqa: PLC0415 - loads Arrow

        if isinstance(partitioner, str):
            self._partitioner = partitioner.strip()
            return self
        name = getattr(partitioner, "__qualname__", type(partitioner).__qualname__)
        as_partitioner(partitioner, name)
        self._partitioner = to_text(partitioner, PARTITIONER)
        return self

    def set_header_provider(
        self, header_provider: HeaderProvider | Callable[[Row], Headers | None]
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set how headers are made, with a provider or a function of the row."""
        self._header_provider = _method(header_provider, HeaderProvider, "get_headers", "header provider")
        return self

    def set_timestamp_column(self, name: str) -> KafkaRecordSerializationSchemaBuilder:
        """Set the column with the timestamps of records. Default: the time of writing."""
        self._timestamp_column = name
        return self

    def build(self) -> KafkaRecordSerializationSchema:
        """Return the schema, after the checks of Flink.

        Raises:
            MissingOptionError: the value schema or the topic is missing.
            OptionError: two settings contradict each other.
        """
        if self._value_schema is None:
            raise MissingOptionError(
                "No value serialization schema is set: call set_value_serialization_schema."
            )
        if self._topic is None and self._topic_selector is None:
            raise MissingOptionError(
                "No topic to write to is set: call set_topic or set_topic_selector.", option="topic"
            )
        if self._key_schema is not None and (self._partitioner or "").lower() == ROUND_ROBIN_PARTITIONER:
            raise OptionError(
                "The partitioner 'round-robin' is for records without keys, because it spreads equal keys "
                "over all partitions and their order is lost. Leave the key serialization schema or the "
                "partitioner out.",
                option="sink.partitioner",
            )
        return KafkaRecordSerializationSchema(
            self._value_schema,
            self._key_schema,
            self._topic,
            self._topic_selector,
            self._header_provider,
            self._timestamp_column,
            self._partitioner,
        )

    def _check_no_topic(self) -> None:
        if self._topic is not None or self._topic_selector is not None:
            raise OptionError("The topic is set already: call set_topic or set_topic_selector once.")


def _method(given: Any, kind: type, method: str, what: str) -> Callable[[Any], Any]:
    """Return the function to call for each row: the method of an interface, or a plain function."""
    if isinstance(given, kind):
        function: Callable[[Any], Any] = getattr(given, method)
        return function
    if isinstance(given, type) or not callable(given):
        raise OptionError(
            f"Expected a {kind.__name__} or a function of a row as the {what}, got "
            f"{'the class ' + given.__name__ if isinstance(given, type) else type(given).__name__}."
        )
    return given  # type: ignore[no-any-return]  # anything that can be called
