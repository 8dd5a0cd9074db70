"""OAUTHBEARER under Java's names: where a token comes from, and what is not a token."""

from __future__ import annotations

import base64
import json
import pickle
import ssl
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from penstock.errors import (
    AuthenticationError,
    BrokerUnavailableError,
    MissingOptionError,
    OptionError,
    PenstockError,
    UnsupportedOptionError,
)
from penstock.options.config import KafkaProperties
from penstock.security.oauth import (
    AwsToken,
    OAuthLogin,
    PythonToken,
    TokenEndpoint,
    TokenFile,
    UnsecuredToken,
)
from penstock.security.settings import security_settings
from penstock.security.token_sources import Token, fetch_token, load_function
from tests.token_server import TokenServer, running_token_server, unsecured_token

MODULE = "org.apache.flink.kafka.shaded.org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
DATA = Path(__file__).parents[2] / "data" / "tls"
URL = "sasl.oauthbearer.token.endpoint.url"


def login(jaas: str | None = None, **properties: str) -> OAuthLogin:
    items = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    items |= {name.replace("_", "."): text for name, text in properties.items()}
    if jaas is not None:
        items["sasl.jaas.config"] = f"{MODULE} required {jaas};"
    sasl = security_settings(KafkaProperties(tuple(sorted(items.items())), "kafka.")).sasl
    assert isinstance(sasl, OAuthLogin)
    assert "horse" not in repr(sasl)
    assert pickle.loads(pickle.dumps(sasl)) == sasl  # noqa: S301 - just made here
    return sasl


def url(text: str) -> dict[str, str]:
    return {URL.replace(".", "_"): text}


def test_client_credentials_by_jaas_and_by_properties() -> None:
    jaas = "clientId=\"c\" clientSecret='client-horse' scope=\"s\" extension_logicalCluster='lkc-1'"
    by_jaas = login(jaas, sasl_login_callback_handler_class=HANDLER, **url("https://idp/token"))
    by_properties = login(
        "extension_logicalCluster='lkc-1'",
        sasl_oauthbearer_client_credentials_client_id="c",
        sasl_oauthbearer_client_credentials_client_secret="client-horse",  # noqa: S106
        sasl_oauthbearer_scope="s",
        **url("https://idp/token"),
    )
    assert by_jaas == by_properties
    assert isinstance(by_jaas.source, TokenEndpoint)
    assert by_jaas.extensions == (("logicalCluster", "lkc-1"),)


def test_the_other_sources() -> None:
    assert isinstance(login('unsecuredLoginStringClaim_sub="alice"').source, UnsecuredToken)
    assert isinstance(login(**url("file:///run/token")).source, TokenFile)
    named = login(sasl_login_callback_handler_class="my.tokens.fetch").source
    assert named == PythonToken("my.tokens.fetch", "kafka.sasl.login.callback.handler.class")


@pytest.mark.parametrize(
    ("jaas", "properties", "kind", "what"),
    [
        (None, {}, MissingOptionError, rf"'kafka.{URL}' is required with OAUTHBEARER"),
        (None, url("https://idp"), MissingOptionError, r"client.credentials.client.id' and .* are required"),
        ('clientId="c"', url("https://idp"), MissingOptionError, "clientSecret"),
        (None, url("ftp://idp"), OptionError, "has to begin with https:, http: or file:"),
        ('unsecuredLoginLifetimeSeconds="1"', {}, OptionError, "unsecuredLoginStringClaim_sub="),
        ('unsecuredLoginStringClaim_sub="a" unsecuredLoginLifetimeSeconds="x"', {}, OptionError, "numbers"),
        (None, url("https://idp") | {"sasl_oauthbearer_jwt_retriever_class": "a.Other"},
         UnsupportedOptionError, "has no counterpart"),
        (None, url("https://idp") | {"sasl_oauthbearer_jwt_retriever_class": "a.JwtBearerJwtRetriever"},
         MissingOptionError, "'kafka.sasl.oauthbearer.assertion.file' is required"),
    ],
)  # fmt: skip
def test_what_is_missing_is_named(
    jaas: str | None, properties: dict[str, str], kind: type[OptionError], what: str
) -> None:
    with pytest.raises(kind, match=what):
        login(jaas, **properties)


