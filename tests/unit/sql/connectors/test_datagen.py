"""Rows of datagen tables: options, values, and where a stream stands."""

from __future__ import annotations

import datetime
import itertools
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import CheckpointError
from penstock.sql.connectors.datagen.offset import MadeOffset, made_offset
from penstock.sql.connectors.datagen.plan import plan_of
from penstock.sql.connectors.datagen.source import block_rows, generate, next_offset, split
from penstock.sql.language.parse import parse_statement
from penstock.sql.language.statements import CreateTable
from tests.examples import examples

NOW_US = 1_767_323_045_123_000


def table(columns: str, **fields: str) -> CreateTable:
    options = {"connector": "datagen", **fields}
    texts = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    found = parse_statement(f"CREATE TABLE t ({columns}) WITH ({texts})")
    assert isinstance(found, CreateTable)
    return found


def made(type_: str, arrow: pa.DataType, count: Any = 100, **options: str) -> list[Any]:
    """Return values of one column `x`."""
    plan = plan_of(table(f"x {type_}", **{f"fields.x.{key}": value for key, value in options.items()}))
    batches = generate(plan, pa.schema([("x", arrow)]), 7, range(count), NOW_US)
    return list(pa.Table.from_batches(batches).column("x").to_pylist())


@pytest.mark.parametrize(
    ("kind", "arrow", "low", "high"),
    [
        ("TINYINT", pa.int8(), -128, 127),
        ("INT", pa.int32(), -(2**31), 2**31 - 1),
        ("BIGINT", pa.int64(), -(2**63), 2**63 - 1),
        ("FLOAT", pa.float32(), 0, 3.4028234663852886e38),
        ("DOUBLE", pa.float64(), 0, 1.7976931348623157e308),
        ("DECIMAL(5, 2)", pa.decimal128(5, 2), 0, Decimal("999.99")),
    ],
)
def test_numbers_fill_the_range_of_their_type(kind: str, arrow: pa.DataType, low: Any, high: Any) -> None:
    found = made(kind, arrow, 1_000)
    assert all(low <= value <= high for value in found)
    assert max(found) > high / 2


def test_bounds_of_numbers() -> None:
    assert set(made("INT", pa.int32(), 500, min="3", max="5")) == {3, 4, 5}
    assert set(made("DECIMAL(4, 1)", pa.decimal128(4, 1), 500, min="-0.15", max="0.1")) == {
        Decimal("-0.1"),
        Decimal(0),
        Decimal("0.1"),
    }
    long = f"{'1234567890' * 3}12345.678"
    assert set(made("DECIMAL(38, 3)", pa.decimal128(38, 3), 5, min=long, max=long)) == {Decimal(long)}
    found = made("DOUBLE", pa.float64(), 500, min="-1e308", max="1e308")
    assert min(found) < 0 < max(found)


def test_texts_and_bytes() -> None:
    assert {len(text) for text in made("STRING", pa.string())} == {100}
    assert {len(text) for text in made("CHAR(7)", pa.string())} == {7}
    assert {len(text) for text in made("VARCHAR(9)", pa.string(), length="4")} == {4}
    assert {len(text) for text in made("VARCHAR(2147483647)", pa.string())} == {100}
    lengths = {len(text) for text in made("STRING", pa.string(), 500, length="3", **{"var-len": "true"})}
    assert lengths == {1, 2, 3}
    assert set("".join(made("STRING", pa.string()))) == set("0123456789abcdef")
    assert {len(value) for value in made("BYTES", pa.binary(), length="5")} == {5}
    assert {type(value) for value in made("BINARY(2)", pa.binary())} == {bytes}


def test_times_are_in_the_past_of_their_batch() -> None:
    now = datetime.datetime.fromtimestamp(NOW_US / 1e6, datetime.UTC)
    plain = pa.timestamp("us")
    assert set(made("TIMESTAMP(3)", plain)) == {now.replace(tzinfo=None)}
    past = made("TIMESTAMP_LTZ(3)", pa.timestamp("us", "UTC"), 500, **{"max-past": "10 s"})
    ages = [(now - value).total_seconds() for value in past]
    assert 0 <= min(ages) < 3
    assert 7 < max(ages) <= 10
    assert set(made("DATE", pa.date32())) == {now.date()}


def test_nested_values() -> None:
    row = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.int64()))])
    found = made("ROW<a INT, b ARRAY<BIGINT>>", row, **{"a.min": "1", "a.max": "1", "b.length": "2"})
    assert {(value["a"], len(value["b"])) for value in found} == {(1, 2)}
    maps = made(
        "MAP<INT, STRING>",
        pa.map_(pa.int32(), pa.string()),
        **{"key.min": "1", "key.max": "2", "value.length": "1"},
    )
    assert {key for value in maps for key, _ in value} == {1, 2}
    assert max(len(value) for value in maps) == 2


def test_a_part_of_the_values_is_null() -> None:
    found = made("INT", pa.int32(), 2_000, **{"null-rate": "0.25"})
    assert 350 < found.count(None) < 650


@pytest.mark.parametrize(
    ("kind", "arrow", "expected"),
    [
        ("INT", pa.int32(), [5, 6, 7]),
        ("STRING", pa.string(), ["5", "6", "7"]),
        ("DECIMAL(4, 2)", pa.decimal128(4, 2), [Decimal(5), Decimal(6), Decimal(7)]),
        ("DECIMAL(38, 30)", pa.decimal128(38, 30), [Decimal(5), Decimal(6), Decimal(7)]),
        ("FLOAT", pa.float32(), [5.0, 6.0, 7.0]),
    ],
)
def test_sequences(kind: str, arrow: pa.DataType, expected: list[Any]) -> None:
    assert made(kind, arrow, 3, kind="sequence", start="5", end="7") == expected


