"""Changelog formats through a real broker: messages of each tool read, and their rows written and read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from penstock.options.parse import parse_read, parse_write
from penstock.options.table_spec import TableSpec
from penstock.sink.writer import write_rows
from penstock.source.split_reader import read_split
from penstock.source.splits import Split
from penstock.table import BadRecords, TableDecoder, TableEncoder, make_table
from penstock.table.read import TableRowMaker
from penstock.types import OffsetRange, TopicPartition
from tests import judge
from tests.fix_broker import MakeTopic
from tests.registry_server import running_registry

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("row_kind", pa.string()),
        pa.field("offset", pa.int64(), nullable=False),
    ]
)
WRITTEN_SCHEMA = pa.schema(list(SCHEMA)[:3])
A, B, C = {"id": 1, "name": "a"}, {"id": 1, "name": None}, {"id": 2, "name": "c"}
MESSAGES: dict[str, list[dict[str, Any]]] = {
    "debezium-json": [
        {"op": "r", "before": None, "after": A},
        {"op": "c", "after": C},
        {"op": "u", "before": A, "after": B},
        {"op": "d", "before": C},
    ],
    "canal-json": [
        {"type": "INSERT", "data": [A, C]},
        {"type": "UPDATE", "data": [B], "old": [{"name": "a"}]},
        {"type": "DELETE", "data": [C]},
    ],
    "maxwell-json": [
        {"type": "insert", "data": A},
        {"type": "insert", "data": C},
        {"type": "update", "data": B, "old": {"name": "a"}},
        {"type": "delete", "data": C},
    ],
    "ogg-json": [
        {"op_type": "I", "after": A},
        {"op_type": "I", "after": C},
        {"op_type": "U", "before": A, "after": B},
        {"op_type": "D", "before": C},
    ],
}
HISTORY = [(1, "a", "+I"), (2, "c", "+I"), (1, "a", "-U"), (1, None, "+U"), (2, "c", "-D")]
WRITTEN = [(1, "a", "+I"), (2, "c", "+I"), (1, "a", "-D"), (1, None, "+I"), (2, "c", "-D")]


def rows_of(
    bootstrap: str, topic: str, count: int, options: Mapping[str, str], schema: pa.Schema = SCHEMA
) -> pa.Table:
    """Read the first records of a topic as a task reads them."""
    given = {"properties.bootstrap.servers": bootstrap, "topic": topic, "metadata.columns": "offset"}
    config = parse_read({**given, **options}, streaming=False)
    assert isinstance(config.table, TableSpec)
    table = make_table(schema, config.table)
    maker = TableRowMaker(TableDecoder(table), BadRecords(config.table.bad_records.policy), lambda _: None)
    split = Split.of(OffsetRange(TopicPartition(topic, 0), 0, count))
    return pa.Table.from_batches([maker.rows(one) for one in read_split(config.source, split, maker.columns)])


def write(bootstrap: str, topic: str, rows: pa.Table, options: Mapping[str, str]) -> None:
    """Write rows as a task writes them."""
    config = parse_write({"properties.bootstrap.servers": bootstrap, "topic": topic, **options})
    assert config.table is not None
    encoder = TableEncoder(make_table(WRITTEN_SCHEMA, config.table), topic)
    write_rows(config.sink, [encoder.encode(one) for one in rows.combine_chunks().to_batches()])


def changes(rows: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in rows.select(WRITTEN_SCHEMA.names).to_pylist()]


@pytest.mark.promise
@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_messages_are_read_as_changes_and_changes_are_written(
    bootstrap: str, make_topic: MakeTopic, name: str
) -> None:
    source, target, options = make_topic(), make_topic(), {"format": name}
    values = [json.dumps(one).encode() for one in MESSAGES[name]]
    judge.produce(bootstrap, source, *values)
    rows = rows_of(bootstrap, source, len(values), options)
    assert changes(rows) == HISTORY
    assert rows.column("offset").to_pylist() == sorted(rows.column("offset").to_pylist())
    assert set(rows.column("offset").to_pylist()) == set(range(len(values)))
    write(bootstrap, target, rows.select(WRITTEN_SCHEMA.names), options)
    assert len(judge.consume_all(bootstrap, target)) == len(WRITTEN)
    assert changes(rows_of(bootstrap, target, len(WRITTEN), options)) == WRITTEN


def test_debezium_in_avro_is_written_and_read(bootstrap: str, make_topic: MakeTopic) -> None:
    target, name = make_topic(), "debezium-avro-confluent"
    rows = pa.Table.from_pylist(
        [dict(zip(WRITTEN_SCHEMA.names, row, strict=True)) for row in HISTORY], schema=WRITTEN_SCHEMA
    )
    with running_registry() as registry:
        options = {"format": name, f"{name}.url": registry.url}
        write(bootstrap, target, rows, options)
        assert changes(rows_of(bootstrap, target, len(WRITTEN), options)) == WRITTEN
