"""Raw options are read once, by one parser, into one frozen value for a read and one for a write."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from penstock.flink import KafkaSource, SimpleStringSchema
from penstock.flink._pickling import to_text
from penstock.formats import format_names
from penstock.formats.registry import format_class
from penstock.options import flink
from penstock.options.declare import Option, declared_in
from penstock.options.parse import parse_read, parse_write
from penstock.options.python_objects import DESERIALIZER
from penstock.options.table_spec import Connector, DeserializerSpec, FormatSpec, TableSpec
from penstock.options.unknown import OPTIONS
from penstock.spark.datasource import PenstockDataSource
from penstock.table.user_decoder import CalledWith, PickledDeserializer
from tests.options_page import shown_default

FLINK = {"connector": "kafka", "topic": "orders", "properties.bootstrap.servers": "unused:1"}
SPARK_READ = {"subscribe": "orders", "kafka.bootstrap.servers": "unused:1"}
SPARK_WRITE = {"topic": "orders", "kafka.bootstrap.servers": "unused:1"}
TEXT = FLINK | {"connector": "penstock", "format": "raw", "raw.charset": "UTF-8"}
IDS = StructType([StructField("id", LongType())])
BYTES = StructType([StructField("value", BinaryType())])
KEYED = {
    "key.format": "raw",
    "key.fields": "id",
    "value.format": "avro-confluent",
    "value.avro-confluent.url": "http://unused:1",
    "value.avro-confluent.basic-auth.credentials-source": "USER_INFO",
    "value.avro-confluent.basic-auth.user-info": "me:s3cret",
    "scan.on-decode-error": "dead-letter",
    "scan.dead-letter.topic": "dead",
    "metadata.columns": "",
}
EXACTLY_ONCE = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "p"}


class SpiedOptions(MutableMapping[str, str]):
    """Options that remember which module of penstock's reads them, and how often all of them are read."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self.readers: list[str] = []
        self.rounds = 0

    def _note(self) -> None:
        frame = sys._getframe(2)
        while not frame.f_globals["__name__"].startswith("penstock."):
            assert frame.f_back is not None
            frame = frame.f_back
        self.readers.append(frame.f_globals["__name__"])

    def __getitem__(self, key: str) -> str:
        self._note()
        return self._options[key]

    def __iter__(self) -> Iterator[str]:
        self._note()
        self.rounds += 1
        return iter(self._options)

    def __len__(self) -> int:
        self._note()
        return len(self._options)

    def __contains__(self, key: object) -> bool:
        self._note()
        return key in self._options

    def __setitem__(self, key: str, value: str) -> None:
        raise AssertionError("options are not changed")

    __delitem__ = __setitem__  # type: ignore[assignment]  # neither is called


def deserializer() -> str:
    return to_text(PickledDeserializer(len, CalledWith.VALUE, True), DESERIALIZER)


USES: dict[str, tuple[dict[str, str], Callable[[PenstockDataSource], Any]]] = {
    "columns": (SPARK_READ, lambda source: source.schema()),
    "raw batch read": (SPARK_READ, lambda source: source.reader(BYTES)),
    "raw stream": (FLINK, lambda source: source.streamReader(BYTES)),
    "table, batch": (FLINK | {"format": "json"}, lambda source: source.reader(IDS)),
    "table, keyed": (FLINK | KEYED, lambda source: source.streamReader(IDS)),
    "deserializer": (FLINK | {"scan.deserializer": deserializer()}, lambda source: source.reader(IDS)),
    "raw batch write": (SPARK_WRITE, lambda source: source.writer(BYTES, overwrite=False)),
    "table write": (FLINK | KEYED, lambda source: source.streamWriter(IDS, overwrite=False)),
    "exactly once": (FLINK | EXACTLY_ONCE, lambda source: source.writer(BYTES, overwrite=False)),
}


