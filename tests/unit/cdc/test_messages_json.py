"""Debezium's JSON messages with schemas: their schemas, their tables and their rows."""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cdc.columns import follow_all
from penstock.cdc.messages import MessageFormat, message_format
from penstock.errors import OptionError, SchemaError
from tests.unit.cdc.debezium_messages import ID, Field, binary, envelope, field, key, value

OPTIONS = {"format": "debezium-json", "debezium-json.schema-include": "true"}
NAME = field("name", "string")


def made() -> MessageFormat:
    found: MessageFormat = pickle.loads(pickle.dumps(message_format(OPTIONS)))  # noqa: S301 - made here
    return found


def rows(
    values: Sequence[bytes | None], columns: pa.Schema | None = None
) -> list[tuple[int, str, dict[str, Any]]]:
    """Return message, row kind and row of all rows; the columns are those of all schemas."""
    messages = made()
    keys = binary([None] * len(values))
    texts = messages.schemas(keys, binary(values)).texts
    if columns is None:
        found = [messages.source(text).columns for text in texts]
        columns = follow_all(pa.schema([]), found, "lenient", ("id",)).columns
    changes = messages.changes(keys, binary(values), columns)
    assert not changes.failures, changes.failures
    assert changes.rows.schema.equals(columns)
    changes.rows.validate(full=True)
    return list(
        zip(changes.index.to_pylist(), changes.kinds.to_pylist(), changes.rows.to_pylist(), strict=True)
    )


def reasons(values: Sequence[bytes | None], columns: pa.Schema | None = None) -> list[tuple[int, str]]:
    messages = made()
    keys = binary([None] * len(values))
    if columns is None:
        (text,) = messages.schemas(keys, binary(values)).texts
        columns = messages.source(text).columns
    changes = messages.changes(keys, binary(values), columns)
    assert not {one.value_index for one in changes.failures} & {*changes.index.to_pylist()}
    return [(one.value_index, one.reason) for one in changes.failures]


def test_each_message_has_its_schema_and_the_first_ones_come_first() -> None:
    old, new = [ID, NAME], [ID, NAME, field("vip", "boolean")]
    values = [value(new, {"id": 1}), None, value(old, {"id": 1}), value(new, {"id": 2})]
    found = made().schemas(binary([key(1), key(1), key(1), key(2)]), binary(values))
    assert found.ids.to_pylist() == [0, None, 1, 0]
    assert found.ids.type == pa.int32()
    sources = [made().source(text) for text in found.texts]
    assert [one.columns.names for one in sources] == [["id", "name", "vip"], ["id", "name"]]
    assert {(one.name, one.keys) for one in sources} == {("public.goods", ("id",))}
    assert sources[0].columns.field("id") == pa.field("id", pa.int64(), nullable=False)


def test_a_key_with_another_schema_is_another_table_schema() -> None:
    values = [value([ID, NAME], {"id": 1})] * 2
    both = [ID, field("name", "string", optional=False)]
    found = made().schemas(binary([key(1), key(1, both)]), binary(values))
    assert [made().source(text).keys for text in found.texts] == [("id",), ("id", "name")]


@pytest.mark.parametrize(
    ("given", "names"), [(None, None), (b'{"id":1,"shop":"a"}', ("id", "shop")), (b"7", None), (b"no", None)]
)
def test_a_key_without_a_schema_has_the_names_of_its_fields(
    given: bytes | None, names: tuple[str, ...] | None
) -> None:
    (text,) = made().schemas(binary([given]), binary([value([ID], {"id": 1})])).texts
    assert made().source(text).keys == names


def test_a_message_that_is_written_in_another_way_has_the_same_schema() -> None:
    plain = value([ID, NAME], {"id": 1, "name": "a"})
    message = json.loads(plain)
    other = json.dumps(dict(reversed(message.items()))).encode()
    pretty = json.dumps(message, indent=1).encode()
    found = made().schemas(binary([None] * 3), binary([plain, other, pretty]))
    assert found.ids.to_pylist() == [0, 0, 0]
    assert [row["name"] for _, _, row in rows([plain, other, pretty])] == ["a", "a", "a"]


