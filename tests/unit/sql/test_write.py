"""A statement that is written is read again as the same statement."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.sql.language.flink_types import Field, FlinkType
from penstock.sql.language.parse import parse_flink_type, parse_statement
from penstock.sql.language.statements import (
    Column,
    ComputedColumn,
    CreateTable,
    Fragment,
    Like,
    MetadataColumn,
    Name,
    PhysicalColumn,
    Watermark,
)
from penstock.sql.language.write import type_text
from tests.examples import examples
from tests.unit.sql.test_parse import ORDERS, STATEMENTS
from tests.unit.sql.written import written

T = TypeVar("T")

TEXTS = st.sampled_from(["", "a", "it's", "`b`", '"c"', "d\\", "-- e", "f\ng", "ü", "h.i", "COMMENT ';'"])
NAMES = TEXTS.filter(bool)
EXPRESSIONS = st.sampled_from(["a + 1", "f(a, 'x,)')", "CAST(a AS INT)", "a - INTERVAL '5' SECOND"])
OPTIONS = st.dictionaries(TEXTS, TEXTS, max_size=3).map(lambda found: tuple(found.items()))


def maybe(values: st.SearchStrategy[T]) -> st.SearchStrategy[T | None]:
    return st.none() | values


def numbers(name: str, *bounds: tuple[int, int]) -> st.SearchStrategy[FlinkType]:
    args = st.tuples(*(st.integers(*each) for each in bounds))
    return st.builds(lambda found, null: FlinkType(name, found, nullable=null), args, st.booleans())


PLAIN = st.one_of(
    st.sampled_from(
        [FlinkType(name) for name in ("INT", "STRING", "TIMESTAMP", "DECIMAL", "DATE", "VARIANT")]
    ),
    numbers("DECIMAL", (9, 38), (0, 9)),
    numbers("VARCHAR", (1, 2**31 - 1)),
    numbers("TIMESTAMP_LTZ", (0, 9)),
    st.sampled_from(["DAY", "DAY TO SECOND"]).map(lambda unit: FlinkType("INTERVAL", unit=unit)),
)


def nested(inner: st.SearchStrategy[FlinkType]) -> st.SearchStrategy[FlinkType]:
    fields = st.lists(st.builds(Field, NAMES, inner, maybe(TEXTS)), max_size=2).map(tuple)
    return st.one_of(
        st.builds(lambda one, null: FlinkType("ARRAY", elements=(one,), nullable=null), inner, st.booleans()),
        st.builds(lambda one, two: FlinkType("MAP", elements=(one, two)), inner, inner),
        st.builds(lambda found: FlinkType("ROW", fields=found), fields),
    )


TYPES = st.recursive(PLAIN, nested, max_leaves=4)
COLUMNS: list[Callable[[str], st.SearchStrategy[Column]]] = [
    lambda name: st.builds(PhysicalColumn, st.just(name), TYPES, maybe(TEXTS)),
    lambda name: st.builds(MetadataColumn, st.just(name), TYPES, maybe(TEXTS), st.booleans(), maybe(TEXTS)),
    lambda name: st.builds(ComputedColumn, st.just(name), EXPRESSIONS.map(Fragment), maybe(TEXTS)),
]


@st.composite
def tables(draw: st.DrawFn) -> CreateTable:
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique_by=str.lower))
    columns = tuple(draw(draw(st.sampled_from(COLUMNS))(name)) for name in names)
    no_point = names[0] if "." not in names[0] else "ts"
    like = st.builds(Like, NAMES.map(lambda one: Name((one,))), st.just((("EXCLUDING", "OPTIONS"),)))
    return CreateTable(
        Name(tuple(draw(st.lists(NAMES, min_size=1, max_size=3)))),
        columns,
        draw(maybe(EXPRESSIONS.map(lambda text: Watermark(no_point, Fragment(text))))),
        tuple(draw(st.lists(st.sampled_from(names), max_size=2))),
        draw(maybe(TEXTS)),
        tuple(draw(st.lists(NAMES, max_size=2))),
        draw(OPTIONS.filter(bool)),
        draw(maybe(like)),
        draw(maybe(st.just(Fragment("SELECT 1")))),
        draw(st.booleans()),
        draw(st.booleans()),
    )


@given(TYPES)
def test_types(kind: FlinkType) -> None:
    assert parse_flink_type(type_text(kind)) == kind


@settings(max_examples=examples(30))
@given(tables())
def test_tables(table: CreateTable) -> None:
    assert parse_statement(written(table)) == table


@pytest.mark.parametrize("text", [ORDERS, *(text for text, _ in STATEMENTS)])
def test_other_statements(text: str) -> None:
    statement = parse_statement(text)
    assert parse_statement(written(statement)) == statement
