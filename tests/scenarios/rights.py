"""Scenarios of logins and rights, on a cluster with ACLs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest
from kafka.protocol.metadata import FindCoordinatorRequest

from penstock.client.cluster.log_offsets import commit_offsets, committed_offsets, describe_topics
from penstock.client.cluster.metadata import fetch_metadata
from penstock.client.cluster.rights import describe_group, known_rights
from penstock.client.cluster.topics import may_create
from penstock.client.net import error_codes as codes
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.client.transactions.limits import topic_config
from penstock.client.transactions.steps import TransactionProtocol, Transactions
from penstock.errors import AuthenticationError, AuthorizationError, PenstockError
from penstock.types import TopicPartition
from tests.scenarios.cluster import Cluster, batch, unique

OK, DENIED = codes.NO_ERROR, codes.TOPIC_AUTHORIZATION_FAILED
READ, WRITE, DESCRIBE = 3, 4, 8
_GROUP, _TRANSACTION = 0, 1


@dataclass
class Guarded:
    """A cluster with users. `mighty` may do everything; `user` has no right that it was not granted."""

    mighty: Cluster
    user: str
    settings: Callable[[str, str | None], ConnectionSettings]
    """Makes the settings of a user, with a password or with the right one."""
    grant: Callable[[str, str, str, str, bool], None]
    """Grants a user an operation on a kind of resource, by name or by the beginning of names."""

    @contextmanager
    def as_user(self) -> Iterator[Cluster]:
        connections = KafkaConnections(self.settings(self.user, None))
        try:
            yield replace(self.mighty, connections=connections)
        finally:
            connections.close()

    def allow(self, operation: str, kind: str, name: str, *, is_prefix: bool = False) -> None:
        self.grant(self.user, operation, kind, name, is_prefix)


GUARDED: dict[str, Callable[[Guarded], None]] = {}


def guarded_scenario(function: Callable[[Guarded], None]) -> Callable[[Guarded], None]:
    GUARDED[function.__name__] = function
    return function


def find(cluster: Cluster, kind: int, key: str) -> int:
    request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key], min_version=4)
    return int(cluster.ask(request).coordinators[0].error_code)


@guarded_scenario
def a_wrong_password_is_refused(guarded: Guarded) -> None:
    connections = KafkaConnections(guarded.settings(guarded.user, "wrong"))
    try:
        with pytest.raises(AuthenticationError):
            replace(guarded.mighty, connections=connections)
    finally:
        connections.close()


@guarded_scenario
def a_user_without_rights_gets_nothing(guarded: Guarded) -> None:
    topic = guarded.mighty.topic()
    leader = guarded.mighty.leader(topic)
    with guarded.as_user() as user:
        user.leader = lambda *_: leader  # type: ignore[method-assign]  # it may not ask for it
        assert user.error_of(topic) == DENIED
        assert user.error_of(unique("missing")) == DENIED, "a stranger is not told which names exist"
        assert user.fetch(topic).error_code == DENIED
        assert user.list_offset(topic, -1).error_code == DENIED
        assert user.produce(topic, batch(b"a")).code == DENIED
        assert find(user, _GROUP, unique("g")) == codes.GROUP_AUTHORIZATION_FAILED
        assert find(user, _TRANSACTION, unique("t")) == codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert user.init_idempotent()[0] == codes.CLUSTER_AUTHORIZATION_FAILED
        assert topic_config(user.connections, topic, ["retention.ms"]) is None
        assert not may_create(user.connections, unique("new"), timeout_ms=10_000)
        assert topic not in describe_topics(user.connections)
        listed = Transactions(user.connections).list_open(lambda _: True)
        assert listed == []


@guarded_scenario
def the_right_to_write_is_not_the_right_to_read(guarded: Guarded) -> None:
    topic = guarded.mighty.topic()
    guarded.allow("WRITE", "TOPIC", topic)
    with guarded.as_user() as user:
        assert user.produce(topic, batch(b"a")) == (OK, 0)
        assert user.fetch(topic).error_code == DENIED
        assert user.list_offset(topic, -1).error_code == OK, "who may write may describe"
        assert user.init_idempotent()[0] == OK
        described = describe_topics(user.connections, [topic])[topic]
        assert described.topic_id is not None
    guarded.allow("READ", "TOPIC", topic)
    with guarded.as_user() as user:
        assert user.fetch(topic).error_code == OK


@guarded_scenario
def rights_are_told(guarded: Guarded) -> None:
    topic, group = guarded.mighty.topic(), unique("group")
    guarded.allow("READ", "TOPIC", topic)
    guarded.allow("READ", "GROUP", group)
    with guarded.as_user() as user:
        found = fetch_metadata(user.connections, [topic], with_rights=True).topics[topic]
        assert known_rights(found.authorized_operations) == frozenset((READ, DESCRIBE))
        assert describe_group(user.connections, group).rights == frozenset((READ, DESCRIBE))


@guarded_scenario
def offsets_need_the_group_and_the_topic(guarded: Guarded) -> None:
    topic, group = guarded.mighty.topic(), unique("group")
    topic_partition = TopicPartition(topic, 0)
    with guarded.as_user() as user, pytest.raises(AuthorizationError):
        commit_offsets(user.connections, group, {topic_partition: 1})
    guarded.allow("READ", "GROUP", group)
    with guarded.as_user() as user:
        with pytest.raises(PenstockError, match="TopicAuthorization"):
            raise commit_offsets(user.connections, group, {topic_partition: 1})[topic_partition]
        guarded.allow("READ", "TOPIC", topic)
        assert commit_offsets(user.connections, group, {topic_partition: 1}) == {}
        assert committed_offsets(user.connections, group, [topic_partition]) == {topic_partition: 1}


@guarded_scenario
def a_transactional_id_is_granted_by_the_beginning_of_its_name(guarded: Guarded) -> None:
    prefix = unique("prefix")
    guarded.allow("WRITE", "TRANSACTIONAL_ID", prefix, is_prefix=True)
    with guarded.as_user() as user:
        transactions = Transactions(user.connections)
        v2 = TransactionProtocol.V2
        taken = transactions.init_producer(f"{prefix}-1", transaction_timeout_ms=60_000, protocol=v2)
        assert taken.producer_epoch == 0
        with pytest.raises(AuthorizationError):
            transactions.init_producer(unique("other"), transaction_timeout_ms=60_000, protocol=v2)
