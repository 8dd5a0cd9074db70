"""Operator commands at every step of a batch: they lose and double nothing, or refuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from penstock.client.transactions.steps import TransactionProtocol
from penstock.errors import (
    DecisionLogError,
    ExactlyOnceError,
    PenstockError,
    PrefixTakenError,
    TransactionsInDoubtError,
)
from penstock.sink.exactly_once._probes import Step, observe
from penstock.sink.exactly_once.by_hand import Resolution, TransactionTools
from penstock.sink.exactly_once.decision import BATCH_WRITE_PREFIX, NAMED_WRITE_PREFIX, DecisionStatus
from penstock.sink.exactly_once.log_topic import DecisionTopic
from penstock.sink.exactly_once.names import TransactionNames
from tests.deaths import Death, die_at
from tests.unit.fake_driver import BOTH, PREFIX, QUERY, driver, expected, run_task, run_tasks
from tests.unit.sink_cluster import SinkCluster, decision_topic

DRIVER_STEPS = [step for step in Step if not step.name.startswith("TASK_")]
IN_RECOVERY = (Step.TAKEN_PREFIX, Step.BEFORE_FINISHING_OLD, Step.FINISHED_OLD, Step.RECOVERED)
WRITE = f"{BATCH_WRITE_PREFIX}w"


def tools(cluster: SinkCluster) -> TransactionTools:
    return TransactionTools(TransactionNames(PREFIX), cluster.transactions, cluster.log_store)


def recover(cluster: SinkCluster) -> None:
    tools(cluster).recover()


def abort(cluster: SinkCluster) -> None:
    tools(cluster).abort()


def look(cluster: SinkCluster) -> None:
    looking = tools(cluster)
    changes = cluster.changes
    looking.log_problem()
    looking.decisions()
    looking.open_transactions()
    assert cluster.changes == changes


def write_again(cluster: SinkCluster) -> None:
    with pytest.raises(PenstockError, match="Nothing was resolved"):
        tools(cluster).resolve(QUERY, Resolution.WRITE_AGAIN)


def take_as_written(cluster: SinkCluster) -> None:
    with pytest.raises(PenstockError, match="Nothing was resolved"):
        tools(cluster).resolve(QUERY, Resolution.TAKE_AS_WRITTEN)


COMMANDS = pytest.mark.parametrize("command", [look, recover, abort, write_again, take_as_written])


@BOTH
@COMMANDS
@pytest.mark.parametrize("step", DRIVER_STEPS)
def test_a_command_after_a_death_at_each_step(
    step: Step, command: Callable[[SinkCluster], None], protocol: TransactionProtocol
) -> None:
    cluster = SinkCluster(protocol)
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 0))
    reports = run_tasks(cluster, driver(cluster).recover(), 1)
    die_at(Step.DECIDED if step in IN_RECOVERY else step)
    with pytest.raises(Death):
        driver(cluster).commit(reports)
    if step in IN_RECOVERY:
        die_at(step)
        with pytest.raises(Death):
            driver(cluster).recover()
    command(cluster)
    for batch_id in (1, 2):
        driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), batch_id))
    assert Counter(cluster.committed) == expected(range(3))
    assert not cluster.open_ids()


@COMMANDS
@pytest.mark.parametrize("step", DRIVER_STEPS)
def test_a_command_while_the_query_runs_at_each_step(
    step: Step, command: Callable[[SinkCluster], None]
) -> None:
    cluster = SinkCluster()
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 0))
    if step in IN_RECOVERY:  # which has something to do
        reports = run_tasks(cluster, driver(cluster).recover(), 1)
        die_at(Step.DECIDED)
        with pytest.raises(Death):
            driver(cluster).commit(reports)

    def strike(reached: Step) -> None:
        if reached is step:
            observe(None)
            command(cluster)

    observe(strike)
    running = driver(cluster)
    reports = []
    try:
        reports = run_tasks(cluster, running.recover(), 1)
        running.commit(reports)
    except PrefixTakenError:
        running.abort(reports)
    finally:
        observe(None)
    for batch_id in (1, 2):
        driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), batch_id))
    assert Counter(cluster.committed) == expected(range(3))
    assert not cluster.open_ids()


@pytest.mark.parametrize("query_id", [QUERY, WRITE, f"{NAMED_WRITE_PREFIX}w"])
@pytest.mark.parametrize("resolution", list(Resolution))
def test_a_decision_that_can_be_finished_is_finished_and_not_resolved(
    query_id: str, resolution: Resolution
) -> None:
    cluster = SinkCluster()
    reports = [run_task(cluster, driver(cluster).recover(), 0, 0, query_id=query_id, rows=["row"])]
    die_at(Step.DECIDED)
    with pytest.raises(Death):
        driver(cluster).commit(reports)
    with pytest.raises(ExactlyOnceError, match=r"Expected a batch in doubt, but batch .* is finished"):
        tools(cluster).resolve(query_id, resolution)
    assert cluster.committed == ["row"]


def lost(cluster: SinkCluster, query_id: str) -> None:
    """A decision of which one of three transactions is lost."""
    mandate = driver(cluster).recover(query_id)
    reports = [run_task(cluster, mandate, 0, at, query_id=query_id) for at in range(3)]
    die_at(Step.DECIDED)
    with pytest.raises(Death):
        driver(cluster).commit(reports)
    cluster.time_out("app-1-0")


@pytest.mark.parametrize("resolution", list(Resolution))
def test_a_batch_that_is_lost_in_part_is_resolved_as_the_human_says(resolution: Resolution) -> None:
    cluster = SinkCluster()
    lost(cluster, QUERY)
    tools(cluster).resolve(QUERY, resolution)
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 0))
    missing = Counter(["0/1/0", "0/1/1"])
    is_again = resolution is Resolution.WRITE_AGAIN
    assert Counter(cluster.committed) == expected(range(1)) - missing + (
        expected(range(1)) if is_again else Counter()
    )
    # And it is resolved once: said again, it would double or lose.
    with pytest.raises(ExactlyOnceError, match="Expected a batch in doubt"):
        tools(cluster).resolve(QUERY, Resolution.WRITE_AGAIN)


@pytest.mark.parametrize("resolution", list(Resolution))
def test_a_batch_write_that_is_lost_in_part_lets_others_go_on_once_it_is_resolved(
    resolution: Resolution,
) -> None:
    cluster = SinkCluster()
    lost(cluster, WRITE)
    tools(cluster).resolve(WRITE, resolution)
    driver(cluster).recover()
    assert cluster.log[-1].value is None, "nothing of it stays"


def test_a_decision_whose_outcome_cannot_be_known_is_resolved_and_all_others_are_finished() -> None:
    cluster = SinkCluster()
    reports = [run_task(cluster, driver(cluster).recover(), 0, 0, rows=["in doubt"])]
    die_at(Step.DECIDED)
    with pytest.raises(Death):
        driver(cluster).commit(reports)
    cluster.expire("app-0-0")
    cluster.delete_target_records()
    stray = cluster.take("app-7-0")
    cluster.write(stray, ["stray"])
    for command in (recover, abort):
        with pytest.raises(TransactionsInDoubtError):
            command(cluster)
        assert not cluster.open_ids(), "what is not decided is aborted all the same"
    tools(cluster).resolve(QUERY, Resolution.WRITE_AGAIN)
    driver(cluster).commit([run_task(cluster, driver(cluster).recover(), 0, 0, rows=["in doubt"])])
    assert cluster.committed == ["in doubt"]


def wrong_log(cluster: SinkCluster) -> TransactionTools:
    """The tools with a log topic that is not the query's."""
    return TransactionTools(TransactionNames(PREFIX), cluster.transactions, wrong_topic(cluster))


