"""Which open transaction holds back the last stable offset."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.client.cluster.results import Results
from penstock.client.transactions import holders
from penstock.client.transactions.holders import (
    NO_TRANSACTION,
    ActiveProducer,
    OpenTransaction,
    _first,
    first_open_transactions,
)
from penstock.client.transactions.steps import Transactions
from penstock.errors import AuthorizationError, PenstockError, RequestTimeoutError, UnsupportedBrokerError
from penstock.types import TopicPartition


def test_the_transaction_that_begins_first_holds_readers_back() -> None:
    idle = ActiveProducer(1, NO_TRANSACTION, 0)
    early, late = ActiveProducer(2, 0, 99), ActiveProducer(3, 7, 5)
    assert _first([idle, late, early]) is early
    assert _first([idle]) is None
    assert _first([]) is None


@pytest.mark.parametrize(
    ("error", "is_looked_up"),
    [(RequestTimeoutError, False), (AuthorizationError, True), (UnsupportedBrokerError, True)],
)
def test_a_coordinator_that_does_not_answer_does_not_hide_a_transaction(
    monkeypatch: pytest.MonkeyPatch, error: type[PenstockError], is_looked_up: bool
) -> None:
    here = TopicPartition("orders", 0)

    def list_open(*_arguments: Any, **_options: Any) -> Any:
        raise error("no list")

    def described(*_arguments: Any, **_options: Any) -> Results[TopicPartition, list[ActiveProducer]]:
        return Results({here: [ActiveProducer(4, 7, 0)]}, {})

    monkeypatch.setattr(Transactions, "list_open", list_open)
    monkeypatch.setattr(holders, "describe_producers", described)
    connections: Any = None
    assert first_open_transactions(connections, [here]) == {
        here: OpenTransaction(4, 7, None, None, is_looked_up)
    }
