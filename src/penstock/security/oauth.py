"""SASL/OAUTHBEARER from Java-style properties: where a login's token comes from, and when it is renewed.

Runs wherever settings are made from properties. `token_sources.py` asks for tokens, `tokens.py` keeps them.
Invariant: frozen, hashable, and no `repr` or error shows a secret.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar

from penstock.errors import MissingOptionError, OptionError, UnsupportedOptionError
from penstock.options.config import KafkaProperties
from penstock.options.properties import property_value
from penstock.security.jaas import KEY as JAAS_KEY
from penstock.security.jaas import LoginModule, parse_jaas_config

MODULE = "OAuthBearerLoginModule"
OAUTH_LINE = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'clientId="..." clientSecret="...";'
)
_URL = "sasl.oauthbearer.token.endpoint.url"
_HANDLER = "sasl.login.callback.handler.class"
_RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
_CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105 - the name of a property
_SCOPE = "sasl.oauthbearer.scope"
_ASSERTION_FILE = "sasl.oauthbearer.assertion.file"
_JAVA_HANDLER = "OAuthBearerLoginCallbackHandler"
_UNSECURED_HANDLER = "OAuthBearerUnsecuredLoginCallbackHandler"
_RETRIEVERS = (
    "DefaultJwtRetriever",
    "ClientCredentialsJwtRetriever",
    "FileJwtRetriever",
    "JwtBearerJwtRetriever",
)
_UNSECURED = "unsecuredLogin"
AWS_MECHANISM = "AWS_MSK_IAM"
_AWS_MODULE = "IAMLoginModule"
_AWS_HANDLER = "IAMOAuthBearerLoginCallbackHandler"
_AWS_REGION = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com")


@dataclass(frozen=True)
class TokenEndpoint:
    """A server that gives tokens: for a client's id and secret, or for an assertion in a file."""

    url: str
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str | None = None
    encodes_header: bool = False
    assertion_file: str | None = None
    tls: KafkaProperties = field(default_factory=KafkaProperties)
    timeout_ms: int = 10_000
    retry_ms: int = 100
    retry_max_ms: int = 10_000
    check: str = "'sasl.oauthbearer.*' and clientId, clientSecret and scope in 'sasl.jaas.config'"
    """The options to look at when the endpoint refuses the client; for messages."""


@dataclass(frozen=True)
class TokenFile:
    """A file that something else keeps up to date, such as a projected service account of Kubernetes."""

    path: str
    key: str


@dataclass(frozen=True)
class UnsecuredToken:
    """A token without a signature, for development. Claims are texts, numbers or lists of texts."""

    claims: tuple[tuple[str, str | float | tuple[str, ...]], ...]
    lifetime_s: int = 3_600


@dataclass(frozen=True)
class PythonToken:
    """A function of the user, by its dotted name: it returns the token, or (token, seconds since 1970)."""

    name: str
    key: str


@dataclass(frozen=True)
class AwsToken:
    """A token for Amazon MSK, made by AWS's own signer of the credentials that it finds. An extra: `aws`."""

    region: str | None = None
    profile: str | None = None
    role_arn: str | None = None
    role_session: str | None = None


TokenSource = TokenEndpoint | TokenFile | UnsecuredToken | PythonToken | AwsToken


@dataclass(frozen=True)
class RefreshRules:
    """When a token is renewed, as Java's `sasl.login.refresh.*` say."""

    window_factor: float = 0.8
    window_jitter: float = 0.05
    min_period_s: int = 60
    buffer_s: int = 300


@dataclass(frozen=True)
class OAuthLogin:
    """A login with tokens."""

    mechanism: ClassVar[str] = "OAUTHBEARER"
    source: TokenSource
    extensions: tuple[tuple[str, str], ...] = ()
    refresh: RefreshRules = RefreshRules()