def test_another_login_module_is_refused() -> None:
    items = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": 'a.PlainLoginModule required username="a" password="correct-horse";',
    }
    with pytest.raises(OptionError, match="has to name OAuthBearerLoginModule") as caught:
        security_settings(KafkaProperties(tuple(sorted(items.items()))))
    assert "horse" not in str(caught.value)


# ----- getting one


def claims_of(token: Token) -> dict[str, object]:
    part = token.text.split(".")[1]
    claims: dict[str, object] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return claims


def test_a_token_without_signature_has_javas_claims() -> None:
    jaas = (
        'unsecuredLoginStringClaim_sub="alice" unsecuredLoginNumberClaim_n="1.5" '
        'unsecuredLoginLifetimeSeconds="60" unsecuredLoginListClaim_scope="|a|b" '
        'unsecuredLoginExtension_traceId="7"'
    )
    made = login(jaas)
    token = fetch_token(made.source, lambda: 1_000.0)
    assert claims_of(token) == {"sub": "alice", "n": 1.5, "scope": ["a", "b"], "iat": 1_000.0, "exp": 1_060.0}
    assert token.lifetime_s == 60
    assert made.extensions == (("traceId", "7"),)


def endpoint(server: TokenServer, **more: object) -> TokenEndpoint:
    settings = {"client_id": "penstock", "client_secret": "client-horse", "retry_ms": 1, "retry_max_ms": 300}
    return TokenEndpoint(server.url, **(settings | more))  # type: ignore[arg-type]  # a mix of types


def test_an_endpoint_is_asked_as_java_asks() -> None:
    with running_token_server() as server:
        token = fetch_token(endpoint(server, scope="a b"))
        assert token.text == server.tokens[0]
        assert token.lifetime_s == server.lifetime_s
        assert server.forms == [{"grant_type": ["client_credentials"], "scope": ["a b"]}]
        server.client = "pen%2Bstock:a%3Ab"
        fetch_token(endpoint(server, client_id="pen+stock", client_secret="a:b", encodes_header=True))  # noqa: S106


def test_an_assertion_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "assertion").write_text("a.b.c\n")
    with running_token_server() as server:
        fetch_token(endpoint(server, assertion_file=str(tmp_path / "assertion")))
        grant = "urn:ietf:params:oauth:grant-type:jwt-bearer"
        assert server.forms == [{"grant_type": [grant], "assertion": ["a.b.c"]}]


def test_an_endpoint_is_asked_again_while_it_is_away() -> None:
    with running_token_server(failures_to_come=3) as server:
        fetch_token(endpoint(server, retry_max_ms=10_000))
        assert len(server.forms) == 4
        server.failures_to_come = 1_000
        with pytest.raises(BrokerUnavailableError, match=r"gives no token \(it answers 503\)"):
            fetch_token(endpoint(server))


def test_a_refusal_is_not_asked_again_and_shows_no_secret() -> None:
    with (
        running_token_server() as server,
        pytest.raises(AuthenticationError, match="401: invalid_client") as caught,
    ):
        fetch_token(endpoint(server, client_secret="wrong-staple"))  # noqa: S106
    assert len(server.forms) == 1
    assert "staple" not in str(caught.value)


@pytest.mark.parametrize(
    "answer",
    [b"", b"[]", b"{", b'{"access_token": 1}', b'{"access_token": ""}', b'{"access_token": "a b\\u0001"}',
     b"[" * 100_000],
)  # fmt: skip
def test_what_is_no_token_is_refused(answer: bytes) -> None:
    with running_token_server(answer=answer) as server, pytest.raises(AuthenticationError):
        fetch_token(endpoint(server))


