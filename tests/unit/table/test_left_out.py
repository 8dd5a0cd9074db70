"""Fields of changes that the schema does not have are said once each."""

from __future__ import annotations

import json
import logging
from typing import Any

import pyarrow as pa
import pytest

from penstock.formats.avro.schema import parse_schema
from penstock.formats.changelog._left_out import avro_fields
from penstock.options.table_spec import OnDecodeError
from penstock.table import BadRecords, TableDecoder, make_table
from penstock.table.read import TableRowMaker
from tests.table_specs import table_spec
from tests.unit.table.test_row_kinds import records

ROWS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("row_kind", pa.string())])


def maker_of(options: dict[str, str], columns: list[str] | None = None, **named: Any) -> TableRowMaker:
    table = make_table(ROWS, table_spec(options))
    return TableRowMaker(
        TableDecoder(table, columns), BadRecords(OnDecodeError.FAIL), lambda _: None, **named
    )


OLD, NEW = {"id": 1, "name": "a"}, {"id": 1, "name": "a", "city": "Rome"}
LARGE = {**NEW, "name": "x" * 70_000}
MESSAGES: dict[str, tuple[dict[str, str], list[Any], list[str]]] = {
    "debezium": ({"format": "debezium-json"}, [{"op": "c", "after": NEW}], ["city"]),
    "nothing is added": ({"format": "debezium-json"}, [{"op": "c", "after": OLD}], []),
    "only the newest counts": (
        {"format": "debezium-json"},
        [{"op": "c", "after": {**NEW, "gone": 1}}, {"op": "u", "before": OLD, "after": NEW}],
        ["city"],
    ),
    "a delete, then a tombstone": (
        {"format": "debezium-json"},
        [{"op": "d", "before": NEW, "after": None}, None],
        ["city"],
    ),
    "with its schema": (
        {"format": "debezium-json", "debezium-json.schema-include": "true"},
        [{"schema": {"fields": []}, "payload": {"op": "c", "after": NEW}}],
        ["city"],
    ),
    "ogg": ({"format": "ogg-json"}, [{"op_type": "I", "after": NEW}], ["city"]),
    "maxwell": ({"format": "maxwell-json"}, [{"type": "insert", "data": NEW}], ["city"]),
    "canal": ({"format": "canal-json"}, [{"type": "INSERT", "data": [OLD, NEW]}], ["city"]),
    "canal, another table": (
        {"format": "canal-json", "canal-json.table.include": "mine"},
        [
            {"type": "INSERT", "table": "mine", "data": [NEW]},
            {"type": "INSERT", "table": "other", "data": [{"other": 1}]},
        ],
        ["city"],
    ),
    "the case differs": ({"format": "debezium-json"}, [{"op": "c", "after": {"ID": 1}}], ["ID"]),
    "a large one is left alone": (
        {"format": "debezium-json"},
        [{"op": "c", "after": NEW}, {"op": "c", "after": {**LARGE, "other": 1}}],
        ["city"],
    ),
    "the key has it": (
        {
            "value.format": "debezium-json",
            "key.format": "json",
            "key.fields": "id",
            "value.fields-include": "EXCEPT_KEY",
        },
        [{"op": "c", "after": NEW}],
        ["city"],
    ),
    "plain json has more fields on purpose": ({"format": "json"}, [NEW], []),
}


@pytest.mark.parametrize("case", MESSAGES)
@pytest.mark.parametrize("columns", [None, ["id"]])
def test_fields_that_are_left_out_are_said(
    case: str, columns: list[str] | None, caplog: pytest.LogCaptureFixture
) -> None:
    options, messages, expected = MESSAGES[case]
    given = records(
        *(None if one is None else json.dumps(one).encode() for one in messages), key=b'{"id": 1}'
    )
    names = columns and [*columns, "row_kind"]
    if options.get("format") == "json":
        table = make_table(ROWS.remove(2), table_spec(options))
        maker = TableRowMaker(TableDecoder(table, columns), BadRecords(OnDecodeError.FAIL), lambda _: None)
    else:
        maker = maker_of(options, names)
    with caplog.at_level(logging.WARNING, "penstock"):
        maker.rows(given)
        maker.rows(given)
    said = [one.getMessage() for one in caplog.records]
    assert [one.partition(" of topic t is not in the schema and is left out. ")[0] for one in said] == [
        f"field {name!r}" for name in expected
    ]


def test_a_field_that_the_table_takes_from_the_key_with_a_prefix_is_not_left_out() -> None:
    options = {
        "value.format": "debezium-json",
        "key.format": "json",
        "key.fields": "k_id",
        "key.fields-prefix": "k_",
        "value.fields-include": "EXCEPT_KEY",
    }
    schema = pa.schema([("k_id", pa.int64()), ("name", pa.string()), ("row_kind", pa.string())])
    decoder = TableDecoder(make_table(schema, table_spec(options)))
    found = decoder.decode(records(json.dumps({"op": "c", "after": NEW}).encode(), key=b'{"id": 1}'))
    assert found.rows.to_pylist() == [{"k_id": 1, "name": "a", "row_kind": "+I"}]
    assert found.left_out is not None
    assert found.left_out.names == {"city"}


@pytest.mark.parametrize("value", [b"{", b"[1]", b"null", b'{"op": "c"}', b"[" * 100_000, b"\xff"])
def test_a_message_that_cannot_be_read_says_nothing(value: bytes, caplog: pytest.LogCaptureFixture) -> None:
    decoder = TableDecoder(make_table(ROWS, table_spec({"format": "debezium-json"})))
    assert decoder.decode(records(value)).left_out is None
    assert not caplog.records


def test_other_tasks_of_the_run_may_have_said_it(caplog: pytest.LogCaptureFixture) -> None:
    asked: list[str] = []

    def is_new(message: str) -> bool:
        asked.append(message)
        return False

    maker = maker_of({"format": "debezium-json"}, is_new=is_new)
    for _ in range(2):
        maker.rows(records(json.dumps({"op": "c", "after": NEW}).encode()))
    assert (len(asked), caplog.records) == (1, [])


def test_the_fields_of_an_avro_envelope() -> None:
    row = {
        "type": "record",
        "name": "Value",
        "fields": [{"name": n, "type": "string"} for n in ("id", "city")],
    }
    envelope = {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", row]},
            {"name": "after", "type": ["null", "Value"]},
            {"name": "op", "type": "string"},
        ],
    }
    for schema in (envelope, ["null", envelope]):
        found = avro_fields(parse_schema(json.dumps(schema)).root, ["before", "after"])
        assert found == {"id", "city"}
