"""Leaders of topic partitions: looked up once, looked up again when the answer doubts them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.client.cluster.log_offsets import list_offsets, list_offsets_each
from penstock.client.cluster.metadata import cluster_view
from penstock.client.settings import ConnectionSettings
from penstock.errors import BrokerUnavailableError, PenstockError, UnknownTopicOrPartitionError
from penstock.testing import Close, FakeKafka
from penstock.testing.fake.control import Action, SeenRequest
from penstock.types import LogEnd, TopicPartition
from tests.unit.in_process import InProcess

HERE, MISSING = TopicPartition("t", 0), TopicPartition("t", 9)


@pytest.fixture
def kafka() -> Iterator[FakeKafka]:
    """A cluster with the topic `t`, whose log ends at 42."""
    with FakeKafka() as cluster:
        cluster.create_topic("t")
        with cluster.log("t") as log:
            log.leave_gap(42)
        yield cluster


def test_leaders_are_looked_up_once(kafka: FakeKafka) -> None:
    client = InProcess(kafka)
    for _ in range(3):
        assert list_offsets(client.connections, {HERE: LogEnd.LATEST}) == {HERE: 42}
    assert client.count("Metadata") == 1


def test_one_that_does_not_exist_is_looked_up_again_and_does_not_stop_the_others(kafka: FakeKafka) -> None:
    client = InProcess(kafka)
    wanted = {HERE: LogEnd.LATEST, MISSING: LogEnd.LATEST}
    answers = list_offsets_each(client.connections, wanted, timeout_ms=60)
    assert answers.values == {HERE: 42}
    assert isinstance(answers.errors[MISSING], UnknownTopicOrPartitionError)
    assert "no partition 9: it has 1" in str(answers.errors[MISSING])
    assert client.count("Metadata") > 2


@pytest.mark.parametrize(
    ("is_deleted", "kind"), [(True, UnknownTopicOrPartitionError), (False, PenstockError)]
)
def test_what_the_cluster_says_of_a_topic_is_the_error(
    kafka: FakeKafka, is_deleted: bool, kind: type[PenstockError]
) -> None:
    client = InProcess(kafka)
    if is_deleted:
        kafka.delete_topic("t")
    else:
        kafka.move_leader("t", 0, -1)
    with pytest.raises(kind, match="t"):
        list_offsets(client.connections, {HERE: LogEnd.LATEST}, timeout_ms=500)
    assert client.count("Metadata") > 2


def test_a_leader_that_is_elected_after_one_question_is_found_by_the_next_at_once(kafka: FakeKafka) -> None:
    """The time of a question may be shorter than the pause before its second attempt."""
    client = InProcess(kafka, ConnectionSettings(("fake:1",), "fake", retry_backoff_ms=10_000))
    view = cluster_view(client.connections)
    for ask in (
        lambda: list_offsets(client.connections, {HERE: LogEnd.LATEST}, timeout_ms=20),
        lambda: view.leaders_of([HERE], timeout_ms=20),
    ):
        kafka.move_leader("t", 0, -1)
        view.invalidate("t")
        with pytest.raises(BrokerUnavailableError, match="no leader"):
            ask()
        kafka.move_leader("t", 0, 1)
        assert HERE in ask()


def test_no_answer_of_the_cluster_does_not_hide_why_it_was_asked_again(kafka: FakeKafka) -> None:
    client = InProcess(kafka)

    def only_the_first(_: SeenRequest) -> Action | None:
        return Close() if client.count("Metadata") else None

    kafka.control("Metadata", only_the_first, times=None)
    with pytest.raises(UnknownTopicOrPartitionError, match="no partition 9"):
        list_offsets(client.connections, {MISSING: LogEnd.LATEST}, timeout_ms=5_000)
