"""Debezium's JSON messages without schemas: declared columns, and the rest of each row as JSON text."""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.cdc.messages import Changes, MessageFormat, message_format
from penstock.errors import SchemaError
from tests.unit.cdc.debezium_messages import binary, key

TOPIC = "shop.public.goods"
COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string())])
UNKNOWN = "__debezium_unavailable_value"


def made(rest: str | None = "rest", placeholder: str = UNKNOWN) -> MessageFormat:
    messages = message_format(
        {"value.format": "debezium-json"}, declared={TOPIC: COLUMNS}, rest=rest, placeholder=placeholder
    )
    assert not messages.has_schemas
    found: MessageFormat = pickle.loads(pickle.dumps(messages))  # noqa: S301 - made here
    return found.of_topic(TOPIC)


def message(after: str | None, before: str | None = None, op: str = "u") -> bytes:
    return f'{{"before":{before or "null"},"after":{after or "null"},"op":"{op}"}}'.encode()


def changes(*values: bytes | None, messages: MessageFormat | None = None) -> Changes:
    messages = messages or made()
    return messages.changes(binary([None] * len(values)), binary(values), messages.source("").columns)


def rest_of(after: str) -> Any:
    found = changes(message(after))
    assert not found.failures, found.failures
    return found.rows.column("rest")[0].as_py()


def test_fields_that_are_not_declared_are_one_json_text() -> None:
    row = '{"vip":true,"id":1,"n":[1.5],"name":"a"}'
    found = changes(None, message(row), message('{"id":2,"name":"b"}'))
    assert found.rows.to_pylist() == [
        {"id": 1, "name": "a", "rest": '{"n":[1.5],"vip":true}'},
        {"id": 2, "name": "b", "rest": None},
    ]
    assert found.index.to_pylist() == [1, 2]
    plain = made(rest=None)
    assert changes(message(row), messages=plain).rows.to_pylist() == [{"id": 1, "name": "a"}]


