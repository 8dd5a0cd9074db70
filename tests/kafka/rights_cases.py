"""Users with the rights of one operation of docs/rights.md, or with all but one. Runs in tests only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings, connection_settings
from penstock.devbroker import DevCluster
from penstock.doctor.rights import NEEDED, NeededRights, Resource, Right
from penstock.options.config import KafkaProperties
from tests.guarded_broker import LIMITED, LIMITED_PASSWORD, login

SOURCE, TARGET, SHADOW, DEAD = "rights-source", "rights-target", "rights-shadow", "rights-dead"
JOB = "rights-job"
"""The prefix of a job that has run, for the commands that look at one and do not stop it."""
SHADOW_JOB = f"{JOB}-shadow"
LISTENER = "SASL"
RESOURCES = {
    Resource.TOPIC: ResourceType.TOPIC,
    Resource.GROUP: ResourceType.GROUP,
    Resource.TRANSACTIONAL_ID: ResourceType.TRANSACTIONAL_ID,
    Resource.CLUSTER: ResourceType.BROKER,
}
WRITES = {"write-at-least-once", "write-exactly-once", "create-log", "dead-letters-requeue"}
OWN_DEAD_LETTERS = {"dead-letters-show", "dead-letters-requeue"}
LOG_EXISTS = {"write-exactly-once", "transactions-look", "transactions-change"}
OF_JOB = {"receipts", "verify", "shadow-create", "shadow-compare", "promote-look"}
"""Operations that look at the job with the prefix `JOB`. The others have a prefix of their own."""


@dataclass(frozen=True)
class Case:
    """One user: an operation, and the right that the user lacks (None: has all of them).

    `is_seen`: the user may still describe the topic of the missing right, so that Kafka does not hide it.
    """

    user: str
    needed: NeededRights
    missing: Right | None = None
    is_seen: bool = False

    @property
    def rights(self) -> list[Right]:
        return [right for right in self.needed.rights if right is not self.missing]

    @property
    def names(self) -> dict[str, str]:
        topic = TARGET if self.needed.key in WRITES else SOURCE
        dead = f"{self.user}-dead" if self.needed.key in OWN_DEAD_LETTERS else DEAD
        names = {"topic": topic, "group": f"{self.user}-group", "dead_letters": dead}
        prefix = JOB if self.needed.key in OF_JOB else self.user
        names |= {"prefix": prefix, "log": f"{prefix}-decisions", "shadow_log": f"{SHADOW_JOB}-decisions"}
        return names | {"source": SOURCE, "target": TARGET, "shadow": SHADOW}

    def acls(self) -> list[AclBinding]:
        seen = [Right("DESCRIBE", Resource.TOPIC, self.missing.name)] if self.missing and self.is_seen else []
        return [self.acl(right) for right in (*self.rights, *seen)]

    def acl(self, right: Right) -> AclBinding:
        is_prefixed = right.resource is Resource.TRANSACTIONAL_ID
        name = "kafka-cluster" if right.resource is Resource.CLUSTER else right.name.format(**self.names)
        return AclBinding(
            RESOURCES[right.resource],
            name,
            ResourcePatternType.PREFIXED if is_prefixed else ResourcePatternType.LITERAL,
            f"User:{self.user}",
            "*",
            AclOperation[right.operation],
            AclPermissionType.ALLOW,
        )


SEEN_WITHOUT = {
    right
    for needed in NEEDED
    for right in needed.rights
    if right.resource is Resource.TOPIC and right.operation in ("READ", "WRITE")
}


def cases() -> list[Case]:
    wanted = [
        (needed, missing, is_seen)
        for needed in NEEDED
        for missing in (None, *needed.rights)
        for is_seen in ((False, True) if missing in SEEN_WITHOUT else (False,))
    ]
    assert len(wanted) < len(LIMITED)
    return [Case(LIMITED[number], *each) for number, each in enumerate(wanted)]


@contextmanager
def open_connections(cluster: DevCluster, case: Case) -> Iterator[KafkaConnections]:
    connections = KafkaConnections(settings_of(cluster, case))
    try:
        yield connections
    finally:
        connections.close()


def properties_of(cluster: DevCluster, case: Case) -> dict[str, str]:
    return {
        "bootstrap.servers": cluster.bootstrap_servers_of(LISTENER),
        "security.protocol": "SASL_PLAINTEXT",
    } | login("PLAIN", case.user, LIMITED_PASSWORD)


def settings_of(cluster: DevCluster, case: Case) -> ConnectionSettings:
    properties = KafkaProperties(tuple(sorted(properties_of(cluster, case).items())))
    return connection_settings(properties, client_id="test-rights")


def options_of(cluster: DevCluster, case: Case, **more: str) -> dict[str, str]:
    own = {f"properties.{key}": value for key, value in properties_of(cluster, case).items()}
    return {**own, **{key.replace("_", "."): value for key, value in more.items()}}
