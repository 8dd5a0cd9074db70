"""A decision log that was deleted: whatever the driver was doing just then, the next start notices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import pytest

from penstock.errors import DecidedError, DecisionLogError, RequestTimeoutError, UnknownTopicOrPartitionError
from penstock.sink.exactly_once._probes import Step, observe
from penstock.sink.exactly_once.decision import DecisionStatus
from tests.deaths import Death, die_at
from tests.unit.fake_driver import QUERY, driver, expected, run_tasks
from tests.unit.sink_cluster import SinkCluster


def test_deleted_log_is_noticed_while_in_use_and_at_the_start() -> None:
    cluster = SinkCluster()
    running = driver(cluster)
    running.commit(run_tasks(cluster, running.recover(), 0))
    reports = run_tasks(cluster, running.recover(), 1)
    driver(cluster).commit(reports)
    cluster.delete_log(is_created_again=True)
    with pytest.raises(DecisionLogError, match="deleted and created again"):
        running.recover()
    changes_before = cluster.changes
    with pytest.raises(DecisionLogError, match=r"was used before, but the decision log"):
        running.recover()
    assert cluster.changes == changes_before, "nothing may be taken or aborted"


def test_two_that_start_in_the_same_moment_take_no_log_for_lost() -> None:
    cluster = SinkCluster()

    def start_another() -> None:
        driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 0))

    cluster.once_before("DescribeTransactions", start_another)
    mandate = driver(cluster).recover()
    assert mandate.known[QUERY].status is DecisionStatus.FINISHED
    assert Counter(cluster.committed) == expected(range(1))


def at_every_step(test: Callable[..., None]) -> Callable[..., None]:
    """With the batch before this one, or as the first of the prefix; the topic missing, or made again."""
    steps = [step for step in Step if not step.name.startswith("TASK_")]
    for mark in (
        pytest.mark.parametrize("step", steps, ids=lambda step: step.name),
        pytest.mark.parametrize("batches_before", [0, 1]),
        pytest.mark.parametrize("left", [False, True], ids=["missing", "made again"]),
    ):
        test = mark(test)
    return test


@at_every_step
def test_log_deleted_at_any_step_of_a_batch_is_noticed_at_the_next_start(
    step: Step, batches_before: int, left: bool
) -> None:
    cluster = SinkCluster()
    for batch_id in range(batches_before):
        _run_batch(cluster, batch_id)
    _die_in_batch(cluster, batches_before, step)
    committed_before, open_before = list(cluster.committed), cluster.open_ids()
    cluster.delete_log(is_created_again=left)
    for _ in range(2):
        changes_before = cluster.changes
        with pytest.raises(DecisionLogError, match="was used before, but the decision log"):
            driver(cluster).recover()
        assert cluster.changes == changes_before, "nothing may be taken or aborted"
    assert cluster.committed == committed_before
    assert cluster.open_ids() == open_before


def _die_in_batch(cluster: SinkCluster, batch_id: int, step: Step) -> None:
    """At this step; what a recovery does at most comes after a driver that died deciding."""
    if step is Step.TAKEN_PREFIX:
        die_at(step)
    elif step in (Step.BEFORE_FINISHING_OLD, Step.FINISHED_OLD, Step.RECOVERED):
        _die_in_batch(cluster, batch_id, Step.DECIDED)
        die_at(step)
    with pytest.raises(Death):
        _run_batch(cluster, batch_id, step)


def _run_batch(cluster: SinkCluster, batch_id: int, dies_at: Step | None = None) -> None:
    mandate = driver(cluster).recover()
    if dies_at is not None:
        die_at(dies_at)
    driver(cluster).commit(run_tasks(cluster, mandate, batch_id))


@at_every_step
def test_log_deleted_while_a_batch_goes_on_doubles_nothing(
    step: Step, batches_before: int, left: bool
) -> None:
    cluster = SinkCluster()
    for batch_id in range(batches_before):
        _run_batch(cluster, batch_id)

    def delete(reached: Step) -> None:
        if reached is step:
            observe(None)
            cluster.delete_log(is_created_again=left)

    if step in (Step.BEFORE_FINISHING_OLD, Step.FINISHED_OLD):
        _die_in_batch(cluster, batches_before, Step.DECIDED)
    observe(delete)
    # A batch that is nearly done may end well.
    with suppress(DecisionLogError, DecidedError, UnknownTopicOrPartitionError):
        _run_batch(cluster, batches_before)
    for _ in range(2):
        with pytest.raises(DecisionLogError):
            driver(cluster).recover()
    assert Counter(cluster.committed) <= expected(range(batches_before + 1))


@pytest.mark.parametrize("is_lost", [True, False])
def test_prefix_whose_first_start_died_may_start_again(is_lost: bool) -> None:
    cluster = SinkCluster()
    lost = cluster.lose_answers("Produce", None)
    for loses in (is_lost, False):
        if not loses:
            lost.end()
        die_at(Step.TAKEN_PREFIX)
        with pytest.raises((Death, RequestTimeoutError)):
            driver(cluster).recover()
    observe(None)
    _run_batch(cluster, 0)
    assert Counter(cluster.committed) == expected(range(1))