def test_numbers_keep_their_digits() -> None:
    digits = "9" * 5000
    row = f'{{"id":1,"a":1.50,"b":12345678901234567890.1234567890,"c":[1e400,-0.0],"d":{digits}}}'
    assert rest_of(row) == (f'{{"a":1.50,"b":12345678901234567890.1234567890,"c":[1e400,-0.0],"d":{digits}}}')


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter(
    lambda name: name not in ("id", "name")
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.decimals(allow_nan=False, allow_infinity=False) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


def _json(value: Any) -> str:
    """Return JSON in which a decimal has its digits."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_json, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(name)}: {_json(one)}' for name, one in value.items())}}}"
    return json.dumps(value)


@given(st.dictionaries(NAMES, VALUES, max_size=5))
@example({"rest": "a field with the name of the column", "before": {}, "after": None})
def test_whatever_a_row_has_the_rest_has_the_same_values(fields: dict[str, Any]) -> None:
    text = rest_of(_json({"id": 1, **fields}))
    assert (text is None) == (not fields)
    if text is not None:
        expected = json.loads(_json(fields), parse_float=Decimal)
        assert json.loads(text, parse_float=Decimal) == expected
        assert str(json.loads(text, parse_float=Decimal)) == str(dict(sorted(expected.items())))


def test_a_decimal_keeps_its_digits_or_is_a_failure() -> None:
    columns = pa.schema([("id", pa.int64()), ("price", pa.decimal128(10, 2))])
    texts = ["1.5", '"-0.10"', "1e2", "7.000", "null", "1.005", "123456789.5", '"abc"', '""']
    values = [message(f'{{"id":{number},"price":{text}}}') for number, text in enumerate(texts)]
    found = made().changes(binary([None] * len(values)), binary(values), columns)
    expected = [Decimal("1.50"), Decimal("-0.10"), Decimal("100.00"), Decimal("7.00"), None]
    assert found.rows.column("price").to_pylist() == expected
    assert [one.value_index for one in found.failures] == [5, 6, 7, 8]
    assert {"column 'price' cannot be read" in one.reason for one in found.failures} == {True}


AMOUNT = pa.decimal128(6, 2)
NESTED: dict[str, tuple[pa.DataType, str, Callable[[Decimal], Any]]] = {
    "ARRAY": (pa.list_(pa.field("element", AMOUNT, nullable=False)), "[%s]", lambda one: [one]),
    "MAP": (pa.map_(pa.string(), AMOUNT), '{"a":%s}', lambda one: [("a", one)]),
    "STRUCT": (
        pa.struct([("n", pa.int32()), pa.field("a", AMOUNT)]),
        '{"a":%s}',
        lambda one: {"n": None, "a": one},
    ),
    "all of them": (
        pa.struct([("a", pa.list_(pa.map_(pa.string(), pa.struct([("b", AMOUNT)]))))]),
        '{"a":[{"x":{"b":%s}},null,{}]}',
        lambda one: {"a": [[("x", {"b": one})], None, []]},
    ),
}


def of_column(kind: pa.DataType, *texts: str) -> Changes:
    columns = pa.schema([("id", pa.int64()), ("x", kind)])
    values = [message(f'{{"id":{number},"x":{text}}}') for number, text in enumerate(texts)]
    return made().changes(binary([None] * len(values)), binary(values), columns)


@pytest.mark.parametrize("name", NESTED)
def test_a_nested_decimal_keeps_its_digits_or_is_a_failure(name: str) -> None:
    kind, text, value = NESTED[name]
    numbers = ["1.5", "0.005", '"-0.10"', "12345.6", "7.000", '"1.239"', "1e2"]
    found = of_column(kind, "null", *(text % one for one in numbers))
    assert [one.value_index for one in found.failures] == [2, 4, 6]
    assert {"column 'x' cannot be read: it is not a number" in one.reason for one in found.failures} == {True}
    expected = [None, *(value(Decimal(one)) for one in ("1.50", "-0.10", "7.00", "100.00"))]
    assert found.rows.column("x").type == kind
    assert found.rows.column("x").to_pylist() == expected


def test_only_the_rows_of_a_bad_number_are_left_out() -> None:
    found = of_column(pa.list_(AMOUNT), "[]", "[1,2,3.001]", "null", "[null,4]", "[0.001]", "[5]")
    assert found.rows.column("x").to_pylist() == [[], None, [None, Decimal(4)], [Decimal(5)]]
    assert [one.value_index for one in found.failures] == [1, 4]


SCALES = st.tuples(st.integers(1, 38), st.integers(0, 38)).filter(lambda pair: pair[1] <= pair[0])
WIDE = Context(prec=200)
NUMBERS = st.builds(
    lambda digits, exponent: Decimal(digits).scaleb(exponent, WIDE),
    st.integers(-(10**45), 10**45) | st.integers(-999, 999),
    st.integers(-45, 45),
)


@given(SCALES, st.lists(st.tuples(NUMBERS, st.booleans()), min_size=1, max_size=5))
@example((38, 0), [(Decimal("9" * 60), False), (Decimal(2**127), False), (Decimal(2**127), True)])
@example((38, 2), [(Decimal("1.1e37"), True)])
@example((10, 2), [(Decimal(2**128 + 100), False), (Decimal("1e-999999"), False), (Decimal("0e9999"), False)])
def test_whatever_a_number_is_a_decimal_is_equal_to_it_or_a_failure(
    scale: tuple[int, int], numbers: list[tuple[Decimal, bool]]
) -> None:
    """Arrow's cast gives another number, without an error, if a text needs more than 38 digits."""
    texts = [f"{one:f}" if is_plain and abs(one.adjusted()) < 99 else str(one) for one, is_plain in numbers]
    found = of_column(pa.decimal128(*scale), *texts)
    limit = 10 ** (scale[0] - scale[1])
    rows = dict(zip(found.rows.column("id").to_pylist(), found.rows.column("x").to_pylist(), strict=True))
    for place, (number, _) in enumerate(numbers):
        exponent = number.normalize(WIDE).as_tuple().exponent
        assert isinstance(exponent, int)
        is_exact = abs(number) < limit and (not number or exponent >= -scale[1])
        assert (place in rows) == is_exact, texts[place]
        assert not is_exact or rows[place] == number
    assert len(rows) + len(found.failures) == len(numbers)


def precise(unscaled: int) -> str:
    """Return what Debezium writes with `decimal.handling.mode` = `precise`, as a text of JSON."""
    return json.dumps(
        base64.b64encode(unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)).decode()
    )


