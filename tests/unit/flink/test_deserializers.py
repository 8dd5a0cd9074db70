"""`set_deserializer` and `set_value_only_deserializer`: what becomes a format, and what travels as Python."""

from __future__ import annotations

import importlib
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

import penstock
from penstock.codec.schema import KAFKA_RECORDS
from penstock.errors import MissingOptionError, OptionError
from penstock.flink import (
    ByteArraySchema,
    DeserializationSchema,
    FormatDeserializationSchema,
    JSONKeyValueDeserializationSchema,
    JsonRowDeserializationSchema,
    KafkaRecordDeserializationSchema,
    KafkaSource,
    SimpleStringSchema,
)
from penstock.table import TableRows
from penstock.table.python_rows import PythonDecoder
from penstock.table.user_decoder import checked_json

NAME = pa.schema([("value", pa.string())])


def builder() -> Any:
    return KafkaSource.builder().set_bootstrap_servers("nowhere:1").set_topics("orders")


def value_only(schema: Any, **more: Any) -> KafkaSource:
    made: KafkaSource = builder().set_value_only_deserializer(schema, **more).build()
    return made


def whole(deserializer: Any, **more: Any) -> KafkaSource:
    made: KafkaSource = builder().set_deserializer(deserializer, **more).build()
    return made


def decoded(
    source: KafkaSource, schema: pa.Schema, *values: bytes | None, key: bytes | None = None
) -> TableRows:
    made = PythonDecoder(source.options["scan.deserializer"], schema)
    at = datetime(2026, 1, 2, tzinfo=UTC)
    facts = {"topic": "orders", "partition": 0, "timestamp": at, "timestamp_type": 0}
    rows = [{**facts, "key": key, "value": value, "offset": i} for i, value in enumerate(values)]
    return made.decode(pa.RecordBatch.from_pylist(rows, schema=KAFKA_RECORDS))


def formats_of(source: KafkaSource) -> dict[str, str]:
    return {
        key: text for key, text in source.options.items() if key.split(".")[0] in ("format", "raw", "json")
    }


def test_what_a_format_can_do_becomes_the_format() -> None:
    assert (formats_of(value_only(SimpleStringSchema())), value_only(SimpleStringSchema()).schema) == (
        {"format": "raw", "raw.charset": "UTF-8"},
        "value STRING",
    )
    assert formats_of(value_only(SimpleStringSchema("ISO-8859-1")))["raw.charset"] == "ISO-8859-1"
    assert value_only(ByteArraySchema()).schema == "value BINARY"
    kafkas = KafkaRecordDeserializationSchema.value_only(penstock.flink.LongDeserializer)
    assert (formats_of(whole(kafkas)), whole(kafkas).schema) == ({"format": "raw"}, "value BIGINT")
    columns = StructType([StructField("id", LongType())])
    json = JsonRowDeserializationSchema.builder().type_info(columns).ignore_parse_errors().build()
    assert formats_of(value_only(json)) == {"format": "json", "json.ignore-parse-errors": "true"}
    assert value_only(json).schema is columns
    strict = JsonRowDeserializationSchema.builder().type_info("id INT").fail_on_missing_field().build()
    assert formats_of(value_only(strict)) == {"format": "json", "json.fail-on-missing-field": "true"}
    csv = FormatDeserializationSchema("csv", "id INT, name STRING", {"csv.field-delimiter": ";"})
    assert value_only(csv).options["csv.field-delimiter"] == ";"


class Length(DeserializationSchema):
    def deserialize(self, message: bytes | None) -> Any:
        return len(message or b"")

    def get_produced_type(self) -> str:
        return "BIGINT"


class KafkaStyle:
    """As Kafka has it, without a class of ours."""

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        return f"{topic} {data!r}"


