"""The deserialization schemas of Flink's older API: with `is_end_of_stream`, which newer sources ignore.

Users subclass the schemas; `ElementsOf` calls them on the executors. Invariant: after the end of its stream a
topic partition gives no more rows. In a batch read one task reads a topic partition and remembers the end. In
a bounded stream `StreamEnd` finds the end before anything is planned, and no record after it is read.
"""

from __future__ import annotations

import dis
import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from penstock.errors import DecodeError, OptionError, PenstockError, UnsupportedOptionError
from penstock.table.user_decoder import (
    BaseDeserializer,
    ConsumerRecord,
    DeserializationSchema,
    KafkaRecordDeserializationSchema,
    checked_json,
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


_WITH_ELEMENTS = (
    KeyedDeserializationSchema,
    KafkaDeserializationSchema,
    KafkaRecordDeserializationSchema,
    DeserializationSchema,
)


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
        remembers_ends: whether no record after an end gives a row. Without it only elements of the same
            record are left out, because the read stops there by itself.
    """

    def __init__(self, user_object: Any, *, remembers_ends: bool = True) -> None:
        self.user_object = user_object
        self._remembers_ends = remembers_ends
        self._ended: set[tuple[str, int]] = set()
        self._is_end = end_of_stream(user_object)
        _check_kind(user_object)
        _check_no_collector(user_object)

    def open(self) -> None:
        self._ended = set()
        if hasattr(self.user_object, "open"):
            self.user_object.open()

    def get_produced_type(self) -> Any:
        """Return the columns that the schema of the user declares; None if it does not."""
        given = _method(self.user_object, "get_produced_type", "getProducedType")
        return None if given is None else given()

    def deserialize(self, record: ConsumerRecord) -> Any:
        """Return the elements of one record that come before the end of the stream."""
        topic_partition = record.topic, record.partition
        if topic_partition in self._ended:
            return None
        if self._is_end is None:
            return self._call(record)
        kept, has_ended = self.before_end(record)
        if has_ended and self._remembers_ends:
            self._ended.add(topic_partition)
        return kept

    def before_end(self, record: ConsumerRecord) -> tuple[list[Any], bool]:
        """Return the elements of one record before the end of the stream, and whether the end is in it."""
        given = self._call(record)
        if given is None or self._is_end is None:
            return [], False
        return _before_end(given, self._is_end)

    def _call(self, record: ConsumerRecord) -> Any:
        """Return what the schema of the user gives for a record."""
        schema = self.user_object
        if isinstance(schema, KeyedDeserializationSchema):
            return schema.deserialize(record.key, record.value, record.topic, record.partition, record.offset)
        if isinstance(schema, (KafkaDeserializationSchema, KafkaRecordDeserializationSchema)):
            return schema.deserialize(record)
        return schema.deserialize(record.value)


class StreamEnd:
    """Finds where topic partitions end, from their records. Runs on the driver."""

    def __init__(self, schema: Any) -> None:
        self._elements = ElementsOf(schema)
        self._elements.open()

    def offset(self, records: Iterable[ConsumerRecord]) -> int | None:
        """Return the offset to stop before, and take no record after it; None without an end.

        It is the offset after the record if elements come before the end in it. A record that the schema
        cannot decode does not end its topic partition: the read itself treats it as a bad record.

        Args:
            records: of one topic partition, in order.
        """
        for record in records:
            try:
                kept, has_ended = self._elements.before_end(record)
            except (PenstockError, MemoryError) as error:
                if not isinstance(error, DecodeError):
                    raise
                continue
            except Exception:  # noqa: BLE001, S112 - the user's code may raise anything; the read reports it
                continue
            if has_ended:
                return record.offset + bool(kept)
        return None


def _before_end(given: Any, is_end: Callable[[Any], bool]) -> tuple[list[Any], bool]:
    """Return the elements before the end of a stream, and whether the end is among the given ones."""
    kept: list[Any] = []
    for element in given if isinstance(given, (list, Iterator)) else [given]:
        if element is not None and is_end(element):
            return kept, True
        kept.append(element)
    return kept, False


def end_of_stream(schema: Any) -> Callable[[Any], bool] | None:
    """Return the method of the user that finds the end of a stream.

    None if there is only the default, or if the method of the user says only `return False`, as many do in
    Flink, whose interface has no default.
    """
    method = _method(schema, "is_end_of_stream", "isEndOfStream")
    return None if method is None or _is_always_false(method) else method


def _is_always_false(method: Callable[..., Any]) -> bool:
    """Return whether the code of a method is only `return False`, so that it never ends a stream."""
    code = getattr(method, "__code__", None)
    if code is None:
        return False
    steps = [one for one in dis.get_instructions(code) if one.opname not in ("RESUME", "NOP")]
    # Python 3.12 and 3.13 have one instruction for it, and the others have two.
    names = [one.opname for one in steps]
    return names in (["RETURN_CONST"], ["LOAD_CONST", "RETURN_VALUE"]) and steps[0].argval is False


def _method(schema: Any, name: str, java_name: str) -> Callable[..., Any] | None:
    """Return a method by its name in Java if the user wrote that one."""
    found: Callable[..., Any] | None = getattr(schema, java_name, None) or getattr(schema, name, None)
    return found


def _check_kind(schema: Any) -> None:
    if isinstance(schema, _WITH_ELEMENTS):
        return
    raise UnsupportedOptionError(
        f"{type(schema).__name__} has an is_end_of_stream, which nothing would call, because the schema does "
        "not return elements one by one. Use a KafkaDeserializationSchema or a DeserializationSchema, or "
        "leave is_end_of_stream out."
    )


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
