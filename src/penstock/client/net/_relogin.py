"""Logging in with tokens or tickets, and again while a connection lives (KIP-368), by kafka-python's means.

Runs on the IO thread. kafka-python logs in again before the broker's session ends: it lets what is in flight
come to an end, keeps new requests back, and goes on. Invariants: the IO thread never waits for a token or a
Kerberos ticket; a login that fails on a living connection ends that connection as any other break does, and
so nothing is lost: its requests are sent again on a new connection, whose login tells whether the credentials
are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from kafka import errors as kafka_errors
from kafka.future import Future
from kafka.net.connection import KafkaConnection

from penstock.errors import PenstockError
from penstock.security.kerberos import KerberosLogin

_USUAL = (
    kafka_errors.KafkaConnectionError,
    kafka_errors.KafkaTimeoutError,
    kafka_errors.RequestTimedOutError,
    kafka_errors.KafkaProtocolError,
    kafka_errors.Cancelled,
)


class Connection(KafkaConnection):  # type: ignore[misc]  # kafka-python is untyped
    """kafka-python's connection; an error of a second login is a broken connection."""

    def close(self, error: Exception | None = None) -> None:
        """Close; `error` is given to what is in flight."""
        if self.connected and error is not None and not isinstance(error, _USUAL):
            # Brokers also refuse a second login within one second of the last one.
            error = kafka_errors.KafkaConnectionError(f"logging in again failed: {type(error).__name__}")
        super().close(error)

    async def _sasl_authenticate(self, timeout_at: float | None = None) -> None:
        given = self.config["sasl_kerberos_name"]
        if given is not None:
            login = given if isinstance(given, KerberosLogin) else given.login
            self.config["sasl_kerberos_name"] = await _begun_context(self.net, login, self.transport.host)
        try:
            await super()._sasl_authenticate(timeout_at)
        except (kafka_errors.KafkaError, PenstockError, OSError):
            raise
        except Exception as error:
            # The text is that of a library, and may quote what the broker has sent.
            raise kafka_errors.SaslAuthenticationFailedError(
                f"the broker's answer breaks the rules of {self.config['sasl_mechanism']} "
                f"({type(error).__name__}); it may not be the broker that it claims to be"
            ) from error


async def _begun_context(net: Any, login: KerberosLogin, host: str) -> Any:
    """Wait until there is a ticket for the broker. Raises PenstockError if there is none."""
    from penstock.client._kerberos import begin_on_a_thread  # noqa: PLC0415 - few connections need it

    return await _told(net, partial(begin_on_a_thread, login, host))


async def _told(net: Any, ask: Callable[[Callable[[Any], None]], None]) -> Any:
    """Wait for what `ask` tells from any thread; an error of penstock is raised."""
    done = Future()

    def tell(told: Any) -> None:
        # A closed selector has no task that waits any more.
        with suppress(RuntimeError, kafka_errors.KafkaError):
            net.call_soon_threadsafe(
                lambda: done.failure(told) if isinstance(told, PenstockError) else done.success(told)
            )

    ask(tell)
    return await done


def as_ours(connection: Any) -> Any:
    """Return a fresh connection of kafka-python's manager as ours; the manager knows no other class."""
    if type(connection) is KafkaConnection:
        connection.__class__ = Connection
    return connection


async def wait_for_token(net: Any, provider: Any) -> None:
    """Wait until a token provider has a token. Raises PenstockError if there is none."""
    await _told(net, provider.keeper.when_there)
