"""Durations, lists, offsets and topic partitions: what is written can be read, and nothing else can."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.options import offset_text as offsets
from penstock.options.values import check_topic_name, parse_boolean, parse_duration_ms, parse_integer
from penstock.types import TopicPartition

TOPICS = st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True).filter(lambda name: name not in (".", ".."))
TOPIC_PARTITIONS = st.builds(TopicPartition, TOPICS, st.integers(0, 2**31 - 1))
OFFSETS = st.dictionaries(TOPIC_PARTITIONS, st.integers(-2, 2**63 - 1), min_size=1).map(
    lambda found: tuple(sorted(found.items()))
)
SETS = st.sets(TOPIC_PARTITIONS, min_size=1).map(lambda found: tuple(sorted(found)))


def outcome(parse: Callable[[str], object], text: str) -> object:
    """What is parsed, or what the refusal says."""
    try:
        return parse(text)
    except ValueError as error:
        return str(error)


@given(OFFSETS)
def test_flinks_offsets_round_trip(given_offsets: offsets.Offsets) -> None:
    text = offsets.format_flink_offsets(given_offsets)
    assert offsets.parse_flink_offsets(text, None) == given_offsets


@given(OFFSETS)
def test_flinks_plain_offsets_mean_the_single_topic(given_offsets: offsets.Offsets) -> None:
    topic = given_offsets[0][0].topic
    of_topic = tuple(entry for entry in given_offsets if entry[0].topic == topic)
    text = ";".join(f"partition:{tp.partition},offset:{offset}" for tp, offset in of_topic)
    assert offsets.parse_flink_offsets(text, topic) == of_topic


@given(OFFSETS)
def test_sparks_offsets_round_trip(given_offsets: offsets.Offsets) -> None:
    tree: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in given_offsets:
        tree.setdefault(topic, {})[str(partition)] = offset
    text = json.dumps(tree)
    assert offsets.parse_spark_offsets(text) == given_offsets
    assert offsets.parse_spark_offsets(json.dumps(json.loads(text), indent=3)) == given_offsets


@given(SETS)
def test_sets_of_topic_partitions_round_trip(given_set: tuple[TopicPartition, ...]) -> None:
    assert offsets.parse_topic_partitions(offsets.format_topic_partitions(given_set)) == given_set
    tree: dict[str, list[int]] = {}
    for topic, partition in given_set:
        tree.setdefault(topic, []).append(partition)
    assert offsets.parse_spark_assign(json.dumps(tree)) == given_set


@given(st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    parsers = (
        lambda t: offsets.parse_flink_offsets(t, "topic"),
        offsets.parse_spark_offsets,
        offsets.parse_spark_assign,
        offsets.parse_topic_partitions,
        parse_duration_ms,
    )
    for parse in parsers:
        # A refusal says what is allowed.
        assert outcome(parse, text) not in (None, "")


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner)
                    | st.dictionaries(st.text(), inner)))  # fmt: skip
def test_any_json_is_parsed_or_refused(tree: object) -> None:
    for parse in (offsets.parse_spark_offsets, offsets.parse_spark_assign):
        assert outcome(parse, json.dumps(tree)) not in ((), "")


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [("0", 0), ("250", 250), ("5 min", 300_000), ("5min", 300_000), ("5 m", 300_000), ("10 s", 10_000),
     ("1 Hour", 3_600_000), ("2 d", 172_800_000), ("3 milliseconds", 3), ("2000 µs", 2), ("1000000 ns", 1),
     ("2000 \u03bcs", 2), (" 7 secs ", 7_000)],
)  # fmt: skip
def test_durations_as_flink_writes_them(text: str, duration_ms: int) -> None:
    assert parse_duration_ms(text) == duration_ms


@pytest.mark.parametrize(
    "text", ["", "min", "5 minutess", "-5 s", "1.5 s", "PT5M", "5 s 3 ms", "1 ns", "٣ s"]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="a duration such as '5 min'"):
        parse_duration_ms(text)


@given(st.integers(-(10**30), 10**30))
def test_integers_keep_to_their_bounds(value: int) -> None:
    if -5 <= value <= 5:
        assert parse_integer(f" {value} ", -5, 5) == value
    else:
        with pytest.raises(ValueError, match="a whole number, from -5 to 5"):
            parse_integer(str(value), -5, 5)


def test_a_number_of_absurd_length_is_refused_like_any_other() -> None:
    with pytest.raises(ValueError, match="a whole number, at least 0"):
        parse_integer("9" * 100_000, 0, 2**63 - 1)


@pytest.mark.parametrize("text", ["ture", "1", "on", "yes", "", "t"])
def test_a_slip_of_the_pen_is_no_boolean(text: str) -> None:
    with pytest.raises(ValueError, match="true or false"):
        parse_boolean(text)


@given(st.text())
def test_topic_names_are_kafkas(name: str) -> None:
    legal = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    if 0 < len(name) <= 249 and set(name) <= legal and name not in (".", ".."):
        assert check_topic_name(name) == name
    else:
        with pytest.raises(ValueError, match="topic names of letters"):
            check_topic_name(name)
