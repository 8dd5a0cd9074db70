"""The driver's protocol over a cluster in memory: two drivers, and tasks of an older one."""

from __future__ import annotations

from collections import Counter

import pytest

from penstock.client.net.error_codes import PRODUCER_FENCED
from penstock.client.transactions.steps import (
    TransactionIdentity,
    TransactionProtocol,
)
from penstock.errors import (
    DecisionLogError,
    PrefixTakenError,
    RequestTimeoutError,
    TransactionsLostError,
)
from penstock.sink.exactly_once._probes import Step, observe
from penstock.sink.exactly_once.committable import TaskReport
from penstock.sink.exactly_once.decision import BATCH_WRITE_PREFIX
from penstock.sink.exactly_once.mandate import Mandate, TaskPlan
from penstock.testing.fake.control import Action, LoseRequest, Refuse, SeenRequest
from tests.deaths import Death, die_at
from tests.unit.fake_driver import (
    BOTH,
    PREFIX,
    QUERY,
    driver,
    expected,
    rows_of,
    run_task,
    run_tasks,
)
from tests.unit.sink_cluster import LOG, SinkCluster


@pytest.mark.parametrize("it_does", ["nothing", "write", "write and abort"])
@BOTH
def test_transactional_id_taken_by_an_older_task_is_told_so(
    it_does: str, protocol: TransactionProtocol
) -> None:
    cluster = SinkCluster(protocol)
    driver(cluster).recover()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    cluster.time_out("app-0-0")
    taken = cluster.take("app-1-0")
    if it_does != "nothing":
        cluster.write(taken, ["of the older"])
    if it_does == "write and abort":
        cluster.transactions.end([taken], is_commit=False)
    with pytest.raises(TransactionsLostError, match=r"2 of 3 .*has taken the transactional id of app-1-0"):
        driver(cluster).commit(reports)
    driver(cluster).abort(reports)
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 0))
    assert Counter(cluster.committed) == expected(range(1))


@BOTH
def test_older_driver_is_fenced_and_says_so(protocol: TransactionProtocol) -> None:
    cluster = SinkCluster(protocol)
    old_reports = run_tasks(cluster, driver(cluster).recover(), 0)
    new_reports = run_tasks(cluster, driver(cluster).recover(), 0)
    with pytest.raises(PrefixTakenError, match="two queries use the same"):
        driver(cluster).commit(old_reports)
    driver(cluster).abort(old_reports)
    driver(cluster).commit(new_reports)
    assert Counter(cluster.committed) == expected(range(1))


def test_driver_that_is_overtaken_while_it_recovers_says_so() -> None:
    cluster = SinkCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    die_at(Step.DECIDED)
    with pytest.raises(Death):
        driver(cluster).commit(reports)
    observe(lambda step: _recover_elsewhere(cluster) if step is Step.BEFORE_FINISHING_OLD else None)
    with pytest.raises(PrefixTakenError, match="two queries use the same"):
        driver(cluster).recover()
    assert Counter(cluster.committed) == expected(range(1))


@BOTH
@pytest.mark.parametrize("query_id", [QUERY, f"{BATCH_WRITE_PREFIX}1"])
def test_driver_that_stood_still_while_it_recovered_aborts_nothing_of_the_newer(
    query_id: str, protocol: TransactionProtocol
) -> None:
    """It has read the log before the newer one decided, and lists what is open afterwards."""
    cluster = SinkCluster(protocol)

    def overtake() -> None:
        mandate = driver(cluster).recover()
        reports = [run_task(cluster, mandate, 0, at, query_id=query_id) for at in range(3)]
        die_at(Step.DECIDED)
        with pytest.raises(Death):
            driver(cluster).commit(reports)

    driver(cluster).recover()
    cluster.once_before("ListTransactions", overtake)
    with pytest.raises(
        PrefixTakenError, match=r"starting a batch.*No transaction of the other writer was aborted"
    ):
        driver(cluster).recover()
    assert len(cluster.open_ids()) == 3
    driver(cluster).recover()
    assert Counter(cluster.committed) == expected(range(1))


