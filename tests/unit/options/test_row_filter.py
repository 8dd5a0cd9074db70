"""`scan.row-filter`: what is understood, and that all else is refused."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from penstock.errors import OptionError
from penstock.options.parse import parse_read
from penstock.options.row_filter import (
    COMPARISONS,
    OF_TEXTS,
    RowCondition,
    RowFilter,
    parse_row_filter,
    text_of,
)
from penstock.options.table_spec import TableSpec

TABLE = {"properties.bootstrap.servers": "h:1", "topic": "t", "format": "json"}
ONE = RowCondition("kind", "=", (1,))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kind = 1", (ONE,)),
        (" kind=-1 ", (RowCondition("kind", "=", (-1,)),)),
        ("kind != 1", (RowCondition("kind", "<>", (1,)),)),
        ("Kind >= 1 and kind < 9", (RowCondition("Kind", ">=", (1,)), RowCondition("kind", "<", (9,)))),
        ("s = 'it''s' AND kind = 1", (RowCondition("s", "=", ("it's",)), ONE)),
        ("s in ('a','b AND c')", (RowCondition("s", "IN", ("a", "b AND c")),)),
        ("kind NOT IN (1, 2)", (RowCondition("kind", "NOT IN", (1, 2)),)),
        ("`a ``b` <> ''", (RowCondition("a `b", "<>", ("",)),)),
        ("`and` = 1", (RowCondition("and", "=", (1,)),)),
    ],
)
def test_conditions(text: str, expected: RowFilter) -> None:
    assert parse_row_filter(text) == expected
    config = parse_read({**TABLE, "scan.row-filter": text}, streaming=True)
    assert isinstance(config.table, TableSpec)
    assert config.table.row_filter == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "before character 1: expected the name of a column"),
        ("kind", "before character 5: expected a comparison"),
        ("kind = ", "expected a value"),
        ("kind = other", "expected a whole number, or a text in single quotes"),
        ("kind = 1.5", "before character 9: expected AND"),
        ("kind = 9223372036854775808", "expected a number of at most 64 bits"),
        ("kind = 1 OR kind = 2", "expected AND, got 'OR'"),
        ("kind = 1 AND", "expected the name of a column"),
        ("kind LIKE 'a'", "expected a comparison, IN or NOT IN, got 'LIKE'"),
        ("kind IS NULL", "expected a comparison, IN or NOT IN, got 'IS'"),
        ("s > 'a'", "texts are compared with =, <>, IN and NOT IN only"),
        ("s IN ('a', 1)", "expected numbers alone or texts alone"),
        ("s IN ()", "expected a whole number, or a text"),
        ("s IN ('a' 'b')", "expected a comma or a closing bracket"),
        ("NOT kind = 1", "expected the name of a column"),
        ("1 = kind", "expected the name of a column"),
        ("f(kind) = 1", "expected a comparison, IN or NOT IN, got '('"),
    ],
)
def test_what_is_refused_with_its_position(text: str, said: str) -> None:
    with pytest.raises(OptionError, match=r"Option 'scan\.row-filter' cannot be") as raised:
        parse_read({**TABLE, "scan.row-filter": text}, streaming=True)
    assert said in str(raised.value)


def test_it_is_for_reads_with_a_format() -> None:
    without_format = {each: text for each, text in TABLE.items() if each != "format"}
    with pytest.raises(OptionError, match="A table needs a format"):
        parse_read({**without_format, "scan.row-filter": "kind = 1"}, streaming=True)


@st.composite
def conditions(draw: st.DrawFn) -> RowCondition:
    is_of_texts = draw(st.booleans())
    operator = draw(st.sampled_from(OF_TEXTS if is_of_texts else (*COMPARISONS, "IN", "NOT IN")))
    most = 1 if operator in COMPARISONS else 3
    values: st.SearchStrategy[int | str] = st.text() if is_of_texts else st.integers(-(2**63), 2**63 - 1)
    return RowCondition(
        draw(st.text(min_size=1)), operator, tuple(draw(st.lists(values, min_size=1, max_size=most)))
    )


@given(st.lists(conditions(), min_size=1, max_size=4))
def test_the_text_of_conditions_means_them(found: list[RowCondition]) -> None:
    assert parse_row_filter(text_of(found)) == tuple(found)