def test_the_first_sequence_that_ends_ends_the_table() -> None:
    ranges = {
        f"fields.{name}.{key}": value
        for name, end in (("a", "10"), ("b", "7"))
        for key, value in (("kind", "sequence"), ("start", "3"), ("end", end))
    }
    assert plan_of(table("a INT, b INT", **ranges)).total == 5
    assert plan_of(table("a INT, b INT", **ranges, **{"number-of-rows": "4"})).total == 4
    assert plan_of(table("a INT")).total is None


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("a INT", {"fields.a.knd": "random"}, "Did you mean 'fields.a.kind'?"),
        ("a INT", {"rows-per-secon": "1"}, "Did you mean 'rows-per-second'?"),
        ("a INT", {"fields.b.kind": "random"}, "does not have the option 'fields.b.kind'"),
        (
            "a INT",
            {"fields.a.kind": "sequence", "fields.a.start": "1"},
            "needs 'fields.a.start' and 'fields.a.end'",
        ),
        (
            "a TINYINT",
            {"fields.a.kind": "sequence", "fields.a.start": "1", "fields.a.end": "200"},
            "leaves the range",
        ),
        ("a BOOLEAN", {"fields.a.kind": "sequence"}, "cannot be a sequence"),
        (
            "a ARRAY<INT>",
            {"fields.a.element.kind": "sequence"},
            "elements of a collection cannot be a sequence",
        ),
        ("a INT", {"fields.a.min": "5", "fields.a.max": "4"}, "above the maximum"),
        ("a TINYINT", {"fields.a.max": "128"}, "'fields.a.max' cannot be '128'"),
        ("a INT", {"fields.a.length": "3"}, "cannot have 'length' with its type and kind"),
        ("a CHAR(3)", {"fields.a.length": "2"}, "fixed length 3"),
        ("a VARCHAR(3)", {"fields.a.length": "4"}, "holds 3 at most"),
        ("a INT NOT NULL", {"fields.a.null-rate": "0.1"}, "is NOT NULL"),
        ("a INT, b AS a + 1", {"fields.b.kind": "random"}, "is computed"),
        ("a INT, b BIGINT METADATA", {}, "has no metadata"),
        ("a INT", {"rows-per-second": "0"}, "'rows-per-second' cannot be '0'"),
        ("a TIME(3)", {}, "has no values of the type TIME"),
    ],
)
def test_what_does_not_fit_is_refused(columns: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the message is compared below
        plan_of(table(columns, **options))
    assert message in str(error.value)


@settings(max_examples=examples(20))
@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=4), st.integers(0, 2**31 - 1))
def test_rows_do_not_depend_on_how_they_are_divided(cuts: list[int], seed: int) -> None:
    plan = plan_of(table("i INT, s STRING", **{"fields.s.length": "2", "fields.s.null-rate": "0.5"}))
    schema = pa.schema([("i", pa.int32()), ("s", pa.string())])
    bounds = sorted({0, *cuts})
    whole = pa.Table.from_batches(generate(plan, schema, seed, range(bounds[-1]), 0), schema)
    parts = [
        batch
        for first, last in itertools.pairwise(bounds)
        for batch in generate(plan, schema, seed, range(first, last), 0)
    ]
    assert pa.Table.from_batches(parts, schema).equals(whole)
    other = pa.Table.from_batches(generate(plan, schema, seed + 1, range(bounds[-1]), 0), schema)
    assert bounds[-1] < 10 or not other.equals(whole)


def test_large_rows_have_small_blocks() -> None:
    assert block_rows(plan_of(table("a STRING", **{"fields.a.length": "1000000"}))) == 16
    assert block_rows(plan_of(table("a INT"))) == 4_096


def test_a_stream_ends_with_one_empty_batch() -> None:
    start = MadeOffset(7, 0, 1, 25)
    assert next_offset(start, 0, 25, 2) is start
    first = next_offset(start, 10, 25, 2)
    assert first == MadeOffset(7, 10, 2, 25)
    last = next_offset(first, 99, 25, 3)
    assert (last.row, last.is_done) == (25, False)
    end = next_offset(last, 99, 25, 4)
    assert (end.row, end.is_done, end.at_ms) == (25, True, 3)
    assert next_offset(end, 99, 25, 5) is end
    assert next_offset(MadeOffset(7, 30, 1), 99, 25, 5).is_done
    assert next_offset(start, 99, None, 5).row == 99


@given(st.integers(0, 1_000_000), st.integers(0, 1_000_000), st.one_of(st.none(), st.integers(1, 9)))
def test_tasks_make_each_row_once(start: int, count: int, splits: int | None) -> None:
    options = {} if splits is None else {"scan.parallelism": str(splits)}
    found = split(plan_of(table("a INT", **options)), MadeOffset(7, start, 3), start + count)
    ranges = [each.value[1:3] for each in found]
    assert [first for first, _ in ranges] == [*([start] if count else []), *(last for _, last in ranges[:-1])]
    assert not count or ranges[-1][1] == start + count
    assert all(each.value[0] == 7 and each.value[3] == 3 for each in found)


def test_offsets_have_a_version() -> None:
    offset = MadeOffset(7, 5, 3, 9, is_done=True)
    assert MadeOffset.from_json(offset.to_json()) == offset
    with pytest.raises(CheckpointError, match="version 2"):
        MadeOffset.from_json({**offset.to_json(), "penstock-datagen": 2})
    assert made_offset('{"version": 1}') is None
    assert made_offset("7") is None
