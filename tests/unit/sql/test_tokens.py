"""The tokens of a script, and texts that cannot be divided."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import SqlError
from penstock.sql.language.source import Source
from penstock.sql.language.tokens import Kind, tokenize


def values(text: str) -> list[str]:
    return [token.value for token in tokenize(Source(text))][:-1]


def test_quotes_comments_and_symbols() -> None:
    text = "SELECT `a``b`, 'it''s; --no', /* ; */ 1.5e3 -- end ;\n<> x=>y /*+ OPTIONS() */ 'a\\'"
    shown = [
        "SELECT",
        "a`b",
        ",",
        "it's; --no",
        ",",
        "1.5e3",
        "<>",
        "x",
        "=>",
        "y",
        "/*+ OPTIONS() */",
        "a\\",
    ]
    assert values(text) == shown


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("a\n 'b", "Line 2, column 2", "a text in single quotes does not end"),
        ("`b", "Line 1, column 1", "a name in backticks does not end"),
        ("x /* y", "Line 1, column 3", "a comment does not end"),
        ('x = "y"', "Line 1, column 5", "Flink's SQL has no double quotes"),
        ("a # b", "Line 1, column 3", "the character '#' has no meaning here"),
        ("(" * 50, "Line 1, column 41", "more than 40 brackets are open"),
    ],
)
def test_a_text_that_cannot_be_divided_is_refused_with_line_and_column(
    text: str, position: str, message: str
) -> None:
    with pytest.raises(SqlError) as error:
        tokenize(Source(text))
    assert str(error.value).startswith(position)
    assert message in str(error.value)


def test_the_caret_stands_below_the_mistake_also_in_a_long_line() -> None:
    text = " " * 300 + "#" + " " * 300
    _, line, caret = str(Source(text).error("x", 300)).split("\n")
    assert line[caret.index("^")] == "#"
    assert len(line) < 110


@given(st.text())
def test_tokens_cover_the_text_in_order(text: str) -> None:
    try:
        tokens = tokenize(Source(text))
    except SqlError:
        return
    assert all(before.stop <= after.start for before, after in itertools.pairwise(tokens))
    assert tokens[-1].kind is Kind.END
