"""Declare the properties of SASL and TLS.

Runs on the driver. Invariant: each property stands here once. See `declare` for what the words mean.
"""

from __future__ import annotations

from penstock.options.properties._declare import MILLISECONDS, MILLISECONDS_INT, ClientRole, Declare, Property
from penstock.options.values import BOOLEAN, SECRET, WORDS, ValueType, choice, decimal, integer

_every = Declare(ClientRole.COMMON)
_FORMS = "JKS, PKCS12 (needs the extra `pkcs12`) or PEM. Unset: penstock recognises it from the file."
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
    _every.translated(
        "security.protocol",
        "The protocol for connections to brokers.",
        choice("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        default="PLAINTEXT",
    ),
    _every.translated(
        "sasl.mechanism",
        "The mechanism to log in with. Required with SASL_PLAINTEXT and SASL_SSL, except for Kerberos.",
        choice("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER", "AWS_MSK_IAM"),
        java_default="GSSAPI",
    ),
    _every.translated(
        "sasl.jaas.config",
        "User name and password in Java's form: `org.apache.kafka.common.security.plain.PlainLoginModule "
        'required username="..." password="...";`, or `...scram.ScramLoginModule` for SCRAM.',
        SECRET,
    ),
    _every.ours(
        "sasl.client.callback.handler.class",
        "With AWS_MSK_IAM: AWS's `IAMClientCallbackHandler`. Any other class is an error.",
    ),
    _every.ours(
        "sasl.login.callback.handler.class",
        "With OAUTHBEARER: Kafka's `OAuthBearerLoginCallbackHandler` or "
        "`OAuthBearerUnsecuredLoginCallbackHandler` (any package), or the dotted name of a function in "
        "Python that returns a token.",
    ),
    _every.unsupported("sasl.login.class", _JAVA_CLASS),
    _every.ours("sasl.login.connect.timeout.ms", f"{_ADDED} read timeout.", MILLISECONDS_INT),
    _every.ours("sasl.login.read.timeout.ms", f"{_ADDED} connect timeout.", MILLISECONDS_INT),
    _every.ours(
        "sasl.login.refresh.window.factor",
        "The part of a token's lifetime after which it is renewed.",
        decimal(0.5, 1.0),
        default=0.8,
    ),
    _every.ours(
        "sasl.login.refresh.window.jitter",
        "A random part of the lifetime, at most this one, is added to the window factor.",
        decimal(0.0, 0.25),
        default=0.05,
    ),
    _every.ours(
        "sasl.login.refresh.min.period.seconds",
        "A token is not renewed before it is this old. Ignored if the token's lifetime is shorter than this "
        "and `sasl.login.refresh.buffer.seconds` together.",
        integer(0, 900),
        default=60,
    ),
    _every.ours(
        "sasl.login.refresh.buffer.seconds",
        "A token is renewed at least this long before its end. Ignored if the token's lifetime is shorter "
        "than this and `sasl.login.refresh.min.period.seconds` together.",
        integer(0, 3600),
        default=300,
    ),
    _every.ours(
        "sasl.login.retry.backoff.ms",
        "The first pause when the token endpoint cannot be reached.",
        MILLISECONDS,
        default=100,
    ),
    _every.ours(
        "sasl.login.retry.backoff.max.ms",
        "How long a connection tries to reach the token endpoint before it gives up. Also the longest pause "
        "between two tries.",
        MILLISECONDS,
        default=10_000,
    ),
    _every.translated(
        "sasl.kerberos.service.name",
        "With GSSAPI: the service of the principals of the brokers; or `serviceName` in `sasl.jaas.config`.",
        default="kafka",
        java_default="",
    ),
    *(_every.no_effect(f"sasl.kerberos.{name}", _LIBRARY) for name in _OF_THE_LIBRARY),
    _every.ours(
        "security.kerberos.login.keytab",
        "Flink's name. With GSSAPI and without `sasl.jaas.config`: a keytab where the task runs.",
    ),
    _every.ours("security.kerberos.login.principal", "Flink's name. The principal of the keytab."),
    _every.ours(
        "security.kerberos.login.use-ticket-cache",
        "Flink's name. Without a keytab: log in with the default ticket cache.",
        BOOLEAN,
        default=True,
    ),
    _every.no_effect("security.kerberos.login.contexts", "Flink's name. The login is for Kafka in any case."),
    _every.ours(
        "sasl.oauthbearer.token.endpoint.url",
        "The URL that gives tokens (client credentials), or `file:` and the path of a file that holds a "
        "token.",
    ),
    _every.ours(
        "sasl.oauthbearer.client.credentials.client.id",
        "The client's id; or `clientId` in `sasl.jaas.config`.",
    ),
    _every.ours(
        "sasl.oauthbearer.client.credentials.client.secret",
        "The client's secret; or `clientSecret` in `sasl.jaas.config`.",
        SECRET,
    ),
    _every.ours("sasl.oauthbearer.scope", "The scope to ask for; or `scope` in `sasl.jaas.config`."),
    _every.ours(
        "sasl.oauthbearer.header.urlencode",
        "Encode id and secret as in a URL, before they become a header.",
        BOOLEAN,
        default=False,
    ),
    _every.ours(
        "sasl.oauthbearer.jwt.retriever.class",
        "Kafka's `DefaultJwtRetriever`, `ClientCredentialsJwtRetriever`, `FileJwtRetriever` or "
        "`JwtBearerJwtRetriever`.",
        default="org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
    ),
    _every.ours(
        "sasl.oauthbearer.assertion.file", "With `JwtBearerJwtRetriever`: a file that holds a signed JWT."
    ),
    *(
        _every.unsupported(f"sasl.oauthbearer.assertion.{name}", _ASSERTION, SECRET)
        for name in _OF_ASSERTIONS
    ),
    *(_every.no_effect(f"sasl.oauthbearer.{name}", _BROKERS) for name in _OF_BROKERS),
)

