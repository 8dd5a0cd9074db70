"""What a deserializer in Python may be: interfaces for users, and how one of them travels to the executors.

Runs on executors; `penstock` exports the interfaces. Invariant: every kind gives rows of the declared
columns: None for no row, one row (a tuple, mapping, Row, dataclass or, for a single unnamed column, the
value itself), or many as a list or any iterator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import pyarrow as pa


class ConsumerRecord(NamedTuple):
    """A record as Kafka's clients give it. `timestamp` is in milliseconds; see `timestamp_type`."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    """0 the producer's time, 1 the broker's, -1 none."""
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    leader_epoch: int | None


class _Deserializer(ABC):  # noqa: B024 - only its kinds are abstract
    def open(self) -> None:  # noqa: B027 - whoever needs it overrides it
        """Called once in each task, before the first record: the place for connections and caches."""

    def get_produced_type(self) -> Any:
        """The columns of the rows: a StructType, or text such as `id BIGINT, name STRING`.

        A type alone, such as `STRING`, is one column named `value`.
        """
        return None


class DeserializationSchema(_Deserializer):
    """Deserializes values: Flink's `DeserializationSchema`. Subclass it; an instance travels by value."""

    @abstractmethod
    def deserialize(self, message: bytes | None) -> Any:
        """The row or rows of one value; None for none. An exception makes the record a bad one.

        Args:
            message: the value; None for a tombstone.
        """


class KafkaRecordDeserializationSchema(_Deserializer):
    """Deserializes whole records: Flink's `KafkaRecordDeserializationSchema`. Subclass it."""

    @abstractmethod
    def deserialize(self, record: ConsumerRecord) -> Any:
        """The row or rows of one record; None for none. An exception makes the record a bad one."""

    @staticmethod
    def value_only(deserializer: Any) -> ValueOnly:
        """Use something for values only: a DeserializationSchema, or a Deserializer as Kafka has them."""
        return ValueOnly(deserializer() if isinstance(deserializer, type) else deserializer)


class ArrowDeserializationSchema(_Deserializer):
    """Deserializes batches, Arrow in and Arrow out: far faster than row by row. Subclass it."""

    @abstractmethod
    def deserialize_batch(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch of records, as many as there are, by the names of the declared columns.

        An exception makes nothing bad yet: the records are given again one by one, to find which one it is.

        Args:
            records: key, value, topic, partition, offset, timestamp, timestamp_type, leader_epoch, headers.
        """


class Deserializer(ABC):
    """Kafka's own interface of that name, for keys or values. Subclass it for `value_only`."""

    def configure(self, configs: Mapping[str, str], is_key: bool) -> None:  # noqa: B027 - Kafka's
        """Called once, before the first value, with no settings: Kafka's classes have this method."""

    @abstractmethod
    def deserialize(self, topic: str, data: bytes | None) -> Any:
        """The value of a record."""


@dataclass(frozen=True)
class ValueOnly:
    """Marks something that gets values instead of records."""

    deserializer: Any


class Gets(Enum):
    """What a deserializer is called with."""

    RECORD = "record"
    VALUE = "value"
    TOPIC_AND_VALUE = "topic and value"
    BATCH = "batch"


@dataclass(frozen=True)
class TravellingDeserializer:
    """A deserializer of the user on its way to the executors.

    Attributes:
        user_object: what the user gave.
        gets: what it is called with.
        gives_values: whether a row is the one column's value itself.
    """

    user_object: Any
    gets: Gets
    gives_values: bool