def oauth_login(properties: KafkaProperties) -> OAuthLogin:
    """Make the settings of a login with `sasl.mechanism` = OAUTHBEARER.

    Raises:
        OptionError: they are incomplete or malformed.
        UnsupportedOptionError: a Java class that has no counterpart here.
    """
    source, extensions = _aws(properties) or _other(properties)
    refresh = RefreshRules(
        window_factor=property_value(properties, "sasl.login.refresh.window.factor"),
        window_jitter=property_value(properties, "sasl.login.refresh.window.jitter"),
        min_period_s=property_value(properties, "sasl.login.refresh.min.period.seconds"),
        buffer_s=property_value(properties, "sasl.login.refresh.buffer.seconds"),
    )
    return OAuthLogin(source, extensions, refresh)


def _aws(properties: KafkaProperties) -> tuple[AwsToken, tuple[tuple[str, str], ...]] | None:
    """Return what AWS's documents have for IAM: their own mechanism, or their handler for OAUTHBEARER."""
    simple_name = (properties.get(_HANDLER) or "").strip().rpartition(".")[2]
    is_own = property_value(properties, "sasl.mechanism") == AWS_MECHANISM
    if not is_own and simple_name != _AWS_HANDLER:
        return None
    text, key = properties.get(JAAS_KEY), properties.spelled(JAAS_KEY)
    module = LoginModule(_AWS_MODULE) if text is None else parse_jaas_config(text, shown_as=key)
    wanted = _AWS_MODULE if is_own else MODULE
    if text is not None and module.simple_name != wanted:
        raise OptionError(f"Option '{key}' has to name {wanted} for Amazon MSK.", option=key)
    found = _AWS_REGION.search(properties.get("bootstrap.servers") or "")
    region = module.option("awsRegion") or (found[1] if found else None)
    role = module.option("awsRoleArn"), module.option("awsRoleSessionName")
    return AwsToken(region, module.option("awsProfileName"), *role), ()


def _other(properties: KafkaProperties) -> tuple[TokenSource, tuple[tuple[str, str], ...]]:
    module = _module(properties)
    source = _source(properties, module)
    start = f"{_UNSECURED}Extension_" if isinstance(source, UnsecuredToken) else "extension_"
    return source, tuple(sorted(_named(module, start).items()))


def _module(properties: KafkaProperties) -> LoginModule:
    text, key = properties.get(JAAS_KEY), properties.spelled(JAAS_KEY)
    if text is None:
        return LoginModule(MODULE)  # newer clients need none: the properties say it all
    module = parse_jaas_config(text, shown_as=key)
    if module.simple_name != MODULE:
        raise OptionError(
            f"Option '{key}' has to name {MODULE} with '{properties.spelled('sasl.mechanism')}' = "
            f"'OAUTHBEARER'. It is written like this: {OAUTH_LINE}",
            option=key,
        )
    return module


def _named(module: LoginModule, start: str) -> dict[str, str]:
    return {name.removeprefix(start): text for name, text in module.options if name.startswith(start)}


def _source(properties: KafkaProperties, module: LoginModule) -> TokenSource:
    handler = (properties.get(_HANDLER) or "").strip()
    simple_name = handler.rpartition(".")[2]
    url = properties.get(_URL)
    if handler and simple_name not in (_JAVA_HANDLER, _UNSECURED_HANDLER):
        return PythonToken(handler, properties.spelled(_HANDLER))
    if simple_name == _UNSECURED_HANDLER or (not handler and url is None and _has_unsecured(module)):
        return _unsecured(properties, module)
    if url is None:
        key = properties.spelled(_URL)
        raise MissingOptionError(
            f"Option '{key}' is required with OAUTHBEARER: the URL that gives tokens, or 'file:' and the "
            f"path of a token. (For a function in Python set '{properties.spelled(_HANDLER)}' to its dotted "
            "name. For "
            f'development without a server put {_UNSECURED}StringClaim_sub="..." into '
            f"'{properties.spelled(JAAS_KEY)}'.)",
            option=key,
        )
    return _from_url(properties, module, url.strip())