TLS_PROPERTIES: tuple[Property, ...] = (
    _every.translated(
        "ssl.truststore.type", f"Form of the trust store: {_FORMS}", _STORE_TYPE, java_default="JKS"
    ),
    _every.translated(
        "ssl.truststore.certificates",
        "The certificate authorities to trust, as PEM text. Unset: those of the system.",
        SECRET,
    ),
    _every.translated(
        "ssl.truststore.location",
        "The certificate authorities to trust, as a JKS, PKCS12 or PEM file where the task runs.",
    ),
    _every.translated("ssl.truststore.password", "The password of a JKS or PKCS12 trust store.", SECRET),
    _every.translated(
        "ssl.keystore.type", f"Form of the key store: {_FORMS}", _STORE_TYPE, java_default="JKS"
    ),
    _every.translated(
        "ssl.keystore.certificate.chain",
        "The certificate of the client and of its issuers, as PEM text.",
        SECRET,
    ),
    _every.translated("ssl.keystore.key", "The private key of the client, as PEM text (PKCS#8).", SECRET),
    _every.translated(
        "ssl.keystore.location",
        "Private key and certificate chain in one JKS, PKCS12 or PEM file, where the task runs. "
        "The store holds one private key.",
    ),
    _every.translated("ssl.keystore.password", "The password of the key store.", SECRET),
    _every.translated(
        "ssl.key.password", "The password of the private key. Unset: that of the key store.", SECRET
    ),
    _every.translated(
        "ssl.endpoint.identification.algorithm",
        "Whether the certificate of the broker must have the host name of the connection.",
        HOSTNAME_CHECK,
        default=True,
    ),
    _every.translated(
        "ssl.enabled.protocols", "The TLS versions to allow.", TLS_VERSIONS, default=("TLSv1.2", "TLSv1.3")
    ),
    _every.no_effect(
        "ssl.protocol", "Penstock uses the newest version in `ssl.enabled.protocols` that both sides know."
    ),
    _every.translated(
        "ssl.cipher.suites",
        "The cipher suites to allow, under Java's names. Unset: OpenSSL's own safe choice. "
        "Name either all three suites of TLS 1.3, or none of them.",
        WORDS,
    ),
    _every.unsupported("ssl.engine.factory.class", "Java classes do not run here: use the PEM properties."),
    _every.unsupported("security.providers", "Java classes do not run here: leave it out."),
    _every.no_effect("ssl.provider", _OPENSSL),
    _every.no_effect("ssl.keymanager.algorithm", _OPENSSL),
    _every.no_effect("ssl.trustmanager.algorithm", _OPENSSL),
    _every.no_effect("ssl.secure.random.implementation", _OPENSSL),
)
