"""The driver's protocol over a cluster in memory: dying everywhere, zombies, time-outs, lost answers."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.client.transaction_append import ProducerSession
from penstock.client.transactions import (
    EndResult,
    TransactionDescription,
    TransactionIdentity,
    TransactionProtocol,
)
from penstock.errors import (
    BatchOrderError,
    DecisionLogError,
    ExactlyOnceError,
    OptionError,
    PenstockError,
    PrefixChangedError,
    PrefixTakenError,
    ProducerFencedError,
    RequestTimeoutError,
    TransactionsInDoubtError,
    TransactionsLostError,
)
from penstock.sink.committable import Committable, TaskReport
from penstock.sink.committer_driver import DriverSide
from penstock.sink.committer_mandate import Mandate, TaskPlan
from penstock.sink.committer_steps import Step, observe
from penstock.sink.decision_log import BATCH_WRITE_PREFIX, DecisionStatus, LogRecord
from penstock.sink.transaction_names import TransactionNames
from tests.unit.fake_transactions import FakeCluster

PREFIX = "app"
QUERY = "query-1"
FOREIGN = "app-2-0-0"
MODEL_EXAMPLES = int(os.environ.get("PENSTOCK_MODEL_EXAMPLES", "200"))
"""How many histories the model is tried on; `make chaos` may take thousands."""
BOTH = pytest.mark.parametrize("protocol", list(TransactionProtocol))


class Death(BaseException):
    """The process is gone: nothing of it may handle this."""


@pytest.fixture(autouse=True)
def _nobody_observes() -> Iterator[None]:
    yield
    observe(None)


def driver(cluster: FakeCluster, prefix: str = PREFIX) -> DriverSide:
    return DriverSide(TransactionNames(prefix), cluster, cluster)


def rows_of(batch_id: int, spark_partition_id: int) -> list[str]:
    return [f"{batch_id}/{spark_partition_id}/{row}" for row in range(1 + spark_partition_id)]


def run_task(
    cluster: FakeCluster,
    mandate: Mandate,
    batch_id: int,
    spark_partition_id: int,
    *,
    attempt: int = 0,
    query_id: str = QUERY,
    rows: list[str] | None = None,
) -> TaskReport:
    """What a task of the sink does, over the fake cluster."""
    rows = rows_of(batch_id, spark_partition_id) if rows is None else rows
    plan = mandate.plan(query_id, batch_id, spark_partition_id)
    report = TaskReport(query_id, batch_id, spark_partition_id, mandate.session)
    if plan is TaskPlan.DRAIN or not rows:
        return replace(report, drained_record_count=len(rows) if plan is TaskPlan.DRAIN else 0)
    name = TransactionNames(mandate.prefix).data_id(spark_partition_id, attempt)
    identity = cluster.init_producer(
        name, transaction_timeout_ms=mandate.transaction_timeout_ms, protocol=mandate.protocol
    )
    witness = cluster.write(identity, rows)
    digest = repr(sorted(rows))
    return replace(report, committable=Committable(identity, spark_partition_id, len(rows), digest, witness))


def run_tasks(cluster: FakeCluster, mandate: Mandate, batch_id: int, count: int = 3) -> list[TaskReport]:
    return [run_task(cluster, mandate, batch_id, at) for at in range(count)]


def expected(batch_ids: range, count: int = 3) -> Counter[str]:
    return Counter(row for batch_id in batch_ids for at in range(count) for row in rows_of(batch_id, at))


def die_at(step: Step) -> None:
    def observer(reached: Step) -> None:
        if reached is step:
            observe(None)
            raise Death

    observe(observer)


@BOTH
def test_batches_are_committed_once(protocol: TransactionProtocol) -> None:
    cluster = FakeCluster(protocol)
    recovering, committing = driver(cluster), driver(cluster)
    for batch_id in range(3):
        summary = committing.commit(run_tasks(cluster, recovering.recover(), batch_id))
        assert summary.record_count == 6
        assert summary.transaction_count == 3
    assert Counter(cluster.committed) == expected(range(3))
    assert not cluster.open_ids()


@BOTH
@pytest.mark.parametrize("step", [step for step in Step if not step.name.startswith("TASK_")])
def test_death_at_each_step(step: Step, protocol: TransactionProtocol) -> None:
    cluster = FakeCluster(protocol)
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
    cluster = FakeCluster()
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 0))
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    assert all(report.committable is None for report in reports)
    assert driver(cluster).commit(reports).is_drained
    assert Counter(cluster.committed) == expected(range(1))


@BOTH
def test_lost_transaction_is_written_again(protocol: TransactionProtocol) -> None:
    cluster = FakeCluster(protocol)
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    die_at(Step.DECIDED)
    with pytest.raises(Death):
        driver(cluster).commit(reports)
    cluster.time_out("app-1-0")
    mandate = driver(cluster).recover()
    assert mandate.known[QUERY].status is DecisionStatus.LOST
    plans = [mandate.plan(QUERY, 0, at) for at in range(3)]
    assert plans == [TaskPlan.DRAIN, TaskPlan.REWRITE, TaskPlan.DRAIN]
    assert driver(cluster).commit(run_tasks(cluster, mandate, 0)).record_count == 2
    assert Counter(cluster.committed) == expected(range(1))


def test_later_batch_is_refused_while_a_lost_part_waits_for_its_replay() -> None:
    """A function of foreachBatch that swallows the error would have its loss forgotten."""
    cluster = FakeCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    observe(lambda step: cluster.time_out("app-1-0") if step is Step.DECIDED else None)
    with pytest.raises(TransactionsLostError):
        driver(cluster).commit(reports)
    observe(None)
    with pytest.raises(BatchOrderError, match=r"Batch 1 .* batch 0 .* lost.*Spark partitions 1 among"):
        run_tasks(cluster, driver(cluster).recover(), 1)
    for batch_id in range(2):
        driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), batch_id))
    assert Counter(cluster.committed) == expected(range(2))


def test_loss_found_in_commit_fails_the_batch_and_the_replay_repairs_it() -> None:
    cluster = FakeCluster()
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
    cluster = FakeCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    cluster.time_out("app-2-0", epochs)
    with pytest.raises(TransactionsLostError, match=r"before the batch .* first app-2-0.*timeout\.ms passed"):
        driver(cluster).commit(reports)
    driver(cluster).abort(reports)
    assert cluster.committed == []
    assert not cluster.open_ids()
    other = [run_task(cluster, driver(cluster).recover(), 0, 0, rows=["another plan"])]
    driver(cluster).commit(other)
    assert cluster.committed == ["another plan"]


@pytest.mark.parametrize("it_does", ["nothing", "write", "write and abort"])
@BOTH
def test_transactional_id_taken_by_an_older_task_is_told_so(
    it_does: str, protocol: TransactionProtocol
) -> None:
    cluster = FakeCluster(protocol)
    older = driver(cluster).recover()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    cluster.time_out("app-0-0")
    taken = cluster.init_producer("app-1-0", transaction_timeout_ms=60_000, protocol=older.protocol)
    if it_does != "nothing":
        cluster.write(taken, ["of the older"])
    if it_does == "write and abort":
        cluster.end([taken], is_commit=False)
    with pytest.raises(TransactionsLostError, match=r"2 of 3 .*has taken the transactional id of app-1-0"):
        driver(cluster).commit(reports)
    driver(cluster).abort(reports)
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 0))
    assert Counter(cluster.committed) == expected(range(1))


def test_decision_is_withdrawn_when_nothing_was_committed() -> None:
    cluster = FakeCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    die_at(Step.DECIDED)
    with pytest.raises(Death):
        driver(cluster).commit(reports)
    for at in range(3):
        cluster.time_out(f"app-{at}-0")
    mandate = driver(cluster).recover()
    assert mandate.known[QUERY].status is DecisionStatus.WITHDRAWN
    # A replay that is different is right: nobody has seen the first.
    report = run_task(cluster, mandate, 0, 0, rows=["other"])
    driver(cluster).commit([report])
    assert cluster.committed == ["other"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda reports: [reports[0], _rewritten(reports[1], 7, "x"), reports[2]],
            "wrote 7 records, 2 were lost",
        ),
        (lambda reports: [reports[0], _rewritten(reports[1], 2, "x"), reports[2]], "not the same ones"),
        (lambda reports: [reports[0], replace(reports[1], committable=None), reports[2]], "wrote nothing, 2"),
        (lambda reports: reports[:2], "has 2 Spark partitions, not 3"),
    ],
)
def test_replay_that_is_not_the_same_stops_the_query(
    change: Callable[[list[TaskReport]], list[TaskReport]], words: str
) -> None:
    cluster = FakeCluster()
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


def _rewritten(report: TaskReport, record_count: int, digest: str) -> TaskReport:
    assert report.committable is not None
    changed = replace(report.committable, record_count=record_count, digest=digest)
    return replace(report, committable=changed)


@BOTH
def test_older_driver_is_fenced_and_says_so(protocol: TransactionProtocol) -> None:
    cluster = FakeCluster(protocol)
    old_reports = run_tasks(cluster, driver(cluster).recover(), 0)
    new_reports = run_tasks(cluster, driver(cluster).recover(), 0)
    with pytest.raises(PrefixTakenError, match="two queries use the same"):
        driver(cluster).commit(old_reports)
    driver(cluster).abort(old_reports)
    driver(cluster).commit(new_reports)
    assert Counter(cluster.committed) == expected(range(1))


def test_driver_that_is_overtaken_while_it_recovers_says_so() -> None:
    cluster = FakeCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    die_at(Step.DECIDED)
    with pytest.raises(Death):
        driver(cluster).commit(reports)
    observe(lambda step: _recover_elsewhere(cluster) if step is Step.BEFORE_FINISHING_OLD else None)
    with pytest.raises(PrefixTakenError, match="two queries use the same"):
        driver(cluster).recover()
    assert Counter(cluster.committed) == expected(range(1))


def test_older_driver_without_common_ids_is_fenced_at_its_decision() -> None:
    cluster = FakeCluster()
    old_reports = [run_task(cluster, driver(cluster).recover(), 0, 0)]
    observe(lambda step: _recover_elsewhere(cluster) if step is Step.BEFORE_DECISION else None)
    with pytest.raises(
        PrefixTakenError, match=r"prefix app .*not decided, so nothing.*stood still.*two queries use"
    ):
        driver(cluster).commit(old_reports)
    observe(None)
    assert cluster.committed == []


@pytest.mark.parametrize("query_id", [QUERY, f"{BATCH_WRITE_PREFIX}1"])
@pytest.mark.parametrize(
    ("log_is", "words"),
    [
        ("as it was", "It was decided all the same"),
        ("compacted", "A newer writer has gone on with it, or finished it"),
        ("silent", "Whether it is decided, the log cannot tell now"),
        ("cut back", "Whether it is decided, the log cannot tell: .* was cut back .* Compare the target"),
    ],
)
def test_decision_that_was_made_before_the_take_over_is_not_denied(
    monkeypatch: pytest.MonkeyPatch, query_id: str, log_is: str, words: str
) -> None:
    """Its answer got lost, and the repeated request was fenced."""
    cluster = FakeCluster()
    report = run_task(cluster, driver(cluster).recover(), 0, 0, query_id=query_id)
    append = cluster.append

    def append_and_be_overtaken(session: ProducerSession, key: bytes, value: bytes | None) -> ProducerSession:
        append(session, key, value)
        monkeypatch.undo()
        at = len(cluster.log) - 1
        driver(cluster).recover()
        if log_is == "compacted":
            cluster.log[at] = LogRecord(at, b'{"prefix": "other", "query_id": ""}', None)
        elif log_is == "cut back":
            cluster.log.clear()
        elif log_is == "silent":
            monkeypatch.setattr(cluster, "stable_end", _no_answer)
        raise ProducerFencedError("fenced")

    monkeypatch.setattr(cluster, "append", append_and_be_overtaken)
    with pytest.raises(PrefixTakenError, match=words) as raised:
        driver(cluster).commit([report])
    assert ("Do not run it again" in raised.value.message) == (query_id != QUERY)
    assert Counter(cluster.committed) == Counter(rows_of(0, 0))


def _no_answer(*_: object, **__: object) -> int:
    raise RequestTimeoutError("no answer")


def test_older_driver_whose_batch_the_newer_decides_at_the_same_time_says_so() -> None:
    cluster = FakeCluster()
    old_report = run_task(cluster, driver(cluster).recover(), 0, 0)

    def overtake(step: Step) -> None:
        if step is Step.BEFORE_DECISION:
            observe(None)
            driver(cluster).commit([run_task(cluster, driver(cluster).recover(), 0, 1)])

    observe(overtake)
    with pytest.raises(PrefixTakenError, match="A newer writer has gone on with it, or finished it"):
        driver(cluster).commit([old_report])
    assert Counter(cluster.committed) == Counter(rows_of(0, 1))


@pytest.mark.parametrize("batches", [1, 2])
def test_older_driver_that_is_overtaken_before_it_commits_says_so(batches: int) -> None:
    """It is neither a bug of penstock nor an older checkpoint."""
    cluster = FakeCluster()
    old_reports = run_tasks(cluster, driver(cluster).recover(), 0)
    for batch_id in range(batches):
        driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), batch_id))
    with pytest.raises(PrefixTakenError, match="This attempt at it is not decided"):
        driver(cluster).commit(old_reports)
    assert Counter(cluster.committed) == expected(range(batches))


def test_abort_settles_the_decision_though_nothing_can_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    cluster.loses_answer = lambda what: what == "append before its end"
    with pytest.raises(RequestTimeoutError):
        driver(cluster).commit(reports)
    monkeypatch.setattr(cluster, "list_open", _no_answer)
    with pytest.raises(RequestTimeoutError):
        driver(cluster).abort(reports)
    assert f"{PREFIX}-committer" not in cluster.open_ids()
    assert cluster.waited_for == []


def test_a_lost_log_is_told_also_where_the_prefix_is_taken() -> None:
    cluster = FakeCluster()
    side = driver(cluster)
    side.recover()
    side.commit([run_task(cluster, side.recover(), 0, 0)])
    reports = [run_task(cluster, side.recover(), 1, 0)]
    _recover_elsewhere(cluster)
    cluster.log.clear()
    with pytest.raises(DecisionLogError, match="was cut back"):
        side.commit(reports)


def test_a_coordinator_that_cannot_be_asked_hides_no_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    cluster.time_out("app-2-0")
    describe = cluster.describe

    def describe_tasks_only(asked: Collection[str]) -> dict[str, TransactionDescription | None]:
        if f"{PREFIX}-committer" in asked:
            raise RequestTimeoutError("no answer")
        return describe(asked)

    monkeypatch.setattr(cluster, "describe", describe_tasks_only)
    with pytest.raises(TransactionsLostError):
        driver(cluster).commit(reports)


def test_abort_leaves_the_tasks_of_a_newer_driver_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster()
    old_reports = run_tasks(cluster, driver(cluster).recover(), 0)
    newer_reports = []
    end = cluster.end

    def end_and_be_overtaken(
        identities: Collection[TransactionIdentity], *, is_commit: bool
    ) -> dict[TransactionIdentity, EndResult]:
        results = end(identities, is_commit=is_commit)
        monkeypatch.undo()
        newer_reports.extend(run_tasks(cluster, driver(cluster).recover(), 0))
        return results

    monkeypatch.setattr(cluster, "end", end_and_be_overtaken)
    driver(cluster).abort(old_reports)
    driver(cluster).commit(newer_reports)
    assert Counter(cluster.committed) == expected(range(1))


def _recover_elsewhere(cluster: FakeCluster) -> None:
    observe(None)
    driver(cluster).recover()


def test_older_driver_that_had_decided_is_finished_by_the_newer() -> None:
    cluster = FakeCluster()
    old_reports = run_tasks(cluster, driver(cluster).recover(), 0)
    observe(lambda step: _recover_elsewhere(cluster) if step is Step.DECIDED else None)
    with pytest.raises(PrefixTakenError, match="It was decided before: the newer writer"):
        driver(cluster).commit(old_reports)
    observe(None)
    driver(cluster).abort(old_reports)
    assert Counter(cluster.committed) == expected(range(1))
    mandate = driver(cluster).recover()
    assert mandate.plan(QUERY, 0, 0) is TaskPlan.DRAIN


def test_queries_of_other_prefixes_are_left_alone() -> None:
    cluster = FakeCluster()
    foreign = driver(cluster, "app-2").recover()
    foreign_report = run_task(cluster, foreign, 0, 1)
    driver(cluster).recover()
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 0))
    assert cluster.open_ids() == {"app-2-1-0"}
    # The two share a decision log here, and nothing in it.
    driver(cluster, "app-2").commit([foreign_report])
    assert Counter(cluster.committed) == expected(range(1)) + Counter(rows_of(0, 1))


def test_other_attempts_are_aborted_when_their_batch_is_finished() -> None:
    cluster = FakeCluster()
    mandate = driver(cluster).recover()
    reports = run_tasks(cluster, mandate, 0)
    run_task(cluster, mandate, 0, 0, attempt=1)  # a speculative loser
    driver(cluster).commit(reports)
    assert not cluster.open_ids()
    assert Counter(cluster.committed) == expected(range(1))


def test_failed_batch_is_aborted() -> None:
    cluster = FakeCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    driver(cluster).abort(reports[:2])
    assert not cluster.open_ids()
    assert cluster.committed == []


def test_abort_after_a_decision_does_nothing() -> None:
    cluster = FakeCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    cluster.loses_answer = lambda what: what == "end app-1-0"
    with pytest.raises(RequestTimeoutError):
        driver(cluster).commit(reports)
    cluster.loses_answer = lambda what: False
    driver(cluster).abort(reports)
    driver(cluster).recover()
    assert Counter(cluster.committed) == expected(range(1))


@pytest.mark.parametrize("lost", ["append", "append before its end"])
def test_decision_with_a_lost_answer_is_settled_by_abort(lost: str) -> None:
    cluster = FakeCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    cluster.loses_answer = lambda what: what == lost
    with pytest.raises(RequestTimeoutError):
        driver(cluster).commit(reports)
    cluster.loses_answer = lambda what: False
    driver(cluster).abort(reports)
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 0))
    assert Counter(cluster.committed) == expected(range(1))


def test_empty_batch_decides_nothing() -> None:
    cluster = FakeCluster()
    mandate = driver(cluster).recover()
    reports = [run_task(cluster, mandate, 0, at, rows=[]) for at in range(3)]
    cluster.calls.clear()
    assert driver(cluster).commit(reports).transaction_count == 0
    assert driver(cluster).commit([]).transaction_count == 0
    assert cluster.calls == []


def test_new_checkpoint_counts_from_zero_again() -> None:
    cluster = FakeCluster()
    for batch_id in range(5):
        driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), batch_id))
    mandate = driver(cluster).recover()
    reports = [run_task(cluster, mandate, 0, 0, query_id="query-2", rows=["fresh"])]
    driver(cluster).commit(reports)
    assert cluster.committed[-1] == "fresh"
    # And the first query may come back where it was.
    assert driver(cluster).recover().plan(QUERY, 4, 0) is TaskPlan.DRAIN


def test_batch_that_is_written_under_another_prefix_is_not_written_again() -> None:
    cluster = FakeCluster()
    for batch_id in range(2):
        driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), batch_id), is_only_sink=True)
    renamed = driver(cluster, "renamed")
    replay = run_tasks(cluster, renamed.recover(), 1)
    with pytest.raises(PrefixChangedError, match=r"was app before and is renamed now.*batch 1 .*finished"):
        renamed.commit(replay, is_only_sink=True)
    renamed.abort(replay)
    assert Counter(cluster.committed) == expected(range(2))
    # The batch after it may have another prefix, and the first prefix may come back after that.
    renamed.commit(run_tasks(cluster, renamed.recover(), 2), is_only_sink=True)
    replay = run_tasks(cluster, driver(cluster).recover(), 2)
    with pytest.raises(PrefixChangedError):
        driver(cluster).commit(replay, is_only_sink=True)
    driver(cluster).abort(replay)
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 3), is_only_sink=True)
    assert Counter(cluster.committed) == expected(range(4))


def test_two_sinks_of_one_query_have_prefixes_of_their_own() -> None:
    cluster = FakeCluster()
    for prefix in ("app", "other"):
        driver(cluster, prefix).commit(run_tasks(cluster, driver(cluster, prefix).recover(), 0))
    assert Counter(cluster.committed) == expected(range(1)) + expected(range(1))


def test_older_checkpoint_is_refused() -> None:
    cluster = FakeCluster()
    stale = driver(cluster).recover()
    for batch_id in range(3):
        driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), batch_id))
    mandate = driver(cluster).recover()
    with pytest.raises(BatchOrderError, match=r"Batch 1 .*although batch 2 is written"):
        mandate.plan(QUERY, 1, 0)
    late = replace(run_task(cluster, stale, 1, 0), session=mandate.session)
    with pytest.raises(BatchOrderError):
        driver(cluster).commit([late])


def test_outcome_hidden_from_the_coordinator_is_read_from_the_log() -> None:
    cluster = FakeCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    die_at(Step.FINISHED)
    with pytest.raises(Death):
        driver(cluster).commit(reports)
    # Somebody takes the ids before the end was written down.
    for at in range(3):
        cluster.init_producer(f"app-{at}-0", transaction_timeout_ms=1, protocol=TransactionProtocol.V2)
    cluster.expire("app-2-0")
    assert driver(cluster).recover().known[QUERY].status is DecisionStatus.FINISHED
    assert Counter(cluster.committed) == expected(range(1))


def test_outcome_that_nothing_tells_is_in_doubt() -> None:
    cluster = FakeCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    die_at(Step.FINISHED)
    with pytest.raises(Death):
        driver(cluster).commit(reports)
    cluster.expire("app-2-0")
    cluster.is_witness_gone = True
    with pytest.raises(TransactionsInDoubtError, match="app-2-0"):
        driver(cluster).recover()
    with pytest.raises(TransactionsInDoubtError):
        driver(cluster).recover()


@BOTH
@pytest.mark.parametrize("is_committed", [True, False])
def test_coordinator_tells_where_the_log_cannot(is_committed: bool, protocol: TransactionProtocol) -> None:
    cluster = FakeCluster(protocol)
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    die_at(Step.DECIDED)
    with pytest.raises(Death):
        driver(cluster).commit(reports)
    cluster.is_witness_gone = True
    identities = [report.committable.identity for report in reports if report.committable]
    cluster.end(identities, is_commit=is_committed)
    status = driver(cluster).recover().known[QUERY].status
    assert status is (DecisionStatus.FINISHED if is_committed else DecisionStatus.WITHDRAWN)


def test_deleted_log_is_noticed_while_in_use_and_at_the_start() -> None:
    cluster = FakeCluster()
    running = driver(cluster)
    running.commit(run_tasks(cluster, running.recover(), 0))
    reports = run_tasks(cluster, running.recover(), 1)
    driver(cluster).commit(reports)
    cluster.log.clear()
    cluster.log_incarnation = "made anew"
    with pytest.raises(DecisionLogError, match="deleted and created anew"):
        running.recover()
    calls_before = list(cluster.calls)
    with pytest.raises(DecisionLogError, match=r"has been at work, but the decision log"):
        running.recover()
    assert cluster.calls == calls_before, "nothing may be taken or aborted"


def test_two_that_start_in_the_same_moment_take_no_log_for_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster()
    describe = cluster.describe

    def while_another_starts(ids: Collection[str]) -> dict[str, TransactionDescription | None]:
        monkeypatch.setattr(cluster, "describe", describe)
        driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 0))
        return describe(ids)

    monkeypatch.setattr(cluster, "describe", while_another_starts)
    mandate = driver(cluster).recover()
    assert mandate.known[QUERY].status is DecisionStatus.FINISHED
    assert Counter(cluster.committed) == expected(range(1))


def test_log_that_never_held_anything_is_no_lost_log() -> None:
    cluster = FakeCluster()
    die_at(Step.TAKEN_PREFIX)
    with pytest.raises(Death):
        driver(cluster).recover()
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 0))
    assert Counter(cluster.committed) == expected(range(1))


def test_unreadable_record_stops_everything() -> None:
    cluster = FakeCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    driver(cluster).commit(reports)
    key, value = cluster.log[-1].key, cluster.log[-1].value
    assert value is not None
    newer = value.replace(b'"version":1', b'"version":2')
    cluster.log[-1] = cluster.log[-1]._replace(key=key, value=newer)
    with pytest.raises(DecisionLogError, match="version 2, while this is version 1"):
        driver(cluster).recover()


def test_batch_writes_are_finished_and_forgotten() -> None:
    cluster = FakeCluster()
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
    cluster = FakeCluster()
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
    cluster = FakeCluster()
    first = run_task(cluster, driver(cluster).recover(), 0, 0)
    second = run_task(cluster, driver(cluster).recover(), 0, 1)
    with pytest.raises(ExactlyOnceError, match="different batches"):
        driver(cluster).commit([first, second])


def test_too_long_a_time_out_is_refused_before_anything_is_taken() -> None:
    cluster = FakeCluster()
    side = DriverSide(TransactionNames(PREFIX), cluster, cluster, wanted_timeout_ms=900_001)
    with pytest.raises(OptionError, match=r"transaction\.timeout\.ms is 900001"):
        side.recover()
    assert cluster.calls == []


class Chaos:
    """Spark running one query to its end, with everything going wrong at random."""

    def __init__(self, seed: int, protocol: TransactionProtocol) -> None:
        self.random = random.Random(seed)
        self.cluster = FakeCluster(protocol)
        self.zombies: list[Callable[[], object]] = []
        self.is_calm = False
        self.cluster.loses_answer = lambda what: self.happens(0.05)
        observe(self.step)

    def happens(self, probability: float) -> bool:
        return not self.is_calm and self.random.random() < probability

    def step(self, reached: Step) -> None:
        if self.happens(0.1):
            self.let_zombies_walk()
        if self.happens(0.1):
            self.time_something_out()
        if self.happens(0.15):
            raise Death

    def time_something_out(self) -> None:
        names = sorted(self.cluster.open_ids() - {FOREIGN})
        if names:
            self.cluster.time_out(self.random.choice(names))

    def let_zombies_walk(self) -> None:
        zombies, self.zombies = self.zombies, []
        for zombie in zombies:
            observe(None)
            try:
                zombie()
            except (PenstockError, Death):
                pass
            finally:
                observe(self.step)
                # Only a zombie may find itself behind a newer driver that died while it decided.
                self.cluster.waited_for.clear()

    def run_batch(self, batch_id: int) -> bool:
        """One try at one batch; whether Spark has written it into its commit log."""
        reports: list[TaskReport] = []
        try:
            mandate = driver(self.cluster).recover()
            for at in range(3):
                if self.happens(0.2):
                    run_task(self.cluster, mandate, batch_id, at, attempt=1)  # a stray
                reports.append(run_task(self.cluster, mandate, batch_id, at))
                if self.happens(0.05):
                    self.time_something_out()
            if self.happens(0.2):
                stale = list(reports)
                self.zombies.append(lambda: driver(self.cluster).commit(stale))
                return False
            committing = driver(self.cluster)
            try:
                committing.commit(reports)
            except PenstockError:
                if not self.happens(0.3):
                    driver(self.cluster).abort(reports)
                return False
        except (PenstockError, Death):
            return False
        return not self.happens(0.1)  # died before Spark's commit log

    def run(self, batch_count: int) -> None:
        batch_id = 0
        for _ in range(40):
            batch_id += self.run_batch(batch_id)
            if batch_id == batch_count:
                break
        self.let_zombies_walk()
        self.is_calm = True
        while batch_id < batch_count:
            assert self.run_batch(batch_id) or self.run_batch(batch_id)
            batch_id += 1
        driver(self.cluster).recover()


@settings(max_examples=MODEL_EXAMPLES, deadline=None)
@given(seed=st.integers(0, 2**32), protocol=st.sampled_from(TransactionProtocol))
@example(seed=0, protocol=TransactionProtocol.V2)
@example(seed=251046, protocol=TransactionProtocol.V1)  # a zombie behind a driver that died deciding
def test_every_row_once_whatever_dies(seed: int, protocol: TransactionProtocol) -> None:
    chaos = Chaos(seed, protocol)
    foreign = chaos.cluster.init_producer(FOREIGN, transaction_timeout_ms=1, protocol=protocol)
    chaos.cluster.write(foreign, ["foreign"])
    try:
        chaos.run(6)
    finally:
        observe(None)
    assert Counter(chaos.cluster.committed) == expected(range(6))
    assert chaos.cluster.open_ids() == {FOREIGN}
    assert chaos.cluster.waited_for == []
