"""The scenarios of logins and rights on the fake cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings, connection_settings
from penstock.options.config import KafkaProperties
from penstock.testing import Acl, FakeKafka, Rights
from tests.guarded_broker import login
from tests.scenarios.cluster import Cluster
from tests.scenarios.rights import GUARDED, Guarded

PASSWORDS = {"admin": "admin-horse", "user": "user-horse"}


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    rights = Rights(PASSWORDS, acls=[], super_users=["admin"])
    with FakeKafka(rights=rights) as fake:

        def settings(user: str, password: str | None) -> ConnectionSettings:
            items = {
                "bootstrap.servers": fake.bootstrap_servers,
                "security.protocol": "SASL_PLAINTEXT",
                **login("PLAIN", user, password or PASSWORDS[user]),
            }
            return connection_settings(KafkaProperties(tuple(sorted(items.items()))), client_id="test")

        def grant(user: str, operation: str, kind: str, name: str, is_prefix: bool) -> None:
            assert rights.acls is not None
            rights.acls.append(Acl(user, operation, kind, name, is_prefix))

        connections = KafkaConnections(settings("admin", None))
        yield Guarded(Cluster.of_fake(fake, connections), "user", settings, grant)
        connections.close()


@pytest.mark.parametrize("name", GUARDED)
def test_scenario(guarded: Guarded, name: str) -> None:
    GUARDED[name](guarded)