def test_base64_of_digits_is_not_read_as_a_number() -> None:
    assert precise(-2_658_824) == '"1234"', "of -26588.24"
    kind = pa.decimal128(12, 2)
    found = of_column(
        kind, '"1234"', '"12e4"', '"0123"', '"+123"', r'"\u0031234"', "1234", '"1234.00"', '"-1234.5"'
    )
    assert [one.value_index for one in found.failures] == [0, 1, 2, 3, 4]
    for one in found.failures:
        assert "column 'x' is a text without a point" in one.reason
        assert "'decimal.handling.mode' is 'precise'" in one.reason
    assert found.rows.column("x").to_pylist() == [Decimal(1234), Decimal(1234), Decimal("-1234.5")]


@given(st.integers(-(10**11), 10**11) | st.sampled_from([-2_658_824, -526_341]), st.integers(1, 6))
def test_base64_never_gives_a_number_with_a_fraction(unscaled: int, scale: int) -> None:
    number = Decimal(unscaled).scaleb(-scale)
    for kind in (pa.decimal128(38, scale), pa.float64()):
        assert not of_column(kind, precise(unscaled)).rows.num_rows
        (found,) = of_column(kind, f'"{number:f}"').rows.column("x").to_pylist()  # what `string` writes
        assert found == (number if kind == pa.decimal128(38, scale) else float(number))


@pytest.mark.parametrize("name", NESTED)
def test_base64_of_digits_in_a_nested_decimal_is_a_failure(name: str) -> None:
    kind, text, value = NESTED[name]
    found = of_column(kind, *(text % one for one in ('"1234"', "1234")))
    assert [one.value_index for one in found.failures] == [0]
    assert found.rows.column("x").to_pylist() == [value(Decimal(1234))]


def test_a_whole_number_may_be_a_text_as_debezium_writes_it() -> None:
    found = of_column(pa.decimal128(12, 0), '"1234"', '"0"', '"-7"', '"0123"', '"1e10"', '"AfQ="')
    assert found.rows.column("x").to_pylist() == [Decimal(1234), Decimal(0), Decimal(-7)]
    assert [one.value_index for one in found.failures] == [3, 4, 5]
    assert {"'decimal.handling.mode' is 'precise'" in one.reason for one in found.failures} == {True}


def test_base64_in_an_old_row_is_a_failure_and_other_texts_are_not() -> None:
    columns = pa.schema([("id", pa.int64()), ("name", pa.string()), ("price", pa.decimal128(10, 2))])
    values = [
        message(None, '{"id":1,"price":"1234"}', "d"),
        message('{"id":2,"price":1,"name":"1234"}', '{"id":2,"price":"5678"}'),
        message('{"id":3,"price":1,"name":"1234","1234":"1234"}', '{"id":3,"price":"1.00","name":"5678"}'),
    ]
    found = made().changes(binary([None] * len(values)), binary(values), columns)
    assert [one.value_index for one in found.failures] == [0, 1]
    assert found.rows.column("id").to_pylist() == [3, 3]


def test_old_rows_have_no_rest() -> None:
    old, new = '{"id":1,"name":"a","x":1}', '{"id":2,"name":"a","x":2}'
    found = changes(message(new, old), message(None, old, "d"))
    assert list(zip(found.kinds.to_pylist(), found.rows.column("rest").to_pylist(), strict=True)) == [
        ("-U", None),
        ("+U", '{"x":2}'),
        ("-D", None),
    ]


@pytest.mark.parametrize(
    "value",
    [f'"{UNKNOWN}"', f'["{UNKNOWN}"]', f'{{"{UNKNOWN}":"{UNKNOWN}"}}', json.dumps([*UNKNOWN.encode()])],
    ids=["text", "array", "map", "integers"],
)
def test_a_value_that_debezium_does_not_know_is_not_written(value: str) -> None:
    found = changes(message(f'{{"id":1,"x":{value}}}'), message('{"id":2,"x":"a"}'))
    assert found.rows.column("id").to_pylist() == [2]
    ((index, reason),) = [(one.value_index, one.reason) for one in found.failures]
    assert index == 0
    assert "field 'x' is not in the message (__debezium_unavailable_value)" in reason


