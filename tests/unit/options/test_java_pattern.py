"""Topic patterns: what Java writes is read with Java's meaning, or refused where options are checked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import OptionError
from penstock.options.config import TopicPattern
from penstock.options.java_pattern import compile_pattern, parse_pattern
from penstock.options.parse import parse_read
from penstock.source._subscriber import is_subscribed
from penstock.types import TopicPartition


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("(?<env>prod|test)-orders", ("prod-orders", "test-orders"), ("dev-orders", "orders")),
        (r"(?<a>x|y)-\k<a>", ("x-x", "y-y"), ("x-y",)),
        (r"\(?<a>b", ("<a>b",), ("b",)),
        (r"[(?<a>]+", ("(?<a>",), ("b",)),
        (r"(?!__)[a-z_]+", ("orders",), ("__orders",)),
        (r"(?<!x)orders", ("orders",), ("xorders",)),
        (r"\\(?<a>b)?x", ("\\bx", "\\x"), ("x",)),
        (r"orders-\d+", ("orders-1",), ("orders-\u0661",)),
        (r"[^.]+\.v[12]", ("a.v1",), ("a.b.v1", "a.v3")),
        (r"[\]a]+", ("a",), ("b",)),
    ],
)
def test_what_java_and_python_share(pattern: str, matching: tuple[str, ...], others: tuple[str, ...]) -> None:
    compiled = compile_pattern(pattern)
    assert [name for name in matching if not compiled.fullmatch(name)] == []
    assert [name for name in others if compiled.fullmatch(name)] == []


@pytest.mark.parametrize(
    "pattern",
    ["[a-z&&[^x]]+", "[a-z&&b]", "[a[b]]", r"\p{Alpha}+", r"\PL", r"\Qa\E", r"[\p{L}]", r"\b{g}", r"\h",
     r"\R", "[[:alpha:]]", "[[", "[a--b]", "[a||b]", r"a\z", "[",
     "(", "(?u)a", "(?<1>a)", r"\k<b>", "a{99999999999999999999}"],
)  # fmt: skip
@pytest.mark.parametrize("key", ["subscribePattern", "topic-pattern"])
def test_what_they_do_not_share_is_refused_where_options_are_checked(pattern: str, key: str) -> None:
    prefix = "kafka." if key == "subscribePattern" else "properties."
    with pytest.raises(OptionError) as caught:
        parse_read({f"{prefix}bootstrap.servers": "b:1", key: pattern}, streaming=True)
    message = str(caught.value)
    assert message.startswith(f"Option '{key}' cannot be '{pattern}'. Allowed: a regular expression")
    assert message.endswith(
        "Write it with what Java and Python share: classes, groups, alternatives, repetition."
    )


@given(st.text(alphabet=r"ab[]()^&\<>?k:{}|*+-.1pQE!=", max_size=12), st.sampled_from(["a", "ab", "b-1"]))
def test_a_pattern_that_passes_the_check_can_be_used(pattern: str, topic: str) -> None:
    try:
        parse_pattern(pattern)
    except ValueError:
        return
    is_subscribed(TopicPattern(pattern), TopicPartition(topic, 0))
