from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import CheckpointError
from penstock.source.checkpoint_offset import Markers, SourceOffset
from penstock.types import TopicPartition
from tests.unit.planning import tp

TOPICS = st.text("abcXYZ019._-", min_size=1, max_size=12)
POSITIONS = st.dictionaries(
    st.builds(TopicPartition, TOPICS, st.integers(0, 2000)), st.integers(0, 2**63 - 1), max_size=12
)
MARKERS = st.builds(
    Markers,
    whole_start=st.none() | POSITIONS,
    partial_start=POSITIONS,
    stops=st.none() | POSITIONS,
    ended_runs=st.integers(0, 10**6),
    topic_ids=st.dictionaries(TOPICS, st.uuids().map(str), max_size=4),
    waiting=st.frozensets(st.builds(TopicPartition, TOPICS, st.integers(0, 2000)), max_size=4),
    left=POSITIONS,
)
OFFSETS = st.builds(SourceOffset, POSITIONS, MARKERS)


def as_spark_reads(text: str) -> dict[tuple[str, int], int]:
    """Spark's JsonUtils.partitionOffsets: Map[String, Map[Int, Long]], flattened."""
    return {
        (topic, int(partition)): offset
        for topic, of_topic in json.loads(text).items()
        for partition, offset in of_topic.items()
    }


@given(OFFSETS)
def test_an_offset_comes_back_as_it_was(offset: SourceOffset) -> None:
    assert SourceOffset.from_json(json.loads(json.dumps(offset.to_json()))) == offset


@given(OFFSETS)
def test_spark_reads_the_positions_and_nothing_of_the_markers(offset: SourceOffset) -> None:
    seen = as_spark_reads(json.dumps(offset.to_json()))
    assert seen == {(t, p): position for (t, p), position in offset.positions.items()}


@given(POSITIONS, st.randoms(use_true_random=False))
def test_equal_positions_give_equal_text_whatever_their_order(
    positions: dict[TopicPartition, int], random: object
) -> None:
    shuffled = list(positions.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # a random.Random, which hypothesis does not say
    one, other = (
        SourceOffset(positions, Markers(positions)),
        SourceOffset(dict(shuffled), Markers(dict(shuffled))),
    )
    assert json.dumps(one.to_json()) == json.dumps(other.to_json())


def test_partitions_are_sorted_by_number() -> None:
    offset = SourceOffset({tp(10): 1, tp(9): 2, tp(0, "a"): 3})
    assert json.dumps(offset.to_json()) == '{"a": {"0": 3}, "t": {"9": 2, "10": 1}}'


def test_the_markers_are_as_documented() -> None:
    offset = SourceOffset({tp(0): 7}, Markers(whole_start={tp(0): 5}))
    assert json.dumps(offset.to_json()) == '{"$penstock/1 start {\\"t\\":{\\"0\\":5}}": {}, "t": {"0": 7}}'
    offset = SourceOffset({tp(0): 7, tp(1): 4}, Markers(partial_start={tp(1): 2}))
    assert list(offset.to_json()) == ['$penstock/1 from {"t":{"1":2}}', "t"]
    offset = SourceOffset({tp(0): 7}, Markers(topic_ids={"t": "an-id"}, waiting=frozenset({tp(1)})))
    assert list(offset.to_json()) == [
        '$penstock/1 topics {"t":"an-id"}',
        '$penstock/1 wait {"t":{"1":0}}',
        "t",
    ]


def test_what_sparks_own_source_writes_is_read() -> None:
    assert SourceOffset.from_json(json.loads('{"t":{"1":3,"0":42},"u":{"0":0}}')) == SourceOffset(
        {tp(0): 42, tp(1): 3, tp(0, "u"): 0}
    )


@pytest.mark.parametrize(
    "raw",
    [
        None,
        [],
        {"t": 5},
        {"t": {"x": 5}},
        {"t": {"-1": 5}},
        {"t": {"0": -1}},
        {"t": {"0": 1.0}},
        {"t": {"0": True}},
        {"t": {"0": 5, "00": 6}},
        {"$penstock/2 start {}": {}},
        {"$penstock/1 begin {}": {}},
        {"$penstock/1 start {": {}},
        {'$penstock/1 start {"t":{"0":-2}}': {}},
        {"$penstock/1 start {}": {"0": 1}},
        {"$other": {}},
    ],
)
def test_what_cannot_be_understood_is_an_error_and_not_a_guess(raw: object) -> None:
    with pytest.raises(CheckpointError):
        SourceOffset.from_json(raw)


@given(OFFSETS)
def test_the_filter_of_the_docs_leaves_the_topics(offset: SourceOffset) -> None:
    page = (Path(__file__).parents[3] / "docs" / "from-spark.md").read_text()
    [code] = [
        code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "def topic_offsets" in code
    ]
    scope: dict[str, Any] = {}
    exec(code, scope)  # noqa: S102 - running the example is the point
    found = scope["topic_offsets"](json.dumps(offset.to_json()))
    assert {
        key: value for key, value in offset.to_json().items() if not key.startswith("$penstock/")
    } == found
    assert {each.topic for each in offset.positions} <= found.keys()
