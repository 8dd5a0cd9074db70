"""A task that loses its transactional id, or its transaction, while the prefix is still its driver's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NoReturn

import pyarrow as pa
import pytest

from penstock.client.transactions.steps import (
    TransactionIdentity,
    TransactionProtocol,
)
from penstock.errors import (
    PrefixTakenError,
    ProducerFencedError,
    TransactionsLostError,
)
from penstock.options.config import KafkaProperties, SinkConfig
from penstock.sink.exactly_once import task_writer
from penstock.sink.exactly_once.committable import Committable, TargetTopic
from penstock.sink.exactly_once.mandate import Mandate
from penstock.sink.exactly_once.task_writer import TaskAttempt, write_in_transaction
from penstock.testing.fake.control import LoseRequest
from tests.unit.fake_driver import QUERY, driver, expected, run_tasks
from tests.unit.sink_cluster import SinkCluster

CONFIG = SinkConfig(KafkaProperties((("bootstrap.servers", "127.0.0.1:1"),)), "target")
TASK_ID = "app-0-0"


@pytest.fixture(params=list(TransactionProtocol))
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SinkCluster:
    """A cluster that the task writer talks to."""
    made = SinkCluster(request.param)

    def begin_transaction(_: object, mandate: Mandate, *__: int) -> TransactionIdentity:
        return made.take(TASK_ID)

    def write(
        _: object, __: object, identity: TransactionIdentity, ___: object, batches: Iterator[pa.RecordBatch]
    ) -> tuple[Committable, tuple[TargetTopic, ...]]:
        for _batch in batches:
            made.write(identity, ["of the newest"])
        raise AssertionError("it was fenced")

    monkeypatch.setattr(task_writer, "connections_for", lambda _: made.client.connections)
    monkeypatch.setattr(task_writer, "begin_transaction", begin_transaction)
    monkeypatch.setattr(task_writer, "_write", write)
    return made


def rows(cluster: SinkCluster, happening: str) -> Iterator[pa.RecordBatch]:
    batch = pa.record_batch({"value": pa.array([b"x"], pa.binary())})
    yield batch
    if happening == "time-out":
        cluster.time_out(TASK_ID)
    else:
        late = cluster.take(TASK_ID)
        if happening != "taken":
            cluster.write(late, ["of the older"])
        if happening == "taken, written, aborted":
            cluster.transactions.end([late], is_commit=False)
    yield batch


@pytest.mark.parametrize(
    ("happening", "cause"),
    [
        ("taken", "another producer has taken the transactional id of app-0-0"),
        ("taken, written", "another producer has taken the transactional id of app-0-0"),
        ("taken, written, aborted", "another producer has taken the transactional id of app-0-0"),
        ("time-out", r"\(app-0-0\)\. Most likely more than 'transaction\.timeout\.ms' passed"),
    ],
)
def test_task_that_is_fenced_under_its_own_prefix_says_why(
    cluster: SinkCluster, happening: str, cause: str
) -> None:
    mandate = driver(cluster).recover()
    with pytest.raises(TransactionsLostError, match=rf"Spark partition 0 of batch 7 .*{cause}") as raised:
        write_in_transaction(CONFIG, mandate, TaskAttempt(QUERY, 7, 0, 0), rows(cluster, happening))
    assert isinstance(raised.value.__cause__, ProducerFencedError)
    assert raised.value.facts["spark_partition_ids"] == [0]
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 7))
    assert Counter(cluster.committed) == expected(range(7, 8))


def test_task_whose_prefix_is_taken_still_says_that(cluster: SinkCluster) -> None:
    mandate = driver(cluster).recover()
    driver(cluster).recover()
    with pytest.raises(PrefixTakenError, match="while Spark partition 0 of batch 7 was being written"):
        write_in_transaction(CONFIG, mandate, TaskAttempt(QUERY, 7, 0, 0), rows(cluster, "taken"))


def test_task_that_is_fenced_while_it_takes_its_id_says_so(
    cluster: SinkCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fenced(*_: object) -> NoReturn:
        raise ProducerFencedError("fenced", transactional_id=TASK_ID)

    monkeypatch.setattr(task_writer, "begin_transaction", fenced)
    mandate = driver(cluster).recover()
    with pytest.raises(TransactionsLostError, match="has taken the transactional id of app-0-0"):
        write_in_transaction(CONFIG, mandate, TaskAttempt(QUERY, 7, 0, 0), rows(cluster, "taken"))


def test_task_that_is_fenced_and_gets_no_answer_names_both_causes(
    cluster: SinkCluster,
) -> None:
    mandate = driver(cluster).recover()
    cluster.kafka.control("DescribeTransactions", LoseRequest(), times=None)
    with pytest.raises(TransactionsLostError, match=r"timeout\.ms' passed .*Otherwise another writer"):
        write_in_transaction(CONFIG, mandate, TaskAttempt(QUERY, 7, 0, 0), rows(cluster, "taken"))