@pytest.mark.parametrize("use", sorted(USES))
def test_raw_options_are_read_once_by_one_parser(use: str) -> None:
    given, make = USES[use]
    options = SpiedOptions(given)
    made = make(PenstockDataSource(options))
    if use != "exactly once":  # which asks the broker before it travels
        pickle.dumps(made)
    assert set(options.readers) == {"penstock.options._recognise"}
    assert options.rounds == 1


def test_one_value_says_all_that_the_options_of_a_table_say() -> None:
    table = parse_read(FLINK | KEYED, streaming=True).table
    assert isinstance(table, TableSpec)
    registry = (
        ("avro-confluent.basic-auth.credentials-source", "USER_INFO"),
        ("avro-confluent.basic-auth.user-info", "me:s3cret"),
        ("avro-confluent.url", "http://unused:1"),
    )
    assert table.connector is Connector.KAFKA
    assert table.value_format == FormatSpec("avro-confluent", "value.", registry, "orders")
    assert table.key_format == FormatSpec("raw", "key.", (), "orders")
    assert (table.key_fields, table.metadata_columns) == (("id",), ())
    assert table.bad_records.dead_letter_topic == "dead"
    assert pickle.loads(pickle.dumps(table)) == table  # noqa: S301 - our own bytes
    hash(table)
    assert "s3cret" not in repr(table)
    assert "value.avro-confluent.basic-auth.user-info" in repr(table)
    written = parse_write(FLINK | KEYED).table
    assert written is not None
    assert written.bad_records.dead_letters is None
    assert (written.value_format, written.key_format) == (table.value_format, table.key_format)


def test_builders_and_options_come_to_the_same_value() -> None:
    built = (
        KafkaSource.builder()
        .set_bootstrap_servers("unused:1")
        .set_topics("orders")
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    table = parse_read(built.options, streaming=True).table
    assert table == parse_read(TEXT, streaming=True).table


def test_both_dialects_come_to_the_same_table() -> None:
    table = {"format": "json", "json.ignore-parse-errors": "true", "metadata.columns": "o=offset"}
    found = parse_read(SPARK_READ | table, streaming=True).table
    assert isinstance(found, TableSpec)
    flinks = parse_read(FLINK | {"connector": "penstock"} | table, streaming=True).table
    assert isinstance(flinks, TableSpec)
    # The topic names subjects when rows are written, and in both dialects it is then `topic`.
    assert replace(flinks, value_format=replace(flinks.value_format, topic=None)) == found
    assert (
        parse_write(SPARK_WRITE | table).table == parse_write(FLINK | {"connector": "penstock"} | table).table
    )


def test_a_deserializer_is_a_table_of_its_own_kind() -> None:
    text = deserializer()
    found = parse_read(FLINK | {"scan.deserializer": text}, streaming=False).table
    assert isinstance(found, DeserializerSpec)
    assert (found.text, found.connector) == (text, Connector.KAFKA)


def test_every_default_is_a_value_that_its_page_text_means() -> None:
    of_formats = [option for name in format_names() for option in format_class(name).options]
    with_default = [option for option in (*OPTIONS, *of_formats) if option.default is not None]
    assert len(with_default) > 40
    for option in with_default:
        assert option.type.parse(shown_default(option)) == option.default, option.key
        assert not option.default_text, option.key


def test_each_option_is_declared_once() -> None:
    keys = [option.key.lower() for option in OPTIONS]
    assert len(keys) == len(set(keys))


def test_the_list_of_options_is_what_the_module_declares_in_its_order() -> None:
    assert declared_in({"B": flink.TOPIC_PATTERN, "_x": "no option", "A": flink.TOPIC}) == (
        flink.TOPIC_PATTERN,
        flink.TOPIC,
    )


@pytest.mark.parametrize("option", [option for option in OPTIONS if option.default is not None])
def test_a_default_is_a_value_that_users_may_write(
    option: Option[Any],
) -> None:
    assert option.type.parse(option.type.render(option.default)) == option.default
