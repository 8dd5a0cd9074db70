"""The deserialization schemas of the older API, called as an executor calls them."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import OptionError, SchemaRegistryError, UnsupportedOptionError
from penstock.table.older_schemas import (
    ElementsOf,
    JsonDeserializationSchema,
    KafkaDeserializationSchema,
    KeyedDeserializationSchema,
    StreamEnd,
    end_of_stream,
)
from penstock.table.user_decoder import ArrowDeserializationSchema, ConsumerRecord, DeserializationSchema


def record(value: bytes | None, partition: int = 0, offset: int = 7) -> ConsumerRecord:
    return ConsumerRecord("orders", partition, offset, 0, 0, b"key", value, [], None)


class Everything(KeyedDeserializationSchema):
    def deserialize(
        self, message_key: bytes | None, message: bytes | None, topic: str, partition: int, offset: int
    ) -> Any:
        return message_key, message, topic, partition, offset


class UntilEnd(KafkaDeserializationSchema):
    def deserialize(self, record: ConsumerRecord) -> Any:
        return None if record.value is None else list(record.value.decode().split())

    def is_end_of_stream(self, next_element: str) -> bool:
        return next_element == "end"


class WithCollector(KafkaDeserializationSchema):
    def deserialize(self, record: ConsumerRecord, out: Any) -> None:  # type: ignore[override]
        out.collect(record)


class JavaNames(DeserializationSchema):
    def deserialize(self, message: bytes | None) -> Any:
        return message

    def isEndOfStream(self, next_element: bytes) -> bool:
        return next_element == b"end"

    def getProducedType(self) -> str:
        return "BINARY"


def test_a_keyed_schema_gets_all_parts() -> None:
    assert ElementsOf(Everything()).deserialize(record(b"x")) == (b"key", b"x", "orders", 0, 7)
    assert end_of_stream(Everything()) is None


def test_the_end_of_a_stream_ends_its_topic_partition_only() -> None:
    elements = ElementsOf(UntilEnd())
    elements.open()
    assert elements.deserialize(record(b"a")) == ["a"]
    assert elements.deserialize(record(None)) == []
    assert elements.deserialize(record(b"b end c")) == ["b"]
    assert elements.deserialize(record(b"d")) is None
    assert elements.deserialize(record(b"d", partition=1)) == ["d"]


def test_a_read_that_stops_by_itself_needs_no_memory_of_the_ends() -> None:
    elements = ElementsOf(UntilEnd(), remembers_ends=False)
    assert elements.deserialize(record(b"b end c")) == ["b"]
    assert elements.deserialize(record(b"d")) == ["d"], "the driver may decode the same records again"


def test_where_a_read_has_to_stop() -> None:
    ends = StreamEnd(UntilEnd())
    assert ends.offset([record(b"end a", offset=7)]) == 7
    assert ends.offset([record(b"a"), record(None), record(b"a end", offset=8)]) == 9
    assert ends.offset([record(b"a"), record(None)]) is None


def test_no_record_after_the_end_is_decoded() -> None:
    class Opened(UntilEnd):
        seen: list[bytes | None]

        def open(self) -> None:
            self.seen = []

        def deserialize(self, record: ConsumerRecord) -> Any:
            self.seen.append(record.value)
            return super().deserialize(record)

    schema = Opened()
    rest = iter([record(b"a"), record(b"end"), record(b"b")])
    assert StreamEnd(schema).offset(rest) == 7
    assert schema.seen == [b"a", b"end"]
    assert next(rest).value == b"b"


def test_a_bad_record_does_not_end_a_stream_but_an_error_of_penstock_is_raised() -> None:
    class Failing(UntilEnd):
        error: Exception = ValueError("bad")

        def deserialize(self, record: ConsumerRecord) -> Any:
            if record.value == b"x":
                raise self.error
            return super().deserialize(record)

    schema = Failing()
    assert StreamEnd(schema).offset([record(b"x"), record(b"end", offset=8)]) == 8
    schema.error = SchemaRegistryError("the registry is down")
    with pytest.raises(SchemaRegistryError):
        StreamEnd(schema).offset([record(b"x"), record(b"end", offset=8)])


class NeverEnds(UntilEnd):
    def is_end_of_stream(self, next_element: Any) -> bool:
        """Return false, as in most programs for Flink."""
        return False


class EndsAtOnce(UntilEnd):
    def is_end_of_stream(self, next_element: Any) -> bool:
        return True


def test_a_method_that_only_returns_false_is_the_default() -> None:
    assert end_of_stream(NeverEnds()) is None
    assert end_of_stream(EndsAtOnce()) is not None
    assert end_of_stream(UntilEnd()) is not None
    assert ElementsOf(NeverEnds()).deserialize(record(b"a end b")) == ["a", "end", "b"]


class OfBatches(ArrowDeserializationSchema):
    def deserialize_batch(self, records: Any) -> Any:
        return records

    def is_end_of_stream(self, next_element: Any) -> bool:
        return bool(next_element)


def test_a_schema_without_elements_cannot_have_an_end() -> None:
    with pytest.raises(UnsupportedOptionError, match=r"OfBatches has an is_end_of_stream, which nothing"):
        ElementsOf(OfBatches())


def test_another_task_begins_without_an_end() -> None:
    elements = ElementsOf(UntilEnd())
    elements.deserialize(record(b"end"))
    elements.open()
    assert elements.deserialize(record(b"a")) == ["a"]


def test_the_methods_may_have_javas_names() -> None:
    elements = ElementsOf(JavaNames())
    assert elements.get_produced_type() == "BINARY"
    assert elements.deserialize(record(b"a")) == [b"a"]
    assert elements.deserialize(record(b"end")) == []
    assert elements.deserialize(record(b"a")) is None


def test_a_collector_is_refused() -> None:
    with pytest.raises(OptionError, match=r"WithCollector\.deserialize takes a collector.*return a list"):
        ElementsOf(WithCollector())


def test_json_text() -> None:
    schema = JsonDeserializationSchema()
    assert schema.deserialize(b'{"a": 1}') == '{"a": 1}'
    assert schema.deserialize(None) is None
    with pytest.raises(ValueError, match="Extra data"):
        schema.deserialize(b"1 2")
