"""Which open transaction holds back the last stable offset."""

from __future__ import annotations

from penstock.client.transactions.holders import NO_TRANSACTION, ActiveProducer, _first


def test_the_transaction_that_begins_first_holds_readers_back() -> None:
    idle = ActiveProducer(1, NO_TRANSACTION, 0)
    early, late = ActiveProducer(2, 0, 99), ActiveProducer(3, 7, 5)
    assert _first([idle, late, early]) is early
    assert _first([idle]) is None
    assert _first([]) is None
