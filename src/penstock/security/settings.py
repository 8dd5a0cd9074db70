"""How a connection proves who we are: protocol, TLS and SASL from Java-style properties.

Runs wherever settings are made from properties. Invariant: hashable, and neither `repr` nor an error
shows a secret.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from penstock.errors import MissingOptionError, OptionError, UnsupportedOptionError
from penstock.options.config import KafkaProperties
from penstock.options.properties import property_value
from penstock.options.warn import warn_once
from penstock.security.jaas import KEY as JAAS_KEY
from penstock.security.jaas import PLAIN_LINE, SCRAM_LINE, LoginModule, parse_jaas_config
from penstock.security.kerberos import MODULE as KERBEROS_MODULE
from penstock.security.kerberos import KerberosLogin, kerberos_login
from penstock.security.oauth import AWS_MECHANISM, OAuthLogin, oauth_login
from penstock.security.tls import TlsSettings, tls_settings

_log = logging.getLogger(__name__)

_MODULE_OF_MECHANISM = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
}
_MECHANISMS = (*_MODULE_OF_MECHANISM, OAuthLogin.mechanism, KerberosLogin.mechanism, AWS_MECHANISM)
_WITH_TOKENS = (OAuthLogin.mechanism, AWS_MECHANISM)
_CLIENT_HANDLER = "sasl.client.callback.handler.class"


@dataclass(frozen=True)
class PasswordLogin:
    """A user name and a password, with SASL/PLAIN or SCRAM; or the id and the HMAC of a delegation token."""

    mechanism: str
    username: str = field(repr=False)
    password: str = field(repr=False)
    is_delegation_token: bool = False


SaslSettings = PasswordLogin | OAuthLogin | KerberosLogin


@dataclass(frozen=True)
class SecuritySettings:
    """Protocol, TLS and SASL of a connection."""

    protocol: str = "PLAINTEXT"
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None


def security_settings(properties: KafkaProperties) -> SecuritySettings:
    """Make security settings from `security.protocol`, `sasl.*` and `ssl.*`.

    Raises:
        OptionError: they are incomplete, contradictory or malformed.
        UnsupportedOptionError: a mechanism or login module that is not supported.
    """
    key = properties.spelled
    protocol = property_value(properties, "security.protocol")
    tls = tls_settings(properties) if protocol.endswith("SSL") else None
    if not protocol.startswith("SASL_"):
        if properties.get(JAAS_KEY) is not None:
            warn_once(
                _log,
                f"Option '{key(JAAS_KEY)}' is not used, because '{key('security.protocol')}' is "
                f"'{protocol}'. To log in, set '{key('security.protocol')}' to SASL_SSL or SASL_PLAINTEXT.",
            )
        return SecuritySettings(protocol, tls)
    mechanism = _mechanism(properties)
    _check_client_handler(properties, mechanism)
    return SecuritySettings(protocol, tls, _login(properties, mechanism))


def _login(properties: KafkaProperties, mechanism: str) -> SaslSettings:
    if mechanism in _WITH_TOKENS:
        return oauth_login(properties)
    if mechanism == KerberosLogin.mechanism:
        return kerberos_login(properties)
    return _password_login(properties, mechanism)


def _check_client_handler(properties: KafkaProperties, mechanism: str) -> None:
    """Let pass the class that AWS's documents want to be set; any other Java class would be ignored."""
    handler = (properties.get(_CLIENT_HANDLER) or "").strip()
    if handler and (mechanism, handler.rpartition(".")[2]) != (AWS_MECHANISM, "IAMClientCallbackHandler"):
        key = properties.spelled(_CLIENT_HANDLER)
        raise UnsupportedOptionError(
            f"Option '{key}' names a Java class, and Java classes do not run here: leave it out.", option=key
        )


def _mechanism(properties: KafkaProperties) -> str:
    mechanism = property_value(properties, "sasl.mechanism")
    if mechanism is not None:
        return str(mechanism)
    if _is_kerberos(properties):
        return KerberosLogin.mechanism
    key = properties.spelled("sasl.mechanism")
    raise MissingOptionError(
        f"Option '{key}' is required with '{properties.spelled('security.protocol')}' = "
        f"'{property_value(properties, 'security.protocol')}': one of {', '.join(_MECHANISMS)}. "
        f"(Java's default is GSSAPI. It is taken if '{properties.spelled('sasl.kerberos.service.name')}' "
        "is set, or another option that is for Kerberos only.)",
        option=key,
    )


def _is_kerberos(properties: KafkaProperties) -> bool:
    """Return whether options without a mechanism mean Java's default, GSSAPI."""
    text = properties.get(JAAS_KEY)
    if text is not None:
        module = parse_jaas_config(text, shown_as=properties.spelled(JAAS_KEY))
        return module.simple_name == KERBEROS_MODULE
    return any(name.startswith(("sasl.kerberos.", "security.kerberos.")) for name, _ in properties.items)


def _password_login(properties: KafkaProperties, mechanism: str) -> PasswordLogin:
    text, key = properties.get(JAAS_KEY), properties.spelled(JAAS_KEY)
    if text is None:
        line = PLAIN_LINE if mechanism == "PLAIN" else SCRAM_LINE
        raise MissingOptionError(
            f"Option '{key}' is required with '{properties.spelled('sasl.mechanism')}' = '{mechanism}': it "
            f"holds the user name and password. It is written like this: {line}",
            option=key,
        )
    module = parse_jaas_config(text, shown_as=key)
    _check_module(module, mechanism, properties)
    username, password = module.option("username"), module.option("password")
    if not username or not password:
        raise OptionError(
            f"Option '{key}' has no {'password' if username else 'username'}: {module.simple_name} "
            'needs username="..." and password="...".',
            option=key,
        )
    return PasswordLogin(mechanism, username, password, _is_delegation_token(module, mechanism, properties))


def _check_module(module: LoginModule, mechanism: str, properties: KafkaProperties) -> None:
    key = properties.spelled(JAAS_KEY)
    known = sorted(set(_MODULE_OF_MECHANISM.values()))
    if module.simple_name not in known:
        # The name is not shown: in a text that is put together wrongly it may be anything.
        raise UnsupportedOptionError(
            f"Expected one of the login modules {', '.join(known)} in option '{key}', got another one.",
            option=key,
        )
    wanted = _MODULE_OF_MECHANISM[mechanism]
    if module.simple_name != wanted:
        raise OptionError(
            f"Option '{key}' names {module.simple_name}, but '{properties.spelled('sasl.mechanism')}' = "
            f"'{mechanism}' needs {wanted}.",
            option=key,
        )


def _is_delegation_token(module: LoginModule, mechanism: str, properties: KafkaProperties) -> bool:
    if (module.option("tokenauth") or "false").lower() != "true":
        return False
    if not mechanism.startswith("SCRAM-"):
        key = properties.spelled(JAAS_KEY)
        raise OptionError(
            f"Option '{key}' has tokenauth=true (a delegation token), which needs SCRAM-SHA-256 or "
            f"SCRAM-SHA-512 as '{properties.spelled('sasl.mechanism')}'.",
            option=key,
        )
    return True
