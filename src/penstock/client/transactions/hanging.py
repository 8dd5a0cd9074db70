"""Find transactions whose end is decided while its markers do not reach their topic partitions.

Runs on the machine of a command. Kafka calls their states PrepareCommit and PrepareAbort, which usually last
for milliseconds. Invariants: asking changes nothing. A transaction counts as hanging only if it was in one
state, with one producer, for HANGS_AFTER_S.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from penstock.client.cluster.coordinators import transaction_coordinators
from penstock.client.cluster.metadata import NO_LEADER, fetch_metadata
from penstock.client.net.connection import KafkaConnections
from penstock.client.transactions.steps import TransactionDescription, Transactions, TransactionState
from penstock.types import TopicPartition

HANGS_AFTER_S = 3.0
"""How long an end may take that does not hang."""
_POLL_S = 0.1
_DECIDED = frozenset((TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT))


@dataclass(frozen=True, slots=True)
class Hanging:
    """A transaction whose end is decided, and stands only in some of its topic partitions.

    Attributes:
        is_commit: whether it is decided as a commit.
        coordinator: the broker that has to write the markers; None: unknown.
        leaderless: its topic partitions that have no leader, so that no marker can be written.
    """

    is_commit: bool
    coordinator: int | None
    leaderless: tuple[TopicPartition, ...]


def find_hanging(
    connections: KafkaConnections, described: Iterable[TransactionDescription]
) -> dict[str, Hanging]:
    """Return those that hang, by their transactional ids. Waits only if the end of one is decided.

    Args:
        connections: to the cluster.
        described: transactions, as their coordinators have just described them.

    Raises:
        ClientError: no answer in time.
    """
    left = {each.identity.transactional_id: each for each in described if each.state in _DECIDED}
    steps, over_s = Transactions(connections), time.monotonic() + HANGS_AFTER_S
    while left and time.monotonic() < over_s:
        time.sleep(_POLL_S)
        now = steps.describe(list(left))
        left = {name: was for name, was in left.items() if _is_same(was, now[name])}
    return dict(_judged(connections, list(left.values()))) if left else {}


def _is_same(was: TransactionDescription, now: TransactionDescription | None) -> bool:
    return now is not None and (was.identity, was.state) == (now.identity, now.state)


def _judged(
    connections: KafkaConnections, hanging: Collection[TransactionDescription]
) -> Iterator[tuple[str, Hanging]]:
    names = [each.identity.transactional_id for each in hanging]
    timeout_ms = connections.settings.request_timeout_ms
    coordinators, _ = transaction_coordinators(connections).locate(names, {}, timeout_ms)
    without = _leaderless(connections, {tp for each in hanging for tp in each.topic_partitions})
    for each in hanging:
        name = each.identity.transactional_id
        coordinator = coordinators[name].node_id if name in coordinators else None
        leaderless = tuple(tp for tp in each.topic_partitions if tp in without)
        yield name, Hanging(each.state is TransactionState.PREPARE_COMMIT, coordinator, leaderless)


def _leaderless(
    connections: KafkaConnections, topic_partitions: Collection[TopicPartition]
) -> set[TopicPartition]:
    """Return those that the cluster knows, and that no broker leads."""
    topics = fetch_metadata(connections, sorted({tp.topic for tp in topic_partitions})).topics
    led_by_none = {
        TopicPartition(topic.topic, index)
        for topic in topics.values()
        for index, each in topic.partitions.items()
        if each.leader_id == NO_LEADER
    }
    return led_by_none.intersection(topic_partitions)
