"""The deserialization schemas of Flink's older API: with `is_end_of_stream`, which newer sources ignore.

Users subclass the schemas; `ElementsOf` calls them on the executors. Invariant: after the end of its stream a
topic partition gives no more rows in the same task. So a topic partition has to be read by one task.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from penstock.errors import OptionError
from penstock.table.json_key_value import checked_json
from penstock.table.user_decoder import (
    BaseDeserializer,
    ConsumerRecord,
    DeserializationSchema,
    KafkaRecordDeserializationSchema,
)


class KeyedDeserializationSchema(BaseDeserializer):
    """Deserializes keys and values: Flink's `KeyedDeserializationSchema`. Subclass it."""

    @abstractmethod
    def deserialize(
        self, message_key: bytes | None, message: bytes | None, topic: str, partition: int, offset: int
    ) -> Any:
        """Return the row or rows of one record; None for no row. An exception makes the record bad."""

    def is_end_of_stream(self, next_element: Any) -> bool:
        """Return whether this element ends its topic partition. The element itself is not emitted.

        `load_batch` and `load_bounded` of a consumer support it.
        """
        return False


class KafkaDeserializationSchema(BaseDeserializer):
    """Deserializes whole records: Flink's `KafkaDeserializationSchema`. Subclass it.

    Java's `deserialize(record, out)` gives several rows to a collector. Return a list instead.
    """

    @abstractmethod
    def deserialize(self, record: ConsumerRecord) -> Any:
        """Return the row or rows of one record; None for no row. An exception makes the record bad."""

    def is_end_of_stream(self, next_element: Any) -> bool:
        """See `KeyedDeserializationSchema.is_end_of_stream`."""
        return False


class JsonDeserializationSchema(DeserializationSchema):
    """Flink's schema of that name: the value as JSON text in the column `value`, unchanged.

    Use Spark's `get_json_object`, `from_json` or `parse_json` on it. A value that is not exactly one JSON
    document makes a bad record. A tombstone gives no row. If you know the columns, use
    JsonRowDeserializationSchema, which decodes in compiled code.
    """

    def get_produced_type(self) -> str:
        """Return the one column."""
        return "STRING"

    def deserialize(self, message: bytes | None) -> str | None:
        """Return the text of one value."""
        return checked_json(message)


class ElementsOf(KafkaRecordDeserializationSchema):
    """Calls a schema of the older API for each record, until the end of the stream of its topic partition.

    Args:
        user_object: the schema of the user.
    """

    def __init__(self, user_object: Any) -> None:
        self.user_object = user_object
        self._ended: set[tuple[str, int]] = set()
        _check_no_collector(user_object)

    def open(self) -> None:
        """Open the schema of the user."""
        self._ended = set()
        if hasattr(self.user_object, "open"):
            self.user_object.open()

    def get_produced_type(self) -> Any:
        """Return the columns that the schema of the user declares; None if it does not."""
        given = _method(self.user_object, "get_produced_type", "getProducedType")
        return None if given is None else given()

    def deserialize(self, record: ConsumerRecord) -> Any:
        """Return the elements of one record that come before the end of the stream."""
        place = record.topic, record.partition
        if place in self._ended:
            return None
        given = self.call(record)
        is_end = end_of_stream(self.user_object)
        if given is None or is_end is None:
            return given
        kept, has_ended = before_end(given, is_end)
        if has_ended:
            self._ended.add(place)
        return kept

    def call(self, record: ConsumerRecord) -> Any:
        """Return what the schema of the user gives for a record."""
        schema = self.user_object
        if isinstance(schema, KeyedDeserializationSchema):
            return schema.deserialize(record.key, record.value, record.topic, record.partition, record.offset)
        if isinstance(schema, (KafkaDeserializationSchema, KafkaRecordDeserializationSchema)):
            return schema.deserialize(record)
        return schema.deserialize(record.value)


class EndOffsets(KafkaRecordDeserializationSchema):
    """Gives a row for each record that ends its topic partition: where a read of the others has to stop.

    Args:
        user_object: the schema of the user.
    """

    def __init__(self, user_object: Any) -> None:
        self.user_object = user_object
        self._elements = ElementsOf(user_object)

    def open(self) -> None:
        """Open the schema of the user."""
        self._elements.open()

    def get_produced_type(self) -> str:
        """Return the columns."""
        return "topic STRING, partition INT, offset BIGINT"

    def deserialize(self, record: ConsumerRecord) -> Any:
        """Return the offset to stop before: after the record if elements come before the end in it."""
        given, is_end = self._elements.call(record), end_of_stream(self.user_object)
        if given is None or is_end is None:
            return None
        kept, has_ended = before_end(given, is_end)
        return (record.topic, record.partition, record.offset + bool(kept)) if has_ended else None


def before_end(given: Any, is_end: Callable[[Any], bool]) -> tuple[list[Any], bool]:
    """Return the elements before the end of a stream, and whether the end is among the given ones."""
    kept: list[Any] = []
    for element in given if isinstance(given, (list, Iterator)) else [given]:
        if element is not None and is_end(element):
            return kept, True
        kept.append(element)
    return kept, False


def end_of_stream(schema: Any) -> Callable[[Any], bool] | None:
    """Return the method of the user that finds the end of a stream; None if there is only the default."""
    method = _method(schema, "is_end_of_stream", "isEndOfStream")
    defaults = (KeyedDeserializationSchema.is_end_of_stream, KafkaDeserializationSchema.is_end_of_stream)
    return None if method is None or getattr(method, "__func__", None) in defaults else method


def _method(schema: Any, name: str, java_name: str) -> Callable[..., Any] | None:
    """Return a method by its name in Java if the user wrote that one."""
    found: Callable[..., Any] | None = getattr(schema, java_name, None) or getattr(schema, name, None)
    return found


def _check_no_collector(schema: Any) -> None:
    if not isinstance(schema, KafkaDeserializationSchema):
        return
    arguments = inspect.signature(schema.deserialize).parameters.values()
    required = [one for one in arguments if one.default is one.empty and one.kind is not one.VAR_POSITIONAL]
    if len(required) > 1:
        raise OptionError(
            f"{type(schema).__name__}.deserialize takes a collector, which does not exist in Python. Take "
            "the record only, and return a list of rows (None for no row)."
        )
