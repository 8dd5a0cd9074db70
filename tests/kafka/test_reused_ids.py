"""A worker process uses its transactional ids again on a real broker: fewer requests, and each row once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest

from penstock.client.net.connection import close_shared_connections
from penstock.client.transactions.steps import Transactions
from penstock.options.config import SinkConfig
from penstock.sink.exactly_once.committable import TaskReport
from penstock.sink.exactly_once.mandate import Mandate
from penstock.sink.exactly_once.task_writer import TaskAttempt, write_in_transaction
from tests.kafka.sink_driver import (
    QUERY,
    SinkUnderTest,
    assert_none_open,
    assert_seen,
    expected,
    rows_of,
    sink_config,
)

TASKS = 3


@pytest.fixture(autouse=True)
def _new_process() -> Iterator[None]:
    """Drop the connections of this process, and with them its ids."""
    yield
    close_shared_connections()


def write(config: SinkConfig, mandate: Mandate, batch_id: int) -> list[TaskReport]:
    """Do the work of all tasks of a batch, in this process."""
    reports = []
    for at in range(TASKS):
        rows = rows_of(batch_id, at)
        batch = pa.record_batch(
            {"value": pa.array(rows, pa.binary()), "partition": pa.array([at] * len(rows), pa.int32())}
        )
        reports.append(write_in_transaction(config, mandate, TaskAttempt(QUERY, batch_id, at, 0), [batch]))
    return reports


def ids_of(reports: list[TaskReport]) -> set[str]:
    return {report.committable.identity.transactional_id for report in reports if report.committable}


def test_tasks_of_later_batches_only_produce(
    bootstrap: str, sink: SinkUnderTest, requests: Counter[str]
) -> None:
    config = sink_config(bootstrap, sink)
    sent, ids = [], []
    for batch_id in range(5):
        with sink.driver() as driver:
            mandate = driver.recover()
            requests.clear()
            reports = write(config, mandate, batch_id)
            sent.append(dict(requests))
            ids.append(ids_of(reports))
            driver.commit(reports)
        assert_none_open(sink)
    assert [each.get("InitProducerIdRequest", 0) for each in sent] == [TASKS, TASKS, 0, 0, 0]
    assert sent[2:] == [{"DescribeTransactionsRequest": 1, "ProduceRequest": TASKS}] * 3
    assert ids[1] == ids[2] == ids[3] == ids[4]
    assert_seen(bootstrap, sink.topic, expected(5, TASKS))


def test_ids_whose_transactions_were_aborted_are_used_again(bootstrap: str, sink: SinkUnderTest) -> None:
    """A batch that fails is aborted by the next recovery, and written again with the same ids."""
    config = sink_config(bootstrap, sink)
    for batch_id in range(2):
        with sink.driver() as driver:
            driver.commit(write(config, driver.recover(), batch_id))
        assert_none_open(sink)
    with sink.driver() as failing:
        given_up = write(config, failing.recover(), 2)
    with sink.driver() as driver:
        mandate = driver.recover()
        assert_none_open(sink)
        reports = write(config, mandate, 2)
        driver.commit(reports)
    assert ids_of(reports) == ids_of(given_up)
    assert_seen(bootstrap, sink.topic, expected(3, TASKS))


def test_an_id_that_another_producer_has_taken_is_left_to_it(bootstrap: str, sink: SinkUnderTest) -> None:
    config = sink_config(bootstrap, sink)
    for batch_id in range(3):
        with sink.driver() as driver:
            mandate = driver.recover()
            reports = write(config, mandate, batch_id)
            driver.commit(reports)
        assert_none_open(sink)
    taken = sorted(ids_of(reports))[0]
    Transactions(sink.connections).init_producer(
        taken, transaction_timeout_ms=mandate.transaction_timeout_ms, protocol=mandate.protocol
    )
    with sink.driver() as driver:
        reports = write(config, driver.recover(), 3)
        driver.commit(reports)
    assert taken not in ids_of(reports)
    assert len(ids_of(reports)) == TASKS
    assert_seen(bootstrap, sink.topic, expected(4, TASKS))
