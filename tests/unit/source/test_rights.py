"""The rights of a run are checked once, and only a missing right is an error."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.client.net.connection import KafkaConnections
from penstock.errors import AuthorizationError, BrokerUnavailableError, PenstockError
from penstock.source import rights as room
from penstock.source.rights import ReadRights
from penstock.types import TopicPartition

A, A1, B = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


class Cluster:
    """Notes what is checked, and fails as told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.checked: list[object] = []
        self.topics_fail: PenstockError | None = None
        self.group_fails: PenstockError | None = None
        monkeypatch.setattr(room, "check_topics", self._topics)
        monkeypatch.setattr(room, "check_group", self._group)
        settings = SimpleNamespace(default_api_timeout_ms=60_000)
        self.connections = cast("KafkaConnections", SimpleNamespace(settings=settings))

    def _topics(self, _: Any, topics: set[str], *__: Any, timeout_ms: int, **___: Any) -> None:
        assert timeout_ms <= 10_000
        self.checked.append(sorted(topics))
        if self.topics_fail:
            raise self.topics_fail

    def _group(self, _: Any, group_id: str, *__: Any, timeout_ms: int) -> None:
        assert timeout_ms <= 3_000
        self.checked.append(group_id)
        if self.group_fails:
            raise self.group_fails


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


def test_each_topic_and_the_group_are_checked_once(cluster: Cluster) -> None:
    rights = ReadRights(cluster.connections, "g")
    for positions in ([A, A1], [A, A1], [A, B], [B]):
        rights.check(positions)
    assert [each for each in cluster.checked if each] == [["a"], "g", ["b"]]


def test_without_commits_the_group_is_left_alone(cluster: Cluster) -> None:
    ReadRights(cluster.connections).check([A])
    assert cluster.checked == [["a"]]


@pytest.mark.parametrize("part", ["topics_fail", "group_fails"])
def test_a_missing_right_is_an_error(cluster: Cluster, part: str) -> None:
    setattr(cluster, part, AuthorizationError("No."))
    with pytest.raises(AuthorizationError):
        ReadRights(cluster.connections, "g").check([A])


def test_a_cluster_that_does_not_answer_delays_the_query_once_and_stops_nothing(cluster: Cluster) -> None:
    rights = ReadRights(cluster.connections, "g")
    cluster.group_fails = BrokerUnavailableError("No coordinator.")
    rights.check([A])
    cluster.checked.clear()
    rights.check([A])
    assert [each for each in cluster.checked if each] == []
