"""Where a statement ends while it is typed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.sql.shell.statements import is_complete, is_help, is_leave

SET = "EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT 1;"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1;\n  ", True),
        ("SELECT ';'", False),
        ("SELECT 'a;", False),
        ("SELECT `a;", False),
        ("SELECT 1 -- ;", False),
        ("SELECT 1 /* ;", False),
        ("SELECT 1; SELECT 2", False),
        (SET, False),
        (f"{SET} INSERT INTO u SELECT 2;", False),
        (f"{SET} END", False),
        (f"{SET} END;", True),
        (f"{SET} END; SELECT CASE WHEN a THEN 1 END FROM t;", True),
        ("BEGIN STATEMENT SET;", False),
        ("BEGIN STATEMENT SET; INSERT INTO t SELECT CASE WHEN a THEN 1 END FROM u;", False),
        ("BEGIN STATEMENT SET; INSERT INTO t SELECT 1; END;", True),
        ('SELECT "a";', True),  # wrong: the parser says why
        ('SELECT "a"', False),
        ("QUIT", True),
        ("exit ;", True),
        ("help", True),
    ],
)
def test_complete_statements(text: str, expected: bool) -> None:
    assert is_complete(text) is expected


@given(st.text())
def test_every_text_has_an_answer(text: str) -> None:
    is_complete(text)
    assert not (is_leave(text) and is_help(text))
