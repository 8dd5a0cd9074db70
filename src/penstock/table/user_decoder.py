"""The interfaces of deserializers in Python, and the value by which a deserializer travels to the executors.

Runs on executors; `penstock` exports the interfaces. Invariant: every kind returns rows of the declared
columns: None for no row; a tuple, mapping, Row or dataclass for one row (for a single unnamed column the
value itself); a list or iterator of these for several rows.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, NoReturn

import pyarrow as pa


class ConsumerRecord(NamedTuple):
    """A record as Kafka's clients give it.

    Attributes:
        topic: the name of the topic.
        partition: the number of the topic partition.
        offset: of the record.
        timestamp: milliseconds since 1970.
        timestamp_type: 0 if the producer gave the timestamp, 1 if the broker did, -1 if there is none.
        key: the bytes; None if the record has no key.
        value: the bytes; None for a tombstone.
        headers: names and values.
        leader_epoch: of the record batch; None if it is unknown.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    leader_epoch: int | None


class BaseDeserializer(ABC):  # noqa: B024 - only its subclasses are abstract
    """The optional methods of all deserializers."""

    def open(self) -> None:  # noqa: B027 - overriding it is optional
        """Open connections and caches. Called once in each task, before the first record."""

    def get_produced_type(self) -> Any:
        """Return the columns of the rows: a StructType, or text such as `id BIGINT, name STRING`.

        A type alone, such as `STRING`, means one column named `value`.
        """
        return None


class DeserializationSchema(BaseDeserializer):
    """Deserializes values: Flink's `DeserializationSchema`. Subclass it; instances are pickled by value."""

    @abstractmethod
    def deserialize(self, message: bytes | None) -> Any:
        """Return the row or rows of one value; None for no row. An exception makes the record bad.

        Args:
            message: The value; None for a tombstone.
        """


class KafkaRecordDeserializationSchema(BaseDeserializer):
    """Deserializes whole records: Flink's `KafkaRecordDeserializationSchema`. Subclass it."""

    @abstractmethod
    def deserialize(self, record: ConsumerRecord) -> Any:
        """Return the row or rows of one record; None for no row. An exception makes the record bad."""

    @staticmethod
    def value_only(deserializer: Any) -> ValueOnly:
        """Use a DeserializationSchema, or a Deserializer in Kafka's sense, for values only."""
        return ValueOnly(deserializer() if isinstance(deserializer, type) else deserializer)


class ArrowDeserializationSchema(BaseDeserializer):
    """Deserializes batches, Arrow in and Arrow out: far faster than row by row. Subclass it."""

    @abstractmethod
    def deserialize_batch(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch of records: any number, with the declared columns by name.

        After an exception the method is called again for each record alone, to find the bad one.

        Args:
            records: Columns key, value, topic, partition, offset, timestamp, timestamp_type, leader_epoch,
            headers.
        """


class Deserializer(ABC):
    """Kafka's own interface of that name, for keys or values. Subclass it for `value_only`."""

    def configure(self, configs: Mapping[str, str], is_key: bool) -> None:  # noqa: B027 - Kafka's
        """Configure, as in Kafka. Called once before the first value, with no settings."""

    @abstractmethod
    def deserialize(self, topic: str, data: bytes | None) -> Any:
        """Return the deserialized value of a record."""


@dataclass(frozen=True)
class ValueOnly:
    """Marks a deserializer that is called with values instead of records."""

    deserializer: Any


class CalledWith(Enum):
    """The argument that a deserializer is called with."""

    RECORD = "record"
    VALUE = "value"
    TOPIC_AND_VALUE = "topic and value"
    BATCH = "batch"


@dataclass(frozen=True)
class PickledDeserializer:
    """A deserializer of the user on its way to the executors.

    Attributes:
        user_object: The user's object.
        gets: The argument that it is called with.
        gives_values: Whether a row is the one column's value itself.
    """

    user_object: Any
    gets: CalledWith
    gives_values: bool


class JSONKeyValueDeserializationSchema(KafkaRecordDeserializationSchema):
    """Flink's schema of that name: columns `key`, `value` and, with `include_metadata`, `metadata`.

    Keys and values stay text, for Spark's `parse_json`, `from_json` and `get_json_object`. A record is bad
    when its key or value is not JSON. A null key or value is null. If you know the columns, use the formats
    instead: `key.format` and `value.format` = `json` decode in compiled code.

    Args:
        include_metadata: Adds `metadata STRUCT<offset: BIGINT, topic: STRING, partition: INT>`.
    """

    def __init__(self, include_metadata: bool) -> None:
        self._include_metadata = include_metadata

    def get_produced_type(self) -> str:
        """Return the columns."""
        metadata = ", metadata STRUCT<offset: BIGINT, topic: STRING, partition: INT>"
        return "key STRING, value STRING" + (metadata if self._include_metadata else "")

    def deserialize(self, record: ConsumerRecord) -> Any:
        """Return the row of a record."""
        row: dict[str, Any] = {"key": checked_json(record.key), "value": checked_json(record.value)}
        if self._include_metadata:
            row["metadata"] = {
                "offset": record.offset,
                "topic": record.topic,
                "partition": record.partition,
            }
        return row


def checked_json(value: bytes | None) -> str | None:
    """Return the text of a JSON document.

    Raises:
        ValueError: the text is not exactly one JSON document.
        RecursionError: the document nests too deep.
    """
    if value is None:
        return None
    text = value.decode()
    # Numbers stay text, because converting a number of a million digits takes minutes.
    json.loads(text, parse_int=str, parse_float=str, parse_constant=_no_constant)
    return text


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
