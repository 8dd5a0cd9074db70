"""Kerberos settings from Java's and Flink's names, and how the Kerberos library is asked. No KDC."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.errors import (
    AuthenticationError,
    BrokerUnavailableError,
    OptionError,
    PenstockError,
)
from penstock.options.config import KafkaProperties
from penstock.security.kerberos import KerberosLogin
from penstock.security.settings import SaslSettings, security_settings
from penstock.security.tickets import begin_context, check_kerberos

MODULE = "com.sun.security.auth.module.Krb5LoginModule"
SERVICE = "sasl.kerberos.service.name"
FLINKS = "security.kerberos.login."


def login(**given: str) -> SaslSettings | None:
    """The login of properties; a name is written with `_` for a dot."""
    items = {"security.protocol": "SASL_PLAINTEXT"} | {
        name.replace("__", "-").replace("_", "."): text for name, text in given.items()
    }
    return security_settings(KafkaProperties(tuple(sorted(items.items())))).sasl


def jaas(options: str) -> dict[str, str]:
    return {"sasl_jaas_config": f"{MODULE} required {options};"}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (
            jaas('useKeyTab=true storeKey=true keyTab="/k/a.keytab" principal="a@R" serviceName="storm"'),
            KerberosLogin("storm", "a@R", keytab="/k/a.keytab"),
        ),
        (
            jaas('useKeyTab=true keyTab="FILE:/k/a.keytab" principal="a@R"') | {"sasl_mechanism": "GSSAPI"},
            KerberosLogin("kafka", "a@R", keytab="/k/a.keytab"),
        ),
        (jaas("useTicketCache=true"), KerberosLogin()),
        (
            jaas('useTicketCache=true ticketCache="/t" principal="a@R"'),
            KerberosLogin("kafka", "a@R", ticket_cache="/t"),
        ),
        ({"sasl_mechanism": "GSSAPI"}, KerberosLogin(key=FLINKS + "keytab")),
        ({"sasl_kerberos_service_name": "storm"}, KerberosLogin("storm", key=FLINKS + "keytab")),
        (
            {"security_kerberos_login_keytab": "/k", "security_kerberos_login_principal": "a"},
            KerberosLogin("kafka", "a", keytab="/k", key=FLINKS + "keytab"),
        ),
    ],
)
def test_what_java_and_flink_have(given: dict[str, str], wanted: KerberosLogin) -> None:
    assert login(**given) == wanted


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (jaas("useKeyTab=true"), "needs keyTab and principal"),
        (jaas('useKeyTab=true keyTab="/k"'), "needs keyTab and principal"),
        (jaas("storeKey=true"), "useKeyTab=true or useTicketCache=true"),
        ({"security_kerberos_login_keytab": "/k"}, f"'{FLINKS}principal' is required with '{FLINKS}keytab'"),
        (
            {"security_kerberos_login_use__ticket__cache": "false"},
            f"'{FLINKS}keytab' is required with '{FLINKS}use-ticket-cache' = 'false'",
        ),
        (
            jaas('useTicketCache=true serviceName="a"') | {"sasl_kerberos_service_name": "b"},
            f"but '{SERVICE}' is 'b'",
        ),
        ({"sasl_mechanism": "GSSAPI", "sasl_jaas_config": "a.PlainLoginModule required;"}, "Krb5LoginModule"),
        ({"sasl_jaas_config": "a.PlainLoginModule required;"}, "'sasl.mechanism' is required"),
        ({}, "'sasl.mechanism' is required"),
    ],
)
def test_what_is_missing_is_named(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        login(**given)
    assert said in str(caught.value)


class GSSError(Exception):
    """The package's error."""

    def __init__(self, text: str, min_code: int = 0) -> None:
        super().__init__(text)
        self.min_code = min_code


class FakeGssapi(SimpleNamespace):
    """The part of the package that is used; notes what it was asked for."""

    def __init__(self, step: Callable[[], bytes]) -> None:
        self.asked: dict[str, Any] = {}

        def context(**given: Any) -> SimpleNamespace:
            self.asked |= given
            return SimpleNamespace(step=step)

        super().__init__(
            Name=lambda text, kind: (text, kind),
            NameType=SimpleNamespace(hostbased_service="service", kerberos_principal="principal"),
            MechType=SimpleNamespace(kerberos="kerberos"),
            Credentials=lambda **given: given,
            SecurityContext=context,
            exceptions=SimpleNamespace(GSSError=GSSError),
        )


@pytest.fixture
def gssapi(monkeypatch: pytest.MonkeyPatch) -> FakeGssapi:
    fake = FakeGssapi(lambda: b"hello")
    monkeypatch.setitem(sys.modules, "gssapi", fake)
    return fake


@pytest.fixture
def keytab(tmp_path: Path) -> str:
    path = tmp_path / "a.keytab"
    path.write_bytes(b"keys")
    return str(path)


def test_the_credentials_are_those_of_the_options(gssapi: FakeGssapi, keytab: str) -> None:
    logins = [KerberosLogin(principal=name, keytab=keytab) for name in ("a", "b")]
    caches = set()
    for each in logins:
        _, message = begin_context(each, "h")
        assert message == b"hello"
        assert gssapi.asked["name"] == ("kafka@h", "service")
        given = gssapi.asked["creds"]
        assert given["name"] == (each.principal, "principal")
        assert given["store"]["client_keytab"] == f"FILE:{keytab}"
        caches.add(given["store"]["ccache"])
    assert len(caches) == 2, "one user does not get the tickets of another"
    assert all(cache.startswith("MEMORY:") for cache in caches)
    begin_context(KerberosLogin(ticket_cache="/t"), "h")
    assert gssapi.asked["creds"] == {"name": None, "usage": "initiate", "store": {"ccache": "FILE:/t"}}
    begin_context(KerberosLogin(), "h")
    assert gssapi.asked["creds"] == {"name": None, "usage": "initiate"}


@pytest.mark.parametrize(
    ("min_code", "kind"),
    [(2529639068, BrokerUnavailableError), (2529638918, AuthenticationError)],
    ids=["no KDC answers", "another reason"],
)
def test_what_the_library_says_is_an_error_of_ours(
    monkeypatch: pytest.MonkeyPatch, min_code: int, kind: type[PenstockError]
) -> None:
    def refuse() -> bytes:
        raise GSSError("Major (851968): Unspecified GSS\n failure, Minor (1): no", min_code)

    monkeypatch.setitem(sys.modules, "gssapi", FakeGssapi(refuse))
    with pytest.raises(kind, match=r"no ticket for the Kerberos service kafka/h[^:]*: no\. Check"):
        begin_context(KerberosLogin(), "h")


def test_a_keytab_that_is_missing_is_named(gssapi: FakeGssapi) -> None:
    with pytest.raises(OptionError, match=r"Option 'k': the file 'nowhere\.keytab' cannot be read here"):
        check_kerberos(KerberosLogin(principal="a", keytab="nowhere.keytab", key="k"))


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(OptionError, match="extra 'kerberos'"):
        check_kerberos(KerberosLogin())
