"""Ending a transaction: what the coordinator answers, and what that is taken for."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.producer import EndTxnResponse

from penstock.client.net import error_codes as codes
from penstock.client.transactions.steps import EndState, TransactionIdentity, Transactions
from penstock.errors import ProducerFencedError
from tests.unit.client.cluster.test_coordinators import Brokers

OURS = TransactionIdentity("app-committer", 7, 3)


class Coordinator(Brokers):
    """Answers EndTxn with these codes, one after the other."""

    def __init__(self, *error_codes: int) -> None:
        super().__init__(lambda node_id: 0)
        self.error_codes = list(error_codes)

    def send(self, request: Any, node_id: int, timeout_ms: int) -> Any:
        code = self.error_codes.pop(0)
        response = EndTxnResponse(
            version=5, throttle_time_ms=0, error_code=code, producer_id=7, producer_epoch=4
        )
        return type("Pending", (), {"result": lambda _: response})()


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_unexpected_server_error_is_asked_again(is_commit: bool) -> None:
    """Kafka says so while another producer takes the id: what became of it is known a moment later."""
    coordinator = Coordinator(
        codes.UNKNOWN_SERVER_ERROR, codes.CONCURRENT_TRANSACTIONS, codes.PRODUCER_FENCED
    )
    result = Transactions(coordinator.connections).end([OURS], is_commit=is_commit)[OURS]
    assert result.state is EndState.FENCED
    assert isinstance(result.error, ProducerFencedError)


def test_a_commit_that_went_through_all_the_same_is_done() -> None:
    coordinator = Coordinator(codes.UNKNOWN_SERVER_ERROR, 0)
    result = Transactions(coordinator.connections).end([OURS], is_commit=True)[OURS]
    assert (result.state, result.next_identity) == (EndState.DONE, TransactionIdentity("app-committer", 7, 4))
