"""SASL/GSSAPI from Java-style properties: which Kerberos credentials log in, and to which service.

Runs wherever settings are made from properties. `tickets.py` gets the tickets. Invariant: frozen and
hashable. Kerberos settings hold names and paths, and no secret.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.errors import MissingOptionError, OptionError
from penstock.options.config import KafkaProperties
from penstock.options.properties import property_value
from penstock.security.jaas import KEY as JAAS_KEY
from penstock.security.jaas import LoginModule, parse_jaas_config

MODULE = "Krb5LoginModule"
KERBEROS_LINE = (
    "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
    'keyTab="/path/to/alice.keytab" principal="alice@EXAMPLE.COM";'
)
_SERVICE = "sasl.kerberos.service.name"
_LOGIN = "security.kerberos.login."


@dataclass(frozen=True)
class KerberosLogin:
    """A login with Kerberos tickets: of a keytab, of a ticket cache, or of the default ticket cache.

    `key` is the option that names the credentials, for errors.
    """

    mechanism: ClassVar[str] = "GSSAPI"
    service_name: str = "kafka"
    principal: str | None = None
    keytab: str | None = None
    ticket_cache: str | None = None
    key: str = JAAS_KEY


def kerberos_login(properties: KafkaProperties) -> KerberosLogin:
    """Make the settings of a login with `sasl.mechanism` = GSSAPI.

    Raises:
        OptionError: they are incomplete or contradictory.
    """
    text, key = properties.get(JAAS_KEY), properties.spelled(JAAS_KEY)
    if text is None:
        return _of_flink(properties)
    module = parse_jaas_config(text, shown_as=key)
    if module.simple_name != MODULE:
        raise OptionError(
            f"Option '{key}' has to name {MODULE} with '{properties.spelled('sasl.mechanism')}' = 'GSSAPI' "
            f"(Java's default). It is written like this: {KERBEROS_LINE}",
            option=key,
        )
    return _of_module(properties, module)


def _of_module(properties: KafkaProperties, module: LoginModule) -> KerberosLogin:
    key = properties.spelled(JAAS_KEY)
    given, in_module = properties.get(_SERVICE), module.option("serviceName")
    if given and in_module and given != in_module:
        raise OptionError(
            f"Option '{key}' has serviceName=\"{in_module}\", but '{properties.spelled(_SERVICE)}' is "
            f"'{given}'. Set only one of them.",
            option=properties.spelled(_SERVICE),
        )
    service = in_module or property_value(properties, _SERVICE)
    principal = module.option("principal")
    if _is_true(module, "useKeyTab"):
        keytab = _path(module.option("keyTab"))
        if not keytab or not principal:
            raise MissingOptionError(
                f"Option '{key}' has useKeyTab=true and needs keyTab and principal: {KERBEROS_LINE}",
                option=key,
            )
        return KerberosLogin(service, principal, keytab=keytab, key=key)
    if not _is_true(module, "useTicketCache"):
        raise MissingOptionError(
            f"Option '{key}' needs useKeyTab=true or useTicketCache=true, because penstock asks for no "
            f"password. It is written like this: {KERBEROS_LINE}",
            option=key,
        )
    return KerberosLogin(service, principal, ticket_cache=_path(module.option("ticketCache")), key=key)


def _of_flink(properties: KafkaProperties) -> KerberosLogin:
    """Read Flink's own names. Without any of them the default ticket cache is used, as in Flink."""
    names = ("keytab", "principal")
    given = {name: text for name in names if (text := properties.get(_LOGIN + name))}
    if len(given) == 1:
        (present,) = given
        (missing,) = set(names) - set(given)
        key = properties.spelled(_LOGIN + missing)
        raise MissingOptionError(
            f"Option '{key}' is required with '{properties.spelled(_LOGIN + present)}'.", option=key
        )
    key = properties.spelled(_LOGIN + "keytab")
    service = property_value(properties, _SERVICE)
    if not given and not property_value(properties, _LOGIN + "use-ticket-cache"):
        raise MissingOptionError(
            f"Option '{key}' is required with '{properties.spelled(_LOGIN + 'use-ticket-cache')}' = 'false'.",
            option=key,
        )
    return KerberosLogin(service, given.get("principal"), keytab=_path(given.get("keytab")), key=key)


def _is_true(module: LoginModule, name: str) -> bool:
    return (module.option(name) or "").strip().lower() == "true"


def _path(text: str | None) -> str | None:
    """Return a path without the word that Java and Kerberos allow before it."""
    if text is None:
        return None
    kind, colon, path = text.partition(":")
    return path if colon and kind.upper() == "FILE" else text
