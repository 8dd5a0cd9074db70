"""Every scenario of the fake cluster on the real broker. So the fake does what Kafka does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.devbroker import DevCluster
from tests import judge
from tests.guarded_broker import LIMITED_PASSWORD, SCENARIO_USERS, login, settings_for
from tests.scenarios.all import ALL
from tests.scenarios.cluster import Cluster
from tests.scenarios.rights import GUARDED, Guarded
from tests.waiting import PATIENCE_S, wait_until


@pytest.fixture
def cluster(bootstrap: str) -> Iterator[Cluster]:
    connections = KafkaConnections(ConnectionSettings((bootstrap,), "scenario"))
    yield Cluster.of(bootstrap, connections)
    connections.close()


@pytest.mark.parametrize("name", ALL)
def test_scenario(cluster: Cluster, name: str) -> None:
    ALL[name](cluster)


@pytest.mark.parametrize("name", GUARDED)
def test_scenario_of_rights(guarded: DevCluster, name: str) -> None:
    bootstrap = guarded.bootstrap_servers
    admin = judge.admin(bootstrap)

    def settings(user: str, password: str | None) -> ConnectionSettings:
        return settings_for(guarded, "SASL", login("PLAIN", user, password or LIMITED_PASSWORD))

    def grant(user: str, operation: str, kind: str, resource: str, is_prefix: bool) -> None:
        pattern = ResourcePatternType.PREFIXED if is_prefix else ResourcePatternType.LITERAL
        right = (AclOperation[operation], AclPermissionType.ALLOW)
        wanted = (ResourceType[kind], resource, pattern, f"User:{user}", "*", *right)
        for future in admin.create_acls([AclBinding(*wanted)], request_timeout=PATIENCE_S).values():
            future.result(timeout=PATIENCE_S)
        # The controller answers; the broker, which answers here, has it a moment later.
        known = AclBindingFilter(*wanted)
        wait_until(lambda: admin.describe_acls(known).result(PATIENCE_S), "the broker to know the ACL")

    connections = KafkaConnections(ConnectionSettings((bootstrap,), "scenario"))
    user = SCENARIO_USERS[list(GUARDED).index(name)]
    try:
        GUARDED[name](Guarded(Cluster.of(bootstrap, connections), user, settings, grant))
    finally:
        connections.close()
