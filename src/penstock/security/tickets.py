"""Kerberos tickets for one connection, by the system's Kerberos library (package `gssapi`, extra `kerberos`).

Runs in the process that connects, never on an IO thread: the library asks the KDC over the network and waits.
Invariant: every failure is an error of penstock. What another attempt may cure is a `BrokerUnavailableError`.
"""

from __future__ import annotations

import hashlib
import importlib
import re
from typing import Any

from penstock.errors import AuthenticationError, BrokerUnavailableError, PenstockError
from penstock.extras import missing_extra
from penstock.security.files import find_file, read_file
from penstock.security.kerberos import KerberosLogin

_KDC_UNREACHABLE = (-1765328228, -1765328164)
"""Minor codes of MIT Kerberos: no KDC of the realm answers; its name cannot be resolved."""
_UNSIGNED = 1 << 32
_GENERAL = re.compile(r"^Major \(\d+\): .*, Minor \(\d+\): ")
"""What says no more than that something failed; the reason follows."""


def load_gssapi() -> Any:
    """Import the package.

    Raises:
        MissingExtraError: it is not installed here, or the system has no Kerberos library.
    """
    try:
        return importlib.import_module("gssapi")
    except (ImportError, OSError):
        raise missing_extra(
            "kerberos",
            "A login with Kerberos (GSSAPI)",
            "It is built against the system's Kerberos library, which must be there too.",
            option="sasl.mechanism",
        ) from None


def check_kerberos(login: KerberosLogin) -> None:
    """Find what each login would fail with, without asking the KDC.

    Raises:
        OptionError: the package or the keytab is missing here.
    """
    load_gssapi()
    if login.keytab is not None:
        read_file(login.keytab, login.key)


def begin_context(login: KerberosLogin, host: str) -> tuple[Any, bytes]:
    """Begin a security context with the broker on a host, and return it with its first message.

    Args:
        login: whose tickets, for which service.
        host: the name of the broker, as it was dialled.

    Raises:
        OptionError: the package or the keytab is missing here.
        AuthenticationError: there is no ticket.
        BrokerUnavailableError: no KDC answers.
    """
    check_kerberos(login)
    gssapi = load_gssapi()
    try:
        target = gssapi.Name(f"{login.service_name}@{host}", gssapi.NameType.hostbased_service)
        context = gssapi.SecurityContext(
            name=target, creds=_credentials(gssapi, login), usage="initiate", mech=gssapi.MechType.kerberos
        )
        return context, context.step() or b""
    except gssapi.exceptions.GSSError as error:
        raise _error(login, host, error) from None


def _credentials(gssapi: Any, login: KerberosLogin) -> Any:
    """Return the credentials to use. The library gets new tickets from a keytab when the old ones end."""
    name = gssapi.Name(login.principal, gssapi.NameType.kerberos_principal) if login.principal else None
    if login.keytab is not None:
        path = str(find_file(login.keytab).absolute())
        of_login = hashlib.sha256(f"{path}\0{login.principal}".encode()).hexdigest()[:16]
        store = {"client_keytab": f"FILE:{path}", "ccache": f"MEMORY:penstock-{of_login}"}
    elif login.ticket_cache is not None:
        store = {"ccache": f"FILE:{login.ticket_cache}"}
    else:
        return gssapi.Credentials(name=name, usage="initiate")
    return gssapi.Credentials(name=name, usage="initiate", store=store)


def _error(login: KerberosLogin, host: str, error: Any) -> PenstockError:
    said = _GENERAL.sub("", " ".join(str(error).split())).rstrip(".")
    service = f"the Kerberos service {login.service_name}/{host}"
    if getattr(error, "min_code", 0) in {code % _UNSIGNED for code in _KDC_UNREACHABLE}:
        return BrokerUnavailableError(
            f"There is no ticket for {service}, because no KDC answers: {said}. Check krb5.conf "
            "(KRB5_CONFIG) and the network of this machine."
        )
    source = f"the keytab '{login.keytab}'" if login.keytab else "the ticket cache (kinit, klist)"
    return AuthenticationError(
        f"There is no ticket for {service}: {said}. Check {source}, the principal "
        f"{login.principal or '(the default one)'}, 'sasl.kerberos.service.name', and the clock of this "
        "machine."
    )
