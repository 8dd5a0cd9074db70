"""Topics that options name for writing are found before any task."""

from __future__ import annotations

from collections import Counter

import pytest

from penstock.errors import UnknownTopicOrPartitionError
from penstock.options.parse import parse_write
from penstock.spark import _target_topics as target_topics
from penstock.spark._target_topics import check_target_topic
from tests.fix_broker import MakeTopic


@pytest.fixture(autouse=True)
def nothing_found_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_topics, "_found", set())


def test_a_missing_topic_is_named_with_its_option(bootstrap: str, topic_name: str) -> None:
    config = parse_write({"properties.bootstrap.servers": bootstrap, "topic": topic_name}).sink
    with pytest.raises(
        UnknownTopicOrPartitionError,
        match=f"'{topic_name}' of option 'scan.dead-letter.topic' does not exist",
    ):
        check_target_topic(config, "scan.dead-letter.topic")


def test_a_misspelt_topic_is_named_with_the_one_that_is_meant(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(suffix="-orders")
    config = parse_write({"properties.bootstrap.servers": bootstrap, "topic": f"{topic[:-2]}sr"}).sink
    with pytest.raises(UnknownTopicOrPartitionError) as error:
        check_target_topic(config, "topic")
    assert f"may not see it. Did you mean '{topic}'? Nothing was read or written." in error.value.message


def test_it_is_asked_for_once_however_many_batches(
    bootstrap: str, make_topic: MakeTopic, requests: Counter[str]
) -> None:
    config = parse_write({"properties.bootstrap.servers": bootstrap, "topic": make_topic()}).sink
    for _ in range(3):
        check_target_topic(config, "topic")
    assert requests == {"MetadataRequest": 1}


def test_rows_that_name_their_topics_need_no_look(bootstrap: str, requests: Counter[str]) -> None:
    check_target_topic(parse_write({"properties.bootstrap.servers": bootstrap}).sink, "topic")
    assert not requests


def test_a_broker_that_is_away_is_left_to_the_tasks() -> None:
    away = {
        "properties.bootstrap.servers": "127.0.0.1:1",
        "properties.default.api.timeout.ms": "500",
        "properties.request.timeout.ms": "400",
        "topic": "t",
    }
    check_target_topic(parse_write(away).sink, "topic")
    assert not target_topics._found
