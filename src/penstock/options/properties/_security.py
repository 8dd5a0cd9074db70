"""Declare the properties of SASL and TLS.

Runs on the driver. Invariant: each property stands here once. See `declare` for what the words mean.
"""

from __future__ import annotations

from penstock.options.properties._declare import (
    ClientRole,
    Property,
    no_effect,
    translated,
    unsupported,
)
from penstock.options.values import SECRET, WORDS, ValueType, choice

_C = ClientRole.COMMON
_FORMS = "JKS, PKCS12 (needs the extra `pkcs12`) or PEM. Unset: the file tells."
_KERBEROS = "Kerberos (GSSAPI) is not supported yet: use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."
_OAUTH = "OAUTHBEARER is not supported yet: use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."
_JAVA_CLASS = "Java classes do not run here: give the user name and password in `sasl.jaas.config`."
_OPENSSL = "OpenSSL is used instead of Java's providers."


def _parse_hostname_check(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("https", ""):
        raise ValueError("https, or an empty text for no check")
    return word == "https"


def _parse_tls_versions(text: str) -> tuple[str, ...]:
    versions = [word.strip() for word in text.split(",") if word.strip()]
    if not versions or not set(versions) <= {"TLSv1.2", "TLSv1.3"}:
        raise ValueError("TLSv1.2, TLSv1.3 or both; older versions are not safe")
    return tuple(sorted(versions))


HOSTNAME_CHECK = ValueType(
    "word", "https, or empty for no check", _parse_hostname_check, lambda is_on: "https" if is_on else ""
)
_STORE_TYPE = choice("PEM", "JKS", "PKCS12")
TLS_VERSIONS = ValueType("list", "TLSv1.2, TLSv1.3", _parse_tls_versions, ",".join)

_OAUTH_NAMES = (
    "assertion.algorithm",
    "assertion.claim.aud",
    "assertion.claim.exp.seconds",
    "assertion.claim.iss",
    "assertion.claim.jti.include",
    "assertion.claim.nbf.seconds",
    "assertion.claim.sub",
    "assertion.file",
    "assertion.private.key.file",
    "assertion.private.key.passphrase",
    "assertion.template.file",
    "client.credentials.client.id",
    "client.credentials.client.secret",
    "clock.skew.seconds",
    "expected.audience",
    "expected.issuer",
    "header.urlencode",
    "jwks.endpoint.refresh.ms",
    "jwks.endpoint.retry.backoff.max.ms",
    "jwks.endpoint.retry.backoff.ms",
    "jwks.endpoint.url",
    "jwt.retriever.class",
    "jwt.validator.class",
    "scope",
    "scope.claim.name",
    "sub.claim.name",
    "token.endpoint.url",
)
_LOGIN_NAMES = (
    "connect.timeout.ms",
    "read.timeout.ms",
    "refresh.buffer.seconds",
    "refresh.min.period.seconds",
    "refresh.window.factor",
    "refresh.window.jitter",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
)
_KERBEROS_NAMES = (
    "kinit.cmd",
    "min.time.before.relogin",
    "service.name",
    "ticket.renew.jitter",
    "ticket.renew.window.factor",
)

SASL_PROPERTIES: tuple[Property, ...] = (
    translated(
        "security.protocol",
        _C,
        "The protocol for connections to brokers.",
        choice("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        default="PLAINTEXT",
    ),
    translated(
        "sasl.mechanism",
        _C,
        "The mechanism to log in with. Required with SASL_PLAINTEXT and SASL_SSL.",
        choice("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER"),
        java_default="GSSAPI",
        unsupported_values={
            "gssapi": "use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512: Kerberos is not supported yet",
            "oauthbearer": "use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512: OAUTHBEARER is not supported yet",
        },
    ),
    translated(
        "sasl.jaas.config",
        _C,
        "User name and password in Java's form: `org.apache.kafka.common.security.plain.PlainLoginModule "
        'required username="..." password="...";`, or `...scram.ScramLoginModule` for SCRAM.',
        SECRET,
    ),
    unsupported("sasl.client.callback.handler.class", _C, _JAVA_CLASS),
    unsupported("sasl.login.callback.handler.class", _C, _JAVA_CLASS),
    unsupported("sasl.login.class", _C, _JAVA_CLASS),
    *(
        no_effect(f"sasl.login.{name}", _C, "It is used with Kerberos and OAUTHBEARER only.")
        for name in _LOGIN_NAMES
    ),
    *(unsupported(f"sasl.kerberos.{name}", _C, _KERBEROS) for name in _KERBEROS_NAMES),
    *(unsupported(f"sasl.oauthbearer.{name}", _C, _OAUTH, SECRET) for name in _OAUTH_NAMES),
)

TLS_PROPERTIES: tuple[Property, ...] = (
    translated(
        "ssl.truststore.type", _C, f"Form of the trust store: {_FORMS}", _STORE_TYPE, java_default="JKS"
    ),
    translated(
        "ssl.truststore.certificates",
        _C,
        "The certificate authorities to trust, as PEM text. Unset: those of the system.",
        SECRET,
    ),
    translated(
        "ssl.truststore.location",
        _C,
        "The certificate authorities to trust, as a JKS, PKCS12 or PEM file where the task runs.",
    ),
    translated("ssl.truststore.password", _C, "The password of a JKS or PKCS12 trust store.", SECRET),
    translated("ssl.keystore.type", _C, f"Form of the key store: {_FORMS}", _STORE_TYPE, java_default="JKS"),
    translated(
        "ssl.keystore.certificate.chain",
        _C,
        "The certificate of the client and of its issuers, as PEM text.",
        SECRET,
    ),
    translated("ssl.keystore.key", _C, "The private key of the client, as PEM text (PKCS#8).", SECRET),
    translated(
        "ssl.keystore.location",
        _C,
        "Private key and certificate chain in one JKS, PKCS12 or PEM file, where the task runs. "
        "The store holds one private key.",
    ),
    translated("ssl.keystore.password", _C, "The password of the key store.", SECRET),
    translated(
        "ssl.key.password",
        _C,
        "The password of the private key. Unset: that of the key store.",
        SECRET,
    ),
    translated(
        "ssl.endpoint.identification.algorithm",
        _C,
        "Whether the certificate of the broker must have the host name of the connection.",
        HOSTNAME_CHECK,
        default=True,
    ),
    translated(
        "ssl.enabled.protocols",
        _C,
        "The TLS versions to allow.",
        TLS_VERSIONS,
        default=("TLSv1.2", "TLSv1.3"),
    ),
    no_effect(
        "ssl.protocol",
        _C,
        "Penstock uses the newest version in `ssl.enabled.protocols` that both sides know.",
    ),
    translated(
        "ssl.cipher.suites",
        _C,
        "The cipher suites to allow, under Java's names. Unset: OpenSSL's own safe choice. "
        "Of TLS 1.3 name all three suites or none.",
        WORDS,
    ),
    unsupported("ssl.engine.factory.class", _C, "Java classes do not run here: use the PEM properties."),
    unsupported("security.providers", _C, "Java classes do not run here: leave it out."),
    no_effect("ssl.provider", _C, _OPENSSL),
    no_effect("ssl.keymanager.algorithm", _C, _OPENSSL),
    no_effect("ssl.trustmanager.algorithm", _C, _OPENSSL),
    no_effect("ssl.secure.random.implementation", _C, _OPENSSL),
)