def test_the_endpoint_over_tls() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(DATA / "broker.pem", DATA / "broker-key.pem")
    with running_token_server(context) as server:
        trust = KafkaProperties((("ssl.truststore.location", str(DATA / "ca.pem")),))
        fetch_token(endpoint(server, tls=trust))
        with pytest.raises(BrokerUnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
            fetch_token(endpoint(server))


@pytest.mark.parametrize(("lifetime_s", "is_good"), [(60, True), (-60, False)])
def test_a_file_is_read_and_its_end_known(tmp_path: Path, lifetime_s: int, is_good: bool) -> None:
    path = tmp_path / "token"
    path.write_text(unsecured_token("alice", lifetime_s))
    source = TokenFile(str(path), "x")
    if is_good:
        assert 50 < fetch_token(source).lifetime_s < 61
    else:
        with pytest.raises(AuthenticationError, match=r"expired (60|61) s ago"):
            fetch_token(source)


def opaque() -> str:
    return "opaque-token"


def timed() -> tuple[str, float]:
    return "opaque-token", time.time() + 30


def failing() -> str:
    raise RuntimeError("correct-horse")


def number() -> int:
    return 1


def of(name: str) -> PythonToken:
    return PythonToken(f"{__name__}.{name}", "kafka.sasl.login.callback.handler.class")


def test_functions() -> None:
    assert fetch_token(of("opaque")).text == "opaque-token"
    assert 25 < fetch_token(of("timed")).lifetime_s < 31
    with pytest.raises(AuthenticationError, match="raised RuntimeError") as caught:
        fetch_token(of("failing"))
    assert "horse" not in str(caught.value)
    with pytest.raises(AuthenticationError, match="returned int: expected a text"):
        fetch_token(of("number"))


@pytest.mark.parametrize("name", ["com.example.MyHandler", "nothing", "os.no_such", "", "...", "os.environ"])
def test_what_is_no_function_is_refused(name: str) -> None:
    with pytest.raises(PenstockError, match="not a function that Python can import"):
        load_function(PythonToken(name, "x"))


# ----- Amazon MSK


class Signer:
    """Instead of AWS's package: makes tokens of what it is asked for."""

    def __getattr__(self, name: str) -> object:
        def signed(*arguments: str) -> tuple[str, float]:
            return "-".join([name.removeprefix("generate_auth_token"), *arguments]), (
                time.time() + 900
            ) * 1000

        return signed


AWS_JAAS = "software.amazon.msk.auth.iam.IAMLoginModule required {};"


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("", "-eu-west-1"),
        ('awsProfileName="dev"', "_from_profile-eu-west-1-dev"),
        ('awsRoleArn="role" awsRoleSessionName="s"', "_from_role_arn-eu-west-1-role-s"),
    ],
)
def test_the_properties_of_awss_documents(monkeypatch: pytest.MonkeyPatch, options: str, wanted: str) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", ModuleType("aws_msk_iam_sasl_signer"))
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer.MSKAuthTokenProvider", Signer())
    items = {
        "bootstrap.servers": "b-1.orders.x1.c2.kafka.eu-west-1.amazonaws.com:9098",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.jaas.config": AWS_JAAS.format(options),
        "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
    }
    sasl = security_settings(KafkaProperties(tuple(sorted(items.items())))).sasl
    assert isinstance(sasl, OAuthLogin)
    assert sasl.mechanism == "OAUTHBEARER", "brokers of MSK take AWS's tokens by this one too"
    token = fetch_token(sasl.source)
    assert token.text == wanted
    assert 800 < token.lifetime_s < 901


def test_awss_handler_of_oauthbearer() -> None:
    handler = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
    assert login('awsProfileName="dev"', sasl_login_callback_handler_class=handler).source == AwsToken(
        profile="dev"
    )


def test_what_amazon_msk_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer.MSKAuthTokenProvider", None)
    with pytest.raises(OptionError, match="needs the extra 'aws' of penstock"):
        fetch_token(AwsToken("eu-west-1"))
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", ModuleType("aws_msk_iam_sasl_signer"))
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer.MSKAuthTokenProvider", Signer())
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(OptionError, match="region of Amazon MSK is not known"):
        fetch_token(AwsToken())
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    assert fetch_token(AwsToken()).text == "-us-east-1"


@pytest.mark.parametrize("mechanism", ["PLAIN", "OAUTHBEARER"])
def test_other_classes_for_the_client_are_refused(mechanism: str) -> None:
    items = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.client.callback.handler.class": "com.example.Handler",
    }
    with pytest.raises(UnsupportedOptionError, match="Java classes do not run here"):
        security_settings(KafkaProperties(tuple(sorted(items.items()))))
