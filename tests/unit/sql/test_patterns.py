"""Patterns whose parts are known. Python's patterns stand for Java's: the parts that are known mean the same."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.sql.functions.patterns import Pattern, known
from penstock.sql.plan.texts import literal, unquoted
from tests.patterns import a_pattern, a_text


def read(text: str) -> Pattern | None:
    return known(literal(text))


@pytest.mark.parametrize(
    "text",
    [
        *("(", ")", "a)(b", "[", "[]", "[a", "a]", "}", "\\", "\\Qa", "\\p{L}", "\\1", "\\e", "(?i)a", "(?=a)", "(?<n>a)"),
        *("*", "a**", "a{2}{2}", "a{2,1}", "a{,2}", "(*a)", "a|*", "^*", "\\b+", "[z-a]", "[a&&b]", "[a[b]]", "[\\d-z]"),
    ],
)  # fmt: skip
def test_a_pattern_with_another_part_is_not_known(text: str) -> None:
    assert read(text) is None


@pytest.mark.parametrize("text", ["s", "'a' || 'b'", "concat('a', 'b')", "'", "'a", "''a'", "NULL"])
def test_only_a_literal_is_known(text: str) -> None:
    assert known(text) is None


@given(st.text(alphabet="a'\\\n%𝄞", max_size=8))
def test_a_literal_stands_for_its_text(text: str) -> None:
    assert unquoted(literal(text)) == text


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("(&|^)channel_id=([^&]*)", "channel_id="),
        ("ab+c", "a"),
        ("a?bc{2}d", "b"),
        ("a\\.b(c)de", "a.b"),
        ("a|ab", ""),
        ("(abc)", ""),
        ("éab", "ab"),
        ("a'b", "a'b"),
    ],
)
def test_the_longest_text_of_a_pattern_is_needed(text: str, needed: str) -> None:
    found = read(text)
    assert found is not None
    assert found.needed == needed


def test_a_pattern_of_plain_characters_is_no_regular_expression() -> None:
    found = read("abc")
    assert found is not None
    assert found.found("s") == "contains(s, 'abc')"


@given(st.randoms(use_true_random=False))
def test_what_is_known_of_a_pattern_is_true_of_each_match(chance: random.Random) -> None:
    check(a_pattern(chance), a_text(chance))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("a(b)?(c)", "ac"), ("a(b*)(c|d*)", "a"), ("(a)|(b)", "b"), ("(a(b*))", "a"), ("a(b|)c", "ac")),
        *(("((a*)b)+", "aabb"), ("(?:(a)|b*)*c", "abc"), ("((a{2})*b?)+=", "aaaab=")),
    ],
)
def test_what_is_known_of_a_group_is_true_of_a_match(text: str, value: str) -> None:
    assert re.search(text, value) is not None
    check(text, value)


def check(text: str, value: str) -> None:
    found = read(text)
    assert found is not None
    match = re.search(text, value)
    if match is None:
        return
    assert found.needed in value
    for group in found.groups:
        if group.is_always:
            assert match[group.number] is not None
            assert len(match[group.number]) >= group.least
        if group.is_always and group.before >= 0:
            other = re.search(found.with_sign(group), value)
            assert other is not None
            assert other[group.number][1:] == match[group.number]
            assert other.span() == match.span()


@given(st.randoms(use_true_random=False), st.text(alphabet="ab()|*+?[]{}1,^$\\.=:-&", max_size=3))
def test_a_pattern_that_is_known_is_right(chance: random.Random, more: str) -> None:
    """Signs somewhere in a pattern make another one of it, or none."""
    pattern = a_pattern(chance)
    at = chance.randrange(len(pattern) + 1)
    text = pattern[:at] + more + pattern[at:]
    found = read(text)
    if found is not None and "||" not in text:  # Python warns of two bars in a class
        assert re.compile(text).groups == len(found.groups) - 1
