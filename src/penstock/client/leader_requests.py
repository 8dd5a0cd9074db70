"""One question about many topic partitions: one request per leading broker, all at the same time.

Runs on driver and executor. Invariants: each topic partition gets a value or an error, within the
time-out; one that is slow, leaderless or gone does not keep the others from their values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from kafka import errors as kafka_errors

from penstock.client.backoff import left_ms
from penstock.client.broker_errors import error_from_code, is_retriable
from penstock.client.connection import KafkaConnections, PendingResponse
from penstock.client.metadata import (
    ClusterView,
    Leader,
    Patience,
    Problem,
    ProblemKind,
    TopicMetadata,
    cluster_view,
    leader_in,
    leader_problem,
)
from penstock.errors import PenstockError
from penstock.types import TopicPartition

Asked = TypeVar("Asked")
Answered = TypeVar("Answered")


@dataclass(frozen=True)
class Question(Generic[Asked]):
    """What is asked about one topic partition, and of whom."""

    topic_partition: TopicPartition
    asked: Asked
    leader: Leader


@dataclass(frozen=True)
class Reply(Generic[Answered]):
    """What the broker said about one topic partition."""

    topic_partition: TopicPartition
    error_code: int
    answer: Answered


@dataclass
class Answers(Generic[Answered]):
    """A value or an error for each topic partition."""

    values: dict[TopicPartition, Answered] = field(default_factory=dict)
    errors: dict[TopicPartition, PenstockError] = field(default_factory=dict)

    def all_or_raise(self, what: str) -> dict[TopicPartition, Answered]:
        """The values if there is one for each; otherwise the first error, naming how many more there are."""
        if not self.errors:
            return self.values
        failed = sorted(self.errors)
        first = self.errors[failed[0]]
        if len(failed) == 1:
            raise first
        names = ", ".join(map(str, failed[:5])) + (", ..." if len(failed) > 5 else "")
        text = f"{what} failed for {len(failed)} topic partitions ({names}). The first: {first}"
        raise type(first)(text, **{**first.facts, "topic_partitions": failed})


class LeaderRequests(Generic[Asked, Answered]):
    """Asks the leaders, again where the answer is worth another try."""

    def __init__(
        self,
        connections: KafkaConnections,
        what: str,
        build: Callable[[Sequence[Question[Asked]]], Any],
        read: Callable[[Any], Iterable[Reply[Answered]]],
    ) -> None:
        """Make the question.

        Args:
            connections: to the cluster.
            what: e.g. "Listing offsets", for errors.
            build: the request for one broker. Must bear repetition.
            read: the replies in its response.
        """
        self._connections = connections
        self._what = what
        self._build = build
        self._read = read

    def ask(self, wanted: Mapping[TopicPartition, Asked], timeout_ms: int | None = None) -> Answers[Answered]:
        """Ask until each topic partition has a value, or an error that lasted too long."""
        view = cluster_view(self._connections)
        patience = Patience.from_now(self._connections, timeout_ms)
        backoff = self._connections.new_backoff()
        answers: Answers[Answered] = Answers()
        pending = dict(wanted)
        problems: dict[TopicPartition, Problem] = {}
        while pending:
            problems = self._round(view, pending, problems, answers, left_ms(patience.deadline))
            pending = {topic_partition: wanted[topic_partition] for topic_partition in problems}
            latest = max(map(patience.ends_for, problems.values()), default=0.0)
            if pending and not backoff.pause(latest):
                answers.errors |= {tp: problem.error for tp, problem in problems.items()}
                break
            for topic_partition, problem in problems.items():
                if problem.kind is ProblemKind.FINAL:
                    answers.errors[topic_partition] = problem.error
                    del pending[topic_partition]
                else:
                    view.invalidate(topic_partition.topic)
        return answers

    def _round(
        self,
        view: ClusterView,
        pending: Mapping[TopicPartition, Asked],
        before: Mapping[TopicPartition, Problem],
        answers: Answers[Answered],
        timeout_ms: int,
    ) -> dict[TopicPartition, Problem]:
        """Ask once for all that is pending; returns what stands in the way of the rest."""
        try:
            known = view.look_up({tp.topic for tp in pending}, timeout_ms=timeout_ms)
        except PenstockError as error:
            # The time is up; what stood in the way before says more than that nobody answers now.
            causes = {tp: before[tp].error if tp in before else error for tp in pending}
            return {tp: Problem(tp.topic, ProblemKind.FINAL, cause) for tp, cause in causes.items()}
        problems = {tp: problem for tp in pending if (problem := leader_problem(known, tp)) is not None}
        by_broker = _by_broker({tp: asked for tp, asked in pending.items() if tp not in problems}, known)
        attempt_ms = min(timeout_ms, self._connections.settings.request_timeout_ms)
        sent = [
            (questions, self._connections.send(self._build(questions), node_id, attempt_ms))
            for node_id, questions in by_broker.items()
        ]
        for questions, response in sent:
            problems |= self._collect(questions, response, answers)
        return problems

    def _collect(
        self, questions: Sequence[Question[Asked]], response: PendingResponse, answers: Answers[Answered]
    ) -> dict[TopicPartition, Problem]:
        try:
            replies = {reply.topic_partition: reply for reply in self._read(response.result())}
        except PenstockError as error:
            kind = ProblemKind.PASSING if is_retriable(error) else ProblemKind.FINAL
            return {
                asked.topic_partition: Problem(asked.topic_partition.topic, kind, error)
                for asked in questions
            }
        problems = {}
        for question in questions:
            topic_partition = question.topic_partition
            reply = replies.get(topic_partition)
            if reply is not None and not reply.error_code:
                answers.values[topic_partition] = reply.answer
                continue
            problems[topic_partition] = self._problem(topic_partition, reply, question.leader)
        return problems

    def _problem(
        self, topic_partition: TopicPartition, reply: Reply[Answered] | None, leader: Leader
    ) -> Problem:
        topic, partition = topic_partition
        # A broker that leaves a topic partition out of its answer did not answer for it.
        code = kafka_errors.UnknownError.errno if reply is None else reply.error_code
        where = f"{self._what} for {topic_partition} at broker {leader.node_id}"
        error = error_from_code(code, where, topic=topic, partition=partition)
        if code == kafka_errors.UnknownTopicOrPartitionError.errno:
            return Problem(topic, ProblemKind.UNKNOWN, error)
        kind = ProblemKind.PASSING if reply is None or is_retriable(error) else ProblemKind.FINAL
        return Problem(topic, kind, error)


def _by_broker(
    pending: Mapping[TopicPartition, Asked], known: Mapping[str, TopicMetadata]
) -> dict[int, list[Question[Asked]]]:
    by_broker: defaultdict[int, list[Question[Asked]]] = defaultdict(list)
    for topic_partition, asked in pending.items():
        leader = leader_in(known[topic_partition.topic], topic_partition.partition)
        by_broker[leader.node_id].append(Question(topic_partition, asked, leader))
    return by_broker


def by_topic(questions: Iterable[Question[Asked]]) -> dict[str, list[Question[Asked]]]:
    """The questions grouped as Kafka's requests nest them."""
    grouped: defaultdict[str, list[Question[Asked]]] = defaultdict(list)
    for question in questions:
        grouped[question.topic_partition.topic].append(question)
    return grouped
