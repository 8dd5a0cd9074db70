"""Target topics that are deleted, or created again, around a commit; over a cluster in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.errors import TargetTopicError, TransactionsInDoubtError
from penstock.sink.exactly_once import _target_topics as committer_topics
from penstock.sink.exactly_once._probes import Step
from penstock.sink.exactly_once.committable import TargetTopic
from penstock.sink.exactly_once.decision import DecisionStatus
from tests.deaths import Death, die_at
from tests.unit.fake_driver import QUERY, driver, expected, resolve, run_task, run_tasks
from tests.unit.fake_transactions import FakeCluster


@pytest.fixture(autouse=True)
def _no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer_topics, "_GRACE_SECONDS", 0.0)


def delete_target(cluster: FakeCluster) -> None:
    cluster.recreate_target()
    cluster.is_target_there = False


GONE = pytest.mark.parametrize(
    ("go", "words"),
    [
        (
            FakeCluster.recreate_target,
            r"topic 'target' was deleted and created again \(id first, now first'\)",
        ),
        (delete_target, r"topic 'target' was deleted \(id first\)"),
    ],
    ids=["created again", "deleted"],
)


@GONE
def test_topic_that_goes_while_it_is_written_into_fails_the_batch_whole(
    go: Callable[[FakeCluster], None], words: str
) -> None:
    cluster = FakeCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    go(cluster)
    with pytest.raises(TargetTopicError, match=rf"While batch 0 .*{words}.*Nothing is decided.*Restart"):
        driver(cluster).commit(reports)
    driver(cluster).abort(reports)
    assert not cluster.open_ids()
    cluster.is_target_there = True
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 0))
    assert Counter(cluster.committed) == expected(range(1))


def test_topic_that_goes_between_two_tasks_fails_the_batch() -> None:
    cluster = FakeCluster()
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
    step: Step, go: Callable[[FakeCluster], None], words: str, is_written_again: bool
) -> None:
    cluster = FakeCluster()
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
    cluster.is_target_there = True
    for batch_id in (0, 0, 1):
        driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), batch_id))
    assert Counter(cluster.committed) == expected(range(0 if is_written_again else 1, 2))


def test_replay_of_a_lost_part_notices_that_the_other_part_is_gone() -> None:
    cluster = FakeCluster()
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
    cluster = FakeCluster()
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
    cluster = FakeCluster()
    cluster.target_id = None
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    cluster.calls.clear()
    driver(cluster).commit(reports)
    assert "topic ids" not in cluster.calls
    # One that gives no ids now, an older one in an upgrade, says nothing against the topic either.
    reports = run_tasks(cluster, driver(cluster).recover(), 1)
    named = [replace(each, topics=(TargetTopic("target", "some"),)) for each in reports]
    driver(cluster).commit(named)
    assert Counter(cluster.committed) == expected(range(2))


def test_commit_asks_for_topics_once_and_recovery_not_at_all() -> None:
    cluster = FakeCluster()
    recovering, committing = driver(cluster), driver(cluster)
    for batch_id in range(2):
        reports = run_tasks(cluster, recovering.recover(), batch_id)
        assert "topic ids" not in cluster.calls
        committing.commit(reports)
        assert cluster.calls.count("topic ids") == 1
        cluster.calls.clear()


def test_broker_that_knows_of_a_new_topic_late_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer_topics, "_GRACE_SECONDS", 30.0)
    monkeypatch.setattr(committer_topics, "_PAUSE_SECONDS", 0.0)
    cluster = FakeCluster()
    answers: list[dict[str, str | None]] = [{"target": "first"}, {"target": "older"}, {}]
    monkeypatch.setattr(cluster, "topic_ids", lambda topics: answers.pop())
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 0))
    assert Counter(cluster.committed) == expected(range(1))
    assert not answers
