"""Declare the properties of SASL and TLS.

Runs on the driver. Invariant: each property stands here once. See `declare` for what the words mean.
"""

from __future__ import annotations

from penstock.options.properties._declare import (
    MILLISECONDS,
    MILLISECONDS_INT,
    ClientRole,
    Property,
    no_effect,
    ours,
    translated,
    unsupported,
)
from penstock.options.values import BOOLEAN, SECRET, WORDS, ValueType, choice, decimal, integer

_C = ClientRole.COMMON
_FORMS = "JKS, PKCS12 (needs the extra `pkcs12`) or PEM. Unset: the file tells."
_LIBRARY = "The system's Kerberos library gets tickets when a connection is made."
_BROKERS = "It is used by brokers only."
_ASSERTION = "penstock does not sign assertions: give a signed one as `sasl.oauthbearer.assertion.file`."
_JAVA_CLASS = "Java classes do not run here: give the user name and password in `sasl.jaas.config`."
_ADDED = "The time limit of one request to the token endpoint, together with the"
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

_OF_BROKERS = (
    "clock.skew.seconds",
    "expected.audience",
    "expected.issuer",
    "jwks.endpoint.refresh.ms",
    "jwks.endpoint.retry.backoff.max.ms",
    "jwks.endpoint.retry.backoff.ms",
    "jwks.endpoint.url",
    "jwt.validator.class",
    "scope.claim.name",
    "sub.claim.name",
)
_OF_ASSERTIONS = (
    "algorithm",
    "claim.aud",
    "claim.exp.seconds",
    "claim.iss",
    "claim.jti.include",
    "claim.nbf.seconds",
    "claim.sub",
    "private.key.file",
    "private.key.passphrase",
    "template.file",
)
_OF_THE_LIBRARY = (
    "kinit.cmd",
    "min.time.before.relogin",
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
        "The mechanism to log in with. Required with SASL_PLAINTEXT and SASL_SSL, except for Kerberos.",
        choice("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER", "AWS_MSK_IAM"),
        java_default="GSSAPI",
    ),
    translated(
        "sasl.jaas.config",
        _C,
        "User name and password in Java's form: `org.apache.kafka.common.security.plain.PlainLoginModule "
        'required username="..." password="...";`, or `...scram.ScramLoginModule` for SCRAM.',
        SECRET,
    ),
    ours(
        "sasl.client.callback.handler.class",
        _C,
        "With AWS_MSK_IAM: AWS's `IAMClientCallbackHandler`. Any other class is an error.",
    ),
    ours(
        "sasl.login.callback.handler.class",
        _C,
        "With OAUTHBEARER: Kafka's `OAuthBearerLoginCallbackHandler` or "
        "`OAuthBearerUnsecuredLoginCallbackHandler` (any package), or the dotted name of a function in "
        "Python that returns a token.",
    ),
    unsupported("sasl.login.class", _C, _JAVA_CLASS),
    ours("sasl.login.connect.timeout.ms", _C, f"{_ADDED} read timeout.", MILLISECONDS_INT),
    ours("sasl.login.read.timeout.ms", _C, f"{_ADDED} connect timeout.", MILLISECONDS_INT),
    ours(
        "sasl.login.refresh.window.factor",
        _C,
        "The part of a token's lifetime after which it is renewed.",
        decimal(0.5, 1.0),
        default=0.8,
    ),
    ours(
        "sasl.login.refresh.window.jitter",
        _C,
        "At most this part of the lifetime is added at random.",
        decimal(0.0, 0.25),
        default=0.05,
    ),
    ours(
        "sasl.login.refresh.min.period.seconds",
        _C,
        "A token is not renewed sooner. Ignored if the token is too short for it and the buffer.",
        integer(0, 900),
        default=60,
    ),
    ours(
        "sasl.login.refresh.buffer.seconds",
        _C,
        "A token is renewed so long before its end. Ignored if the token is too short.",
        integer(0, 3600),
        default=300,
    ),
    ours(
        "sasl.login.retry.backoff.ms",
        _C,
        "The first pause when the token endpoint cannot be reached.",
        MILLISECONDS,
        default=100,
    ),
    ours(
        "sasl.login.retry.backoff.max.ms",
        _C,
        "After so long a connection gives up waiting for the token endpoint.",
        MILLISECONDS,
        default=10_000,
    ),
    translated(
        "sasl.kerberos.service.name",
        _C,
        "With GSSAPI: the service of the principals of the brokers; or `serviceName` in `sasl.jaas.config`.",
        default="kafka",
        java_default="",
    ),
    *(no_effect(f"sasl.kerberos.{name}", _C, _LIBRARY) for name in _OF_THE_LIBRARY),
    ours(
        "security.kerberos.login.keytab",
        _C,
        "Flink's name. With GSSAPI and without `sasl.jaas.config`: a keytab where the task runs.",
    ),
    ours("security.kerberos.login.principal", _C, "Flink's name. The principal of the keytab."),
    ours(
        "security.kerberos.login.use-ticket-cache",
        _C,
        "Flink's name. Without a keytab: log in with the default ticket cache.",
        BOOLEAN,
        default=True,
    ),
    no_effect("security.kerberos.login.contexts", _C, "Flink's name. The login is for Kafka in any case."),
    ours(
        "sasl.oauthbearer.token.endpoint.url",
        _C,
        "The URL that gives tokens (client credentials), or `file:` and the path of a file that holds a "
        "token.",
    ),
    ours(
        "sasl.oauthbearer.client.credentials.client.id",
        _C,
        "The client's id; or `clientId` in `sasl.jaas.config`.",
    ),
    ours(
        "sasl.oauthbearer.client.credentials.client.secret",
        _C,
        "The client's secret; or `clientSecret` in `sasl.jaas.config`.",
        SECRET,
    ),
    ours("sasl.oauthbearer.scope", _C, "The scope to ask for; or `scope` in `sasl.jaas.config`."),
    ours(
        "sasl.oauthbearer.header.urlencode",
        _C,
        "Encode id and secret as in a URL, before they become a header.",
        BOOLEAN,
        default=False,
    ),
    ours(
        "sasl.oauthbearer.jwt.retriever.class",
        _C,
        "Kafka's `DefaultJwtRetriever`, `ClientCredentialsJwtRetriever`, `FileJwtRetriever` or "
        "`JwtBearerJwtRetriever`.",
        default="org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
    ),
    ours(
        "sasl.oauthbearer.assertion.file", _C, "With `JwtBearerJwtRetriever`: a file that holds a signed JWT."
    ),
    *(unsupported(f"sasl.oauthbearer.assertion.{name}", _C, _ASSERTION, SECRET) for name in _OF_ASSERTIONS),
    *(no_effect(f"sasl.oauthbearer.{name}", _C, _BROKERS) for name in _OF_BROKERS),
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