def test_a_schema_with_a_field_payload_is_not_cut() -> None:
    fields = [ID, field("payload", "string"), field("x", "string", parameters={"a": "1", "payload": "2"})]
    text = '{"id":1,"payload":"p"}'
    found = rows([value(fields, {"id": 1, "payload": text, "x": ',"payload":'})])
    assert found == [(0, "+I", {"id": 1, "payload": text, "x": ',"payload":'})]


@pytest.mark.parametrize(
    "bad", [b"no", b"[]", b'{"a":1}', b'{"schema":null,"payload":{}}', b'{"schema":{"', b""]
)
def test_a_message_without_a_schema_is_a_failure(bad: bytes) -> None:
    good = value([ID], {"id": 1})
    found = made().schemas(binary([None, None]), binary([bad, good]))
    assert found.ids.to_pylist() == [None, 0]
    assert [one.value_index for one in found.failures] == [0]
    assert [index for index, _ in reasons([bad, good], pa.schema([("id", pa.int64())]))] == [0]


def test_topics_that_are_not_of_tables_are_refused() -> None:
    heartbeat = {
        "schema": {"type": "struct", "fields": [field("ts_ms", "int64")], "name": "H"},
        "payload": {},
    }
    (text,) = made().schemas(binary([None]), binary([json.dumps(heartbeat).encode()])).texts
    with pytest.raises(SchemaError, match="got the fields ts_ms"):
        made().source(text)


def test_changes_have_kinds_and_the_message_of_each_row() -> None:
    fields = [ID, NAME]
    found = rows(
        [
            value(fields, {"id": 1, "name": "a"}, op="r"),
            value(fields, {"id": 1, "name": "b"}, {"id": 1, "name": "a"}),
            None,
            value(fields, None, {"id": 1, "name": "b"}),
        ]
    )
    assert [(index, kind, row["name"]) for index, kind, row in found] == [
        (0, "+I", "a"),
        (1, "-U", "a"),
        (1, "+U", "b"),
        (3, "-D", "b"),
    ]


def test_an_update_without_its_old_row_gives_only_its_new_row() -> None:
    fields = [ID, NAME]
    found = rows(
        [value(fields, {"id": 1, "name": "b"}, op="u"), value(fields, None, {"id": 1, "name": None})]
    )
    assert [(kind, row["name"]) for _, kind, row in found] == [("+U", "b"), ("-D", None)]
    ((index, reason),) = reasons([value(fields, None, op="d")])
    assert (index, "REPLICA IDENTITY" in reason) == (0, True)


def test_messages_of_several_schemas_stay_in_order() -> None:
    old, new, other = [ID, NAME], [ID, NAME, field("vip", "boolean")], [ID]
    found = rows(
        [
            value(old, {"id": 1, "name": "a"}),
            value(new, {"id": 1, "name": "b", "vip": True}, {"id": 1, "name": "a", "vip": None}),
            value(other, {"id": 2}),
            value(old, {"id": 3, "name": "c"}),
        ]
    )
    assert found == [
        (0, "+I", {"id": 1, "name": "a", "vip": None}),
        (1, "-U", {"id": 1, "name": "a", "vip": None}),
        (1, "+U", {"id": 1, "name": "b", "vip": True}),
        (2, "+I", {"id": 2, "name": None, "vip": None}),
        (3, "+I", {"id": 3, "name": "c", "vip": None}),
    ]


def test_a_column_that_is_not_asked_for_is_left_out() -> None:
    values = [value([ID, NAME], {"id": 1, "name": "a"})]
    assert rows(values, pa.schema([("id", pa.int64())])) == [(0, "+I", {"id": 1})]


def test_values_become_the_wider_type_of_the_column() -> None:
    old, new = [ID, field("n", "int16")], [ID, field("n", "int64")]
    found = rows([value(old, {"id": 1, "n": 5}), value(new, {"id": 1, "n": 2**40})])
    assert [row["n"] for _, _, row in found] == [5, 2**40]


