"""The Schema Registry with tokens of an endpoint, under Confluent's names. Real servers on real ports."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from penstock.errors import AuthenticationError, MissingOptionError, OptionError, SchemaRegistryError
from penstock.formats.avro.confluent import REGISTRY
from penstock.formats.format_options import FormatOptions
from penstock.formats.schema_registry.client import SchemaRegistry
from penstock.security.oauth import TokenEndpoint
from penstock.security.token_sources import Token
from penstock.security.tokens import RegistryTokens
from tests.registry_server import Registry, running_registry
from tests.security_page import examples
from tests.token_server import TokenServer, running_token_server

DATA = Path(__file__).parents[2] / "data" / "tls"
SECRET, WRONG = "client-horse", "wrong-staple-of-a-client"
BEARER = "properties.bearer.auth."


def options(registry: Registry, server: TokenServer, **changed: str) -> FormatOptions:
    given = {
        "url": registry.url,
        f"{BEARER}credentials.source": "OAUTHBEARER",
        f"{BEARER}issuer.endpoint.url": server.url,
        f"{BEARER}client.id": "penstock",
        f"{BEARER}client.secret": SECRET,
        f"{BEARER}scope": "schemas",
        f"{BEARER}logical.cluster": "lsrc-1",
        f"{BEARER}identity.pool.id": "pool-1",
    } | {name.replace("_", "."): text for name, text in changed.items()}
    named = {f"avro-confluent.{key}": text for key, text in given.items()}
    return FormatOptions("", named)


def test_tokens_of_an_endpoint() -> None:
    with running_token_server(lifetime_s=3_600.0) as server, running_registry() as registry:
        schema_id = registry.register("s", '"string"')
        asks = SchemaRegistry(REGISTRY.settings(options(registry, server)))
        registry.bearer_token = "not known yet"  # noqa: S105 - of a server of the test
        with pytest.raises(SchemaRegistryError, match=r"401: Unauthorized. Check 'basic-auth.\*' or"):
            asks.schema(schema_id)
        registry.bearer_token = server.tokens[0]
        found = asks.schema(schema_id)
        assert found is not None
        assert found.text == '"string"'
        assert len(server.tokens) == 1, "one token for several requests"
        assert server.forms == [{"grant_type": ["client_credentials"], "scope": ["schemas"]}]
        assert registry.headers["target-sr-cluster"] == "lsrc-1"
        assert registry.headers["confluent-identity-pool-id"] == "pool-1"


def test_flinks_name_of_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_CLIENT_SECRET", SECRET)
    with running_token_server(lifetime_s=3_600.0) as server, running_registry() as registry:
        schema_id = registry.register("s", '"string"')
        named = dict(options(registry, server).texts)
        del named[f"avro-confluent.{BEARER}credentials.source"]
        named["avro-confluent.bearer-auth.credentials-source"] = "OAUTHBEARER"
        named[f"avro-confluent.{BEARER}client.secret"] = "${env:TEST_CLIENT_SECRET}"
        settings = REGISTRY.settings(FormatOptions("", named))
        assert SECRET not in repr(settings) + repr(settings.token_endpoint)
        assert SchemaRegistry(settings).schema(schema_id) is not None
        assert len(server.tokens) == 1


def test_the_example_of_our_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/security.md, word for word but for the endpoint and the secret."""
    monkeypatch.setenv("CLIENT_SECRET", SECRET)
    start = "value."
    with (
        running_token_server(client=f"orders:{SECRET}", lifetime_s=3_600.0) as server,
        running_registry() as registry,
    ):
        schema_id = registry.register("s", '"string"')
        given = {name.removeprefix(start): text for name, text in examples()["Schema Registry"].items()}
        given[f"avro-confluent.{BEARER}issuer.endpoint.url"] = server.url
        settings = REGISTRY.settings(FormatOptions(start, given | {"avro-confluent.url": registry.url}))
        assert SchemaRegistry(settings).schema(schema_id) is not None
        assert server.forms == [{"grant_type": ["client_credentials"], "scope": ["schemas"]}]
        assert registry.headers["target-sr-cluster"] == "lsrc-..."


def test_a_wrong_secret_is_said_and_not_shown() -> None:
    with running_token_server() as server, running_registry() as registry:
        given = options(registry, server, properties_bearer_auth_client_secret=WRONG)
        said = r"refuses this client \(401.*Check 'avro-confluent.properties.bearer.auth.\*'. No record"
        with pytest.raises(SchemaRegistryError, match=said) as caught:
            SchemaRegistry(REGISTRY.settings(given)).schema(1)
        assert WRONG not in str(caught.value) + str(caught.value.__cause__)
        assert isinstance(caught.value.__cause__, AuthenticationError)
        assert len(server.forms) == 1
        assert registry.requests == []


def test_the_endpoint_is_trusted_as_the_registry_is() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(DATA / "broker.pem", DATA / "broker-key.pem")
    with running_token_server(context, lifetime_s=3_600.0) as server, running_registry() as registry:
        registry.register("s", '"string"')
        given = options(registry, server, ssl_truststore_location=str(DATA / "ca.pem"))
        assert SchemaRegistry(REGISTRY.settings(given)).schema(1) is not None


@pytest.mark.parametrize("name", ["issuer.endpoint.url", "client.id", "client.secret"])
def test_what_is_missing_is_named(name: str) -> None:
    given = options(Registry(url="http://r"), TokenServer(url="http://t")).texts
    left = {key: text for key, text in given.items() if not key.endswith(name)}
    with pytest.raises(MissingOptionError, match=f"'avro-confluent.{BEARER}{name}' is required"):
        REGISTRY.settings(FormatOptions("", left))


def test_a_token_beside_an_endpoint_is_refused() -> None:
    given = dict(options(Registry(url="http://r"), TokenServer(url="http://t")).texts)
    given["avro-confluent.bearer-auth.token"] = "token-of-somebody"
    with pytest.raises(OptionError, match=r"'avro-confluent.bearer-auth.token' is not used") as caught:
        REGISTRY.settings(FormatOptions("", given))
    assert "token-of-somebody" not in str(caught.value)


@pytest.mark.parametrize(("buffer_s", "renewed_after_s"), [(10, 90), (0, 100), (300, 50)])
def test_a_token_is_renewed_before_it_ends(buffer_s: int, renewed_after_s: int) -> None:
    now_s = 0.0
    given = iter(["first", "second"])
    tokens = RegistryTokens(
        TokenEndpoint("http://t"), buffer_s, fetch=lambda _: Token(next(given), 100.0), clock=lambda: now_s
    )
    assert tokens.token() == "first"
    now_s = renewed_after_s - 0.5
    assert tokens.token() == "first"
    now_s = float(renewed_after_s)
    assert tokens.token() == "second"