def wrong_topic(cluster: SinkCluster) -> DecisionTopic:
    return decision_topic(cluster.client, "wrong")


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize(
    "command",
    [
        lambda with_tools: with_tools.abort(),
        lambda with_tools: with_tools.recover(),
        lambda with_tools: with_tools.resolve(QUERY, Resolution.WRITE_AGAIN),
    ],
)
@pytest.mark.parametrize("step", [Step.TAKEN_PREFIX, Step.RECOVERED, Step.BEFORE_DECISION, Step.DECIDED])
def test_a_command_with_the_wrong_log_topic_changes_nothing(
    command: Callable[[TransactionTools], object], step: Step, is_there: bool
) -> None:
    cluster = SinkCluster()
    with_wrong = wrong_log(cluster)
    die_at(step)
    with pytest.raises(Death):
        driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 0))
    if is_there:
        wrong_topic(cluster).create()
    changes = cluster.changes
    with pytest.raises(DecisionLogError, match="was used before, but the decision log"):
        command(with_wrong)
    assert cluster.changes == changes
    assert "was used before" in (with_wrong.log_problem() or "")
    observe(None)
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 0))
    assert Counter(cluster.committed) == expected(range(1))


def test_a_prefix_that_was_never_used_stays_so() -> None:
    cluster = SinkCluster()
    for command in (look, recover, abort):
        command(cluster)
    with pytest.raises(DecisionLogError, match="no decision about query"):
        tools(cluster).resolve(QUERY, Resolution.WRITE_AGAIN)
    assert cluster.changes == []
    assert not cluster.has_log
    assert not tools(cluster).has_log()


def test_abort_ends_what_another_program_has_left_open_under_the_prefix() -> None:
    cluster = SinkCluster()
    flinks = cluster.take("app-0-17")
    cluster.write(flinks, ["of a Flink job"])
    with pytest.raises(PrefixTakenError, match="app-0-17"):
        tools(cluster).recover()
    assert cluster.open_ids() == {"app-0-17"}
    tools(cluster).abort()
    assert not cluster.open_ids()
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 0))
    assert Counter(cluster.committed) == expected(range(1))


def test_a_replay_that_was_not_the_same_can_be_resolved() -> None:
    cluster = SinkCluster()
    driver(cluster).commit([run_task(cluster, driver(cluster).recover(), 0, 0, rows=["a"])])
    other = [run_task(cluster, driver(cluster).recover(), 0, 0, rows=["b"])]
    with pytest.raises(TransactionsInDoubtError):
        driver(cluster).commit(other)
    tools(cluster).resolve(QUERY, Resolution.WRITE_AGAIN)
    assert driver(cluster).recover().known[QUERY].status is DecisionStatus.WITHDRAWN
    driver(cluster).commit([run_task(cluster, driver(cluster).recover(), 0, 0, rows=["b"])])
    assert cluster.committed == ["a", "b"]


def test_abort_leaves_what_a_first_start_decides_meanwhile() -> None:
    cluster = SinkCluster()

    def write_a_first_batch() -> None:
        side = driver(cluster)
        reports = run_tasks(cluster, side.recover(), 0)
        die_at(Step.DECIDED)
        with pytest.raises(Death):
            side.commit(reports)

    cluster.once_before("ListTransactions", write_a_first_batch)
    abort(cluster)
    assert Counter(cluster.committed) == expected(range(1))
