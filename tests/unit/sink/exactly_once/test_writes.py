"""Batch writes over the cluster in memory: named ones that are run again, and those that are lost in part."""

from __future__ import annotations

from collections import Counter

import pytest

from penstock.errors import PenstockError, TransactionsInDoubtError, TransactionsLostError
from penstock.sink.exactly_once._probes import Step
from penstock.sink.exactly_once.committable import TaskReport
from penstock.sink.exactly_once.decision import BATCH_WRITE_PREFIX, NAMED_WRITE_PREFIX, DecisionStatus
from penstock.sink.exactly_once.mandate import Mandate
from tests.deaths import Death, die_at
from tests.unit.fake_driver import QUERY, driver, expected, run_task
from tests.unit.sink_cluster import SinkCluster

NAMED = f"{NAMED_WRITE_PREFIX}load-1"
OTHER = f"{NAMED_WRITE_PREFIX}load-2"
PLAIN = f"{BATCH_WRITE_PREFIX}w"
DRIVER_STEPS = [step for step in Step if not step.name.startswith("TASK_")]


def tasks(cluster: SinkCluster, mandate: Mandate, query_id: str) -> list[TaskReport]:
    return [run_task(cluster, mandate, 0, at, query_id=query_id) for at in range(3)]


def write(cluster: SinkCluster, query_id: str) -> None:
    mandate = driver(cluster).recover(query_id)
    driver(cluster).commit(tasks(cluster, mandate, query_id))


def lose_a_part(cluster: SinkCluster, query_id: str) -> None:
    """Its driver dies after the decision, and the broker aborts one of three transactions."""
    reports = tasks(cluster, driver(cluster).recover(query_id), query_id)
    die_at(Step.DECIDED)
    with pytest.raises(Death):
        driver(cluster).commit(reports)
    cluster.time_out("app-1-0")


@pytest.mark.parametrize("step", DRIVER_STEPS)
def test_a_named_write_that_dies_anywhere_is_written_once_when_it_is_run_again(step: Step) -> None:
    cluster = SinkCluster()
    is_in_recovery = step in (
        Step.TAKEN_PREFIX,
        Step.BEFORE_FINISHING_OLD,
        Step.FINISHED_OLD,
        Step.RECOVERED,
    )
    die_at(Step.DECIDED if is_in_recovery else step)
    with pytest.raises(Death):
        write(cluster, NAMED)
    if is_in_recovery:
        die_at(step)
        with pytest.raises(Death):
            write(cluster, NAMED)
    for _ in range(3):
        write(cluster, NAMED)
    assert Counter(cluster.committed) == expected(range(1))
    assert not cluster.open_ids()


def test_names_are_remembered_beyond_other_writes() -> None:
    cluster = SinkCluster()
    write(cluster, NAMED)
    write(cluster, OTHER)
    write(cluster, PLAIN)
    write(cluster, NAMED)
    assert Counter(cluster.committed) == expected(range(1)) + expected(range(1)) + expected(range(1))


def test_tasks_are_not_told_the_names_of_other_writes() -> None:
    cluster = SinkCluster()
    driver(cluster).commit(tasks(cluster, driver(cluster).recover(), QUERY))
    write(cluster, NAMED)
    write(cluster, OTHER)
    assert set(driver(cluster).recover().known) == {QUERY}
    assert set(driver(cluster).recover(NAMED).known) == {QUERY, NAMED}


def test_a_repeated_name_says_that_nothing_is_written(caplog: pytest.LogCaptureFixture) -> None:
    cluster = SinkCluster()
    write(cluster, NAMED)
    assert "load-1" not in caplog.text
    write(cluster, NAMED)
    assert "batch write load-1 (sink.write-id) is written already" in caplog.text


@pytest.mark.parametrize("rows", [["other"], [], ["0/0/1"]])
def test_other_rows_under_a_used_name_are_an_error(rows: list[str]) -> None:
    cluster = SinkCluster()
    for row in ("0/0/0", "0/0/0"):
        mandate = driver(cluster).recover(NAMED)
        driver(cluster).commit([run_task(cluster, mandate, 0, 0, query_id=NAMED, rows=[row])])
    mandate = driver(cluster).recover(NAMED)
    report = run_task(cluster, mandate, 0, 0, query_id=NAMED, rows=rows)
    with pytest.raises(TransactionsInDoubtError, match=r"load-1 .*is not what is written: .* sink\.write-id"):
        driver(cluster).commit([report])
    assert cluster.committed == ["0/0/0"]


def test_a_named_write_that_is_lost_in_part_is_made_whole_by_running_it_again() -> None:
    cluster = SinkCluster()
    lose_a_part(cluster, NAMED)
    for other in (OTHER, PLAIN, None):
        with pytest.raises(TransactionsLostError, match=r"Run the write again .* same sink\.write-id"):
            driver(cluster).recover(other)
    before = list(cluster.committed)
    write(cluster, NAMED)
    assert Counter(cluster.committed) - Counter(before) == Counter(["0/1/0", "0/1/1"])
    assert Counter(cluster.committed) == expected(range(1))
    write(cluster, OTHER)


def test_a_batch_write_that_is_lost_in_part_stops_every_other_writer_of_its_prefix() -> None:
    cluster = SinkCluster()
    lose_a_part(cluster, PLAIN)
    for query_id in (None, f"{BATCH_WRITE_PREFIX}next", NAMED, None):
        with pytest.raises(TransactionsLostError, match=r"1 of 3 .* batch write w .*doubles them") as raised:
            driver(cluster).recover(query_id)
    command = (
        "`penstock transactions abort --prefix app --bootstrap-server HOST:PORT "
        f"--query {PLAIN} --resolution take-as-written --yes`"
    )
    assert command in raised.value.message
    assert Counter(cluster.committed) == expected(range(1)) - Counter(["0/1/0", "0/1/1"])
    assert not cluster.open_ids(), "what is not decided is cleared away all the same"
    driver(cluster, "app-2").recover()  # other prefixes go on


def test_a_batch_write_that_is_lost_whole_stops_nobody() -> None:
    cluster = SinkCluster()
    lose_a_part(cluster, PLAIN)
    for at in (0, 2):
        cluster.time_out(f"app-{at}-0")
    write(cluster, PLAIN)
    assert Counter(cluster.committed) == expected(range(1))


def test_a_stream_that_is_lost_in_part_stops_no_batch_write() -> None:
    """It is refused when its own next batch comes."""
    cluster = SinkCluster()
    lose_a_part(cluster, QUERY)
    write(cluster, NAMED)
    assert driver(cluster).recover().known[QUERY].status is DecisionStatus.LOST


def test_a_write_that_fails_before_its_decision_can_be_run_again_under_its_name() -> None:
    cluster = SinkCluster()
    reports = tasks(cluster, driver(cluster).recover(NAMED), NAMED)
    cluster.time_out("app-1-0")
    with pytest.raises(PenstockError):
        driver(cluster).commit(reports)
    driver(cluster).abort(reports)
    write(cluster, NAMED)
    assert Counter(cluster.committed) == expected(range(1))
