"""The examples of docs/security.md, word for word but for hosts, files and secrets.

The cloud services are not here. A broker with the same mechanisms stands for them. The authorities of the
system are those of the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from penstock.client.net.connection import close_shared_connections
from penstock.devbroker import DevCluster
from tests.fix_broker import MakeTopic
from tests.guarded_broker import CLOUD_USERS, DATA, QUOTED, STORE_PASSWORD, STORES
from tests.kafka.sink_by_options import check_write_and_read
from tests.security_page import examples
from tests.token_server import running_token_server


class Example(NamedTuple):
    """What the example needs here.

    `secrets`: environment variables. `client`: id and secret at the token endpoint. `scope`: of the token.
    """

    listener: str = "BOTH"
    secrets: dict[str, str] = {}  # noqa: RUF012 - not changed
    client: str = ""
    scope: str = ""


AZURE_SCOPE = "https://NAMESPACE.servicebus.windows.net/.default"
EXAMPLES = {
    "User name and password": Example(secrets={"KAFKA_PASSWORD": QUOTED}),
    "Tokens (OAUTHBEARER)": Example(secrets={"CLIENT_SECRET": "s"}, client="orders:s", scope="kafka"),
    "Azure Event Hubs": Example(secrets={"EVENT_HUBS_CONNECTION_STRING": CLOUD_USERS["$ConnectionString"]}),
    "Azure Event Hubs with Microsoft Entra ID": Example(
        secrets={"APPLICATION_SECRET": "s~1.x"}, client="APPLICATION_ID:s~1.x", scope=AZURE_SCOPE
    ),
    "Confluent Cloud": Example(secrets={"API_SECRET": CLOUD_USERS["API_KEY"]}),
    "Confluent Cloud with OAuth": Example(
        secrets={"CLIENT_SECRET": "s"}, client="CLIENT_ID:s", scope="kafka"
    ),
    "Key and trust stores": Example("MUTUAL"),
}
ELSEWHERE = {"Kerberos (GSSAPI)", "Schema Registry"}
"""tests/kafka/test_kerberos.py, tests/unit/formats/test_schema_registry_tokens.py."""


def test_each_example_is_tried() -> None:
    assert set(examples()) == set(EXAMPLES) | ELSEWHERE


@pytest.fixture(autouse=True)
def _no_shared_connections() -> Iterator[None]:
    yield
    close_shared_connections()


def of_tests(text: str, folder: Path, token_url: str) -> str:
    """Put files and addresses of the tests into a value."""
    for old, new in {
        "/path/to/kafka.client.truststore.jks": str(STORES / "trust.jks"),
        "/path/to/kafka.client.keystore.jks": str(STORES / "client.p12"),
        "/path/to/secrets.properties": str(folder / "secrets.properties"),
        "https://idp.example/oauth2/token": token_url,
        "https://login.microsoftonline.com/TENANT/oauth2/v2.0/token": token_url,
    }.items():
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("title", EXAMPLES)
def test_an_example_works(
    guarded: DevCluster, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, title: str
) -> None:
    example, topic = EXAMPLES[title], make_topic(cluster=guarded)
    monkeypatch.setenv("SSL_CERT_FILE", str(DATA / "ca.pem"))
    for name, secret in example.secrets.items():
        monkeypatch.setenv(name, secret)
    secrets = f"truststore={STORE_PASSWORD}\nkeystore={STORE_PASSWORD}"
    (tmp_path / "secrets.properties").write_text(secrets)
    with running_token_server(client=example.client) as server:
        given = {name: of_tests(text, tmp_path, server.url) for name, text in examples()[title].items()}
        usual = {} if "kafka.security.protocol" in given else {"kafka.security.protocol": "SSL"}
        topic_options = {
            "kafka.bootstrap.servers": guarded.bootstrap_servers_of(example.listener),
            "topic": topic,
        }
        check_write_and_read(guarded.bootstrap_servers, usual | given | topic_options)
        assert {scope for form in server.forms for scope in form["scope"]} == {example.scope} - {""}
