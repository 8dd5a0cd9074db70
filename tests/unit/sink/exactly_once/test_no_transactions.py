"""Topics without transactions: their marks, and the broker's refusals that get a name."""

from __future__ import annotations

from typing import cast

import pytest

from penstock.client.net import error_codes as codes
from penstock.client.net.connection import KafkaConnections
from penstock.client.transactions.limits import mark_in
from penstock.errors import BrokerUnavailableError, NoTransactionsError, PenstockError, ProduceError
from penstock.sink.exactly_once import no_transactions as room
from penstock.sink.exactly_once.no_transactions import refusal_named

CONNECTIONS = cast("KafkaConnections", None)


@pytest.mark.parametrize(
    ("config", "mark"),
    [
        ({}, None),
        ({"diskless.enable": "false"}, None),
        ({"diskless.enable": None, "inkless.enable": "TRUE"}, "inkless.enable=true"),
        ({"diskless.enable": "true", "cleanup.policy": "delete"}, "diskless.enable=true"),
    ],
)
def test_a_topic_says_by_its_settings_that_it_is_diskless(
    config: dict[str, str | None], mark: str | None
) -> None:
    assert mark_in(config) == mark


def refused(code: int = codes.INVALID_REQUEST) -> ProduceError:
    return ProduceError("Refused.", topic="orders", partition=0, error_code=code)


def marked(monkeypatch: pytest.MonkeyPatch, mark: str | None) -> None:
    monkeypatch.setattr(room, "mark_of_no_transactions", lambda *_, **__: mark)


def test_the_refusal_of_a_diskless_topic_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    marked(monkeypatch, "diskless.enable=true")
    error = refusal_named(CONNECTIONS, refused())
    assert isinstance(error, NoTransactionsError)
    assert "Topic 'orders'" in str(error)
    assert "diskless.enable=true" in str(error)
    assert "'at-least-once'" in str(error)


def test_other_refusals_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    marked(monkeypatch, None)
    of_other_reason = refused()
    assert refusal_named(CONNECTIONS, of_other_reason) is of_other_reason
    marked(monkeypatch, "diskless.enable=true")
    too_large = refused(codes.MESSAGE_TOO_LARGE)
    assert refusal_named(CONNECTIONS, too_large) is too_large
    without_topic: PenstockError = ProduceError("The buffer is full.")
    assert refusal_named(CONNECTIONS, without_topic) is without_topic


def test_a_broker_that_cannot_be_asked_hides_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object, **__: object) -> str | None:
        raise BrokerUnavailableError("No.")

    monkeypatch.setattr(room, "mark_of_no_transactions", away)
    error = refused()
    assert refusal_named(CONNECTIONS, error) is error
