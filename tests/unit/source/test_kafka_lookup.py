"""The time that planning waits for topic partitions without an answer; tests/kafka uses real ones."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.client.cluster import log_offsets as admin
from penstock.client.cluster.results import Results
from penstock.client.net.connection import KafkaConnections
from penstock.errors import RequestTimeoutError
from penstock.options.config import IsolationLevel
from penstock.source._lookup import Wait
from penstock.source.kafka_lookup import (
    KNOWN_STRAGGLERS_TIMEOUT_MS,
    STRAGGLERS_TIMEOUT_MS,
    KafkaOffsetLookup,
)
from penstock.types import LogEnd, TopicPartition
from tests.unit.planning import tp

API_TIMEOUT_MS = 60_000


class Cluster:
    """Notes which topic partitions are asked for how long; time does not pass."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.silent: set[TopicPartition] = set()
        self.asked: list[tuple[set[TopicPartition], int]] = []
        monkeypatch.setattr(admin, "list_offsets_each", self.list_offsets_each)
        settings = SimpleNamespace(default_api_timeout_ms=API_TIMEOUT_MS)
        self.admin = KafkaOffsetLookup(cast(KafkaConnections, SimpleNamespace(settings=settings)))

    def list_offsets_each(
        self, _: Any, wanted: Mapping[TopicPartition, int], level: Any, *, timeout_ms: int
    ) -> Results[TopicPartition, int]:
        self.asked.append((set(wanted), timeout_ms))
        errors = {each: RequestTimeoutError(f"{each}") for each in wanted if each in self.silent}
        return Results({each: 7 for each in wanted if each not in self.silent}, dict(errors))

    def look(self, *wanted: TopicPartition, wait: Wait = Wait.FOR_ONE) -> Results[TopicPartition, int]:
        self.asked.clear()
        level = IsolationLevel.READ_UNCOMMITTED
        return self.admin.list_offsets(wanted, LogEnd.LATEST, level, wait=wait)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


def test_a_topic_partition_that_does_not_answer_delays_the_others_once(cluster: Cluster) -> None:
    cluster.silent = {tp(1)}
    assert cluster.look(tp(0), tp(1)).errors.keys() == {tp(1)}
    assert cluster.asked == [({tp(0), tp(1)}, STRAGGLERS_TIMEOUT_MS)]
    assert cluster.look(tp(0), tp(1)).values == {tp(0): 7}
    assert cluster.asked == [({tp(0)}, STRAGGLERS_TIMEOUT_MS), ({tp(1)}, KNOWN_STRAGGLERS_TIMEOUT_MS)]
    cluster.silent.clear()
    assert cluster.look(tp(0), tp(1)).values == {tp(0): 7, tp(1): 7}
    cluster.look(tp(0), tp(1))
    assert cluster.asked == [({tp(0), tp(1)}, STRAGGLERS_TIMEOUT_MS)]


def test_a_slow_topic_partition_gets_the_full_time_now_and_then(cluster: Cluster) -> None:
    cluster.silent = {tp(1)}
    waits_ms = []
    for _ in range(12):
        cluster.look(tp(0), tp(1))
        waits_ms.append(cluster.asked[-1][1])
    assert waits_ms.count(STRAGGLERS_TIMEOUT_MS) == 3


def test_without_any_answer_the_full_time_is_waited_if_one_is_needed(cluster: Cluster) -> None:
    cluster.silent = {tp(0), tp(1)}
    assert cluster.look(tp(0), tp(1)).errors.keys() == {tp(0), tp(1)}
    assert [timeout_ms > 50_000 for _, timeout_ms in cluster.asked] == [False, True]
    assert cluster.look(tp(0), tp(1), wait=Wait.FOR_NONE).errors.keys() == {tp(0), tp(1)}
    assert [timeout_ms for _, timeout_ms in cluster.asked] == [KNOWN_STRAGGLERS_TIMEOUT_MS]


def test_each_gets_the_full_time_if_all_have_to_answer(cluster: Cluster) -> None:
    cluster.silent = {tp(1)}
    for _ in range(2):
        cluster.look(tp(0), tp(1), wait=Wait.FOR_ALL)
        assert cluster.asked == [({tp(0), tp(1)}, API_TIMEOUT_MS)]
