"""A file of Spark's offset log is read as a whole, or it is an error."""

from __future__ import annotations

import pytest

from penstock.errors import CheckpointError
from penstock.observe.offset_log import kafka_offset, parse_planned
from penstock.types import TopicPartition

LINE = '{"orders":{"0":4}}'


def test_both_versions_have_the_same_parts() -> None:
    assert parse_planned(f"v1\n{{}}\n{LINE}\n-", "offsets/3") == ("v1", "{}", (("", LINE), ("", "-")))
    named = parse_planned(f"v2\n{{}}\nsource0:{LINE}\nsource1:-\n", "offsets/3")
    assert named == ("v2", "{}", (("source0", LINE), ("source1", "-")))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("v3\n{}\n{}", "v1 or v2 of Spark's offset log in offsets/3, got 'v3'"),
        ("", "got ''"),
        ("v1", "got none"),
        ("v1\n{}", "got none"),
        ("v2\n{}\nsource0:", "got none"),
    ],
)
def test_a_file_that_was_cut_off_or_is_newer_is_refused(text: str, why: str) -> None:
    with pytest.raises(CheckpointError, match=why):
        parse_planned(text, "offsets/3")


def test_a_position_that_is_not_of_kafka_is_none() -> None:
    found = kafka_offset(LINE)
    assert found is not None
    assert found.positions == {TopicPartition("orders", 0): 4}
    for other in ("-", "{}", "7", '{"logOffset":7}', "not json"):
        assert kafka_offset(other) is None
