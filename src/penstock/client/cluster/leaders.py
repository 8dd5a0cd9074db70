"""Ask the leaders of topic partitions. Runs on driver and executor. Invariants: as in `ask`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from penstock.client.cluster.ask import Question, Reply, ask, kind_of
from penstock.client.cluster.metadata import ClusterView, Leader, cluster_view, leader_in, leader_problem
from penstock.client.cluster.results import Results
from penstock.client.net import error_codes as codes
from penstock.client.net.backoff import Problem, ProblemKind
from penstock.client.net.broker_errors import error_from_code
from penstock.client.net.connection import KafkaConnections
from penstock.errors import PenstockError
from penstock.types import TopicPartition

V = TypeVar("V")
Leaders = Mapping[TopicPartition, Leader]
"""The topic partitions of one request, each with its leader and leader epoch."""


def ask_leaders(
    connections: KafkaConnections,
    topic_partitions: Collection[TopicPartition],
    what: str,
    build: Callable[[Leaders], Any],
    read: Callable[[Any], Iterable[Reply[TopicPartition, V]]],
    *,
    timeout_ms: int | None = None,
) -> Results[TopicPartition, V]:
    """Ask the leader of each topic partition; see `ask`.

    Args:
        connections: to the cluster.
        topic_partitions: to ask about.
        what: e.g. "Listing offsets", for errors.
        build: makes the request for one broker.
        read: returns the replies in its response.
        timeout_ms: default `default_api_timeout_ms`.
    """

    def error(topic_partition: TopicPartition, leader: Leader, code: int) -> PenstockError:
        topic, partition = topic_partition
        where = f"{what} for {topic_partition} at broker {leader.node_id}"
        return error_from_code(code, where, topic=topic, partition=partition)

    question = Question(build, lambda response, asked: read(response), error, _kind)
    locator = _Leaders(cluster_view(connections))
    return ask(connections, topic_partitions, locator, question, timeout_ms=timeout_ms)


def _kind(error: PenstockError) -> ProblemKind:
    is_unknown = error.facts["error_code"] == codes.UNKNOWN_TOPIC_OR_PARTITION
    return ProblemKind.UNKNOWN if is_unknown else kind_of(error)


class _Leaders:
    """Locates topic partitions by the process's view of the cluster."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    def locate(
        self, keys: Collection[TopicPartition], before: Mapping[TopicPartition, Problem], timeout_ms: int
    ) -> tuple[dict[TopicPartition, Leader], dict[TopicPartition, Problem]]:
        try:
            known = self._view.look_up({tp.topic for tp in keys}, timeout_ms=timeout_ms)
        except PenstockError as error:
            # The time is up. The problem before says more than the missing answer now.
            causes = {tp: before[tp].error if tp in before else error for tp in keys}
            return {}, {tp: Problem(ProblemKind.FINAL, cause) for tp, cause in causes.items()}
        problems = {tp: problem for tp in keys if (problem := leader_problem(known, tp)) is not None}
        self.failed(problems, None)
        found = {tp: leader_in(known[tp.topic], tp.partition) for tp in keys if tp not in problems}
        return found, problems

    def failed(self, keys: Iterable[TopicPartition], error_code: int | None) -> None:
        """Let the next `locate`, also that of the next question, ask the cluster again.

        A question may be over before its second attempt. What the cluster said before must not be its
        answer for as long as the cache is valid.
        """
        for topic_partition in keys:
            self._view.invalidate(topic_partition.topic)


def by_topic(values: Mapping[TopicPartition, V]) -> dict[str, dict[TopicPartition, V]]:
    """Group topic partitions by topic, as Kafka's requests nest them."""
    grouped: defaultdict[str, dict[TopicPartition, V]] = defaultdict(dict)
    for topic_partition, value in values.items():
        grouped[topic_partition.topic][topic_partition] = value
    return grouped
