"""Changelog formats: messages of Debezium, Canal, Maxwell and GoldenGate to rows with row kinds, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import OptionError, RowError, UnsupportedOptionError
from penstock.formats import ROW_KIND, DecodedRows, LeftOut, is_changelog, metadata_column
from tests.registry_server import running_registry
from tests.table_specs import format_for

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("weight", pa.float64()),
    ]
)
KIND = metadata_column(ROW_KIND)
JSON_FORMATS = ["debezium-json", "canal-json", "maxwell-json", "ogg-json"]
Row = dict[str, Any]
Change = tuple[str, tuple[Any, ...]]


def message(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def decoded(
    name: str, values: Sequence[bytes | None], options: Mapping[str, str] | None = None, *metadata: str
) -> DecodedRows:
    made = format_for(name, {f"{name}.{key}": text for key, text in (options or {}).items()})
    assert is_changelog(made)
    columns = [KIND, *COLUMNS.names, *map(metadata_column, metadata)]
    found = made.decoder(COLUMNS, columns).decode(pa.array(values, pa.binary()))
    found.rows.validate(full=True)
    assert found.row_count == found.rows.num_rows == len(found.indices())
    return found


def changes(found: DecodedRows) -> list[Change]:
    return [(kind, tuple(row)) for kind, *row in (row.values() for row in found.rows.to_pylist())]


def values_of(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in COLUMNS.names)


def reasons(found: DecodedRows) -> list[tuple[int, str]]:
    return [(one.value_index, one.reason) for one in found.failures]


OLD = {"id": 1, "name": "rope", "weight": 0.5}
NEW = {"id": 1, "name": "rope", "weight": None}
OTHER = {"id": 2, "name": "nail", "weight": 0.01}
SOURCE = {"version": "2.7", "ts_ms": 1_700_000_000_123, "db": "shop", "schema": "public", "table": "goods"}


def of_debezium(op: str, before: Row | None, after: Row | None, **more: Any) -> bytes:
    return message(before=before, after=after, source=SOURCE, op=op, ts_ms=1_700_000_000_456, **more)


DEBEZIUM = [
    of_debezium("r", None, OLD),
    of_debezium("c", None, OTHER),
    None,
    of_debezium("u", OLD, NEW),
    of_debezium("d", OTHER, None),
]
CANAL = [
    message(
        data=[{"id": "1", "name": "rope", "weight": "0.5"}, {"id": "2", "name": "nail", "weight": "0.01"}],
        database="shop",
        es=1_700_000_000_000,
        id=3,
        isDdl=False,
        mysqlType={"id": "int(11)", "weight": "double"},
        old=None,
        pkNames=["id"],
        sql="",
        sqlType={"id": 4, "name": 12, "weight": 8},
        table="goods",
        ts=1_700_000_000_477,
        type="INSERT",
    ),
    message(data=None, database="shop", isDdl=True, old=None, sql="CREATE ...", table="x", type="CREATE"),
    message(
        data=[{"id": "1", "name": "rope", "weight": None}],
        database="shop",
        old=[{"weight": "0.5"}],
        table="goods",
        type="UPDATE",
    ),
    message(data=[{"id": "2", "name": "nail", "weight": "0.01"}], database="shop", old=None, type="DELETE"),
]
AT_MAXWELL = {"database": "shop", "table": "goods", "ts": 1_700_000_000, "xid": 7, "commit": True}
MAXWELL = [
    message(**AT_MAXWELL, type="insert", data=OLD, primary_key_columns=["id"]),
    message(**AT_MAXWELL, type="insert", data=OTHER),
    message(**AT_MAXWELL, type="update", data=NEW, old={"weight": 0.5}),
    message(**AT_MAXWELL, type="delete", data=OTHER),
]
AT_OGG = {"table": "SHOP.GOODS", "op_ts": "2026-01-31 23:59:59.000123", "current_ts": "2026-02-01T00:00:01.5"}
OGG = [
    message(**AT_OGG, pos="01", primary_keys=["id"], op_type="I", after=OLD),
    message(**AT_OGG, op_type="I", after=OTHER),
    message(**AT_OGG, op_type="U", before=OLD, after=NEW),
    message(**AT_OGG, op_type="D", before=OTHER),
]
SAMPLES: dict[str, Sequence[bytes | None]] = {
    "debezium-json": DEBEZIUM,
    "canal-json": CANAL,
    "maxwell-json": MAXWELL,
    "ogg-json": OGG,
}
HISTORY = [
    ("+I", (1, "rope", 0.5)),
    ("+I", (2, "nail", 0.01)),
    ("-U", (1, "rope", 0.5)),
    ("+U", (1, "rope", None)),
    ("-D", (2, "nail", 0.01)),
]


@pytest.mark.parametrize("name", JSON_FORMATS)
def test_every_tool_gives_the_same_history(name: str) -> None:
    found = decoded(name, SAMPLES[name])
    assert changes(found) == HISTORY
    assert reasons(found) == []


def test_the_rows_of_a_message_have_its_index() -> None:
    assert decoded("debezium-json", DEBEZIUM).indices().to_pylist() == [0, 1, 3, 3, 4]
    assert decoded("canal-json", CANAL).indices().to_pylist() == [0, 0, 2, 2, 3]


def test_messages_with_their_schema_are_read() -> None:
    values = [
        None if one is None else b'{"schema":{"type": "struct"},"payload":' + one + b"}" for one in DEBEZIUM
    ]
    found = decoded("debezium-json", values, {"schema-include": "true"}, "schema")
    assert [change[:2] for change in changes(found)] == [
        (kind, (*row, '{"type":"struct"}')) for kind, row in HISTORY
    ]


METADATA: list[tuple[str, dict[str, Any]]] = [
    (
        "debezium-json",
        {
            "schema": None,
            "ingestion-timestamp": datetime(2023, 11, 14, 22, 13, 20, 456000, UTC),
            "source.timestamp": datetime(2023, 11, 14, 22, 13, 20, 123000, UTC),
            "source.database": "shop",
            "source.schema": "public",
            "source.table": "goods",
            "source.properties": [(key, str(value)) for key, value in SOURCE.items()],
        },
    ),
    (
        "canal-json",
        {
            "database": "shop",
            "table": "goods",
            "sql-type": [("id", 4), ("name", 12), ("weight", 8)],
            "pk-names": ["id"],
            "ingestion-timestamp": datetime(2023, 11, 14, 22, 13, 20, 477000, UTC),
            "event-timestamp": datetime(2023, 11, 14, 22, 13, 20, 0, UTC),
        },
    ),
    (
        "maxwell-json",
        {
            "database": "shop",
            "table": "goods",
            "primary-key-columns": ["id"],
            "ingestion-timestamp": datetime(2023, 11, 14, 22, 13, 20, 0, UTC),
        },
    ),
    (
        "ogg-json",
        {
            "table": "SHOP.GOODS",
            "primary-keys": ["id"],
            "ingestion-timestamp": datetime(2026, 2, 1, 0, 0, 1, 500000, UTC),
            "event-timestamp": datetime(2026, 1, 31, 23, 59, 59, 123, UTC),
        },
    ),
]


@pytest.mark.parametrize(("name", "wanted"), METADATA)
def test_metadata_has_flinks_names_and_types_and_repeats_for_each_row(
    name: str, wanted: dict[str, Any]
) -> None:
    assert [key for key in format_for(name).metadata.names if key != ROW_KIND] == list(wanted)
    found = decoded(name, SAMPLES[name], None, *wanted)
    names = {metadata_column(key): key for key in wanted}
    rows = [
        {names[key]: value for key, value in row.items() if key in names} for row in found.rows.to_pylist()
    ]
    assert rows[0] == wanted
    of_update = [i for i, (kind, _) in enumerate(HISTORY) if kind in ("-U", "+U")]
    assert rows[of_update[0]] == rows[of_update[1]]


BAD: list[tuple[str, bytes, str]] = [
    ("debezium-json", message(op="q", before=OLD, after=OLD), 'unknown "op" value "q"'),
    ("debezium-json", message(after=OLD), "the field 'op' is null or missing"),
    ("debezium-json", message(schema={}, payload={"op": "c"}), "'debezium-json.schema-include' = 'true'"),
    ("debezium-json", of_debezium("u", None, NEW), "REPLICA IDENTITY to FULL"),
    ("debezium-json", of_debezium("d", None, None), "REPLICA IDENTITY to FULL"),
    ("debezium-json", of_debezium("c", OLD, None), "the field 'after' is null or missing"),
    ("debezium-json", of_debezium("c", None, {"name": "x"}), "'after.id'"),
    ("debezium-json", b"[" + of_debezium("c", None, OLD) * 1 + b"," + of_debezium("c", None, OLD) + b"]",
     "the value is not an object"),
    ("debezium-json", b" [ ] ", "the value is not an object"),
    ("debezium-json", b"[" + of_debezium("c", None, OLD), "byte"),
    ("debezium-json", b"[5," + of_debezium("c", None, OLD) + b"]", "the value is not an object"),
    ("debezium-json", b"{", "byte 1"),
    ("canal-json", message(type="ALTER", data=None), 'unknown "type" value "ALTER"'),
    ("canal-json", message(type="INSERT", data=None), "the field 'data' is null or missing"),
    ("canal-json", message(type="UPDATE", data=[OLD]), "the field 'old' of an update is null"),
    ("canal-json", message(type="UPDATE", data=[OLD, NEW], old=[{}]), "'data' has 2 rows, and 'old' has 1"),
    ("canal-json", message(type="DELETE", data=[None]), "a row in 'data' is null"),
    ("canal-json", message(type="UPDATE", data=[OLD], old=[None]), "a row in 'old' is null"),
    ("canal-json", message(type="UPDATE", data=[OLD], old=[{"id": None}]), "'old' has null for column 'id'"),
    ("maxwell-json", message(type="bootstrap-insert", data=OLD), 'unknown "type" value "bootstrap-insert"'),
    ("maxwell-json", message(type="update", data=OLD), "the field 'old' of an update is null"),
    ("maxwell-json", message(type="insert"), "the field 'data' is null or missing"),
    ("ogg-json", message(op_type="X"), 'unknown "op_type" value "X"'),
    ("ogg-json", message(op_type="U", after=OLD), "the field 'before' is null or missing"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "bad", "reason"), BAD)
def test_a_bad_message_is_one_failure_and_moves_no_row(name: str, bad: bytes, reason: str) -> None:
    samples = SAMPLES[name]
    found = decoded(name, [samples[0], bad, *samples[1:]])
    assert changes(found) == HISTORY
    assert [index for index, _ in reasons(found)] == [1]
    assert reason in reasons(found)[0][1]
    ignoring = decoded(name, [samples[0], bad, *samples[1:]], {"ignore-parse-errors": "true"})
    assert changes(ignoring) == HISTORY
    assert (reasons(ignoring), ignoring.ignored_count) == ([], 1)


def test_an_array_of_one_message_is_that_message_as_in_flink() -> None:
    for name in JSON_FORMATS:
        values = [one and b" [ " + one + b" ] " for one in SAMPLES[name]]
        assert changes(decoded(name, values)) == HISTORY


TRUNCATES = {
    "debezium-json": of_debezium("t", None, None),
    "canal-json": message(type="TRUNCATE", data=None, database="shop", table="goods", isDdl=True),
    "ogg-json": message(op_type="T", table="SHOP.GOODS"),
}


@pytest.mark.parametrize("name", TRUNCATES)
def test_a_truncated_table_is_a_failure_also_if_parse_errors_are_ignored(name: str) -> None:
    values = [SAMPLES[name][0], TRUNCATES[name], b"no JSON", *SAMPLES[name][1:]]
    for ignores, failing in (("false", [1, 2]), ("true", [1])):
        found = decoded(name, values, {"ignore-parse-errors": ignores})
        assert changes(found) == HISTORY
        assert [index for index, _ in reasons(found)] == failing
        assert "has emptied the table" in reasons(found)[0][1]
        assert found.ignored_count == 2 - len(failing)


def test_another_table_of_canal_may_be_truncated() -> None:
    values = [TRUNCATES["canal-json"], CANAL[0]]
    found = decoded("canal-json", values, {"table.include": "others"})
    assert (changes(found), reasons(found), found.ignored_count) == ([], [], 0)


@pytest.mark.parametrize(
    ("name", "bad", "key"),
    [
        ("debezium-json", message(op="c", after=OLD, ts_ms=2**62), "ingestion-timestamp"),
        ("debezium-json", message(op="c", after=OLD, source={"ts_ms": "soon"}), "source.timestamp"),
        ("debezium-json", message(op="c", after=OLD, source={"ts_ms": "9" * 18}), "source.timestamp"),
        ("maxwell-json", message(type="insert", data=OLD, ts=2**60), "ingestion-timestamp"),
        ("ogg-json", message(op_type="I", after=OLD, op_ts="2026-02-30 00:00:00"), "event-timestamp"),
    ],
)
def test_metadata_that_is_no_time_fails_its_message_where_it_is_read(name: str, bad: bytes, key: str) -> None:
    assert [kind for kind, _ in changes(decoded(name, [bad]))] == ["+I"]
    found = decoded(name, [bad, SAMPLES[name][0]], None, key)
    assert found.indices().to_pylist()[:1] == [1]
    assert reasons(found)[0][0] == 0
    assert f"metadata '{key}'" in reasons(found)[0][1]


def test_a_missing_field_in_old_has_not_changed_and_null_was_null() -> None:
    now = {"id": 1, "name": "new", "weight": 2.0}
    for old, before in [
        ({}, (1, "new", 2.0)),
        ({"name": None}, (1, None, 2.0)),
        ({"weight": None, "name": "was"}, (1, "was", None)),
        ({"id": 9}, (9, "new", 2.0)),
    ]:
        wanted = [("-U", before), ("+U", (1, "new", 2.0))]
        assert changes(decoded("maxwell-json", [message(type="update", data=now, old=old)])) == wanted
        assert changes(decoded("canal-json", [message(type="UPDATE", data=[now], old=[old])])) == wanted


def test_fields_of_old_that_no_column_has_change_nothing() -> None:
    now = b'{"id":1,"name":"new","weight":2}'
    for odd in (b'"color":1', b'"\\ud800":1', b'"\\u0001presence":"AAAA"', b'"\x01presence":null', b'"":1'):
        old = b'{"weight":null,' + odd + b"}"
        found = decoded("maxwell-json", [b'{"type":"update","data":' + now + b',"old":' + old + b"}"])
        assert changes(found) == [("-U", (1, "new", None)), ("+U", (1, "new", 2.0))]
        found = decoded("canal-json", [b'{"type":"UPDATE","data":[' + now + b'],"old":[' + old + b"]}"])
        assert changes(found) == [("-U", (1, "new", None)), ("+U", (1, "new", 2.0))]


NUMBERS = st.none() | st.integers(0, 9)
CELLS = st.lists(st.tuples(NUMBERS, st.booleans(), NUMBERS), max_size=20)
"""The columns of one row: the new value, whether `old` has the column, and its value there."""


@given(
    st.lists(st.tuples(st.sampled_from(["insert", "update", "delete"]), CELLS), max_size=8),
    st.integers(0, 20),
)
def test_old_rows_are_completed_in_tables_of_any_width(rows: list[tuple[str, Any]], width: int) -> None:
    schema = pa.schema([pa.field(f"c{i}", pa.int64()) for i in range(width)])
    wanted, maxwell, canal = [], [], []
    for kind, drawn in rows:
        cells = (drawn + [(None, False, None)] * width)[:width]
        new = {f"c{i}": value for i, (value, _, _) in enumerate(cells)}
        old = {f"c{i}": was for i, (_, has, was) in enumerate(cells) if has}
        maxwell.append(message(type=kind, data=new, **({"old": old} if kind == "update" else {})))
        canal.append(message(type=kind.upper(), data=[new, new], old=[{}, old] if kind == "update" else None))
        kinds = {"insert": ["+I"], "update": ["-U", "+U"], "delete": ["-D"]}[kind]
        wanted.append([(one, {**new, **old} if one == "-U" else new) for one in kinds])
    for name, values in (("maxwell-json", maxwell), ("canal-json", canal)):
        found = format_for(name).decoder(schema, [*schema.names, KIND]).decode(pa.array(values, pa.binary()))
        assert reasons(found) == []
        rows_of: list[list[Any]] = [[] for _ in rows]
        for index, row in zip(found.indices().to_pylist(), found.rows.to_pylist(), strict=True):
            rows_of[index].append((row.pop(KIND), row))
        if name == "canal-json":  # the first of its two rows has an `old` without any field
            rows_of = [each[len(each) // 2 :] for each in rows_of]
        assert rows_of == wanted


def test_rows_of_one_canal_message_are_completed_each_from_its_own_row() -> None:
    data = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 3, "name": "c"}]
    old = [{"name": None}, {"weight": 5}, {}]
    found = decoded("canal-json", [message(type="UPDATE", data=data, old=old)])
    assert changes(found) == [
        ("-U", (1, None, None)),
        ("+U", (1, "a", None)),
        ("-U", (2, "b", 5.0)),
        ("+U", (2, "b", None)),
        ("-U", (3, "c", None)),
        ("+U", (3, "c", None)),
    ]


INCLUDE = {"database.include": "shop|store", "table.include": "good.*"}


def test_canal_reads_only_the_databases_and_tables_that_match_completely() -> None:
    odd = [{"id": "another table has text here"}]
    values = [
        message(database="shop", table="goods", type="INSERT", data=[OLD]),
        message(database="shops", table="goods", type="INSERT", data=odd),
        message(database="store", table="nogoods", type="NONSENSE", data=odd),
        message(database="store", table="goods2", type="DELETE", data=[OTHER]),
    ]
    found = decoded("canal-json", values, INCLUDE, "table")
    assert [kind for kind, _ in changes(found)] == ["+I", "-D"]
    assert found.indices().to_pylist() == [0, 3]
    assert reasons(found) == []


def test_canal_does_not_lose_a_message_that_the_filter_cannot_judge() -> None:
    lacking = message(database="shop", type="INSERT", data=[OLD])
    array = b"[" + message(database="shop", table="goods", type="INSERT", data=[OLD]) + b"," + lacking + b"]"
    found = decoded("canal-json", [lacking, array, b"not json"], INCLUDE)
    assert [index for index, _ in reasons(found)] == [0, 1, 2]
    assert "'canal-json.database.include' needs it" in reasons(found)[0][1]
    ignoring = decoded("canal-json", [lacking, b"not json"], {**INCLUDE, "ignore-parse-errors": "true"})
    assert (changes(ignoring), ignoring.ignored_count) == ([], 2)


@pytest.mark.parametrize("pattern", ["(", "[a-z&&[^b]]+", "[a-c[x-z]]+", r"\p{Alpha}+"])
def test_a_pattern_that_python_would_not_read_as_java_is_refused(pattern: str) -> None:
    with pytest.raises(OptionError, match=r"canal-json.table.include"):
        format_for("canal-json", {"canal-json.table.include": pattern})


def test_a_class_of_characters_in_a_pattern_is_that_of_java() -> None:
    values = [
        message(database=name, table="goods", type="INSERT", data=[OLD]) for name in ("größe", "grosse")
    ]
    found = decoded("canal-json", values, {"database.include": r"\w+"}, "table")
    assert found.indices().to_pylist() == [1]
    assert reasons(found) == []


# -- writing ---------------------------------------------------------------------------------------------


def rows_to_write(kinds: Sequence[str | None], rows: Sequence[Row]) -> pa.RecordBatch:
    made = pa.RecordBatch.from_pylist(list(rows), schema=COLUMNS)
    return made.append_column(KIND, pa.array(kinds, pa.string()))


WRITTEN = {
    "debezium-json": '{"before":null,"after":ROW,"op":"c"} {"before":ROW,"after":null,"op":"d"}',
    "canal-json": '{"data":[ROW],"type":"INSERT"} {"data":[ROW],"type":"DELETE"}',
    "maxwell-json": '{"data":ROW,"type":"insert"} {"data":ROW,"type":"delete"}',
    "ogg-json": '{"before":null,"after":ROW,"op_type":"I"} {"before":ROW,"after":null,"op_type":"D"}',
}


@pytest.mark.parametrize("name", JSON_FORMATS)
def test_new_rows_are_written_as_inserts_and_old_rows_as_deletes(name: str) -> None:
    new, old = WRITTEN[name].replace("ROW", '{"id":2,"name":"nail","weight":0.01}').split()
    rows = rows_to_write(["+I", "+U", "-U", "-D"], [OTHER] * 4)
    values = format_for(name).encoder(COLUMNS).encode(rows)
    assert [one.decode() for one in values.to_pylist()] == [new, new, old, old]
    without_kinds = rows.select(COLUMNS.names)
    assert format_for(name).encoder(COLUMNS).encode(without_kinds).to_pylist() == [new.encode()] * 4


@pytest.mark.parametrize("kind", [None, "I", "+D", ""])
def test_a_row_kind_that_does_not_exist_is_an_error(kind: str | None) -> None:
    for name in JSON_FORMATS:
        with pytest.raises(RowError, match=rf"'{name}' cannot write row 1 .*expected a row kind"):
            format_for(name).encoder(COLUMNS).encode(rows_to_write(["+I", kind], [OTHER, OLD]))


def test_messages_with_their_schema_are_not_written() -> None:
    with pytest.raises(UnsupportedOptionError, match=r"schema-include' = 'true' is for reads"):
        format_for("debezium-json", {"debezium-json.schema-include": "true"}).encoder(COLUMNS)


@pytest.mark.parametrize("name", JSON_FORMATS)
def test_options_of_json_are_honoured_under_each_name(name: str) -> None:
    columns = pa.schema([("d", pa.decimal128(10, 9)), ("t", pa.timestamp("us")), ("n", pa.string())])
    options = {
        f"{name}.{key}": text
        for key, text in {
            "timestamp-format.standard": "ISO-8601",
            "encode.decimal-as-plain-number": "true",
            "encode.ignore-null-fields": "true",
            "map-null-key.mode": "DROP",
            "map-null-key.literal": "x",
        }.items()
    }
    small = {"d": Decimal("0.000000027"), "t": datetime(1970, 1, 1), "n": None}  # noqa: DTZ001 - no zone
    rows = pa.RecordBatch.from_pylist([small], schema=columns)
    made = format_for(name, options)
    text = made.encoder(columns).encode(rows)[0].as_py().decode()
    assert '{"d":0.000000027,"t":"1970-01-01T00:00:00"}' in text
    assert made.decoder(columns).decode(pa.array([text.encode()])).rows.equals(rows)


# -- written and read --------------------------------------------------------------------------------------

rest = st.fixed_dictionaries({"name": st.none() | st.text(max_size=3), "weight": st.none() | st.floats(0, 9)})
SIMPLE = {"+I": "+I", "+U": "+I", "-U": "-D", "-D": "-D"}


@given(drawn=st.lists(st.tuples(st.sampled_from(sorted(SIMPLE)), st.integers(0, 9), rest), max_size=12))
def test_written_changes_are_read_back_as_inserts_and_deletes(drawn: list[tuple[str, int, Row]]) -> None:
    rows = [{"id": number, **values} for _, number, values in drawn]
    wanted = [(SIMPLE[kind], values_of(row)) for (kind, _, _), row in zip(drawn, rows, strict=True)]
    batch = rows_to_write([kind for kind, _, _ in drawn], rows)
    for name in JSON_FORMATS:
        values = format_for(name).encoder(COLUMNS).encode(batch)
        assert changes(decoded(name, values.to_pylist())) == wanted


# -- Avro ----------------------------------------------------------------------------------------------------


def test_debezium_in_avro_is_written_and_read_with_row_kinds() -> None:
    name = "debezium-avro-confluent"
    with running_registry() as registry:
        made = format_for(name, {f"{name}.url": registry.url, "topic": "goods"})
        rows = rows_to_write(["+I", "-U", "+U", "-D"], [OLD, OLD, NEW, OTHER])
        values = made.encoder(COLUMNS).encode(rows)
        found = made.decoder(COLUMNS, [KIND, *COLUMNS.names]).decode(values)
        assert changes(found) == [
            ("+I", (1, "rope", 0.5)),
            ("-D", (1, "rope", 0.5)),
            ("+I", (1, "rope", None)),
            ("-D", (2, "nail", 0.01)),
        ]
        assert made.metadata.names == [ROW_KIND]


def test_the_schema_of_the_newest_avro_message_tells_what_is_left_out() -> None:
    name = "debezium-avro-confluent"
    with running_registry() as registry:
        made = format_for(name, {f"{name}.url": registry.url, "topic": "goods"})
        older = made.encoder(COLUMNS.remove(2)).encode(rows_to_write(["+I"], [OLD]).remove_column(2))
        newer = made.encoder(COLUMNS).encode(rows_to_write(["+I"], [OLD]))
        decoder = made.decoder(COLUMNS.remove(2), [KIND, "id"])
        assert decoder.decode(older).left_out is None
        both = pa.concat_arrays([older, newer])
        assert decoder.decode(both).left_out == LeftOut(1, frozenset(COLUMNS.names[2:]))
        assert made.decoder(COLUMNS).decode(both).left_out is None
        assert decoder.decode(pa.array([b"\x01", None], pa.binary())).left_out is None
