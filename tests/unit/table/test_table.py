"""A topic as a table: keys, values and metadata together, in both directions."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.codec.schema import KAFKA_RECORDS
from penstock.errors import DecodeError, MissingOptionError, OptionError, SchemaError
from penstock.formats import DecodedRows, Decoder, Encoder, metadata_column
from penstock.formats.json.format import JsonFormat
from penstock.options.table_spec import FormatSpec, OnDecodeError, TableSpec
from penstock.table import (
    DEAD_LETTERS,
    BadRecords,
    Table,
    TableDecoder,
    TableEncoder,
    TableRows,
    make_table,
)
from tests.examples import examples
from tests.table_specs import read_spec, table_spec, write_spec

AT = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)
AT_MS = 1767323045678

Headers = list[tuple[str, bytes | None]] | None


def record(
    value: bytes | None, key: bytes | None = None, headers: Headers = None, **others: Any
) -> dict[str, Any]:
    named = None if headers is None else [{"key": name, "value": text} for name, text in headers]
    return {
        "key": key,
        "value": value,
        "topic": "t",
        "partition": 3,
        "timestamp": AT,
        "timestamp_type": 0,
        "leader_epoch": 7,
        "headers": named,
        **others,
    }


def records(*rows: dict[str, Any]) -> pa.RecordBatch:
    numbered = [{"offset": 100 + i, **row} for i, row in enumerate(rows)]
    return pa.RecordBatch.from_pylist(numbered, schema=KAFKA_RECORDS)


JSON = {"format": "json"}
KEYED = {
    "key.format": "json",
    "key.fields": "k_id ; k_sub id",
    "key.fields-prefix": "k_",
    "value.format": "json",
    "value.fields-include": "EXCEPT_KEY",
}
KEYED_SCHEMA = pa.schema([("k_id", pa.int64()), ("k_sub id", pa.string()), ("id", pa.int8())])


def decode(
    options: dict[str, str], schema: pa.Schema, batch: pa.RecordBatch, columns: Sequence[str] | None = None
) -> TableRows:
    table = make_table(schema, table_spec(options))
    decoder = TableDecoder(pickle.loads(pickle.dumps(table)), columns)  # noqa: S301 - our own bytes
    found = decoder.decode(batch.select(list(decoder.record_columns)))
    found.rows.validate(full=True)
    assert found.rows.schema == decoder.schema
    return found


# -- keys and values -----------------------------------------------------------------------------------------


def test_key_columns_lose_their_prefix_in_the_key_only() -> None:
    table = make_table(KEYED_SCHEMA, table_spec(KEYED))
    assert table.key_schema.names == ["id", "sub id"]
    assert table.value_schema.names == ["id"]


def test_the_key_has_the_order_of_key_fields_and_the_value_that_of_the_table() -> None:
    schema = pa.schema([("a", pa.int8()), ("b", pa.int8()), ("c", pa.int8())])
    options = {"key.format": "json", "key.fields": "c;a", "format": "json"}
    table = make_table(schema, table_spec(options))
    assert (table.key_schema.names, table.value_schema.names) == (["c", "a"], ["a", "b", "c"])


def test_keys_and_values_meet_in_a_row_and_a_null_key_keeps_its_record() -> None:
    found = decode(
        KEYED,
        KEYED_SCHEMA,
        records(
            record(b'{"id":1}', b'{"id":10,"sub id":"x"}'),
            record(b'{"id":2}', None),
            record(None, b'{"id":30}'),
            record(b'{"id":4}', b""),
            record(b'{"id":5}', b'{"id":50}'),
        ),
    )
    assert found.rows.to_pylist() == [
        {"k_id": 10, "k_sub id": "x", "id": 1},
        {"k_id": None, "k_sub id": None, "id": 2},
        {"k_id": None, "k_sub id": None, "id": 4},
        {"k_id": 50, "k_sub id": None, "id": 5},
    ]
    assert found.record_indices is not None
    assert found.record_indices.to_pylist() == [0, 1, 3, 4]
    assert (list(found.failures), found.dropped_count) == ([], 0)


def test_with_all_the_value_wins_also_where_it_is_null_and_keys_are_not_read() -> None:
    options = {"key.format": "json", "key.fields": "id", "value.format": "json"}
    schema = pa.schema([("id", pa.int8()), ("v", pa.int8())])
    batch = records(record(b'{"v":1}', b'{"id":9}'), record(b'{"id":2,"v":2}', b"not json"))
    table = make_table(schema, table_spec(options))
    assert "key" not in TableDecoder(table).record_columns
    assert decode(options, schema, batch).rows.to_pylist() == [{"id": None, "v": 1}, {"id": 2, "v": 2}]


def test_bad_keys_and_values_are_one_failure_a_record_and_move_nothing() -> None:
    good = (b'{"id":1}', b'{"id":1}')
    batch = records(
        record(*good),
        record(b"{", b"{"),
        record(b'{"id":2}', b"{"),
        record(b"[}", b'{"id":3}'),
        record(*good),
    )
    found = decode(KEYED, KEYED_SCHEMA, batch)
    assert [(f.record_index, f.part) for f in found.failures] == [(1, "key"), (2, "key"), (3, "value")]
    assert found.record_indices is not None
    assert found.record_indices.to_pylist() == [0, 4]
    assert found.rows.column(0).to_pylist() == [1, 1]
    assert found.dropped_count == 0


def test_keys_that_the_format_ignores_drop_their_records_and_are_counted() -> None:
    options = {**KEYED, "key.json.ignore-parse-errors": "true"}
    batch = records(record(b'{"id":1}', b"{"), record(b"{", b"{}"), record(b'{"id":2}', None))
    found = decode(options, KEYED_SCHEMA, batch)
    assert found.rows.column(2).to_pylist() == [2]
    assert ([f.record_index for f in found.failures], found.dropped_count) == ([1], 1)


def test_a_missing_key_is_a_failure_where_its_columns_are_not_null() -> None:
    schema = pa.schema([pa.field("k_id", pa.int64(), nullable=False), ("id", pa.int8())])
    options = {**KEYED, "key.fields": "k_id"}
    found = decode(
        options, schema, records(record(b'{"id":1}'), record(b'{"id":2}', b'{"id":5}'), record(None))
    )
    assert found.rows.to_pylist() == [{"k_id": 5, "id": 2}]
    assert [(f.record_index, f.part) for f in found.failures] == [(0, "key")]


def test_raw_keys_and_values_keep_nulls() -> None:
    options = {
        "key.format": "raw",
        "key.fields": "k",
        "value.format": "raw",
        "value.fields-include": "EXCEPT_KEY",
    }
    schema = pa.schema([("k", pa.int32()), ("v", pa.string())])
    found = decode(
        options, schema, records(record(b"a", b"\0\0\0\1"), record(None, None), record(b"", b"xx"))
    )
    assert found.rows.to_pylist() == [{"k": 1, "v": "a"}, {"k": None, "v": None}]
    assert [f.record_index for f in found.failures] == [2]


@pytest.mark.parametrize(
    ("kind", "rows", "failures"),
    [
        (pa.field("k", pa.string(), nullable=False), [("", 0)], [(1, "null")]),
        (pa.field("k", pa.string()), [("", 0), (None, 1)], []),
        (pa.field("k", pa.int64(), nullable=False), [], [(0, "8 bytes"), (1, "null")]),
        (pa.field("k", pa.int64()), [(None, 1)], [(0, "8 bytes")]),
    ],
)
@pytest.mark.parametrize("value_format", ["raw", "json"])
def test_a_record_with_an_empty_key_is_a_row_or_a_failure_never_both(
    value_format: str, kind: pa.Field, rows: list[tuple[Any, int]], failures: list[tuple[int, str]]
) -> None:
    options = {
        "key.format": "raw",
        "key.fields": "k",
        "value.fields-include": "EXCEPT_KEY",
        "value.format": value_format,
    }
    batch = records(record(b"0", key=b""), record(b"1", key=None))
    if value_format == "json":
        batch = records(record(b'{"v": "0"}', key=b""), record(b'{"v": "1"}', key=None))
    found = decode(options, pa.schema([kind, ("v", pa.string())]), batch)
    assert found.rows.to_pylist() == [{"k": key, "v": str(value)} for key, value in rows]
    assert [one.record_index for one in found.failures] == [index for index, _ in failures]
    assert all(reason in one.reason for one, (_, reason) in zip(found.failures, failures, strict=True))
    assert found.dropped_count == 0


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([None, b"", b"{", b"[]"]) | st.integers(0, 3),
            st.sampled_from([None, b"", b"{", b"[]"]) | st.integers(0, 3),
        ),
        max_size=8,
    )
)
def test_a_key_of_n_rows_and_a_value_of_m_are_n_times_m_rows(parts: list[tuple[Any, Any]]) -> None:
    def spread(part: Any, record_id: int) -> Any:
        if not isinstance(part, int):
            return part
        return str([{"id": record_id * 10 + i} for i in range(part)]).replace("'", '"').encode()

    options = {**KEYED, "key.fields": "k_id"}
    schema = pa.schema([("k_id", pa.int64()), ("id", pa.int64())])
    batch = records(*(record(spread(v, i), spread(k, i)) for i, (k, v) in enumerate(parts)))
    found = decode(options, schema, batch)
    expected: list[tuple[int | None, int]] = []
    failed, dropped = [], 0
    for i, (key, value) in enumerate(parts):
        keys = [i * 10 + n for n in range(key)] if isinstance(key, int) else [None] if not key else []
        values = [i * 10 + n for n in range(value)] if isinstance(value, int) else []
        expected.extend((k, v) for v in values for k in keys)
        if b"{" in (key, value):
            failed.append(i)
        elif values and not keys:
            dropped += 1
    assert [tuple(row.values()) for row in found.rows.to_pylist()] == expected
    assert [one.record_index for one in found.failures] == failed
    assert found.dropped_count == dropped


# -- metadata ------------------------------------------------------------------------------------------------

METADATA_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        ("at", pa.timestamp("us", "UTC")),
        ("part", pa.int64()),
        ("v", pa.int8()),
        ("offset", pa.int64()),
        ("epoch", pa.int32()),
        ("kind", pa.string()),
        ("h", pa.map_(pa.string(), pa.binary())),
        ("hs", KAFKA_RECORDS.field("headers").type),
    ]
)
METADATA = {
    **JSON,
    "metadata.columns": "topic; at = timestamp ;part=partition;offset;epoch=leader-epoch;kind=timestamp-type;"
    "h=headers;hs=header-list",
}


def test_metadata_is_read_under_flinks_names_and_types() -> None:
    found = decode(
        METADATA,
        METADATA_SCHEMA,
        records(
            record(b'{"v":1}', headers=[("a", b"1"), ("b", None), ("a", b"2")]),
            record(None),
            record(b'{"v":2}', timestamp_type=1, leader_epoch=None),
            record(b'{"v":3}', timestamp_type=-1, headers=[]),
        ),
    )
    rows = found.rows.to_pylist()
    assert rows[0] == {
        "topic": "t",
        "at": AT,
        "part": 3,
        "v": 1,
        "offset": 100,
        "epoch": 7,
        "kind": "CreateTime",
        "h": [("a", b"2"), ("b", None)],
        "hs": [
            {"key": "a", "value": b"1"},
            {"key": "b", "value": None},
            {"key": "a", "value": b"2"},
        ],
    }
    assert [row["offset"] for row in rows] == [100, 102, 103]
    assert [row["kind"] for row in rows] == ["CreateTime", "LogAppendTime", "NoTimestampType"]
    assert [(row["h"], row["hs"]) for row in rows[1:]] == [([], []), ([], [])]
    assert rows[1]["epoch"] is None


def test_headers_of_a_slice_are_its_own() -> None:
    batch = records(
        *(record(b'{"v":1}', headers=[(f"k{i}", b"x"), (f"m{i}", None)] if i % 2 else None) for i in range(6))
    )
    found = decode(METADATA, METADATA_SCHEMA, batch.slice(2, 3), ["h"])
    assert found.rows.to_pylist() == [{"h": []}, {"h": [("k3", b"x"), ("m3", None)]}, {"h": []}]


def test_only_what_is_wanted_is_asked_for_and_decoded() -> None:
    table = make_table(METADATA_SCHEMA, table_spec(METADATA))
    decoder = TableDecoder(table, ["epoch", "topic"])
    assert decoder.record_columns == ("value", "topic", "partition", "offset", "leader_epoch")
    found = decode(
        METADATA, METADATA_SCHEMA, records(record(b'{"v":"bad"}'), record(None)), ["epoch", "topic"]
    )
    assert (found.rows.to_pylist(), list(found.failures)) == ([{"epoch": 7, "topic": "t"}], [])
    counted = decode(METADATA, METADATA_SCHEMA, records(record(b"{}"), record(None), record(b"{}")), [])
    assert counted.row_count == 2


LENGTH = metadata_column("length")


@dataclass(frozen=True)
class LengthFormat:
    """A format with metadata of its own: the length of the value."""

    name: ClassVar[str] = "length"
    metadata: ClassVar[pa.Schema] = pa.schema([("length", pa.int32())])
    inner: JsonFormat = field(default_factory=JsonFormat)

    def decoder(self, schema: pa.Schema, columns: Sequence[str] | None = None) -> Decoder:
        wanted = list(schema.names if columns is None else columns)
        inner = self.inner.decoder(schema, [name for name in wanted if name != LENGTH])

        class LengthDecoder:
            def decode(self, values: pa.Array) -> DecodedRows:
                found = inner.decode(values)
                lengths = [len(values[i].as_py()) for i in found.indices().to_pylist()]
                rows = found.rows.append_column(LENGTH, pa.array(lengths, pa.int32())).select(wanted)
                return DecodedRows(rows, found.row_count, found.value_indices, found.failures)

        return LengthDecoder()

    def encoder(self, schema: pa.Schema) -> Encoder:
        return self.inner.encoder(schema)


def test_a_formats_own_metadata_is_read_with_the_value_prefix() -> None:
    schema = pa.schema([("n", pa.int64()), ("v", pa.int8())])

    def table(columns: str) -> Table:
        made = make_table(schema, table_spec({**JSON, "metadata.columns": columns}))
        return replace(made, value_format=LengthFormat())

    found = TableDecoder(table("n=value.length")).decode(records(record(None), record(b'{"v":1}')))
    assert found.rows.to_pylist() == [{"n": 7, "v": 1}]
    with pytest.raises(SchemaError, match=r"metadata 'value.size'.* value.length"):
        TableDecoder(table("n=value.size"))


@pytest.mark.parametrize(
    ("schema", "columns", "message"),
    [
        (pa.schema([("x", pa.int8())]), "x=ofset", "metadata 'ofset', which does not exist"),
        (pa.schema([("x", pa.int32())]), "x=offset", "declared as int32, and metadata 'offset' is int64"),
        (pa.schema([("x", pa.timestamp("us"))]), "x=timestamp", "declared as timestamp"),
        (pa.schema([("x", pa.timestamp("s", "UTC"))]), "x=timestamp", "declared as timestamp"),
        (pa.schema([("x", pa.int8())]), "y=offset", "names 'y', which is not a column"),
        (
            pa.schema([pa.field("x", pa.int32(), nullable=False)]),
            "x=leader-epoch",
            "'leader-epoch' may be null",
        ),
        (
            pa.schema([("x", pa.map_(pa.string(), pa.field("value", pa.binary(), nullable=False)))]),
            "x=headers",
            "'headers' may be null",
        ),
        (pa.schema([("x", pa.int8()), ("x", pa.int8())]), "x=offset", "declared twice"),
    ],
)
def test_metadata_that_does_not_fit_is_refused(schema: pa.Schema, columns: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        TableDecoder(make_table(schema, table_spec({**JSON, "metadata.columns": columns})))


# -- writing -------------------------------------------------------------------------------------------------


def encode(options: dict[str, str], rows: pa.RecordBatch, topic: str | None = "t") -> list[dict[str, Any]]:
    encoder = TableEncoder(make_table(rows.schema, table_spec(options)), topic)
    written: list[dict[str, Any]] = encoder.encode(rows).to_pylist()
    return written


def test_rows_become_keys_and_values() -> None:
    rows = pa.RecordBatch.from_pylist([{"k_id": 1, "k_sub id": "x", "id": 2}], schema=KEYED_SCHEMA)
    assert encode(KEYED, rows) == [{"key": b'{"id":1,"sub id":"x"}', "value": b'{"id":2}'}]
    with_all = {"key.format": "raw", "key.fields": "k_sub id", "format": "json"}
    assert encode(with_all, rows) == [{"key": b"x", "value": b'{"k_id":1,"k_sub id":"x","id":2}'}]
    assert encode(JSON, rows.select(["id"])) == [{"key": None, "value": b'{"id":2}'}]


def test_metadata_is_written_to_topic_headers_and_timestamp() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    schema = pa.schema(
        [("where", pa.string()), ("at", pa.timestamp("ms", "UTC")), ("h", kind), ("v", pa.int8())]
    )
    rows = pa.RecordBatch.from_pylist(
        [
            {"where": "a", "at": AT, "h": [{"key": "x", "value": b"1"}, {"key": "x", "value": None}], "v": 1},
            {"where": "b", "at": None, "h": None, "v": 2},
            {"where": "c", "at": None, "h": [None, {"key": None, "value": b"2"}], "v": 3},
        ],
        schema=schema,
    )
    options = {**JSON, "metadata.columns": "where=topic;at=timestamp;h=header-list"}
    written = encode(options, rows, topic=None)
    assert [row["topic"] for row in written] == ["a", "b", "c"]
    assert [row["timestamp"] for row in written] == [AT, None, None]
    assert [row["headers"] for row in written] == [
        [{"key": "x", "value": b"1"}, {"key": "x", "value": None}],
        None,
        [],
    ]
    assert [row["value"] for row in written] == [b'{"v":1}', b'{"v":2}', b'{"v":3}']
    headers = pa.RecordBatch.from_pydict(
        {"h": pa.array([[("a", b"1")], None], pa.map_(pa.string(), pa.binary()))}
    )
    mapped = encode({**JSON, "metadata.columns": "h=headers"}, headers)
    assert [row["headers"] for row in mapped] == [[{"key": "a", "value": b"1"}], None]


def test_header_lists_of_a_slice_are_its_own() -> None:
    lists = [
        [],
        [{"key": "a", "value": b"1"}],
        None,
        [{"key": None, "value": b"2"}, {"key": "b", "value": None}],
    ]
    headers = pa.array(lists, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
    rows = pa.RecordBatch.from_pydict({"id": pa.array(range(4)), "h": headers})
    options = JSON | {"metadata.columns": "h = header-list"}
    whole = encode(options, rows)
    assert [one["headers"] for one in whole] == [*lists[:3], [{"key": "b", "value": None}]]
    for start in range(4):
        assert encode(options, rows.slice(start, 2)) == whole[start : start + 2]


@pytest.mark.parametrize(
    ("columns", "kinds", "topic", "message"),
    [
        ("x=offset", [pa.int64()], "t", "cannot be written: Kafka or the reader sets it"),
        ("x=topic", [pa.string()], "t", "option 'topic' is 't' for all rows"),
        (
            "x=headers;y=header-list",
            [pa.map_(pa.string(), pa.binary()), KAFKA_RECORDS.field("headers").type],
            "t",
            "Two columns would write the same metadata",
        ),
        ("x=timestamp", [pa.int64()], "t", "declared as int64"),
        ("x=timestamp", [pa.timestamp("us", "UTC")], None, "Neither option 'topic' nor"),
    ],
)
def test_metadata_that_cannot_be_written_is_refused(
    columns: str, kinds: list[pa.DataType], topic: str | None, message: str
) -> None:
    schema = pa.schema(list(zip("xy", kinds, strict=False)))
    table = make_table(schema, table_spec({**JSON, "metadata.columns": columns}))
    with pytest.raises(SchemaError, match=message):
        TableEncoder(table, topic)


# -- options -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"value.fields-include": "ALL"}, MissingOptionError, "set 'format' or 'value.format'"),
        ({"format": "json", "value.format": "json"}, OptionError, "mean the same"),
        ({**JSON, "key.fields": "a"}, OptionError, "but 'key.format' is not set"),
        ({**JSON, "key.format": "json"}, MissingOptionError, "needs 'key.fields'"),
        (
            {**KEYED, "value.fields-include": "ALL"},
            OptionError,
            "needs 'value.fields-include' = 'EXCEPT_KEY'",
        ),
        ({**JSON, "key.fields-prefix": "k_"}, OptionError, "needs 'value.fields-include' = 'EXCEPT_KEY'"),
        ({**JSON, "value.fields-include": "SOME"}, OptionError, "Allowed: one of ALL, EXCEPT_KEY"),
        ({**JSON, "scan.on-decode-error": "dead-letter"}, MissingOptionError, "scan.dead-letter.topic"),
        ({**JSON, "metadata.columns": "a=offset; a=timestamp"}, OptionError, "'a' is given twice"),
        ({**JSON, "scan.dead-letter.topic": "d"}, OptionError, "no bad record would be sent there"),
        ({"json.ignore-parse-errors": "true"}, MissingOptionError, "set 'format' or 'value.format'"),
        (
            {**JSON, "csv.null-literal": "x"},
            OptionError,
            r"'csv', which is not in use.* begin with 'json\.'\.$",
        ),
        ({**JSON, "value.json.ignore-parse-errors": "true"}, OptionError, r"begin with \'json\.\'"),
        ({**JSON, "metadata.columns": "a=;b"}, OptionError, "metadata.columns"),
        ({**KEYED, "key.fields": "k_id;;x"}, OptionError, "key.fields"),
    ],
)
def test_options_that_contradict_are_refused(
    options: dict[str, str], error: type[OptionError], message: str
) -> None:
    with pytest.raises(error, match=message):
        table_spec(options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({**KEYED, "key.fields": "k_id;nope"}, r"names 'nope'.* Columns to choose from: k_id, k_sub id, id"),
        ({**KEYED, "key.fields": "k_id;id"}, r"is 'k_', and column 'id' .* is not this prefix"),
        ({**KEYED, "key.fields": "k_id;k_id"}, "names a column twice"),
        ({**KEYED, "metadata.columns": "k_id=offset"}, "metadata columns cannot be in the key"),
    ],
)
def test_key_fields_that_do_not_fit_the_columns_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make_table(KEYED_SCHEMA, table_spec(options))


def test_tables_are_told_from_plain_reads() -> None:
    assert table_spec({"Format": "json"}).value_format == FormatSpec("json", topic="t")
    with pytest.raises(MissingOptionError, match="needs a format for its values"):
        read_spec({"key.JSON.ignore-parse-errors": "true"})
    assert read_spec({"properties.group.id": "json."}) is None
    of_reads = {"scan.on-decode-error": "skip", "scan.deserializer": "made by a builder"}
    assert write_spec(of_reads) is None
    assert write_spec({**JSON, **of_reads}) == TableSpec(FormatSpec("json"))


# -- bad records ---------------------------------------------------------------------------------------------

BAD = records(record(b'{"v":1}'), record(b"{bad\n", b"k", [("own", None)]), record(b"[", None))
V = pa.schema([("v", pa.int8())])


def bad_rows() -> TableRows:
    return decode(JSON, V, BAD)


def test_fail_names_the_record_and_shows_how_it_begins() -> None:
    with pytest.raises(DecodeError) as caught:
        BadRecords(OnDecodeError.FAIL).handle(BAD, bad_rows().failures)
    message = str(caught.value)
    assert "topic t, partition 3, offset 101: value: the text is not valid here (byte 1)" in message
    assert message.startswith("2 of 3 records cannot be decoded: Once: topic t, ")
    assert "it begins: {bad\\n. Once: topic t, partition 3, offset 102: value: " in message
    assert caught.value.facts["offset"] == 101
    assert BadRecords(OnDecodeError.FAIL).handle(BAD, []) is None


def test_skip_counts_and_logs_a_sample(caplog: pytest.LogCaptureFixture) -> None:
    policy = BadRecords(OnDecodeError.SKIP)
    for _ in range(2):
        assert policy.handle(BAD, bad_rows().failures) is None
    assert policy.skipped_count == 4
    assert len(caplog.records) == 2
    assert "2 of 3 records could not be decoded" in caplog.text
    assert "offset 101" in caplog.text


def test_dead_letters_carry_the_record_and_why() -> None:
    options = {**JSON, "scan.on-decode-error": "dead-letter", "scan.dead-letter.topic": "dlt"}
    made = table_spec(options)
    decoder = TableDecoder(make_table(V, made))
    batch = BAD.select(list(decoder.record_columns))
    policy = BadRecords(made.bad_records.policy, made.bad_records.dead_letter_topic)
    letters = policy.handle(batch, decoder.decode(batch).failures)
    assert letters is not None
    assert letters.schema == DEAD_LETTERS
    first, second = letters.to_pylist()
    assert (first["topic"], first["key"], first["value"], first["timestamp"]) == ("dlt", b"k", b"{bad\n", AT)
    headers = {header["key"]: header["value"] for header in first["headers"]}
    assert headers == {
        "own": None,
        "penstock.dead-letter.topic": b"t",
        "penstock.dead-letter.partition": b"3",
        "penstock.dead-letter.offset": b"101",
        "penstock.dead-letter.timestamp": str(AT_MS).encode(),
        "penstock.dead-letter.error": b"value: the text is not valid here (byte 1)",
    }
    assert [header["key"] for header in second["headers"]] == [name for name in headers if name != "own"]
    assert policy.dead_letter_count == 2


def test_a_policy_without_its_topic_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="dead-letter topic"):
        BadRecords(OnDecodeError.DEAD_LETTER)