ARRAYS = [
    f'["{UNKNOWN}"]',
    f'[ "{UNKNOWN}" ]',
    '["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]',
    json.dumps([*UNKNOWN.encode()]),
]


@pytest.mark.parametrize("value", ARRAYS, ids=["texts", "with spaces", "uuids", "integers"])
def test_an_array_that_debezium_does_not_know_is_not_written_into_a_text(value: str) -> None:
    found = changes(message(f'{{"id":1,"name":{value}}}'), message('{"id":2,"name":["a"]}'))
    assert found.rows.to_pylist() == [{"id": 2, "name": '["a"]', "rest": None}]
    ((index, reason),) = [(one.value_index, one.reason) for one in found.failures]
    assert index == 0
    assert "column 'name' is not in the message (__debezium_unavailable_value)" in reason


@pytest.mark.parametrize("kind", [pa.int32(), pa.float64(), pa.decimal128(10, 2)], ids=str)
def test_an_array_of_numbers_that_debezium_does_not_know_is_not_written(kind: pa.DataType) -> None:
    columns = pa.schema([("id", pa.int64()), ("name", pa.list_(kind))])
    values = [message(f'{{"id":1,"name":{json.dumps([*UNKNOWN.encode()])}}}'), message('{"id":2,"name":[1]}')]
    found = made().changes(binary([None, None]), binary(values), columns)
    assert found.rows.column("id").to_pylist() == [2]
    assert [one.value_index for one in found.failures] == [0]


@pytest.mark.parametrize("depth", [500, 990, 2_000])
def test_a_field_that_nests_deep_is_kept_or_a_failure_of_its_message(depth: int) -> None:
    deep = "[" * depth + "]" * depth
    found = changes(message(f'{{"id":1,"x":{deep}}}'), message('{"id":2}'))
    assert found.rows.column("id").to_pylist()[-1] == 2
    if not found.failures:
        assert found.rows.column("rest").to_pylist() == [f'{{"x":{deep}}}', None]
    assert all("too deep" in one.reason or "nests deeper" in one.reason for one in found.failures)
    assert bool(found.failures) or depth < 2_000


def test_the_connectors_own_placeholder_counts() -> None:
    messages = made(placeholder="?gone?")
    found = changes(
        message('{"id":1,"x":"?gone?"}'), message(f'{{"id":2,"x":"{UNKNOWN}"}}'), messages=messages
    )
    assert [one.value_index for one in found.failures] == [0]
    assert found.rows.column("id").to_pylist() == [2]


def test_a_text_that_is_not_one_of_characters_is_a_failure() -> None:
    found = changes(message('{"id":1,"x":"\\ud800"}'))
    assert ["half a surrogate pair" in one.reason for one in found.failures] == [True]


def test_what_stands_for_a_schema_are_declared_columns_and_the_fields_of_the_key() -> None:
    row = message('{"id":1}')
    keys = [b'{"id":1}', b'{"id":2}', key(3), b'{"id":1,"name":"a"}', b'"id"', None, b'{"id":1}']
    found = made().schemas(binary(keys), binary([*[row] * 6, None]))
    sources = [made().source(text) for text in found.texts]
    assert [source.keys for source in sources] == [("id",), ("id",), ("id", "name"), None]
    assert found.ids.to_pylist() == [0, 0, 1, 2, 3, 3, None]
    assert {(source.name, source.rest) for source in sources} == {("public.goods", "rest")}
    assert sources[0].columns.names == ["id", "name", "rest"]
    others = {made(rest=rest).schemas(binary([None]), binary([row])).texts for rest in ("rest", "more", None)}
    assert len(others) == 3, "another rest has to be followed"


def test_a_topic_without_declared_columns_is_an_error_that_names_it() -> None:
    other = made().of_topic("shop.public.people")
    (text,) = other.schemas(binary([None]), binary([message('{"id":1}')])).texts
    with pytest.raises(SchemaError, match=r"Topic 'shop\.public\.people' .*Declare them as `columns`"):
        other.source(text)
