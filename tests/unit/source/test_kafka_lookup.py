"""The time that planning waits for topic partitions without an answer; tests/kafka uses real ones."""

from __future__ import annotations

import time

import pytest

from penstock.client.cluster.results import Results
from penstock.options.config import IsolationLevel
from penstock.source._lookup import Wait
from penstock.source.kafka_lookup import KNOWN_STRAGGLERS_TIMEOUT_MS, STRAGGLERS_TIMEOUT_MS
from penstock.types import LogEnd, TopicPartition
from tests.unit.planning import tp
from tests.unit.source_cluster import Log, SourceCluster

pytestmark = pytest.mark.usefixtures("virtual_time")


class Planning:
    """Looks up the ends of the logs of partition 0 and 1, and takes the time."""

    def __init__(self) -> None:
        self.cluster = SourceCluster({tp(0): Log(0, 7), tp(1): Log(0, 7)})
        self.lookup = self.cluster.lookup
        self.api_timeout_ms = self.cluster.client.settings.default_api_timeout_ms
        self.waited_ms = 0

    def look(self, wait: Wait = Wait.FOR_ONE) -> Results[TopicPartition, int]:
        started_s = time.monotonic()
        level = IsolationLevel.READ_UNCOMMITTED
        found = self.lookup.list_offsets([tp(0), tp(1)], LogEnd.LATEST, level, wait=wait)
        # In tens, because the look-up counts whole milliseconds.
        self.waited_ms = round((time.monotonic() - started_s) * 100) * 10
        return found


@pytest.fixture
def planning() -> Planning:
    return Planning()


def test_a_topic_partition_that_does_not_answer_delays_the_others_once(planning: Planning) -> None:
    planning.cluster.lose_leader(tp(1))
    found = planning.look()
    assert (found.values, set(found.errors)) == ({tp(0): 7}, {tp(1)})
    assert planning.waited_ms == STRAGGLERS_TIMEOUT_MS
    found = planning.look()
    assert (found.values, set(found.errors)) == ({tp(0): 7}, {tp(1)})
    assert planning.waited_ms == KNOWN_STRAGGLERS_TIMEOUT_MS
    planning.cluster.find_leaders()
    assert planning.look().values == {tp(0): 7, tp(1): 7}
    assert planning.waited_ms == 0
    planning.cluster.lose_leader(tp(1))
    planning.look()
    assert planning.waited_ms == STRAGGLERS_TIMEOUT_MS, "it has answered meanwhile"


def test_a_known_straggler_does_not_delay_the_request_for_the_others(planning: Planning) -> None:
    planning.cluster.lose_leader(tp(1))
    planning.look()
    asked = planning.cluster.count("ListOffsets")
    planning.look()
    [request] = [seen.body for seen in planning.cluster.client.seen if seen.api == "ListOffsets"][asked:]
    [topic] = request.topics
    assert [each.partition_index for each in topic.partitions] == [0]


def test_a_slow_topic_partition_gets_the_full_time_now_and_then(planning: Planning) -> None:
    planning.cluster.lose_leader(tp(1))
    waits_ms = []
    for _ in range(12):
        planning.look()
        waits_ms.append(planning.waited_ms)
    assert waits_ms.count(STRAGGLERS_TIMEOUT_MS) == 3
    assert waits_ms.count(KNOWN_STRAGGLERS_TIMEOUT_MS) == 9


def test_without_any_answer_the_full_time_is_waited_if_one_is_needed(planning: Planning) -> None:
    for topic_partition in (tp(0), tp(1)):
        planning.cluster.lose_leader(topic_partition)
    assert planning.look().errors.keys() == {tp(0), tp(1)}
    assert planning.waited_ms == planning.api_timeout_ms
    assert planning.look(Wait.FOR_NONE).errors.keys() == {tp(0), tp(1)}
    assert planning.waited_ms == KNOWN_STRAGGLERS_TIMEOUT_MS


def test_each_gets_the_full_time_if_all_have_to_answer(planning: Planning) -> None:
    planning.cluster.lose_leader(tp(1))
    for _ in range(2):
        assert planning.look(Wait.FOR_ALL).values == {tp(0): 7}
        assert planning.waited_ms == planning.api_timeout_ms