def test_what_is_python_travels_to_the_executors() -> None:
    source = value_only(Length())
    assert source.schema == "value BIGINT"
    assert decoded(source, pa.schema([("value", pa.int64())]), b"abc").rows.to_pydict() == {"value": [3]}
    source = value_only(KafkaStyle(), produced_type="STRING")
    assert decoded(source, NAME, b"x").rows.to_pylist() == [{"value": "orders b'x'"}]
    source = whole(lambda record: (record.offset, record.topic), produced_type="id BIGINT, topic STRING")
    assert source.schema == "id BIGINT, topic STRING"
    schema = pa.schema([("id", pa.int64()), ("topic", pa.string())])
    assert decoded(source, schema, b"x", None).rows.to_pydict() == {"id": [0, 1], "topic": ["orders"] * 2}
    source = value_only(lambda value: value.decode().split(), produced_type=StringType())
    assert source.schema == "value string"
    assert decoded(source, NAME, b"a b", b"").rows.to_pydict() == {"value": ["a", "b"]}


def test_the_users_module_need_not_be_on_the_executors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "users_own.py").write_text(
        "import penstock\n"
        "def helper(data):\n"
        "    return data.decode().upper()\n"
        "class Mine(penstock.flink.DeserializationSchema):\n"
        "    def deserialize(self, message):\n"
        "        return helper(message)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    source = value_only(importlib.import_module("users_own").Mine(), produced_type="STRING")
    monkeypatch.undo()
    del sys.modules["users_own"]
    assert decoded(source, NAME, b"abc").rows.to_pylist() == [{"value": "ABC"}]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("STRING", "value STRING"),
        (" DECIMAL(10, 2) ", "value DECIMAL(10, 2)"),
        ("ARRAY<STRUCT<a: INT, b: STRING>>", "value ARRAY<STRUCT<a: INT, b: STRING>>"),
        ("id BIGINT", "id BIGINT"),
        ("id: BIGINT", "id: BIGINT"),
        ("id BIGINT, tags ARRAY<STRING>", "id BIGINT, tags ARRAY<STRING>"),
    ],
)
def test_one_type_alone_is_the_column_value(text: str, columns: str) -> None:
    assert value_only(print, produced_type=text).schema == columns


def test_json_keys_and_values_stay_text_beside_the_metadata() -> None:
    source = whole(JSONKeyValueDeserializationSchema(True))
    assert source.schema == (
        "key STRING, value STRING, metadata STRUCT<offset: BIGINT, topic: STRING, partition: INT>"
    )
    metadata = pa.struct([("offset", pa.int64()), ("topic", pa.string()), ("partition", pa.int32())])
    schema = pa.schema([("key", pa.string()), ("value", pa.string()), ("metadata", metadata)])
    big = b"[%s]" % (b"9" * 100_000)
    deep = b"[" * 100_000 + b"]" * 100_000
    found = decoded(source, schema, b'{"a": 1.50}', None, b"{", b'{"a": NaN}', b"\xff", deep, big, key=b"7")
    assert found.rows.to_pylist()[:2] == [
        {
            "key": "7",
            "value": '{"a": 1.50}',
            "metadata": {"offset": 0, "topic": "orders", "partition": 0},
        },
        {"key": "7", "value": None, "metadata": {"offset": 1, "topic": "orders", "partition": 0}},
    ]
    assert [failure.record_index for failure in found.failures] == [2, 3, 4, 5]
    assert found.rows.column(1)[2].as_py() == big.decode()
    assert whole(JSONKeyValueDeserializationSchema(False)).schema == "key STRING, value STRING"
    assert checked_json(b' "x" ') == ' "x" '


def test_what_is_no_deserializer_is_said_so() -> None:
    with pytest.raises(OptionError, match="set_value_only_deserializer"):
        builder().set_deserializer(SimpleStringSchema())
    with pytest.raises(OptionError, match="got the class Length"):
        builder().set_value_only_deserializer(Length)
    with pytest.raises(OptionError, match="got int"):
        builder().set_deserializer(5)
    with pytest.raises(MissingOptionError, match="columns that the deserializer makes are not known"):
        builder().set_deserializer(print)
    with pytest.raises(OptionError, match="Expected a StructType"):
        builder().set_deserializer(print, produced_type=5)
    with pytest.raises(OptionError, match="a deserializer already"):
        builder().set_value_only_deserializer(Length()).set_deserializer(print, produced_type="INT")
    with pytest.raises(MissingOptionError, match="call type_info"):
        JsonRowDeserializationSchema.builder().build()
    with pytest.raises(OptionError, match="cannot be 'jsn'"):
        value_only(FormatDeserializationSchema("jsn", "id INT"))
