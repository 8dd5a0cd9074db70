"""Taking a transactional id that the coordinator refuses as fenced: by another producer, or by none."""

from __future__ import annotations

import pytest

from penstock.client.net.connection import KafkaConnections
from penstock.client.net.error_codes import INVALID_PRODUCER_EPOCH, PRODUCER_FENCED
from penstock.client.settings import ConnectionSettings
from penstock.client.transactions.steps import TransactionIdentity, TransactionProtocol, Transactions
from penstock.errors import ProducerFencedError
from penstock.testing import FakeKafka
from penstock.testing.fake.control import Refuse


def take(fake: FakeKafka) -> TransactionIdentity:
    connections = KafkaConnections(ConnectionSettings((fake.bootstrap_servers,), "take"))
    try:
        return Transactions(connections).init_producer(
            "app", transaction_timeout_ms=60_000, protocol=TransactionProtocol.V2
        )
    finally:
        connections.close()


@pytest.mark.parametrize("code", [PRODUCER_FENCED, INVALID_PRODUCER_EPOCH])
def test_it_is_asked_again(code: int) -> None:
    with FakeKafka() as fake:
        assert take(fake).producer_epoch == 0
        control = fake.control("InitProducerId", Refuse(code), times=2)
        assert take(fake).producer_epoch == 1
        assert len(control.seen) == 2


def test_in_the_end_it_is_an_error() -> None:
    with FakeKafka() as fake:
        fake.control("InitProducerId", Refuse(PRODUCER_FENCED), times=3)
        with pytest.raises(ProducerFencedError, match="Another producer has taken this transactional id"):
            take(fake)
