"""`scan.filter`: what is understood, and that all else is refused."""

from __future__ import annotations

from contextlib import suppress

import hypothesis.strategies as st
import pytest
from hypothesis import given

from penstock.errors import OptionError, UnsupportedOptionError
from penstock.options.parse import parse_read
from penstock.options.record_filter import Among, Column, RecordFilter, Within, parse_record_filter

PARTITION, OFFSET, TIMESTAMP, TOPIC = Column.PARTITION, Column.OFFSET, Column.TIMESTAMP, Column.TOPIC


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("partition = 1", (Among(PARTITION, frozenset([1])),)),
        ("partition==1", (Among(PARTITION, frozenset([1])),)),
        ("PARTITION <> 1", (Among(PARTITION, frozenset([1]), is_negated=True),)),
        ("offset != 0", (Among(OFFSET, frozenset([0]), is_negated=True),)),
        ("partition in(1 ,2)", (Among(PARTITION, frozenset([1, 2])),)),
        ("topic NOT IN ('a', 'it''s')", (Among(TOPIC, frozenset(["a", "it's"]), is_negated=True),)),
        ("offset < 5", (Within(OFFSET, high=5),)),
        ("offset <= 5", (Within(OFFSET, high=6),)),
        ("offset > 5", (Within(OFFSET, low=6),)),
        ("offset >= 5", (Within(OFFSET, low=5),)),
        (
            "offset BETWEEN 3 AND 5 and partition = 0",
            (Within(OFFSET, 3, 6), Among(PARTITION, frozenset([0]))),
        ),
        ("timestamp >= 1700000000000", (Within(TIMESTAMP, low=1_700_000_000_000),)),
        ("timestamp < TIMESTAMP '1970-01-01T00:00:01Z'", (Within(TIMESTAMP, high=1_000),)),
        ("timestamp = '1970-01-01T01:00:00.25+01:00'", (Among(TIMESTAMP, frozenset([250])),)),
        ("timestamp > '1970-01-01 00:00:00.001000000Z'", (Within(TIMESTAMP, low=2),)),
    ],
)
def test_conditions(text: str, expected: RecordFilter) -> None:
    assert parse_record_filter(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "before character 1: expected the name of a column"),
        ("value = 1", "before character 6: expected topic, partition, offset or timestamp, got 'value'"),
        ("partition = 1 OR partition = 2", "before character 17: expected AND, got 'OR'"),
        ("partition = 1 partition = 2", "expected AND, got 'partition'"),
        ("partition = 'a'", "expected a number for partition"),
        ("partition = -1", "expected a number from 0"),
        ("partition LIKE 1", "expected a comparison, IN, NOT IN or BETWEEN, got 'LIKE'"),
        ("topic = a", "expected a value for topic"),
        ("topic = 1", "expected a text in single quotes"),
        ("topic > 'a'", "a topic can be compared with ="),
        ("offset IN (1, 2", "expected a comma or a closing bracket"),
        ("offset IN ()", "expected a value for offset"),
        ("offset IN (1 2)", "expected a comma or a closing bracket"),
        ("offset = TIMESTAMP '1970-01-01T00:00:01Z'", "expected a value for offset"),
        ("timestamp > '-10 min'", "no time before now"),
        ("timestamp > '2026-11-22T18:00:00'", "ISO 8601 with a zone"),
        ("timestamp > '2026-11-22T18:00:00.0001Z'", "whole milliseconds"),
        ("timestamp > current_timestamp()", "expected a value for timestamp"),
        ("offset > 1;", "this is not understood"),
        ("offset >", "expected a value for offset"),
        ("NOT offset = 1", "expected topic"),
    ],
)
def test_what_is_refused_with_its_position(text: str, said: str) -> None:
    with pytest.raises(OptionError, match=r"Option 'scan\.filter' cannot be") as raised:
        parse_read({**TOPIC_OPTIONS, "scan.filter": text}, streaming=False)
    assert said in str(raised.value)


TOPIC_OPTIONS = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}


def test_both_dialects_have_it_in_batch_reads_only() -> None:
    flink = {"properties.bootstrap.servers": "h:1", "topic": "t"}
    for options in (TOPIC_OPTIONS, flink):
        given = {**options, "scan.filter": "offset < 5"}
        assert parse_read(given, streaming=False).source.record_filter == (Within(OFFSET, high=5),)
        assert parse_read(options, streaming=False).source.record_filter == ()
        with pytest.raises(UnsupportedOptionError, match="for batch reads"):
            parse_read(given, streaming=True)


@given(st.text("topicparinfse=<>()'0123,- ANDBETWI", max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with suppress(ValueError):
        assert parse_record_filter(text)