def test_a_value_that_does_not_fit_the_narrower_column_is_a_failure() -> None:
    columns = pa.schema([("id", pa.int64()), ("n", pa.int16())])
    fields = [ID, field("n", "int64")]
    values = [
        value(fields, {"id": 1, "n": 7}),
        value(fields, {"id": 2, "n": 70_000}),
        value(fields, {"id": 3}),
    ]
    ((index, reason),) = reasons(values, columns)
    assert (index, "does not fit into int16" in reason) == (1, True)
    assert [row["n"] for _, _, row in rows([values[0], values[2]], columns)] == [7, None]


@pytest.mark.parametrize("as_text", [False, True], ids=["precise", "string"])
def test_a_number_with_more_digits_than_its_column_is_a_failure(as_text: bool) -> None:
    """The last one is 11 * 10^36. Arrow's cast makes 791528992371846096098761777046953656.32 of it."""
    numbers = [5, -(10**36) + 1, 11 * 10**36]
    columns = pa.schema([("id", pa.int64()), ("n", pa.decimal128(38, 2))])
    parameters = {"scale": "0", "connect.decimal.precision": "38"}
    fields = [ID, field("n", "string") if as_text else field("n", "bytes", DECIMAL, parameters=parameters)]
    values = [value(fields, {"id": 1, "n": str(each) if as_text else encoded(each)}) for each in numbers]
    ((index, reason),) = reasons(values, columns)
    assert (index, "does not fit into decimal128(38, 2)" in reason) == (2, True)
    assert [row["n"] for _, _, row in rows(values[:2], columns)] == [Decimal(each) for each in numbers[:2]]


def encoded(number: int) -> str:
    return base64.b64encode(number.to_bytes(16, "big", signed=True)).decode()


def test_a_null_in_a_column_that_is_not_null_is_a_failure() -> None:
    columns = pa.schema([("id", pa.int64()), pa.field("name", pa.string(), nullable=False)])
    fields = [ID, NAME]
    ((index, reason),) = reasons([value(fields, {"id": 1, "name": None})], columns)
    assert (index, "NOT NULL" in reason) == (0, True)


DATE, TIMESTAMP = "io.debezium.time.Date", "io.debezium.time.Timestamp"
DECIMAL = "org.apache.kafka.connect.data.Decimal"
ZONED = "io.debezium.time.ZonedTimestamp"
VARIABLE = "io.debezium.data.VariableScaleDecimal"
MOMENT = datetime(2024, 2, 29, 12, 34, 56, 789_000, UTC).replace(tzinfo=None)
MICROS = 1_709_210_096_789_000
INSTANT = pa.timestamp("us", "UTC")


def unscaled(number: int) -> str:
    size = (number.bit_length() + 8) // 8
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


def decimal(digits: int, scale: int) -> Field:
    return field(
        "x", "bytes", DECIMAL, parameters={"scale": str(scale), "connect.decimal.precision": str(digits)}
    )


def array(item: Field) -> Field:
    return field("x", "array", items={name: each for name, each in item.items() if name != "field"})


