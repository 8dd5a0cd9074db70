"""A login with Kerberos tickets for kafka-python.

Runs where a connection is opened with SASL/GSSAPI; imported there only. kafka-python's mechanism gets tickets
on the IO thread, with the credentials of the whole process. Ours takes a context that was begun on another
thread, with the credentials of the options. The rest is kafka-python's. Invariant: a context is used once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.gssapi import SaslMechanismGSSAPI

from penstock.errors import AuthenticationError, PenstockError
from penstock.security.kerberos import KerberosLogin
from penstock.security.tickets import begin_context

ContextCallback = Callable[["BegunContext | PenstockError"], None]


class BegunContext:
    """A security context with a broker, and its first message."""

    def __init__(self, login: KerberosLogin, host: str, context: Any, first_message: bytes) -> None:
        self.login = login
        self.name = f"{login.service_name}@{host}"
        self.context = context
        self.first_message = first_message


class KerberosMechanism(SaslMechanismGSSAPI):  # type: ignore[misc]  # kafka-python is untyped
    """kafka-python's mechanism; it begins with a context of ours where it is given one."""

    def __init__(self, **config: Any) -> None:
        begun = config.get("sasl_kerberos_name")
        if not isinstance(begun, BegunContext):
            super().__init__(**config)  # a client of somebody else in this process
            return
        self._is_done = False
        self._is_authenticated = False
        self.auth_id = begun.name
        self.gssapi_name = None
        self._client_ctx = begun.context
        self._next_token = begun.first_message


def begin_on_a_thread(login: KerberosLogin, host: str, tell: ContextCallback) -> None:
    """Begin a context on a thread of its own, because that may wait for the KDC; tell it or the error."""

    def begin() -> None:
        try:
            told: BegunContext | PenstockError = BegunContext(login, host, *begin_context(login, host))
        except PenstockError as error:
            told = error
        except Exception as error:  # noqa: BLE001  # what waits has to be told
            told = AuthenticationError(f"Getting a Kerberos ticket failed: {type(error).__name__}.")
        tell(told)

    threading.Thread(target=begin, name="penstock-kerberos", daemon=True).start()


register_sasl_mechanism("GSSAPI", KerberosMechanism, overwrite=True)
