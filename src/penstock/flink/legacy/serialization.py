"""The serialization schemas of the older producers.

`OlderRecords` runs in the user's program; the schemas of users run on the executors. Invariant: a schema
becomes columns of a DataFrame, like every other record serializer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock.errors import RowError, UnsupportedOptionError
from penstock.flink._functions import RecordPart, function_column
from penstock.flink.record_serialization import KafkaRecordSerializationSchema
from penstock.spark.connect import functions_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

EVENT_TIME_COLUMNS = ("event_time", "timestamp")
"""The columns that hold the timestamp of an element, the first that exists."""


class KeyedSerializationSchema(ABC):
    """Serializes key and value of a row, and may choose its topic. Subclass it; it travels by value."""

    @abstractmethod
    def serialize_key(self, element: Row) -> bytes | None:
        """Return the key of a row; None for no key."""

    @abstractmethod
    def serialize_value(self, element: Row) -> bytes | None:
        """Return the value of a row; None for a tombstone."""

    def get_target_topic(self, element: Row) -> str | None:
        """Return the topic of a row; None for the topic of the producer."""
        return None


@dataclass(frozen=True)
class ProducerRecord:
    """A record to write, with the fields of Kafka's class of this name.

    Attributes:
        topic: the topic.
        value: None makes a tombstone.
        key: None for no key.
        partition: None: Java's hash of the key.
        timestamp: milliseconds since 1970; None: the time of writing.
        headers: names and values.
    """

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


class KafkaSerializationSchema(ABC):
    """Makes the whole record of a row. Subclass it; it travels by value."""

    @abstractmethod
    def serialize(self, element: Row, timestamp: int | None) -> ProducerRecord:
        """Return the record of a row.

        Args:
            element: the row.
            timestamp: of the column `event_time` or `timestamp` of type TIMESTAMP, in milliseconds; None
                without such a column.
        """


class TypeInformationSerializationSchema:
    """Flink's own binary form of Java types. Constructing it is an error.

    Raises:
        UnsupportedOptionError: always.
    """

    def __init__(self, *_: Any) -> None:
        raise UnsupportedOptionError(
            f"{type(self).__name__} is not supported: its bytes are Flink's own serialization of Java "
            "objects, which only Flink can read and write. Let the Flink job write Avro, Protobuf or JSON, "
            "and use FormatDeserializationSchema or JsonRowDeserializationSchema; or write a "
            "DeserializationSchema for these bytes."
        )


class TypeInformationKeyValueSerializationSchema(TypeInformationSerializationSchema):
    """The same for keys and values."""


@dataclass(frozen=True)
class OlderRecords(KafkaRecordSerializationSchema):
    """A record serializer that looks for the event time when it sees the rows.

    Attributes:
        writes_timestamps: whether records get the event time of their rows.
        event_time_column: the column of the event time; None: the first of EVENT_TIME_COLUMNS.
        whole: makes whole records; then other schemas do not count.
    """

    writes_timestamps: bool = False
    event_time_column: str | None = None
    whole: KafkaSerializationSchema | None = None

    def records(self, rows: DataFrame) -> DataFrame:
        """See `KafkaRecordSerializationSchema.records`."""
        names = EVENT_TIME_COLUMNS if self.event_time_column is None else (self.event_time_column,)
        found = next((name for name in names if _is_timestamp(rows, name)), None)
        if self.whole is not None:
            return _whole_records(rows, self.whole, found)
        if not self.writes_timestamps:
            return super().records(rows)
        if found is None:
            raise RowError(
                "set_write_timestamp_to_kafka(True) needs the event time of each row, but the DataFrame has "
                f"no column {' or '.join(names)} of type TIMESTAMP. The columns are "
                f"{', '.join(rows.columns)}. Nothing was written. Name the column: "
                "set_write_timestamp_to_kafka(True, timestamp_column=...), or cast it.",
                column=names[0],
            )
        return replace(self, timestamp_column=found, writes_timestamps=False).records(rows)


def _is_timestamp(rows: DataFrame, name: str) -> bool:
    """Return whether there is such a column; one of another type is not a time, although it has the name."""
    return name in rows.columns and rows.schema[name].dataType.typeName() == "timestamp"


def _whole_records(rows: DataFrame, schema: KafkaSerializationSchema, event_time: str | None) -> DataFrame:
    functions = functions_for(rows)
    time_ms = (
        functions.lit(None).cast("bigint")
        if event_time is None
        else functions.unix_millis(functions.col(f"`{event_time}`"))
    )
    record = function_column(rows, schema.serialize, RecordPart.RECORD, time_ms)
    made = rows.select(record.alias("record"))
    names = ("topic", "partition", "key", "value", "headers")
    columns = [functions.col(f"record.{name}").alias(name) for name in names]
    timestamp = functions.timestamp_millis(functions.col("record.timestamp_ms")).alias("timestamp")
    return made.select(*columns, timestamp)