def _from_url(properties: KafkaProperties, module: LoginModule, url: str) -> TokenSource:
    key = properties.spelled(_URL)
    retriever = (properties.get(_RETRIEVER) or "DefaultJwtRetriever").strip().rpartition(".")[2]
    if retriever not in _RETRIEVERS:
        raise UnsupportedOptionError(
            f"Option '{properties.spelled(_RETRIEVER)}' names a Java class that has no counterpart here. "
            f"Use one of {', '.join(_RETRIEVERS)}, or set '{properties.spelled(_HANDLER)}' to the dotted "
            "name of a function in Python.",
            option=properties.spelled(_RETRIEVER),
        )
    if url.startswith("file:"):
        return TokenFile(url.removeprefix("file:").removeprefix("//"), key)
    if not url.startswith(("http://", "https://")):
        raise OptionError(f"Option '{key}' has to begin with https:, http: or file:.", option=key)
    is_bearer = retriever == "JwtBearerJwtRetriever"
    assertion_file = properties.get(_ASSERTION_FILE)
    if is_bearer and not assertion_file:
        name = properties.spelled(_ASSERTION_FILE)
        raise MissingOptionError(
            f"Option '{name}' is required with JwtBearerJwtRetriever: penstock sends a signed assertion "
            "from a file and does not sign one itself.",
            option=name,
        )
    client_id = properties.get(_CLIENT_ID) or module.option("clientId")
    client_secret = properties.get(_CLIENT_SECRET) or module.option("clientSecret")
    if not is_bearer and not (client_id and client_secret):
        raise MissingOptionError(
            f"Options '{properties.spelled(_CLIENT_ID)}' and '{properties.spelled(_CLIENT_SECRET)}' are "
            f"required with '{key}'; or clientId and clientSecret in '{properties.spelled(JAAS_KEY)}': "
            f"{OAUTH_LINE}",
            option=properties.spelled(_CLIENT_ID),
        )
    tls = tuple(sorted((name, text) for name, text in module.options if name.startswith("ssl.")))
    return TokenEndpoint(
        url=url,
        client_id=client_id or "",
        client_secret=client_secret or "",
        scope=properties.get(_SCOPE) or module.option("scope"),
        encodes_header=property_value(properties, "sasl.oauthbearer.header.urlencode"),
        assertion_file=assertion_file if is_bearer else None,
        tls=KafkaProperties(tls, f"{properties.spelled(JAAS_KEY)}: "),
        timeout_ms=_timeout_ms(properties),
        retry_ms=property_value(properties, "sasl.login.retry.backoff.ms"),
        retry_max_ms=property_value(properties, "sasl.login.retry.backoff.max.ms"),
    )


def _timeout_ms(properties: KafkaProperties) -> int:
    """Return the time for one request. Java has no limit unless one is set."""
    parts = [property_value(properties, f"sasl.login.{name}.timeout.ms") for name in ("connect", "read")]
    return sum(part for part in parts if part) or TokenEndpoint.timeout_ms


def _has_unsecured(module: LoginModule) -> bool:
    return any(name.startswith(_UNSECURED) for name, _ in module.options)


def _unsecured(properties: KafkaProperties, module: LoginModule) -> UnsecuredToken:
    key = properties.spelled(JAAS_KEY)
    claims: dict[str, str | float | tuple[str, ...]] = dict(_named(module, f"{_UNSECURED}StringClaim_"))
    try:
        claims |= {name: float(text) for name, text in _named(module, f"{_UNSECURED}NumberClaim_").items()}
        lifetime_s = int(module.option(f"{_UNSECURED}LifetimeSeconds") or UnsecuredToken.lifetime_s)
    except ValueError:
        raise OptionError(
            f"Option '{key}': expected numbers for {_UNSECURED}NumberClaim_... and "
            f"{_UNSECURED}LifetimeSeconds.",
            option=key,
        ) from None
    for name, text in _named(module, f"{_UNSECURED}ListClaim_").items():
        claims[name] = tuple(part for part in text[1:].split(text[0]) if part) if text else ()
    principal = module.option(f"{_UNSECURED}PrincipalClaimName") or "sub"
    if not claims.get(principal):
        raise OptionError(
            f"Option '{key}' needs {_UNSECURED}StringClaim_{principal}=\"...\": the name of the user.",
            option=key,
        )
    if lifetime_s < 1:
        raise OptionError(f"Option '{key}': {_UNSECURED}LifetimeSeconds has to be at least 1.", option=key)
    return UnsecuredToken(tuple(sorted(claims.items())), lifetime_s)
