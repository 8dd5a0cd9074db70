"""The deserialization schemas of the older API, called as an executor calls them."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import OptionError
from penstock.table.older_schemas import (
    ElementsOf,
    EndOffsets,
    JsonDeserializationSchema,
    KafkaDeserializationSchema,
    KeyedDeserializationSchema,
    end_of_stream,
)
from penstock.table.user_decoder import ConsumerRecord, DeserializationSchema


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
    assert elements.deserialize(record(None)) is None
    assert elements.deserialize(record(b"b end c")) == ["b"]
    assert elements.deserialize(record(b"d")) is None
    assert elements.deserialize(record(b"d", partition=1)) == ["d"]


def test_where_a_read_has_to_stop() -> None:
    ends = EndOffsets(UntilEnd())
    assert ends.deserialize(record(b"end a", offset=7)) == ("orders", 0, 7)
    assert ends.deserialize(record(b"a end", offset=8)) == ("orders", 0, 9)
    assert ends.deserialize(record(b"a")) is None
    assert ends.deserialize(record(None)) is None
    assert EndOffsets(Everything()).deserialize(record(b"end")) is None


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
