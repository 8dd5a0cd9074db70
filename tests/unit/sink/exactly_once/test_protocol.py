"""The driver's protocol over a cluster in memory: dying everywhere, time-outs, lost answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.client.transactions.steps import (
    TransactionProtocol,
)
from penstock.errors import (
    BatchOrderError,
    DecidedError,
    DecisionLogError,
    ExactlyOnceError,
    OptionError,
    PrefixChangedError,
    RequestTimeoutError,
    TransactionsInDoubtError,
    TransactionsLostError,
)
from penstock.sink.exactly_once._probes import Step, observe
from penstock.sink.exactly_once.committable import TaskReport
from penstock.sink.exactly_once.decision import DecisionStatus
from penstock.sink.exactly_once.driver_side import DriverSide
from penstock.sink.exactly_once.mandate import TaskPlan
from penstock.sink.exactly_once.names import TransactionNames
from tests.deaths import Death, die_at
from tests.unit.fake_driver import (
    BOTH,
    PREFIX,
    QUERY,
    digest_of,
    drain,
    driver,
    expected,
    rows_of,
    run_task,
    run_tasks,
)
from tests.unit.sink_cluster import TARGET, SinkCluster


@BOTH
def test_batches_are_committed_once(protocol: TransactionProtocol) -> None:
    cluster = SinkCluster(protocol)
    recovering, committing = driver(cluster), driver(cluster)
    for batch_id in range(3):
        committing.commit(run_tasks(cluster, recovering.recover(), batch_id))
    assert Counter(cluster.committed) == expected(range(3))
    assert not cluster.open_ids()


@BOTH
@pytest.mark.parametrize("step", [step for step in Step if not step.name.startswith("TASK_")])
def test_death_at_each_step(step: Step, protocol: TransactionProtocol) -> None:
    cluster = SinkCluster(protocol)
    is_in_recovery = step in (
        Step.TAKEN_PREFIX,
        Step.BEFORE_FINISHING_OLD,
        Step.FINISHED_OLD,
        Step.RECOVERED,
    )
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    # Recovery has most to do when its predecessor died between decision and end.
    die_at(Step.DECIDED if is_in_recovery else step)
    with pytest.raises(Death):
        driver(cluster).commit(reports)
    if is_in_recovery:
        die_at(step)
        with pytest.raises(Death):
            driver(cluster).recover()
    for batch_id in range(2):
        driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), batch_id))
    assert Counter(cluster.committed) == expected(range(2))
    assert not cluster.open_ids()


def test_replay_of_a_written_batch_is_drained() -> None:
    cluster = SinkCluster()
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 0))
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    drain(cluster, reports)
    assert Counter(cluster.committed) == expected(range(1))


@BOTH
def test_lost_transaction_is_written_again(protocol: TransactionProtocol) -> None:
    cluster = SinkCluster(protocol)
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    die_at(Step.DECIDED)
    with pytest.raises(Death):
        driver(cluster).commit(reports)
    cluster.time_out("app-1-0")
    mandate = driver(cluster).recover()
    assert mandate.known[QUERY].status is DecisionStatus.LOST
    plans = [mandate.plan(QUERY, 0, at) for at in range(3)]
    assert plans == [TaskPlan.DRAIN, TaskPlan.REWRITE, TaskPlan.DRAIN]
    driver(cluster).commit(run_tasks(cluster, mandate, 0))
    assert Counter(cluster.committed) == expected(range(1))


def test_later_batch_is_refused_while_a_lost_part_waits_for_its_replay() -> None:
    """A function of foreachBatch that swallows the error would have its loss forgotten."""
    cluster = SinkCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    observe(lambda step: cluster.time_out("app-1-0") if step is Step.DECIDED else None)
    with pytest.raises(TransactionsLostError):
        driver(cluster).commit(reports)
    observe(None)
    with pytest.raises(BatchOrderError, match=r"Batch 1 .* batch 0 .* Spark partitions 1 are lost"):
        run_tasks(cluster, driver(cluster).recover(), 1)
    for batch_id in range(2):
        driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), batch_id))
    assert Counter(cluster.committed) == expected(range(2))


def test_loss_found_in_commit_fails_the_batch_and_the_replay_repairs_it() -> None:
    cluster = SinkCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    observe(lambda step: cluster.time_out("app-2-0") if step is Step.DECIDED else None)
    with pytest.raises(TransactionsLostError, match=r"1 of 3 transactions.*replays the batch") as raised:
        driver(cluster).commit(reports)
    assert raised.value.facts["spark_partition_ids"] == [2]
    observe(None)
    driver(cluster).abort(reports)  # as Spark does
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 0))
    assert Counter(cluster.committed) == expected(range(1))


@pytest.mark.parametrize("epochs", [1, 2])  # Kafka 4.0 raises it twice (KAFKA-19367)
def test_transactions_lost_before_the_decision_fail_the_batch_whole(epochs: int) -> None:
    cluster = SinkCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    cluster.time_out("app-2-0", epochs)
    with pytest.raises(TransactionsLostError, match=r"before the batch .* app-2-0.*timeout\.ms' passed"):
        driver(cluster).commit(reports)
    driver(cluster).abort(reports)
    assert cluster.committed == []
    assert not cluster.open_ids()
    other = [run_task(cluster, driver(cluster).recover(), 0, 0, rows=["another plan"])]
    driver(cluster).commit(other)
    assert cluster.committed == ["another plan"]


def test_decision_is_withdrawn_when_nothing_was_committed() -> None:
    cluster = SinkCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    die_at(Step.DECIDED)
    with pytest.raises(Death):
        driver(cluster).commit(reports)
    for at in range(3):
        cluster.time_out(f"app-{at}-0")
    mandate = driver(cluster).recover()
    assert mandate.known[QUERY].status is DecisionStatus.WITHDRAWN
    # A replay with other rows is right, because no reader has seen the first.
    report = run_task(cluster, mandate, 0, 0, rows=["other"])
    driver(cluster).commit([report])
    assert cluster.committed == ["other"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda reports: [reports[0], _rewritten(reports[1], 7), reports[2]],
            "wrote 7 records, 2 were lost",
        ),
        (lambda reports: [reports[0], _rewritten(reports[1], 2), reports[2]], "but other ones"),
        (lambda reports: [reports[0], replace(reports[1], committable=None), reports[2]], "wrote nothing, 2"),
        (lambda reports: reports[:2], "has 2 Spark partitions, not 3"),
    ],
)
def test_replay_that_is_not_the_same_stops_the_query(
    change: Callable[[list[TaskReport]], list[TaskReport]], words: str
) -> None:
    cluster = SinkCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    die_at(Step.DECIDED)
    with pytest.raises(Death):
        driver(cluster).commit(reports)
    cluster.time_out("app-1-0")
    replay = change(run_tasks(cluster, driver(cluster).recover(), 0))
    before = list(cluster.committed)
    with pytest.raises(TransactionsInDoubtError, match=words) as raised:
        driver(cluster).commit(replay)
    assert raised.value.facts["spark_partition_ids"] == [1]
    driver(cluster).abort(replay)
    assert cluster.committed == before
    assert not cluster.open_ids()
    # And it stays so, until the replay is right.
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 0))
    assert Counter(cluster.committed) == expected(range(1))


def _rewritten(report: TaskReport, record_count: int) -> TaskReport:
    assert report.committable is not None
    digest = str(digest_of(["something else"]))
    changed = replace(report.committable, record_count=record_count, digest=digest)
    return replace(report, committable=changed)


def test_queries_of_other_prefixes_are_left_alone() -> None:
    cluster = SinkCluster()
    foreign = driver(cluster, "app-2").recover()
    foreign_report = run_task(cluster, foreign, 0, 1, query_id="query-2")
    driver(cluster).recover()
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 0))
    assert cluster.open_ids() == {"app-2-1-0"}
    # The two share a decision log here, and nothing in it.
    driver(cluster, "app-2").commit([foreign_report])
    assert Counter(cluster.committed) == expected(range(1)) + Counter(rows_of(0, 1))


def test_other_attempts_are_aborted_when_their_batch_is_finished() -> None:
    cluster = SinkCluster()
    mandate = driver(cluster).recover()
    reports = run_tasks(cluster, mandate, 0)
    run_task(cluster, mandate, 0, 0, attempt=1)  # a speculative loser
    driver(cluster).commit(reports)
    assert not cluster.open_ids()
    assert Counter(cluster.committed) == expected(range(1))


def test_failed_batch_is_aborted() -> None:
    cluster = SinkCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    driver(cluster).abort(reports[:2])
    assert not cluster.open_ids()
    assert cluster.committed == []


def test_abort_after_a_decision_does_nothing() -> None:
    cluster = SinkCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    with cluster.lose_answers("EndTxn", "app-1-0"), pytest.raises(DecidedError):
        driver(cluster).commit(reports)
    driver(cluster).abort(reports)
    driver(cluster).recover()
    assert Counter(cluster.committed) == expected(range(1))


@pytest.mark.parametrize("lost", ["EndTxn", "Produce"])
def test_decision_with_a_lost_answer_is_settled_by_abort(lost: str) -> None:
    cluster = SinkCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    error = DecidedError if lost == "EndTxn" else RequestTimeoutError
    with cluster.lose_answers(lost, f"{PREFIX}-committer", is_commit=True), pytest.raises(error):
        driver(cluster).commit(reports)
    driver(cluster).abort(reports)
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 0))
    assert Counter(cluster.committed) == expected(range(1))


def test_empty_batch_decides_nothing() -> None:
    cluster = SinkCluster()
    mandate = driver(cluster).recover()
    reports = [run_task(cluster, mandate, 0, at, rows=[]) for at in range(3)]
    cluster.client.sent.clear()
    driver(cluster).commit(reports)
    driver(cluster).commit([])
    assert cluster.changes == []
    assert not cluster.metadata_count(TARGET.topic)
    assert not cluster.metadata_count(None), "no other log is looked through"


def test_new_checkpoint_counts_from_zero_again() -> None:
    cluster = SinkCluster()
    for batch_id in range(5):
        driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), batch_id))
    mandate = driver(cluster).recover()
    reports = [run_task(cluster, mandate, 0, 0, query_id="query-2", rows=["fresh"])]
    driver(cluster).commit(reports)
    assert cluster.committed[-1] == "fresh"
    # And the first query may come back where it was.
    assert driver(cluster).recover().plan(QUERY, 4, 0) is TaskPlan.DRAIN


def test_batch_that_is_written_under_another_prefix_is_not_written_again() -> None:
    cluster = SinkCluster()
    for batch_id in range(2):
        driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), batch_id))
    renamed = driver(cluster, "renamed")
    replay = run_tasks(cluster, renamed.recover(), 1)
    with pytest.raises(PrefixChangedError, match=r"batch 1 .*finished under .*=app .*the prefix renamed"):
        renamed.commit(replay)
    renamed.abort(replay)
    assert Counter(cluster.committed) == expected(range(2))
    # The batch after it may have another prefix, and the first prefix may come back after that.
    renamed.commit(run_tasks(cluster, renamed.recover(), 2))
    replay = run_tasks(cluster, driver(cluster).recover(), 2)
    with pytest.raises(PrefixChangedError):
        driver(cluster).commit(replay)
    driver(cluster).abort(replay)
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 3))
    assert Counter(cluster.committed) == expected(range(4))


def test_two_sinks_of_one_query_have_prefixes_of_their_own() -> None:
    cluster = SinkCluster()
    for prefix, siblings in (("app", []), ("other", ["app"])):
        driver(cluster, prefix).commit(run_tasks(cluster, driver(cluster, prefix).recover(), 0), siblings)
    assert Counter(cluster.committed) == expected(range(1)) + expected(range(1))


def test_older_checkpoint_is_refused() -> None:
    cluster = SinkCluster()
    stale = driver(cluster).recover()
    for batch_id in range(3):
        driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), batch_id))
    mandate = driver(cluster).recover()
    with pytest.raises(BatchOrderError, match=r"Batch 1 .*although batch 2 is already written"):
        mandate.plan(QUERY, 1, 0)
    late = replace(run_task(cluster, stale, 1, 0), session=mandate.session)
    with pytest.raises(BatchOrderError):
        driver(cluster).commit([late])


def test_outcome_hidden_from_the_coordinator_is_read_from_the_log() -> None:
    cluster = SinkCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    die_at(Step.FINISHED)
    with pytest.raises(Death):
        driver(cluster).commit(reports)
    # Somebody takes the ids before the end was written down.
    for at in range(3):
        cluster.take(f"app-{at}-0")
    cluster.expire("app-2-0")
    assert driver(cluster).recover().known[QUERY].status is DecisionStatus.FINISHED
    assert Counter(cluster.committed) == expected(range(1))


def test_outcome_that_nothing_tells_is_in_doubt() -> None:
    cluster = SinkCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    die_at(Step.FINISHED)
    with pytest.raises(Death):
        driver(cluster).commit(reports)
    cluster.expire("app-2-0")
    cluster.delete_target_records()
    with pytest.raises(TransactionsInDoubtError, match="app-2-0"):
        driver(cluster).recover()
    with pytest.raises(TransactionsInDoubtError):
        driver(cluster).recover()


@BOTH
@pytest.mark.parametrize("is_committed", [True, False])
def test_coordinator_tells_where_the_log_cannot(is_committed: bool, protocol: TransactionProtocol) -> None:
    cluster = SinkCluster(protocol)
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    die_at(Step.DECIDED)
    with pytest.raises(Death):
        driver(cluster).commit(reports)
    cluster.delete_target_records()
    identities = [report.committable.identity for report in reports if report.committable]
    cluster.transactions.end(identities, is_commit=is_committed)
    status = driver(cluster).recover().known[QUERY].status
    assert status is (DecisionStatus.FINISHED if is_committed else DecisionStatus.WITHDRAWN)


def test_unreadable_record_stops_everything() -> None:
    cluster = SinkCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    driver(cluster).commit(reports)
    last = cluster.log[-1]
    assert last.key is not None
    assert last.value is not None
    cluster.log_store.append_plainly(last.key, last.value.replace(b'"version":1', b'"version":2'))
    with pytest.raises(DecisionLogError, match="version 2, while this is version 1"):
        driver(cluster).recover()


def test_batch_writes_are_finished_and_forgotten() -> None:
    cluster = SinkCluster()
    mandate = driver(cluster).recover()
    reports = [run_task(cluster, mandate, 0, at, query_id="batch:1") for at in range(2)]
    die_at(Step.DECIDED)
    with pytest.raises(Death):
        driver(cluster).commit(reports)
    assert driver(cluster).recover().known == {}
    assert Counter(cluster.committed) == Counter(rows_of(0, 0) + rows_of(0, 1))
    assert cluster.log[-1].value is None
    driver(cluster).recover()


def test_batch_writes_that_the_broker_has_aborted_whole_are_forgotten() -> None:
    cluster = SinkCluster()
    mandate = driver(cluster).recover()
    reports = [run_task(cluster, mandate, 0, at, query_id="batch:1") for at in range(2)]
    die_at(Step.DECIDED)
    with pytest.raises(Death):
        driver(cluster).commit(reports)
    for at in range(2):
        cluster.time_out(f"app-{at}-0")
    driver(cluster).recover()
    assert cluster.committed == []
    assert cluster.log[-1].value is None


def test_reports_of_two_mandates_are_refused() -> None:
    cluster = SinkCluster()
    first = run_task(cluster, driver(cluster).recover(), 0, 0)
    second = run_task(cluster, driver(cluster).recover(), 0, 1)
    with pytest.raises(ExactlyOnceError, match="reports of one batch, got"):
        driver(cluster).commit([first, second])


def test_too_long_a_time_out_is_refused_before_anything_is_taken() -> None:
    cluster = SinkCluster()
    names, kafka, log = TransactionNames(PREFIX), cluster.transactions, cluster.log_store
    side = DriverSide(names, kafka, log, wanted_timeout_ms=900_001)
    with pytest.raises(OptionError, match=r"Option 'transaction\.timeout\.ms' is 900001"):
        side.recover()
    assert cluster.changes == []