@pytest.mark.parametrize(
    ("given", "kind", "raw", "expected"),
    [
        (field("x", "int16"), pa.int16(), 5, 5),
        (field("x", "float"), pa.float32(), 1.5, 1.5),
        (field("x", "double"), pa.float64(), 1e300, 1e300),
        (field("x", "boolean"), pa.bool_(), True, True),
        (field("x", "bytes"), pa.binary(), "AQI=", b"\x01\x02"),
        (field("x", "int32", DATE), pa.date32(), 19_782, date(2024, 2, 29)),
        (field("x", "int32", "org.apache.kafka.connect.data.Date"), pa.date32(), -1, date(1969, 12, 31)),
        (field("x", "int64", TIMESTAMP), pa.timestamp("us"), MICROS // 1000, MOMENT),
        (
            field("x", "int64", "org.apache.kafka.connect.data.Timestamp"),
            pa.timestamp("us"),
            MICROS // 1000,
            MOMENT,
        ),
        (field("x", "int64", "io.debezium.time.MicroTimestamp"), pa.timestamp("us"), MICROS, MOMENT),
        (
            field("x", "int64", "io.debezium.time.NanoTimestamp"),
            pa.string(),
            MICROS * 1000 + 1,
            "2024-02-29 12:34:56.789000001",
        ),
        (field("x", "string", ZONED), INSTANT, "2024-02-29T12:34:56.789Z", MOMENT.replace(tzinfo=UTC)),
        (
            field("x", "string", ZONED),
            INSTANT,
            "2024-02-29T14:34:56.7890000+02:00",
            MOMENT.replace(tzinfo=UTC),
        ),
        (field("x", "int32", "io.debezium.time.Time"), pa.string(), 45_296_789, "12:34:56.789000"),
        (field("x", "int64", "io.debezium.time.MicroTime"), pa.string(), 45_296_000_001, "12:34:56.000001"),
        (field("x", "int64", "io.debezium.time.MicroTime"), pa.string(), 86_400_000_000, "24:00:00.000000"),
        (
            field("x", "int64", "io.debezium.time.MicroTime"),
            pa.string(),
            -3_020_399_000_001,
            "-838:59:59.000001",
        ),
        (field("x", "int64", "io.debezium.time.NanoTime"), pa.string(), 1, "00:00:00.000000001"),
        (field("x", "string", "io.debezium.time.ZonedTime"), pa.string(), "12:34:56Z", "12:34:56Z"),
        (
            field("x", "string", "io.debezium.time.Interval"),
            pa.string(),
            "P1Y2M3DT4H5M6.7S",
            "P1Y2M3DT4H5M6.7S",
        ),
        (field("x", "int64", "io.debezium.time.MicroDuration"), pa.int64(), 5, 5),
        (decimal(10, 2), pa.decimal128(10, 2), unscaled(-12_345), Decimal("-123.45")),
        (decimal(38, 0), pa.decimal128(38, 0), unscaled(10**38 - 1), Decimal(10**38 - 1)),
        (decimal(60, 3), pa.string(), unscaled(10**50 + 7), f"{10**47}.007"),
        (
            field("x", "struct", VARIABLE, fields=[field("scale", "int32"), field("value", "bytes")]),
            pa.string(),
            {"scale": 3, "value": unscaled(1_500)},
            "1.500",
        ),
        (field("x", "string", "io.debezium.data.Uuid"), pa.string(), "0-1", "0-1"),
        (field("x", "string", "io.debezium.data.Json"), pa.string(), '{"a": 1}', '{"a": 1}'),
        (
            field("x", "bytes", "io.debezium.data.Bits", parameters={"length": "9"}),
            pa.binary(),
            "AQE=",
            b"\1\1",
        ),
        (array(field("", "int32")), pa.list_(pa.int32()), [1, None], [1, None]),
        (array(field("", "int32", DATE)), pa.list_(pa.date32()), [0, None], [date(1970, 1, 1), None]),
        (
            field("x", "map", keys={"type": "string"}, values={"type": "string"}),
            pa.map_(pa.string(), pa.string()),
            {"a": "b"},
            [("a", "b")],
        ),
        (
            field(
                "x",
                "struct",
                "io.debezium.data.geometry.Geometry",
                fields=[field("wkb", "bytes"), field("srid", "int32")],
            ),
            pa.struct([("wkb", pa.binary()), ("srid", pa.int32())]),
            {"wkb": "AQI=", "srid": 4326},
            {"wkb": b"\x01\x02", "srid": 4326},
        ),
    ],
)
def test_semantic_types_become_columns_with_converted_values(
    given: Field, kind: pa.DataType, raw: Any, expected: Any
) -> None:
    values: Sequence[bytes | None] = [
        value([ID, given], {"id": 1, "x": raw}),
        value([ID, given], {"id": 2, "x": None}),
    ]
    (text,) = made().schemas(binary([None] * 2), binary(values)).texts
    assert made().source(text).columns.field("x").type == kind
    assert [row["x"] for _, _, row in rows(values)] == [expected, None]


@pytest.mark.parametrize(
    ("given", "raw", "reason"),
    [
        (field("x", "int64", TIMESTAMP), 2**63 - 1, "years 1 to 9999"),
        (field("x", "int64", "io.debezium.time.MicroTimestamp"), -(2**63), "years 1 to 9999"),
        (field("x", "int32", DATE), 2**31 - 1, "years 1 to 9999"),
        (field("x", "string", ZONED), "+294277-01-01T00:00:00Z", "not a time with a zone"),
        (field("x", "string", ZONED), "2024-02-29T12:34:56.1234567Z", "at most 6 digits"),
        (array(field("", "int32", DATE)), [0, 2**31 - 1], "years 1 to 9999"),
        (decimal(4, 2), unscaled(10_000), "more than 4 digits"),
        (decimal(38, 0), unscaled(10**38), "more than 38 digits"),
        (decimal(38, 0), unscaled(2**130), "more than 38 digits"),
        (field("x", "int16"), 70_000, "x"),
    ],
)
def test_a_value_that_its_column_cannot_hold_is_a_failure_of_its_message(
    given: Field, raw: Any, reason: str
) -> None:
    fields = [ID, given]
    values = [value(fields, {"id": 1, "x": None}), value(fields, {"id": 2, "x": raw})]
    ((index, found),) = reasons([*values])
    assert index == 1
    assert reason in found
    assert "x" in found


@pytest.mark.parametrize(
    ("given", "raw"),
    [
        (field("x", "string"), "__debezium_unavailable_value"),
        (field("x", "string", "io.debezium.data.Json"), "__debezium_unavailable_value"),
        (field("x", "bytes"), base64.b64encode(b"__debezium_unavailable_value").decode()),
        (array(field("", "string")), ["__debezium_unavailable_value"]),
        (array(field("", "int32")), list(b"__debezium_unavailable_value")),
        (
            field("x", "map", keys={"type": "string"}, values={"type": "string"}),
            {"__debezium_unavailable_value": "__debezium_unavailable_value"},
        ),
    ],
)
def test_a_value_that_the_log_does_not_have_is_never_written(given: Field, raw: Any) -> None:
    fields = [ID, given]
    values = [value(fields, {"id": 1, "x": None}), value(fields, {"id": 2, "x": raw}, op="u")]
    ((index, reason),) = reasons([*values])
    assert index == 1
    assert "'x'" in reason
    assert "REPLICA IDENTITY FULL" in reason


def test_the_placeholder_of_the_connector_counts() -> None:
    fields, default = [ID, field("x", "string")], "__debezium_unavailable_value"
    values = binary([value(fields, {"id": 1, "x": one}, op="u") for one in ("?gone?", default)])
    keys = binary([None, None])
    messages = message_format(OPTIONS, placeholder="?gone?")
    columns = pa.schema([("id", pa.int64()), ("x", pa.string())])
    changes = pickle.loads(pickle.dumps(messages)).changes(keys, values, columns)  # noqa: S301 - made here
    assert changes.rows.to_pylist() == [{"id": 1, "x": default}]
    ((index, reason),) = [(one.value_index, one.reason) for one in changes.failures]
    assert (index, "(?gone?)" in reason) == (0, True)


@pytest.mark.parametrize(
    ("given", "raw"),
    [
        (field("x", "string"), '{"nicht verfügbar":"nicht verfügbar"}'),
        (field("x", "string"), '{"nicht verf\\u00fcgbar":"nicht verf\\u00fcgbar"}'),
        (array(field("", "int32")), [*b"nicht verf", 0xC3 - 256, 0xBC - 256, *b"gbar"]),
    ],
    ids=["hstore", "hstore in ASCII", "integers, signed as Java's bytes"],
)
def test_a_placeholder_with_letters_outside_of_ascii_counts(given: Field, raw: Any) -> None:
    fields = [ID, given]
    messages = message_format(OPTIONS, placeholder="nicht verfügbar")
    kind = pa.string() if isinstance(raw, str) else pa.list_(pa.int32())
    columns = pa.schema([("id", pa.int64()), ("x", kind)])
    changes = messages.changes(binary([None]), binary([value(fields, {"id": 1, "x": raw}, op="u")]), columns)
    assert ["(nicht verfügbar)" in one.reason for one in changes.failures] == [True]


@pytest.mark.parametrize("placeholder", ["", "hex:00"])
def test_a_placeholder_that_is_no_text_is_refused(placeholder: str) -> None:
    with pytest.raises(OptionError, match="Expected the text that Debezium writes as `unavailable_value`"):
        message_format(OPTIONS, placeholder=placeholder)


@pytest.mark.parametrize(
    "given",
    [
        field("x", "uint8"),
        field("x", "map", keys={"type": "int32"}, values={"type": "string"}),
        field("x", "bytes", DECIMAL, parameters={"scale": "a"}),
    ],
)
def test_a_type_that_cannot_be_a_column_is_an_error_that_names_it(given: Field) -> None:
    (text,) = made().schemas(binary([None]), binary([value([ID, given], {"id": 1})])).texts
    with pytest.raises(SchemaError, match=r"'x'.*column.exclude.list"):
        made().source(text)


@given(st.lists(st.integers(-(10**20) + 1, 10**20 - 1) | st.none(), max_size=20), st.integers(0, 20))
def test_decimals_keep_their_digits(numbers: list[int | None], scale: int) -> None:
    fields = [ID, decimal(20, scale)]
    values: Sequence[bytes | None] = [
        value(fields, {"id": 1, "x": None if one is None else unscaled(one)}) for one in numbers
    ]
    expected = [None if one is None else Decimal(one).scaleb(-scale) for one in numbers]
    assert [row["x"] for _, _, row in rows(values, pa.schema([("x", pa.decimal128(20, scale))]))] == expected


@given(st.lists(st.datetimes() | st.none(), max_size=20))
def test_times_keep_their_microseconds(times: list[datetime | None]) -> None:
    zoned = [None if one is None else one.isoformat() + "Z" for one in times]
    values: Sequence[bytes | None] = [
        value([ID, field("x", "string", ZONED)], {"id": 1, "x": one}) for one in zoned
    ]
    expected = [None if one is None else one.replace(tzinfo=UTC) for one in times]
    assert [row["x"] for _, _, row in rows(values, pa.schema([("x", INSTANT)]))] == expected


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=12))
def test_rows_do_not_depend_on_which_messages_come_together(which: list[tuple[int, bool]]) -> None:
    schemas = [[ID], [ID, NAME], [ID, field("n", "int32")], [ID, field("n", "int64"), NAME]]
    columns = pa.schema([("id", pa.int64()), ("name", pa.string()), ("n", pa.int64())])
    values: Sequence[bytes | None] = [
        None if is_null else value(schemas[number], {"id": place, "name": f"n{place}", "n": place})
        for place, (number, is_null) in enumerate(which)
    ]
    alone = [(place, *row[1:]) for place, one in enumerate(values) for row in rows([one], columns)]
    assert rows(values, columns) == alone


def test_the_envelope_of_the_tests_is_one_of_debezium() -> None:
    assert [one["field"] for one in envelope([ID])["fields"]][:2] == ["before", "after"]


def test_options_that_would_lose_values_are_refused() -> None:
    with pytest.raises(OptionError, match="ignore-parse-errors"):
        message_format({**OPTIONS, "debezium-json.ignore-parse-errors": "true"})
    with pytest.raises(OptionError, match="expected one of debezium-json"):
        message_format({"format": "json"})
    with pytest.raises(OptionError, match="not set"):
        message_format({})
    with pytest.raises(OptionError, match="`rest` is for 'debezium-json' without schemas"):
        message_format(OPTIONS, rest="rest")
    with pytest.raises(OptionError, match="`columns` is for 'debezium-json' without schemas"):
        message_format(OPTIONS, declared={})
