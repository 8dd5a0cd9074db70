"""The task of a continuous query under faults on single requests, on the fake Kafka.

`python -m tests.faults --continuous` does the same on real brokers.
"""

from __future__ import annotations

import pytest

from penstock.client.transactions.steps import TransactionProtocol
from penstock.testing import FakeKafka
from tests.faults.continuous import FaultyCopy


@pytest.mark.parametrize("protocol", TransactionProtocol)
def test_a_fault_on_one_request_loses_and_doubles_nothing(protocol: TransactionProtocol) -> None:
    with FakeKafka(transaction_version=protocol.value) as fake:
        tally = FaultyCopy(fake.bootstrap_servers, protocol, 3, "faults").run(4)
    assert tally.batches == 4
    assert sum(tally.faults.values()) >= 3
