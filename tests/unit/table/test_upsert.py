"""Upsert tables: records to rows +U and -D, and rows of a changelog to records and tombstones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.codec.schema import KAFKA_RECORDS
from penstock.errors import OptionError, RowError, SchemaError
from penstock.options.table_spec import OnDecodeError
from penstock.table import BadRecords, make_table
from penstock.table.read import TableRowMaker
from penstock.table.upsert_decode import UpsertDecoder
from penstock.table.upsert_encode import UpsertEncoder
from tests.examples import examples
from tests.table_specs import table_spec, write_spec

JSON = {
    "connector": "upsert-kafka",
    "primary-key": "id",
    "key.format": "json",
    "value.format": "json",
}
SCHEMA = pa.schema([pa.field("id", pa.int64()), ("name", pa.string()), ("row_kind", pa.string())])
ANY_RECORD = pa.schema([one.with_nullable(True) for one in KAFKA_RECORDS])

Record = tuple[bytes | None, bytes | None]


def records(pairs: Sequence[Record]) -> pa.RecordBatch:
    rows = [
        {"topic": "t", "partition": 0, "offset": 100 + i, "key": key, "value": value}
        for i, (key, value) in enumerate(pairs)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=ANY_RECORD)


def decoder(schema: pa.Schema = SCHEMA, **options: str) -> UpsertDecoder:
    return UpsertDecoder(make_table(schema, table_spec({**JSON, **dotted(options)})))


def dotted(options: Mapping[str, str]) -> dict[str, str]:
    return {key.replace("__", ".").replace("_", "-"): text for key, text in options.items()}


def rows_of(found: pa.RecordBatch) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in found.to_pylist()]


def reasons(found: Any) -> list[tuple[int, str, str]]:
    return [(one.record_index, one.part, one.reason) for one in found.failures]


K1, K2 = b'{"id":1}', b'{"id":2}'


def test_a_value_is_an_update_and_a_null_value_deletes_the_row_of_its_key() -> None:
    found = decoder().decode(
        records([(K1, b'{"id":1,"name":"a"}'), (K2, None), (K2, b'{"id":2}'), (K1, None)])
    )
    assert rows_of(found.rows) == [(1, "a", "+U"), (2, None, "-D"), (2, None, "+U"), (1, None, "-D")]
    assert found.record_indices is not None
    assert found.record_indices.to_pylist() == [0, 1, 2, 3]
    assert not found.failures
    assert not found.dropped_count


def test_the_key_only_may_hold_the_primary_key_with_a_prefix_and_metadata_stands_beside() -> None:
    schema = pa.schema([("k_a", pa.string()), ("a", pa.int32()), ("kind", pa.string()), ("at", pa.int64())])
    options = {
        "primary-key": "k_a",
        "key.format": "raw",
        "key.fields-prefix": "k_",
        "value.fields-include": "EXCEPT_KEY",
        "metadata.columns": "kind = row-kind; at = offset",
    }
    made = UpsertDecoder(make_table(schema, table_spec({**JSON, **options})))
    found = made.decode(records([(b"x", b'{"a":7}'), (b"y", None)]))
    assert rows_of(found.rows) == [("x", 7, "+U", 100), ("y", None, "-D", 101)]


@pytest.mark.parametrize(
    ("record", "part", "reason"),
    [
        ((None, b'{"id":1}'), "key", "the key is null or empty"),
        ((None, None), "key", "the key is null or empty"),
        ((b"", None), "key", "the key is null or empty"),
        ((b"{}", None), "key", "column 'id' of the primary key is null"),
        ((b"no", None), "key", ""),
        ((b'[{"id":1},{"id":2}]', None), "key", "expected one row in the key"),
        ((K1, b""), "value", "the value is empty, but not null"),
        ((K1, b"no"), "value", ""),
        ((K1, b"[]"), "value", "the value is not empty, but it holds no row"),
        ((b"[]", None), "key", "the key is not empty, but it holds no row"),
        ((K1, b'{"name":"a"}'), "value", "column 'id' of the primary key is not the same in key and value"),
        ((K1, b'{"id":2}'), "value", "set 'value.fields-include' = 'EXCEPT_KEY'"),
    ],
)
def test_a_record_that_names_no_row_is_a_bad_record(record: Record, part: str, reason: str) -> None:
    found = decoder().decode(records([(K1, b'{"id":1,"name":"a"}'), record, (K2, None)]))
    assert rows_of(found.rows) == [(1, "a", "+U"), (2, None, "-D")]
    [(index, in_part, text)] = reasons(found)
    assert (index, in_part) == (1, part)
    assert reason in text
    assert not found.dropped_count


def test_a_value_that_its_format_drops_is_counted() -> None:
    found = decoder(value__json__ignore_parse_errors="true").decode(records([(K1, b"no"), (K2, None)]))
    assert rows_of(found.rows) == [(2, None, "-D")]
    assert (found.dropped_count, len(found.failures)) == (1, 0)
    found = decoder(value__json__ignore_parse_errors="true").decode(records([(K1, b"[]")]))
    assert (found.dropped_count, len(found.failures)) == (1, 0)


def test_a_comment_is_a_bad_record() -> None:
    options = {"value__format": "csv", "value__csv__allow_comments": "true"}
    found = decoder(**options).decode(records([(K1, b"#c"), (K1, b"1,a")]))
    assert rows_of(found.rows) == [(1, "a", "+U")]
    assert reasons(found) == [(0, "value", "the value is not empty, but it holds no row")]


def test_raw_values_keep_empty_texts_apart_from_deletes() -> None:
    options = {"value__format": "raw", "key__format": "raw", "value__fields_include": "EXCEPT_KEY"}
    found = decoder(pa.schema([("id", pa.string()), *list(SCHEMA)[1:]]), **options).decode(
        records([(b"k", b""), (b"k", None), (None, b"x")])
    )
    assert rows_of(found.rows) == [("k", "", "+U"), ("k", None, "-D")]
    assert [one.record_index for one in found.failures] == [2]


def test_bad_records_follow_the_policy() -> None:
    policy = BadRecords(OnDecodeError.SKIP)
    maker = TableRowMaker(decoder(), policy, lambda _: None)
    assert rows_of(maker.rows(records([(None, K1), (K2, None)]))) == [(2, None, "-D")]
    assert policy.skipped_count == 1


@pytest.mark.parametrize(
    ("schema", "options", "error", "message"),
    [
        (SCHEMA.remove(2), {}, SchemaError, r"no column for the row kind.*row_kind STRING"),
        (
            SCHEMA.set(1, pa.field("name", pa.string(), nullable=False)),
            {},
            SchemaError,
            r"'name' is declared NOT NULL, but the row of a delete",
        ),
        (SCHEMA, {"primary_key": "nothing"}, OptionError, r"'primary-key' names 'nothing'"),
        (SCHEMA, {"primary_key": "id; id"}, OptionError, r"'primary-key' names a column twice"),
        (SCHEMA, {"value__format": "canal-json"}, OptionError, r"'value.format' cannot be 'canal-json'"),
        (SCHEMA, {"key__format": "canal-json"}, OptionError, r"'key.format' cannot be 'canal-json'"),
        (
            pa.schema([("id", pa.list_(pa.int64())), ("row_kind", pa.string())]),
            {},
            SchemaError,
            r"cannot be in the primary key",
        ),
        (pa.schema([("id", pa.int64()), ("row_kind", pa.int8())]), {}, SchemaError, r"'row-kind' is string"),
    ],
)
def test_tables_that_do_not_fit_are_refused(
    schema: pa.Schema, options: dict[str, str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        decoder(schema, **options)


def encoder(schema: pa.Schema = SCHEMA, topic: str | None = "t", **options: str) -> UpsertEncoder:
    spec = write_spec({"topic": "t", **JSON, **dotted(options)})
    assert spec is not None
    return UpsertEncoder(make_table(schema, spec), topic)


def batch(*rows: tuple[Any, ...], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema
    )


def written(made: UpsertEncoder, *batches: pa.RecordBatch) -> list[Record]:
    found = list(made.records(batches))
    return [(row["key"], row["value"]) for one in found for row in one.to_pylist()]


def value(key: int, name: str | None) -> Record:
    return json.dumps({"id": key}, separators=(",", ":")).encode(), json.dumps(
        {"id": key, "name": name}, separators=(",", ":")
    ).encode()


def test_rows_are_values_and_deletes_are_null_values() -> None:
    rows = batch((1, "a", "+I"), (1, "a", "-U"), (1, "b", "+U"), (2, None, "+I"), (1, "b", "-D"))
    assert written(encoder(), rows) == [value(1, "a"), value(1, "b"), value(2, None), (K1, None)]


def test_without_row_kinds_every_row_is_a_value() -> None:
    schema = SCHEMA.remove(2)
    assert written(encoder(schema), batch((1, "a"), (1, None), schema=schema)) == [
        value(1, "a"),
        value(1, None),
    ]


def test_an_old_row_whose_key_changes_or_whose_new_row_is_gone_is_deleted() -> None:
    changed = batch((1, "a", "-U"), (2, "a", "+U"))
    assert written(encoder(), changed) == [(K1, None), value(2, "a")]
    assert written(encoder(), batch((1, "a", "-U"))) == [(K1, None)]
    assert written(encoder(), batch((1, "a", "-U"), (2, "b", "-U"), (2, "c", "+U"))) == [
        (K1, None),
        value(2, "c"),
    ]


def test_a_pair_may_be_in_two_batches() -> None:
    old, new = batch((1, "a", "-U")), batch((1, "b", "+U"))
    assert written(encoder(), old, new) == [value(1, "b")]
    assert written(encoder(), old, batch(), batch((2, "b", "+U"))) == [(K1, None), value(2, "b")]


@pytest.mark.parametrize("max_rows", ["0", "3"])
def test_texts_of_more_than_two_gib_lose_no_row(max_rows: str) -> None:
    # The zeros are never touched, so they take no memory.
    size = 1_150_000_000
    buffers = [None, pa.py_buffer(np.array([0, size], np.int32)), pa.py_buffer(np.zeros(size, np.uint8))]
    text = pa.Array.from_buffers(pa.string(), 1, buffers)
    batches = [
        pa.RecordBatch.from_arrays([pa.array([key]), text, pa.array([kind])], schema=SCHEMA)
        for key, kind in [(1, "-U"), (2, "-U"), (2, "+U")]
    ]
    interval = "0" if max_rows == "0" else "1 s"
    made = encoder(sink__buffer_flush__max_rows=max_rows, sink__buffer_flush__interval=interval)
    found = made.last_rows(batches)
    assert [
        (row["id"], row["row_kind"]) for one in found for row in one.drop_columns("name").to_pylist()
    ] == [
        (1, "-U"),
        (2, "+U"),
    ]


def test_a_row_kind_in_other_case_is_refused_unless_the_options_name_it() -> None:
    schema = pa.schema([*list(SCHEMA)[:2], ("ROW_KIND", pa.string())])
    for make in (encoder, decoder):
        with pytest.raises(SchemaError, match=r"'ROW_KIND' is not the row kind.*ROW_KIND = row-kind"):
            make(schema)
    named = encoder(schema, metadata__columns="ROW_KIND = row-kind")
    assert written(named, batch((1, "a", "-D"), schema=schema)) == [(K1, None)]


def test_a_buffer_writes_the_last_row_of_each_key() -> None:
    rows = batch((1, "a", "+I"), (2, "x", "+I"), (1, "b", "+U"), (2, "x", "-D"), (1, "c", "+U"))
    buffered = {"sink__buffer_flush__max_rows": "4", "sink__buffer_flush__interval": "1 s"}
    assert written(encoder(**buffered), rows) == [value(1, "b"), (K2, None), value(1, "c")]
    buffered["sink__buffer_flush__max_rows"] = "9"
    assert written(encoder(**buffered), rows) == [(K2, None), value(1, "c")]


def test_a_buffer_does_not_depend_on_the_batches_of_spark() -> None:
    rows = batch((1, "a", "+I"), (2, "x", "+I"), (1, "b", "+U"), (2, "x", "-D"), (1, "c", "+U"))
    made = encoder(sink__buffer_flush__max_rows="3", sink__buffer_flush__interval="1 s")
    expected = [value(2, "x"), value(1, "b"), (K2, None), value(1, "c")]
    for size in range(1, 6):
        batches = [rows.slice(start, size) for start in range(0, 5, size)]
        assert written(made, *batches) == expected


def test_the_same_key_in_two_topics_is_two_rows() -> None:
    schema = pa.schema([*SCHEMA, ("topic", pa.string())])
    spec = write_spec({**JSON, "metadata.columns": "topic"})
    assert spec is not None
    made = UpsertEncoder(make_table(schema, spec), None)
    rows = batch((1, "a", "-U", "s"), (1, "b", "+U", "t"), schema=schema)
    [found] = made.records([rows])
    assert found.column("topic").to_pylist() == ["s", "t"]
    assert found.column("value").to_pylist() == [None, value(1, "b")[1]]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((None, "a", "+I"), r"value in column 'id' of row 1 of the batch, got null"),
        (
            (1, "a", "+X"),
            r"row kind \(\+I, -U, \+U, -D\) in column 'row_kind' of row 1 of the batch, got '\+X'",
        ),
        ((1, "a", None), r"got None"),
    ],
)
def test_a_row_without_a_key_or_a_kind_is_not_written(row: tuple[Any, ...], message: str) -> None:
    with pytest.raises(RowError, match=message):
        written(encoder(), batch((1, "a", "+I"), row))


def test_a_value_that_would_be_a_tombstone_by_accident_is_not_written() -> None:
    made = encoder(value__format="raw", value__fields_include="EXCEPT_KEY")
    assert written(made, batch((1, "a", "+I"), (1, None, "-D"))) == [(K1, b"a"), (K1, None)]
    with pytest.raises(RowError, match=r"'raw' writes a row of this batch as a null value"):
        written(made, batch((1, None, "+U")))


_Change = tuple[int, int, str | None]
CHANGES = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.one_of(st.none(), st.sampled_from("abc"))), max_size=25
)


def history(changes: Sequence[_Change]) -> tuple[list[tuple[Any, ...]], dict[int, str | None]]:
    """Return a changelog and the table at its end: inserts, updates, deletes, and updates that move a key."""
    table: dict[int, str | None] = {}
    rows: list[tuple[Any, ...]] = []
    for key, target, name in changes:
        if key not in table:
            rows.append((key, name, "+I"))
            table[key] = name
        elif name is None and target != key:
            rows.append((key, table.pop(key), "-D"))
        elif target == key or target not in table:
            rows += [(key, table.pop(key), "-U"), (target, name, "+U")]
            table[target] = name
    return rows, table


def table_of(pairs: Sequence[Record]) -> dict[int, str | None]:
    """Read records as an upsert table, in parts, and apply its rows."""
    table: dict[int, str | None] = {}
    for start in range(0, len(pairs), 3):
        found = decoder().decode(records(pairs[start : start + 3]))
        assert not found.failures
        for key, name, kind in rows_of(found.rows):
            if kind == "-D":
                table.pop(key, None)
            else:
                table[key] = name
    return table


@settings(max_examples=examples(60))
@given(CHANGES, st.lists(st.integers(1, 4), min_size=1), st.sampled_from(["0", "1", "3", "50"]))
def test_every_history_gives_the_same_table(changes: list[_Change], sizes: list[int], max_rows: str) -> None:
    rows, table = history(changes)
    batches: list[pa.RecordBatch] = []
    start = 0
    while start < len(rows):
        size = sizes[len(batches) % len(sizes)]
        batches.append(batch(*rows[start : start + size]))
        start += size
    interval = "0" if max_rows == "0" else "1 h"
    made = encoder(sink__buffer_flush__max_rows=max_rows, sink__buffer_flush__interval=interval)
    assert table_of(written(made, *batches)) == table