def test_older_driver_without_common_ids_is_fenced_at_its_decision() -> None:
    cluster = SinkCluster()
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
        ("compacted", "A newer writer has continued or finished it"),
        ("silent", "It is unknown whether it is decided, because the decision log could not be read"),
        ("cut back", "It is unknown whether it is decided: .* was cut back .* compare the target"),
    ],
)
def test_decision_that_was_made_before_the_take_over_is_not_denied(
    query_id: str, log_is: str, words: str
) -> None:
    """Its answer got lost, and the repeated request was fenced."""
    cluster = SinkCluster()
    report = run_task(cluster, driver(cluster).recover(), 0, 0, query_id=query_id)

    def be_overtaken(is_answered: bool) -> None:
        """Before the commit of the decision is sent a second time."""
        if is_answered:
            cluster.once_before("EndTxn", lambda: be_overtaken(is_answered=False))
            return
        lost.end()
        decided_at = cluster.log[-1].offset
        driver(cluster).recover()
        if log_is == "compacted":
            with cluster.kafka.log(LOG) as log:
                log.batches = [each for each in log.batches if each.last_offset != decided_at]
        elif log_is == "cut back":
            cluster.cut_log_back()
        elif log_is == "silent":
            cluster.kafka.control("ListOffsets", LoseRequest(), times=None)

    lost = cluster.lose_answers("EndTxn", f"{PREFIX}-committer")
    cluster.once_before("EndTxn", lambda: be_overtaken(is_answered=True))
    with pytest.raises(PrefixTakenError, match=words) as raised:
        driver(cluster).commit([report])
    assert ("Do not run it again" in raised.value.message) == (query_id != QUERY)
    assert Counter(cluster.committed) == Counter(rows_of(0, 0))


def test_older_driver_whose_batch_the_newer_decides_at_the_same_time_says_so() -> None:
    cluster = SinkCluster()
    old_report = run_task(cluster, driver(cluster).recover(), 0, 0)

    def overtake(step: Step) -> None:
        if step is Step.BEFORE_DECISION:
            observe(None)
            driver(cluster).commit([run_task(cluster, driver(cluster).recover(), 0, 1)])

    observe(overtake)
    with pytest.raises(PrefixTakenError, match="A newer writer has continued or finished it"):
        driver(cluster).commit([old_report])
    assert Counter(cluster.committed) == Counter(rows_of(0, 1))


@pytest.mark.parametrize("batches", [1, 2])
def test_older_driver_that_is_overtaken_before_it_commits_says_so(batches: int) -> None:
    """It is neither a bug of penstock nor an older checkpoint."""
    cluster = SinkCluster()
    old_reports = run_tasks(cluster, driver(cluster).recover(), 0)
    for batch_id in range(batches):
        driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), batch_id))
    with pytest.raises(PrefixTakenError, match="This attempt at it is not decided"):
        driver(cluster).commit(old_reports)
    assert Counter(cluster.committed) == expected(range(batches))


def test_abort_settles_the_decision_though_nothing_can_be_listed() -> None:
    cluster = SinkCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    with cluster.lose_answers("Produce", f"{PREFIX}-committer"), pytest.raises(RequestTimeoutError):
        driver(cluster).commit(reports)
    cluster.kafka.control("ListTransactions", LoseRequest(), times=None)
    with pytest.raises(RequestTimeoutError):
        driver(cluster).abort(reports)
    assert f"{PREFIX}-committer" not in cluster.open_ids()
    assert cluster.client.timed_out == []


def test_a_lost_log_is_told_also_where_the_prefix_is_taken() -> None:
    cluster = SinkCluster()
    side = driver(cluster)
    side.recover()
    side.commit([run_task(cluster, side.recover(), 0, 0)])
    reports = [run_task(cluster, side.recover(), 1, 0)]
    _recover_elsewhere(cluster)
    cluster.cut_log_back()
    with pytest.raises(DecisionLogError, match="was cut back"):
        side.commit(reports)


def test_a_coordinator_that_cannot_be_asked_hides_no_loss() -> None:
    cluster = SinkCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    cluster.time_out("app-2-0")

    def describe_tasks_only(seen: SeenRequest) -> Action | None:
        return LoseRequest() if f"{PREFIX}-committer" in seen.body.transactional_ids else None

    cluster.kafka.control("DescribeTransactions", describe_tasks_only, times=None)
    with pytest.raises(TransactionsLostError):
        driver(cluster).commit(reports)


def test_abort_leaves_the_tasks_of_a_newer_driver_alone() -> None:
    cluster = SinkCluster()
    old_reports = run_tasks(cluster, driver(cluster).recover(), 0)
    newer_reports: list[TaskReport] = []

    def be_overtaken() -> None:
        newer_reports.extend(run_tasks(cluster, driver(cluster).recover(), 0))

    cluster.once_after("EndTxn", be_overtaken)
    driver(cluster).abort(old_reports)
    driver(cluster).commit(newer_reports)
    assert Counter(cluster.committed) == expected(range(1))


def _recover_elsewhere(cluster: SinkCluster) -> None:
    observe(None)
    driver(cluster).recover()


