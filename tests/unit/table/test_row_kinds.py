"""The row kind of a changelog table: a column in and out, and an error where it has no column."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from penstock.codec.schema import KAFKA_RECORDS
from penstock.errors import OptionError, SchemaError
from penstock.options.table_spec import OnDecodeError
from penstock.table import BadRecords, TableDecoder, TableEncoder, make_table
from penstock.table.read import TableRowMaker
from tests.table_specs import table_spec, write_spec

DEBEZIUM = {"format": "debezium-json"}
ROWS = pa.schema([("id", pa.int64()), ("row_kind", pa.string())])


def event(op: str, before: int | None, after: int | None) -> bytes:
    rows = {
        name: None if one is None else {"id": one} for name, one in (("before", before), ("after", after))
    }
    return json.dumps({**rows, "op": op, "source": {"table": f"t{before}"}}).encode()


def records(*values: bytes | None, key: bytes | None = None) -> pa.RecordBatch:
    rows = [
        {"topic": "t", "partition": 3, "offset": 100 + i, "value": one, "key": key}
        for i, one in enumerate(values)
    ]
    return pa.RecordBatch.from_pylist(
        rows, schema=pa.schema([one.with_nullable(True) for one in KAFKA_RECORDS])
    )


HISTORY = records(event("c", None, 1), event("u", 1, 2), event("d", 2, None))
KINDS = [(1, "+I"), (1, "-U"), (2, "+U"), (2, "-D")]


def rows(schema: pa.Schema, options: dict[str, str], batch: pa.RecordBatch) -> list[Any]:
    found = TableDecoder(make_table(schema, table_spec({**DEBEZIUM, **options}))).decode(batch)
    return [tuple(row.values()) for row in found.rows.to_pylist()]


def test_the_column_row_kind_has_the_kind() -> None:
    assert rows(ROWS, {}, HISTORY) == KINDS


def test_another_column_has_the_kind_by_option() -> None:
    schema = pa.schema([("id", pa.int64()), pa.field("kind", pa.string(), nullable=False)])
    assert rows(schema, {"metadata.columns": "kind = row-kind"}, HISTORY) == KINDS


def test_metadata_of_the_record_and_of_the_tool_repeats_for_each_row() -> None:
    schema = pa.schema([*ROWS, ("offset", pa.int64()), ("of", pa.string()), ("value.x", pa.int64())])
    columns = "offset; of = value.source.table"
    assert rows(schema, {"metadata.columns": columns}, HISTORY) == [
        (1, "+I", 100, "tNone", None),
        (1, "-U", 101, "t1", None),
        (2, "+U", 101, "t1", None),
        (2, "-D", 102, "t2", None),
    ]


def test_a_column_may_have_the_name_of_metadata() -> None:
    schema = pa.schema([("source.table", pa.string()), ("of", pa.string())])
    value = json.dumps({"op": "c", "after": {"source.table": "mine"}, "source": {"table": "its"}}).encode()
    options = {"metadata.columns": "of = value.source.table"}
    assert rows(schema, options, records(value)) == [("mine", "its")]


def test_every_row_of_a_message_gets_the_key_of_its_record() -> None:
    options = {
        "format": "",
        "value.format": "debezium-json",
        "key.format": "json",
        "key.fields": "k",
        "value.fields-include": "EXCEPT_KEY",
    }
    del options["format"]
    schema = pa.schema([("k", pa.int64()), *ROWS])
    table = make_table(schema, table_spec(options))
    found = TableDecoder(table).decode(records(event("u", 1, 2), event("d", 2, None), key=b'{"k": 9}'))
    assert [tuple(row.values()) for row in found.rows.to_pylist()] == [
        (9, 1, "-U"),
        (9, 2, "+U"),
        (9, 2, "-D"),
    ]


@pytest.mark.parametrize("policy", [OnDecodeError.FAIL, OnDecodeError.SKIP])
def test_without_a_column_for_the_kind_the_first_change_stops_the_read(policy: OnDecodeError) -> None:
    table = make_table(pa.schema([("id", pa.int64())]), table_spec(DEBEZIUM))
    maker = TableRowMaker(TableDecoder(table), BadRecords(policy), lambda _: None)
    inserts = records(event("c", None, 1), event("r", None, 2))
    assert maker.rows(inserts).to_pylist() == [{"id": 1}, {"id": 2}]
    with pytest.raises(SchemaError, match=r"t, partition 3, offset 101 is -U: .*row_kind STRING"):
        maker.rows(HISTORY)


def test_a_bad_message_is_skipped_whole() -> None:
    table = make_table(ROWS, table_spec(DEBEZIUM))
    policy = BadRecords(OnDecodeError.SKIP)
    maker = TableRowMaker(TableDecoder(table), policy, lambda _: None)
    found = maker.rows(records(event("u", 1, 2), event("u", None, 3), event("d", 2, None)))
    assert [tuple(row.values()) for row in found.to_pylist()] == [(1, "-U"), (2, "+U"), (2, "-D")]
    assert policy.skipped_count == 1


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        (pa.schema([("row_kind", pa.int8())]), {}, "declared as int8, and metadata 'row-kind' is string"),
        (ROWS, {"metadata.columns": "id = value.row-kind"}, "does not exist"),
        (pa.schema([("x", pa.string())]), {"metadata.columns": "x = value.table"}, "value.source.table"),
        (
            pa.schema([pa.field("x", pa.string(), nullable=False)]),
            {"metadata.columns": "x = value.source.table"},
            "may be null",
        ),
        (
            pa.schema([("x", pa.string())]),
            {"format": "json", "metadata.columns": "x = row-kind"},
            "metadata 'row-kind', which does not exist",
        ),
    ],
)
def test_columns_that_do_not_fit_are_refused(
    schema: pa.Schema, options: dict[str, str], message: str
) -> None:
    with pytest.raises(SchemaError, match=message):
        TableDecoder(make_table(schema, table_spec({**DEBEZIUM, **options})))


def test_a_key_cannot_have_a_changelog_format() -> None:
    options = {"key.format": "canal-json", "key.fields": "id", "value.format": "json"}
    with pytest.raises(OptionError, match=r"'key.format' cannot be 'canal-json'"):
        make_table(ROWS, table_spec(options))


def encoder(schema: pa.Schema, options: dict[str, str]) -> TableEncoder:
    spec = write_spec({"topic": "t", **options})
    assert spec is not None
    return TableEncoder(make_table(schema, spec), "t")


def test_the_kind_of_a_row_chooses_the_message_that_is_written() -> None:
    batch = pa.RecordBatch.from_pylist(
        [{"id": 1, "row_kind": "+I"}, {"id": 1, "row_kind": "-D"}], schema=ROWS
    )
    found = encoder(ROWS, DEBEZIUM).encode(batch)
    assert found.column("value").to_pylist() == [
        b'{"before":null,"after":{"id":1},"op":"c"}',
        b'{"before":{"id":1},"after":null,"op":"d"}',
    ]
    plain = encoder(ROWS, {"format": "json"}).encode(batch)
    assert plain.column("value")[0].as_py() == b'{"id":1,"row_kind":"+I"}'


def test_a_format_without_row_kinds_does_not_write_them() -> None:
    with pytest.raises(SchemaError, match=r"'row-kind', which cannot be written: format 'json' has no row"):
        encoder(ROWS, {"format": "json", "metadata.columns": "row_kind = row-kind"})
