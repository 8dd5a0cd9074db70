"""Whose a transactional id is: never two prefixes'."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import OptionError
from penstock.sink.exactly_once.names import PREFIX_MAX_CHARS, TransactionNames

# Small alphabets and ready-made pieces, so that prefixes look like each other's ids.
PIECES = st.sampled_from(
    ["app", "a", "-", "0", "1", "2", "10", "committer", "decisions", ".", "_", "-committer"]
)
PREFIXES = st.lists(PIECES, min_size=1, max_size=8).map("".join)
NUMBERS = st.integers(0, 2**31 - 1) | st.integers(0, 12)


@given(owner=PREFIXES, other=PREFIXES, spark_partition_id=NUMBERS, attempt=NUMBERS)
def test_no_id_is_claimed_by_two_prefixes(
    owner: str, other: str, spark_partition_id: int, attempt: int
) -> None:
    names, others = TransactionNames(owner), TransactionNames(other)
    data_id = names.data_id(spark_partition_id, attempt)
    assert names.parse(data_id) == (spark_partition_id, attempt)
    for each in (data_id, names.committer_id):
        assert names.claims(each)
        assert others.claims(each) == (owner == other)


@given(prefix=PREFIXES, text=st.lists(PIECES, max_size=10).map("".join))
def test_what_is_claimed_could_have_been_made(prefix: str, text: str) -> None:
    names = TransactionNames(prefix)
    parsed = names.parse(text)
    if parsed is not None:
        assert names.data_id(*parsed) == text
    assert names.claims(text) == (parsed is not None or text == names.committer_id)


@pytest.mark.parametrize(
    "foreign",
    [
        "app-2-0-1",
        "app-2",
        "app-1",
        "app-01-0",
        "app-1-00",
        "app-1--1",
        "app-1-x",
        "xapp-1-0",
        "app-1-0-",
        "app",
    ],
)
def test_similar_names_are_not_claimed(foreign: str) -> None:
    assert not TransactionNames("app").claims(foreign)


def test_prefix_with_dashes_and_digits_is_parsed() -> None:
    assert TransactionNames("app-2").parse("app-2-0-1") == (0, 1)
    assert TransactionNames("7-7").parse("7-7-7-7") == (7, 7)


@pytest.mark.parametrize("prefix", ["", "a b", "ü", "a/b", "a\n", "x" * (PREFIX_MAX_CHARS + 1)])
def test_prefix_rules(prefix: str) -> None:
    with pytest.raises(OptionError, match=r"Expected 1 to 200 .* sink\.transactional-id-prefix, got"):
        TransactionNames(prefix)


def test_longest_prefix_still_makes_a_topic_name() -> None:
    names = TransactionNames("x" * PREFIX_MAX_CHARS)
    assert len(names.default_log_topic) <= 249
