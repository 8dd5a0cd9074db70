"""Statements with mistakes in them: what is left is read, or refused with its position. No Spark runs."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from penstock.errors import SqlError
from tests.unit.sql import test_one_line as lines
from tests.unit.sql.recorded_plans import PLANS, cases
from tests.unit.sql.test_one_line import read
from tests.unit.sql.test_parse import check_position

TEXTS = [
    *lines.ACCEPTED,
    *(text for text, _, _ in lines.REFUSED),
    *(each.query for name in ("expressions.txt", "refused.txt") for each in cases(PLANS / name)),
]
PARTS = re.compile(r"'[^']*'|\w+|\s+|.", re.DOTALL)
VOCABULARY = sorted({part for text in TEXTS for part in PARTS.findall(text)})
SIGNS = [*"()[]'`\";\\\0\né💥\ud800", "/*", "--", "1e999", "9" * 40]


@st.composite
def mistakes(draw: st.DrawFn) -> str:
    """A statement with parts left out, added, said many times, or with the end of another statement."""
    parts = PARTS.findall(draw(st.sampled_from(TEXTS)))
    for _ in range(draw(st.integers(1, 3))):
        first = draw(st.integers(0, len(parts)))
        last = draw(st.integers(first, min(first + 8, len(parts))))
        added = [draw(st.sampled_from(VOCABULARY + SIGNS))]
        other = PARTS.findall(draw(st.sampled_from(TEXTS)))[draw(st.integers(0, 20)) :]
        again = parts[first:last] * draw(st.sampled_from([0, 2, 30]))
        parts[first:last] = draw(st.sampled_from([added, other, again]))
    return "".join(parts)


@given(mistakes())
@example("SELECT JSON_VALUE(s, '$.a' DEFAULT ON EMPTY) FROM t")
def test_a_statement_with_a_mistake_is_read_or_refused_with_its_position(text: str) -> None:
    try:
        read(text, any_types=True)
    except SqlError as error:
        check_position(error)
