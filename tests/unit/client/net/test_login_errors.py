"""What a login of a connection makes of errors. No broker: kafka-python's login is replaced."""

from __future__ import annotations

import pytest
from kafka import errors as kafka_errors
from kafka.net.connection import KafkaConnection

from penstock.client.net._relogin import Connection
from penstock.client.net.broker_errors import error_from_exception
from penstock.errors import AuthenticationError


def log_in(monkeypatch: pytest.MonkeyPatch, error: Exception) -> Exception:
    """The error of a login in which kafka-python raises one."""

    async def raises(*_: object) -> None:
        raise error

    monkeypatch.setattr(KafkaConnection, "_sasl_authenticate", raises)
    connection = object.__new__(Connection)
    connection.config = {"sasl_kerberos_name": None, "sasl_mechanism": "SCRAM-SHA-256"}
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the test looks at it
        connection._sasl_authenticate(None).send(None)
    return caught.value


@pytest.mark.parametrize("error", [ValueError("v=c2VjcmV0"), KeyError("x-of-a-broker"), RuntimeError("gss")])
def test_a_broker_that_breaks_the_rules_is_a_failed_login(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    found = error_from_exception(log_in(monkeypatch, error), "Metadata")
    assert isinstance(found, AuthenticationError)
    assert "breaks the rules of SCRAM-SHA-256" in str(found)
    assert not any(str(argument) in str(found) for argument in error.args), "what a broker sent is not shown"


@pytest.mark.parametrize(
    "error",
    [
        kafka_errors.KafkaConnectionError("cut"),
        AuthenticationError("no token"),
        ConnectionResetError("reset"),
    ],
)
def test_other_errors_stay_as_they_are(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    assert log_in(monkeypatch, error) is error
