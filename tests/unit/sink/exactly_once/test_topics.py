"""Target topics that are deleted, or created again, around a commit; over a cluster in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from uuid import uuid4

import pytest

from penstock.client.net.error_codes import UNKNOWN_TOPIC_OR_PARTITION
from penstock.errors import TargetTopicError, TransactionsInDoubtError
from penstock.sink.exactly_once import _target_topics as committer_topics
from penstock.sink.exactly_once._probes import Step
from penstock.sink.exactly_once.committable import TargetTopic
from penstock.sink.exactly_once.decision import DecisionStatus
from penstock.testing.fake.control import Action, Refuse, SeenRequest
from tests.deaths import Death, die_at
from tests.unit.fake_driver import QUERY, driver, expected, resolve, run_task, run_tasks
from tests.unit.sink_cluster import TARGET, SinkCluster


@pytest.fixture(autouse=True)
def _no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer_topics, "_GRACE_SECONDS", 0.0)


def delete_target(cluster: SinkCluster) -> None:
    cluster.kafka.delete_topic(TARGET.topic)


GONE = pytest.mark.parametrize(
    ("go", "words"),
    [
        (
            SinkCluster.recreate_target,
            r"topic 'target' was deleted and created again \(id [-0-9a-f]+, now [-0-9a-f]+\)",
        ),
        (delete_target, r"topic 'target' was deleted \(id [-0-9a-f]+\)"),
    ],
    ids=["created again", "deleted"],
)


@GONE
def test_topic_that_goes_while_it_is_written_into_fails_the_batch_whole(
    go: Callable[[SinkCluster], None], words: str
) -> None:
    cluster = SinkCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    go(cluster)
    with pytest.raises(TargetTopicError, match=rf"While batch 0 .*{words}.*Nothing is decided.*Restart"):
        driver(cluster).commit(reports)
    driver(cluster).abort(reports)
    assert not cluster.open_ids()
    cluster.restore_target()
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 0))
    assert Counter(cluster.committed) == expected(range(1))


def test_topic_that_goes_between_two_tasks_fails_the_batch() -> None:
    cluster = SinkCluster()
    mandate = driver(cluster).recover()
    reports = [run_task(cluster, mandate, 0, 0)]
    cluster.recreate_target()
    reports.append(run_task(cluster, mandate, 0, 1))
    with pytest.raises(TargetTopicError, match="created again"):
        driver(cluster).commit(reports)


@GONE
@pytest.mark.parametrize("step", [Step.DECIDED, Step.FINISHED, Step.MARKED])
@pytest.mark.parametrize("is_written_again", [True, False])
def test_topic_that_goes_after_the_decision_stops_the_replay(
    step: Step, go: Callable[[SinkCluster], None], words: str, is_written_again: bool
) -> None:
    cluster = SinkCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    die_at(step)
    with pytest.raises(Death):
        driver(cluster).commit(reports)
    go(cluster)
    for _ in range(2):
        replayed = run_tasks(cluster, driver(cluster).recover(), 0)
        with pytest.raises(
            TransactionsInDoubtError, match=rf"Batch 0 .* written before .*{words}.*with the topic"
        ):
            driver(cluster).commit(replayed)
        driver(cluster).abort(replayed)
    resolve(cluster, is_taken=not is_written_again)
    cluster.restore_target()
    for batch_id in (0, 0, 1):
        driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), batch_id))
    assert Counter(cluster.committed) == expected(range(0 if is_written_again else 1, 2))


def test_replay_of_a_lost_part_notices_that_the_other_part_is_gone() -> None:
    cluster = SinkCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    die_at(Step.DECIDED)
    with pytest.raises(Death):
        driver(cluster).commit(reports)
    cluster.time_out("app-1-0")
    assert driver(cluster).recover().known[QUERY].status is DecisionStatus.LOST
    cluster.recreate_target()
    replayed = run_tasks(cluster, driver(cluster).recover(), 0)
    with pytest.raises(TransactionsInDoubtError, match=r"written in part .* created again"):
        driver(cluster).commit(replayed)
    driver(cluster).abort(replayed)
    assert cluster.committed == []
    resolve(cluster, is_taken=False)
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 0))
    assert Counter(cluster.committed) == expected(range(1))


def test_batch_write_into_a_topic_that_is_gone_is_told_of_once() -> None:
    cluster = SinkCluster()
    report = run_task(cluster, driver(cluster).recover(), 0, 0, query_id="batch:1")
    die_at(Step.DECIDED)
    with pytest.raises(Death):
        driver(cluster).commit([report])
    cluster.recreate_target()
    with pytest.raises(TargetTopicError, match=r"earlier batch write 1 .*created again.*only once"):
        driver(cluster).recover()
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 0))
    assert Counter(cluster.committed) == expected(range(1))


def test_brokers_without_ids_are_not_asked() -> None:
    cluster = SinkCluster(max_versions={"Metadata": 9, "Fetch": 12, "Produce": 12})
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    assert cluster.target().topic_id is None
    cluster.client.sent.clear()
    driver(cluster).commit(reports)
    assert not cluster.metadata_count(TARGET.topic)
    # One that gives no ids now, an older one in an upgrade, says nothing against the topic either.
    reports = run_tasks(cluster, driver(cluster).recover(), 1)
    named = [replace(each, topics=(TargetTopic("target", "some"),)) for each in reports]
    driver(cluster).commit(named)
    assert Counter(cluster.committed) == expected(range(2))


def test_commit_asks_for_topics_once_and_recovery_not_at_all() -> None:
    cluster = SinkCluster()
    recovering, committing = driver(cluster), driver(cluster)
    for batch_id in range(2):
        mandate = recovering.recover()
        assert not cluster.metadata_count(TARGET.topic)
        reports = run_tasks(cluster, mandate, batch_id)
        cluster.client.sent.clear()
        committing.commit(reports)
        assert cluster.metadata_count(TARGET.topic) == 1
        cluster.client.sent.clear()


def test_broker_that_knows_of_a_new_topic_late_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer_topics, "_GRACE_SECONDS", 30.0)
    monkeypatch.setattr(committer_topics, "_PAUSE_SECONDS", 0.0)
    cluster = SinkCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    topic = cluster.kafka._state.topics[TARGET.topic]
    ids = [topic.topic_id, uuid4()]

    def late(seen: SeenRequest) -> Action | None:
        """The broker knows of no topic, then of the older one of the name, then of this one."""
        if TARGET.topic not in [each.name for each in seen.body.topics or ()] or not ids:
            return None
        topic.topic_id = ids.pop()
        return Refuse(UNKNOWN_TOPIC_OR_PARTITION) if len(ids) == 1 else None

    with cluster.kafka.control("Metadata", late, times=None):
        driver(cluster).commit(reports)
    assert Counter(cluster.committed) == expected(range(1))
    assert not ids
