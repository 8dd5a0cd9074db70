"""Avro messages of a real Debezium, with the schemas of a real registry, make the table of a real PostgreSQL.

`python -m tests.judges.debezium.recording_avro` has recorded them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.cdc.columns import follow_all
from penstock.cdc.messages import MessageFormat, message_format
from penstock.targets.batch import DELETED, LastRows
from tests.registry_server import running_registry
from tests.unit.cdc.debezium_messages import binary, row_as_texts

RECORDED = json.loads(
    (Path(__file__).parents[2] / "data" / "cdc" / "debezium-avro.json").read_text(encoding="utf-8")
)
KEYS, VALUES = (
    binary([None if one is None else base64.b64decode(one) for one in each])
    for each in zip(*RECORDED["records"], strict=True)
)


@pytest.fixture
def messages() -> Iterator[MessageFormat]:
    with running_registry() as registry:
        for number, schema in RECORDED["schemas"].items():
            registry.schemas[int(number)] = {"schema": json.dumps(schema)}
        options = {"format": "debezium-avro-confluent", "debezium-avro-confluent.url": registry.url}
        yield message_format(options)


def copied(messages: MessageFormat) -> tuple[pa.Schema, list[dict[str, Any]]]:
    """Return the columns and the rows of a copy that reads all messages in one batch."""
    sources = [messages.source(text) for text in messages.schemas(KEYS, VALUES).texts]
    assert {(one.name, one.keys) for one in sources} == {("public.t0", ("id",))}
    columns = follow_all(pa.schema([]), [one.columns for one in sources], "lenient", ("id",)).columns
    changes = messages.changes(KEYS, VALUES, columns)
    assert not changes.failures
    rows = changes.rows.append_column("row_kind", changes.kinds)
    last = LastRows(("id",), columns).last_rows(pa.Table.from_batches([rows]))
    found = last.filter(pa.compute.invert(last.column(DELETED))).drop_columns([DELETED]).sort_by("id")
    return columns, found.to_pylist()


def test_each_type_has_its_column(messages: MessageFormat) -> None:
    columns, _ = copied(messages)
    assert {one.name: str(one.type) for one in columns} == {
        "id": "int64",
        "name": "string",
        "n": "int64",
        "big": "int64",
        "exact": "decimal128(10, 2)",
        "flag": "bool",
        "at": "timestamp[us]",
        "atz": "timestamp[us, tz=UTC]",
        "day": "date32[day]",
        "d": "double",
        "r": "float",
        "small": "int16",
        "raw": "binary",
        "u": "string",
        "seven": "int32",
        "more": "decimal128(14, 3)",
    }


def test_the_copy_is_equal_to_the_table_but_for_a_null_that_the_converter_has_changed(
    messages: MessageFormat,
) -> None:
    _, rows = copied(messages)
    expected = {one["id"]: one for one in RECORDED["table"]}
    found = {one["id"]: one for one in map(row_as_texts, rows)}
    assert expected.keys() == {"2", "4", "10"}
    assert expected["2"]["seven"] is None
    expected["2"]["seven"] = "7"  # Apicurio's converter writes a default in place of NULL
    for one in found.values():
        del one["big"]  # dropped in the table, and the copy keeps it
    assert found == expected
