"""A fault on one request of each batch of the exactly-once sink, on the real broker, with both protocols."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.client.transactions.steps import TransactionProtocol
from penstock.devbroker import DevCluster
from penstock.testing.plugin import unique_name
from tests.faults.run import FaultyRun, use_protocol
from tests.fix_broker import NEVER_FENCED, START_TIMEOUT_S


@pytest.mark.promise
def test_a_fault_on_one_request_loses_and_doubles_nothing(bootstrap: str) -> None:
    run = FaultyRun(bootstrap, TransactionProtocol.V2, 4, unique_name("faults"))
    tally = run.run(15)
    assert tally.batches == 15
    assert sum(tally.faults.values()) >= 12


@pytest.fixture(scope="module")
def older() -> Iterator[DevCluster]:
    """A broker with transaction protocol 1."""
    with DevCluster(properties=NEVER_FENCED, start_timeout_s=START_TIMEOUT_S) as cluster:
        use_protocol(cluster.bootstrap_servers, TransactionProtocol.V1)
        yield cluster


def test_a_fault_on_one_request_loses_and_doubles_nothing_with_protocol_1(older: DevCluster) -> None:
    tally = FaultyRun(older.bootstrap_servers, TransactionProtocol.V1, 4, unique_name("faults")).run(35)
    assert tally.batches == 35
    assert sum(tally.faults.values()) >= 28
    assert {api for api, _ in tally.faults} >= {"AddPartitionsToTxn", "EndTxn", "Produce"}
