"""What an error says of a batch that is decided, or may be: it must not be run again as if it were not."""

from __future__ import annotations

import logging
import pickle
from collections import Counter
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import replace

import pytest

from penstock.client.transactions.steps import EndResult, TransactionIdentity, TransactionProtocol
from penstock.errors import (
    DecidedError,
    PenstockError,
    RequestTimeoutError,
    TransactionsInDoubtError,
)
from penstock.sink.exactly_once._probes import Step, observe
from penstock.sink.exactly_once.decision import BATCH_WRITE_PREFIX, NAMED_WRITE_PREFIX
from penstock.testing.fake.control import LoseRequest
from tests.unit.fake_driver import BOTH, PREFIX, QUERY, driver, expected, rows_of, run_task, run_tasks
from tests.unit.sink_cluster import SinkCluster

WRITE = f"{BATCH_WRITE_PREFIX}w"
NAMED = f"{NAMED_WRITE_PREFIX}load-1"
COMMITTER = f"{PREFIX}-committer"
COMMAND = rf"`penstock transactions recover --prefix {PREFIX} --bootstrap-server HOST:PORT --yes`"


@pytest.mark.parametrize(
    ("query_id", "words"),
    [
        (QUERY, rf"^Batch 0 of query query-1 is decided, .* Restart the query: nothing .* {COMMAND}"),
        (WRITE, rf"^Batch write w is decided, .* Do not run it again, because .* {COMMAND}"),
        (NAMED, rf"^Batch write load-1 .* is decided, .* again with the same sink\.write-id.* {COMMAND}"),
    ],
)
def test_a_decided_batch_that_cannot_be_finished_says_that_it_is_decided(
    query_id: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = SinkCluster()
    reports = [run_task(cluster, driver(cluster).recover(), 0, 0, query_id=query_id)]
    with (
        cluster.lose_answers("EndTxn", "app-0-0"),
        caplog.at_level(logging.ERROR),
        pytest.raises(DecidedError, match=words) as raised,
    ):
        driver(cluster).commit(reports)
    assert "no answer" in raised.value.message
    assert raised.value.message in caplog.text
    assert raised.value.facts["is_decided"] is True
    assert pickle.loads(pickle.dumps(raised.value)).facts == raised.value.facts  # noqa: S301 - own bytes
    driver(cluster).abort(reports)
    driver(cluster).recover()
    assert Counter(cluster.committed) == Counter(rows_of(0, 0))


@BOTH
def test_a_decision_whose_answer_is_lost_is_found_to_be_decided(protocol: TransactionProtocol) -> None:
    cluster = SinkCluster(protocol)
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    with (
        cluster.lose_answers("EndTxn", COMMITTER, is_commit=True),
        pytest.raises(DecidedError, match="is decided") as raised,
    ):
        driver(cluster).commit(reports)
    assert raised.value.facts["is_decided"] is True
    driver(cluster).abort(reports)
    driver(cluster).recover()
    assert Counter(cluster.committed) == expected(range(1))


@BOTH
def test_a_decision_that_can_be_made_no_more_is_said_to_be_none(protocol: TransactionProtocol) -> None:
    cluster = SinkCluster(protocol)
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    with (
        cluster.lose_answers("Produce", COMMITTER),
        pytest.raises(RequestTimeoutError, match=r"^ProduceRequest: no answer .* not decided"),
    ):
        driver(cluster).commit(reports)
    assert COMMITTER not in cluster.open_ids()
    driver(cluster).abort(reports)
    assert cluster.committed == []
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 0))
    assert Counter(cluster.committed) == expected(range(1))


@pytest.mark.parametrize("is_decided", [True, False])
@pytest.mark.parametrize("query_id", [QUERY, WRITE])
def test_a_decision_of_which_nothing_can_be_known_is_not_denied(query_id: str, is_decided: bool) -> None:
    cluster = SinkCluster()
    reports = [run_task(cluster, driver(cluster).recover(), 0, 0, query_id=query_id)]
    with cluster.lose_answers("EndTxn", COMMITTER), ExitStack() as also:
        if not is_decided:
            also.enter_context(cluster.lose_answers("Produce", COMMITTER))
        with pytest.raises(DecidedError, match=r"^It is unknown whether batch .*: .*no answer") as raised:
            driver(cluster).commit(reports)
    assert raised.value.facts["is_decided"] is None
    assert ("Do not run it again yet" in raised.value.message) == (query_id == WRITE)


def test_a_defect_after_the_decision_says_so_too(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = SinkCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)

    def broken(identities: Collection[TransactionIdentity], *, is_commit: bool) -> dict[object, EndResult]:
        raise KeyError("a defect")

    observe(
        lambda step: (
            monkeypatch.setattr(cluster.transactions, "end", broken) if step is Step.DECIDED else None
        )
    )
    with pytest.raises(DecidedError, match=r"is decided.*KeyError: 'a defect'"):
        driver(cluster).commit(reports)
    observe(None)
    monkeypatch.undo()
    driver(cluster).recover()
    assert Counter(cluster.committed) == expected(range(1))


def test_a_doubt_keeps_its_class_and_says_that_the_batch_is_decided() -> None:
    cluster = SinkCluster()
    reports = [run_task(cluster, driver(cluster).recover(), 0, 0, query_id=WRITE)]
    cluster.delete_target_records()
    observe(lambda step: cluster.expire("app-0-0") if step is Step.DECIDED else None)
    with pytest.raises(TransactionsInDoubtError, match="Do not run it again") as raised:
        driver(cluster).commit(reports)
    observe(None)
    assert raised.value.facts["is_decided"] is True


@pytest.mark.parametrize(
    ("has_witness", "words"),
    [
        (True, "its records are no longer in the log"),
        (False, "no answer of a broker told the offset of one of its records"),
    ],
)
def test_a_doubt_says_why_the_log_cannot_tell_the_outcome(has_witness: bool, words: str) -> None:
    cluster = SinkCluster()
    report = run_task(cluster, driver(cluster).recover(), 0, 0)
    assert report.committable is not None
    if has_witness:
        cluster.delete_target_records()
    else:
        report = replace(report, committable=replace(report.committable, witness=None))
    observe(lambda step: cluster.expire("app-0-0") if step is Step.DECIDED else None)
    with pytest.raises(TransactionsInDoubtError, match=f"coordinator cannot tell any more, and {words}"):
        driver(cluster).commit([report])
    observe(None)


def test_no_error_before_the_decision_says_that_it_is_decided() -> None:
    cluster = SinkCluster()
    reports = run_tasks(cluster, driver(cluster).recover(), 0)
    cluster.lose("Produce", COMMITTER, LoseRequest())
    with pytest.raises(PenstockError, match="not decided") as raised:
        driver(cluster).commit(reports)
    assert not isinstance(raised.value, DecidedError)