def test_older_driver_that_had_decided_is_finished_by_the_newer() -> None:
    cluster = SinkCluster()
    old_reports = run_tasks(cluster, driver(cluster).recover(), 0)
    observe(lambda step: _recover_elsewhere(cluster) if step is Step.DECIDED else None)
    with pytest.raises(PrefixTakenError, match="It was decided before: the newer writer"):
        driver(cluster).commit(old_reports)
    observe(None)
    driver(cluster).abort(old_reports)
    assert Counter(cluster.committed) == expected(range(1))
    mandate = driver(cluster).recover()
    assert mandate.plan(QUERY, 0, 0) is TaskPlan.DRAIN


FLINK_NAMES = ["app-0-17", "app-3-4711"]
"""As Flink's sink names them: prefix, subtask, checkpoint."""


def _open_as_flink(cluster: SinkCluster) -> list[TransactionIdentity]:
    opened = [cluster.take(name) for name in FLINK_NAMES]
    for identity in opened:
        cluster.write(identity, [f"of {identity.transactional_id}"])
    return opened


@BOTH
def test_the_first_start_under_the_prefix_of_a_running_flink_job_touches_nothing(
    protocol: TransactionProtocol,
) -> None:
    cluster = SinkCluster(protocol)
    opened = _open_as_flink(cluster)
    for _ in range(2):  # refusing leaves nothing behind that would let the next start go on
        with pytest.raises(PrefixTakenError, match=r"got 2: app-0-17, app-3-4711\. .*Flink") as raised:
            driver(cluster).recover()
    assert (
        "`penstock transactions abort --prefix app --bootstrap-server HOST:PORT --yes`"
        in raised.value.message
    )
    assert not cluster.has_log
    assert cluster.open_ids() == set(FLINK_NAMES)
    cluster.transactions.end(opened, is_commit=True)
    assert Counter(cluster.committed) == Counter(f"of {name}" for name in FLINK_NAMES)
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 0))


def test_a_driver_that_died_at_its_very_first_start_is_not_taken_for_a_stranger() -> None:
    cluster = SinkCluster()
    die_at(Step.TAKEN_PREFIX)
    with pytest.raises(Death):
        driver(cluster).recover()
    run_tasks(cluster, driver(cluster).recover(), 0)  # and dies
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 0))
    assert Counter(cluster.committed) == expected(range(1))
    assert not cluster.open_ids()


def test_a_start_that_is_fenced_while_it_takes_the_prefix_says_so() -> None:
    """The coordinator refuses so when two ask at once, while it aborts what the last one had open."""
    cluster = SinkCluster()
    driver(cluster).recover()
    cluster.kafka.control("InitProducerId", Refuse(PRODUCER_FENCED), times=3)
    with pytest.raises(PrefixTakenError, match="two queries use the same"):
        driver(cluster).recover()


def test_a_start_that_no_other_one_has_fenced_takes_the_prefix() -> None:
    """Kafka may call a take-over fenced when its coordinator fails over (KAFKA-20310)."""
    cluster = SinkCluster()
    run_tasks(cluster, driver(cluster).recover(), 0)  # and dies
    control = cluster.kafka.control("InitProducerId", Refuse(PRODUCER_FENCED), times=2)
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 0))
    assert len(control.seen) == 2
    assert Counter(cluster.committed) == expected(range(1))


@pytest.mark.parametrize("newer_has", ["the prefix", "open transactions", "decided", "committed"])
@BOTH
def test_an_older_start_that_asks_again_after_it_was_fenced_doubles_nothing(
    newer_has: str, protocol: TransactionProtocol
) -> None:
    """The coordinator refuses the older one because of the newer one. The older one gets the prefix back."""
    cluster = SinkCluster(protocol)
    driver(cluster).recover()
    newer = driver(cluster)
    mandates: list[Mandate] = []
    reports: list[TaskReport] = []

    def overtake() -> None:
        mandates.append(newer.recover())
        if newer_has != "the prefix":
            reports.extend(run_tasks(cluster, mandates[0], 0))
        if newer_has == "decided":
            die_at(Step.DECIDED)
            with pytest.raises(Death):
                newer.commit(reports)
        elif newer_has == "committed":
            newer.commit(reports)
        cluster.kafka.control("InitProducerId", Refuse(PRODUCER_FENCED))

    cluster.once_before("InitProducerId", overtake)
    older = driver(cluster)
    mandate = older.recover()
    if newer_has in {"decided", "committed"}:
        assert mandate.plan(QUERY, 0, 0) is TaskPlan.DRAIN
    else:
        newer_reports = reports or run_tasks(cluster, mandates[0], 0)
        with pytest.raises(PrefixTakenError, match="two queries use the same"):
            newer.commit(newer_reports)
        newer.abort(newer_reports)
        older.commit(run_tasks(cluster, older.recover(), 0))
    assert Counter(cluster.committed) == expected(range(1))
    assert not cluster.open_ids()
