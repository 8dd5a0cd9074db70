"""Leaders of topic partitions: looked up once, looked up again when the answer doubts them."""

from __future__ import annotations

from typing import cast

import pytest

from penstock.client.cluster.log_offsets import list_offsets, list_offsets_each
from penstock.client.net.connection import KafkaConnections
from penstock.errors import BrokerUnavailableError, UnknownTopicOrPartitionError
from penstock.types import LogEnd, TopicPartition
from tests.unit.fake_cluster import FakeCluster

HERE, MISSING = TopicPartition("t", 0), TopicPartition("t", 9)
LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC = 5, 3


def connected(cluster: FakeCluster) -> KafkaConnections:
    return cast("KafkaConnections", cluster)


def test_leaders_are_looked_up_once() -> None:
    cluster = FakeCluster(log_end_offset=42)
    for _ in range(3):
        assert list_offsets(connected(cluster), {HERE: LogEnd.LATEST}) == {HERE: 42}
    assert cluster.metadata_count == 1


def test_one_that_does_not_exist_is_looked_up_again_and_does_not_stop_the_others() -> None:
    cluster = FakeCluster(log_end_offset=42)
    wanted = {HERE: LogEnd.LATEST, MISSING: LogEnd.LATEST}
    answers = list_offsets_each(connected(cluster), wanted, timeout_ms=60)
    assert answers.values == {HERE: 42}
    assert isinstance(answers.errors[MISSING], UnknownTopicOrPartitionError)
    assert "no partition 9: it has 1" in str(answers.errors[MISSING])
    assert cluster.metadata_count > 2


@pytest.mark.parametrize(
    ("topic_error", "kind"),
    [(UNKNOWN_TOPIC, UnknownTopicOrPartitionError), (LEADER_NOT_AVAILABLE, Exception)],
)
def test_what_the_cluster_says_of_a_topic_is_the_error(topic_error: int, kind: type[Exception]) -> None:
    cluster = FakeCluster(topic_error=topic_error)
    with pytest.raises(kind, match="'t'"):
        list_offsets(connected(cluster), {HERE: LogEnd.LATEST}, timeout_ms=60)
    assert cluster.metadata_count > 2


def test_no_answer_of_the_cluster_does_not_hide_why_it_was_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = FakeCluster()
    first = cluster.request

    def request(*args: object, **kwargs: object) -> object:
        if cluster.metadata_count:
            raise BrokerUnavailableError("no broker answers")
        return first(*args, **kwargs)  # type: ignore[arg-type]  # passed on

    monkeypatch.setattr(cluster, "request", request)
    with pytest.raises(UnknownTopicOrPartitionError, match="no partition 9"):
        list_offsets(connected(cluster), {MISSING: LogEnd.LATEST}, timeout_ms=5_000)
