"""A batch is known by what it holds: replays that bring something else, over a cluster in memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from penstock.client.transactions.steps import TransactionProtocol
from penstock.errors import ExactlyOnceError, PrefixTakenError, TransactionsInDoubtError
from penstock.sink.exactly_once._probes import Step
from penstock.sink.exactly_once.committable import TaskReport
from penstock.sink.exactly_once.decision import DecisionStatus
from penstock.sink.exactly_once.log import DecisionLog
from tests.deaths import Death, die_at
from tests.unit.fake_driver import (
    BOTH,
    PREFIX,
    QUERY,
    decision_of,
    drain,
    driver,
    expected,
    resolve,
    rows_of,
    run_task,
    run_tasks,
)
from tests.unit.sink_cluster import SinkCluster


def written(cluster: SinkCluster, batch_count: int = 1) -> None:
    for batch_id in range(batch_count):
        driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), batch_id))


def replay(cluster: SinkCluster, rows: list[list[str]], batch_id: int = 0) -> list[TaskReport]:
    mandate = driver(cluster).recover()
    return [run_task(cluster, mandate, batch_id, at, rows=each) for at, each in enumerate(rows)]


OTHERS: dict[str, tuple[list[list[str]], str]] = {
    "more": ([rows_of(0, 0), rows_of(0, 1), [*rows_of(0, 2), "new"]], "with 6 records, the replay brought 7"),
    "fewer": ([rows_of(0, 0), rows_of(0, 1), rows_of(0, 2)[:2]], "with 6 records, the replay brought 5"),
    "others": ([["other"], rows_of(0, 1), rows_of(0, 2)], "brought 6 records.*but other ones"),
    "none": ([[], [], []], "with 6 records, the replay brought 0 records"),
    "doubled": ([rows_of(0, 1), rows_of(0, 1), rows_of(0, 1)], "brought 6 records.*but other ones"),
}


@pytest.mark.parametrize("at_death", [None, Step.DECIDED, Step.FINISHED], ids=str)
@pytest.mark.parametrize("name", OTHERS)
def test_replay_that_is_not_what_is_written_is_an_error_and_lost_to_nobody(
    name: str, at_death: Step | None
) -> None:
    cluster = SinkCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    if at_death is None:
        driver(cluster).commit(reports)
    else:
        die_at(at_death)
        with pytest.raises(Death):
            driver(cluster).commit(reports)
    rows, words = OTHERS[name]
    for _ in range(2):  # and stays one
        replayed = replay(cluster, rows)
        with pytest.raises(TransactionsInDoubtError, match=rf"batch 0 of query query-1 .*{words}"):
            driver(cluster).commit(replayed)
        driver(cluster).abort(replayed)
    assert Counter(cluster.committed) == expected(range(1))
    assert decision_of(cluster).is_in_doubt
    # The newest checkpoint brings what was written, and then goes on.
    drain(cluster, run_tasks(cluster, driver(cluster).recover(), 0))
    assert not decision_of(cluster).is_in_doubt
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 1))
    assert Counter(cluster.committed) == expected(range(2))
    assert not decision_of(cluster).is_in_doubt


def test_replay_of_another_parallelism_is_the_same_batch() -> None:
    cluster = SinkCluster()
    written(cluster)
    everything = [*rows_of(0, 2), *rows_of(0, 0), *rows_of(0, 1)]
    drain(cluster, replay(cluster, [everything]))
    drain(cluster, replay(cluster, [[], everything, [], []]))


def test_different_replay_is_taken_once_when_a_human_says_so() -> None:
    cluster = SinkCluster()
    written(cluster)
    more, _ = OTHERS["more"]
    with pytest.raises(TransactionsInDoubtError, match="take-as-written"):
        driver(cluster).commit(replay(cluster, more))
    resolve(cluster, is_taken=True)
    # The replay may come twice, as Spark may die before its commit log; but it has to be that one.
    for _ in range(2):
        drain(cluster, replay(cluster, more))
    assert decision_of(cluster).is_taken_as_written
    assert decision_of(cluster).record_count == 7
    for other in ("others", "none"):
        with pytest.raises(TransactionsInDoubtError, match="not what is written"):
            driver(cluster).commit(replay(cluster, OTHERS[other][0]))
    # And what comes later is written, and held to what was written.
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 1))
    assert not decision_of(cluster).is_taken_as_written
    with pytest.raises(TransactionsInDoubtError):
        driver(cluster).commit(replay(cluster, more, 1))
    assert Counter(cluster.committed) == expected(range(2))


def test_batch_is_written_whole_when_a_human_says_so() -> None:
    cluster = SinkCluster()
    written(cluster)
    others, _ = OTHERS["others"]
    with pytest.raises(TransactionsInDoubtError, match="write-again"):
        driver(cluster).commit(replay(cluster, others))
    resolve(cluster, is_taken=False)
    driver(cluster).commit(replay(cluster, others))
    drain(cluster, replay(cluster, others))
    assert Counter(cluster.committed) == expected(range(1)) + Counter(row for rows in others for row in rows)


def test_drained_rows_of_a_batch_that_a_human_had_written_again_meanwhile_are_not_lost() -> None:
    cluster = SinkCluster()
    written(cluster)
    drained = replay(cluster, [rows_of(0, at) for at in range(3)])
    with pytest.raises(TransactionsInDoubtError):
        driver(cluster).commit(replay(cluster, OTHERS["more"][0]))
    resolve(cluster, is_taken=False)
    with pytest.raises(PrefixTakenError):
        driver(cluster).commit(drained)
    # Also where it is the prefix's own session that comes back.
    session = driver(cluster).recover().session
    with pytest.raises(ExactlyOnceError, match=r"read 6 records of batch 0 .* without writing them"):
        driver(cluster).commit([replace(each, session=session) for each in drained])


@BOTH
def test_new_rows_in_a_committed_partition_of_a_lost_batch_are_noticed(protocol: TransactionProtocol) -> None:
    cluster = SinkCluster(protocol)
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    die_at(Step.DECIDED)
    with pytest.raises(Death):
        driver(cluster).commit(reports)
    cluster.time_out("app-1-0")
    rows = [rows_of(0, at) for at in range(3)]
    replayed = replay(cluster, [rows[0], rows[1], [*rows[2], "new"]])
    with pytest.raises(TransactionsInDoubtError, match="partition 2 brought 4 records, 3 were committed"):
        driver(cluster).commit(replayed)
    driver(cluster).abort(replayed)
    # Rows of committed partitions may change their order.
    driver(cluster).commit(replay(cluster, [[*rows[0], *rows[2]], rows[1], []]))
    assert Counter(cluster.committed) == expected(range(1))
    # The sum of all its transactions is what the next replay is held to.
    drain(cluster, replay(cluster, rows))


@pytest.mark.parametrize("name", ["more", "others"])
def test_batch_that_0_1_0_has_finished_is_held_to_its_count(name: str) -> None:
    cluster = SinkCluster()
    written(cluster)
    log = DecisionLog(cluster.log_store, PREFIX)
    session = driver(cluster).recover().session
    log.open(create=False)
    log.append(session, replace(log.catch_up()[QUERY], digest=None, topics=()))
    rows, words = OTHERS[name]
    if name == "others":  # 0.1.0 has not kept what tells them apart
        drain(cluster, replay(cluster, rows))
    else:
        with pytest.raises(TransactionsInDoubtError, match=words):
            driver(cluster).commit(replay(cluster, rows))


def test_empty_batches_leave_no_decision_and_their_numbers_are_free() -> None:
    cluster = SinkCluster()
    written(cluster)
    for _ in range(2):
        driver(cluster).commit(replay(cluster, [[], []], 1))
    assert decision_of(cluster).batch_id == 0
    # Spark has planned the empty batch again, over what came since.
    driver(cluster).commit(replay(cluster, [["new"]], 1))
    assert Counter(cluster.committed) == expected(range(1)) + Counter(["new"])


def test_stale_driver_does_not_note_its_doubt() -> None:
    cluster = SinkCluster()
    written(cluster)
    stale = replay(cluster, OTHERS["more"][0])
    driver(cluster).recover()
    with pytest.raises(PrefixTakenError):
        driver(cluster).commit(stale)
    assert not decision_of(cluster).is_in_doubt
    assert decision_of(cluster).status is DecisionStatus.FINISHED
