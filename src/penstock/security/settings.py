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
from penstock.security.oauth import AWS_MECHANISM, OAuthLogin, oauth_login
from penstock.security.tls import TlsSettings, tls_settings

_log = logging.getLogger(__name__)

_MODULE_OF_MECHANISM = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
}
_MECHANISMS = (*_MODULE_OF_MECHANISM, OAuthLogin.mechanism, AWS_MECHANISM)
_WITH_TOKENS = (OAuthLogin.mechanism, AWS_MECHANISM)
_CLIENT_HANDLER = "sasl.client.callback.handler.class"


@dataclass(frozen=True)
class PasswordLogin:
    """A user name and a password, with SASL/PLAIN or SCRAM."""

    mechanism: str
    username: str = field(repr=False)
    password: str = field(repr=False)


SaslSettings = PasswordLogin | OAuthLogin


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
    has_token = mechanism in _WITH_TOKENS
    sasl = oauth_login(properties) if has_token else _password_login(properties, mechanism)
    return SecuritySettings(protocol, tls, sasl)


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
    key = properties.spelled("sasl.mechanism")
    if mechanism is None:
        raise MissingOptionError(
            f"Option '{key}' is required with '{properties.spelled('security.protocol')}' = "
            f"'{property_value(properties, 'security.protocol')}': one of {', '.join(_MECHANISMS)}. "
            "(Java's default, GSSAPI, is not supported yet.)",
            option=key,
        )
    if mechanism not in _MECHANISMS:
        raise UnsupportedOptionError(
            f"Option '{key}' cannot be '{mechanism}': it is not supported yet. Use one of "
            f"{', '.join(_MECHANISMS)}.",
            option=key,
        )
    return str(mechanism)


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
    return PasswordLogin(mechanism, username, password)


def _check_module(module: LoginModule, mechanism: str, properties: KafkaProperties) -> None:
    key = properties.spelled(JAAS_KEY)
    known = sorted(set(_MODULE_OF_MECHANISM.values()))
    if module.simple_name not in known:
        # The name is not shown: in a text that is put together wrongly it may be anything.
        raise UnsupportedOptionError(
            f"Option '{key}' names a login module that is not supported; {' and '.join(known)} are.",
            option=key,
        )
    wanted = _MODULE_OF_MECHANISM[mechanism]
    if module.simple_name != wanted:
        raise OptionError(
            f"Option '{key}' names {module.simple_name}, but '{properties.spelled('sasl.mechanism')}' = "
            f"'{mechanism}' needs {wanted}.",
            option=key,
        )
    if (module.option("tokenauth") or "false").lower() == "true":
        raise UnsupportedOptionError(
            f"Option '{key}': delegation tokens (tokenauth) are not supported yet. Use a user name and "
            "password.",
            option=key,
        )
