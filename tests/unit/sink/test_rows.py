"""Which DataFrames can be written, and what is said about the others."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.errors import RowError
from penstock.options.config import KafkaProperties, SinkConfig
from penstock.sink.rows import check_placing, check_write_schema, topics_of_rows

TO_TOPIC = SinkConfig(KafkaProperties(), topic="t")
BY_COLUMN = SinkConfig(KafkaProperties())
SPARK_HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


def check(config: SinkConfig = TO_TOPIC, **columns: pa.DataType) -> None:
    check_write_schema(pa.schema(list(columns.items())), config)


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string(), pa.large_binary(), pa.null()])
def test_keys_and_values_are_text_or_bytes(kind: pa.DataType) -> None:
    check(key=kind, value=kind)


def test_every_column_of_a_record_can_be_given() -> None:
    check(
        BY_COLUMN,
        topic=pa.string(),
        key=pa.binary(),
        value=pa.string(),
        headers=SPARK_HEADERS,
        partition=pa.int32(),
        timestamp=pa.timestamp("us", tz="Europe/Berlin"),
    )


def test_what_a_source_adds_is_not_in_the_way() -> None:
    check(value=pa.binary(), offset=pa.int64(), timestampType=pa.int32())


@pytest.mark.parametrize("partitioner", ["fixed", "round-robin", "mine.ByRegion"])
def test_a_column_partition_and_a_partitioner_exclude_each_other(partitioner: str) -> None:
    schema = pa.schema({"value": pa.binary(), "partition": pa.int32()})
    with pytest.raises(RowError, match=r"column named partition, and sink\.partitioner is set too"):
        check_placing(schema, replace(TO_TOPIC, partitioner=partitioner))
    check_placing(schema, TO_TOPIC)


def test_rows_with_keys_are_not_dealt_out_in_turn() -> None:
    in_turn = replace(TO_TOPIC, partitioner="round-robin")
    keyed = pa.schema({"value": pa.binary(), "key": pa.binary()})
    with pytest.raises(RowError, match="round-robin is for records without keys"):
        check_placing(keyed, in_turn)
    check_placing(keyed, replace(TO_TOPIC, partitioner="fixed"))
    check_placing(pa.schema({"value": pa.binary(), "key": pa.null()}), in_turn)


def test_a_value_is_needed() -> None:
    with pytest.raises(RowError, match=r"Expected a column named value.*has: key, topic") as caught:
        check(key=pa.string(), topic=pa.string())
    assert caught.value.facts["column"] == "value"


def test_a_topic_is_needed() -> None:
    with pytest.raises(RowError, match=r"Expected a topic.*option 'topic'.*column named topic"):
        check(BY_COLUMN, value=pa.string())
    check(TO_TOPIC, value=pa.string())
    check(BY_COLUMN, value=pa.string(), topic=pa.string())


@pytest.mark.parametrize(
    ("name", "kind", "wanted"),
    [
        ("topic", pa.binary(), "string"),
        ("key", pa.int64(), "string or binary"),
        ("value", pa.struct([("a", pa.int32())]), "string or binary"),
        ("partition", pa.int64(), "int"),
        ("partition", pa.string(), "int"),
        ("timestamp", pa.int64(), "timestamp"),
        ("timestamp", pa.timestamp("us"), "time zone"),
        ("headers", pa.map_(pa.string(), pa.binary()), "array<struct"),
        ("headers", pa.list_(pa.string()), "array<struct"),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])), "array<struct"),
        ("headers", pa.list_(pa.struct([("key", pa.string())])), "array<struct"),
    ],
)
def test_a_column_of_a_wrong_type_is_named(name: str, kind: pa.DataType, wanted: str) -> None:
    columns = {"value": pa.string(), name: kind}
    with pytest.raises(RowError, match=f"{wanted}.* for column {name}, got .*Cast") as caught:
        check(**columns)
    assert caught.value.facts["type"] == str(kind)


@pytest.mark.parametrize(
    ("name", "hint"), [("Key", "mean key"), ("header", "mean headers"), ("amount", "to_json")]
)
def test_an_unknown_column_is_named_with_what_to_do(name: str, hint: str) -> None:
    with pytest.raises(RowError, match=f"got a column {name}.*{hint}"):
        check(**{"value": pa.string(), name: pa.string()})


def test_a_column_that_is_there_twice_is_named() -> None:
    schema = pa.schema([("value", pa.string()), ("value", pa.string())])
    with pytest.raises(RowError, match="one column value, got 2"):
        check_write_schema(schema, TO_TOPIC)


def batch(topics: list[str | None]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(topics, pa.string())], ["topic"])


def test_rows_are_grouped_by_topic_in_order() -> None:
    found = topics_of_rows(batch(["b", "a", "b", "c", "a"]), BY_COLUMN, rows_before=0)
    rows = {each.topic: each.rows.to_pylist() for each in found if each.rows is not None}
    assert rows == {"b": [0, 2], "a": [1, 4], "c": [3]}


def test_the_option_overrides_the_column() -> None:
    [found] = topics_of_rows(batch(["a", None]), TO_TOPIC, rows_before=0)
    assert (found.topic, found.rows) == ("t", None)


def test_rows_of_one_topic_stay_together() -> None:
    [found] = topics_of_rows(batch(["a", "a"]), BY_COLUMN, rows_before=0)
    assert (found.topic, found.rows) == ("a", None)


def test_a_row_without_topic_is_named() -> None:
    with pytest.raises(RowError, match="in row 102 of this task, got null in the column topic") as caught:
        topics_of_rows(batch(["a", "b", None, None]), BY_COLUMN, rows_before=100)
    assert caught.value.facts["row"] == 102
