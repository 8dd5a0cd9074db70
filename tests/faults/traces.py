"""Run one schedule of the exactly-once sink on any cluster, through the fault proxy, and keep its trace.

The fake Kafka of the simulation and a real broker get the same schedule. So the model is true where traces
are equal. Invariant: a trace names no producer id, offset or time, because these differ on any clusters, and
no answer that says "not yet". A schedule goes on when all markers are written, so that a fault never meets
such an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.client.cluster.coordinators import DID_NOTHING
from penstock.client.net import error_codes as codes
from penstock.client.net.connection import KafkaConnections, PendingResponse
from penstock.client.settings import ConnectionSettings
from penstock.client.transactions.steps import Transactions, TransactionState
from penstock.errors import PenstockError
from penstock.sink.exactly_once._probes import Step, observe
from penstock.sink.exactly_once.committable import TaskReport
from penstock.sink.exactly_once.mandate import Mandate
from tests import judge
from tests.chaos.answer_proxy import (
    DOUBLED_REQUEST,
    HELD_REQUEST,
    LOST_ANSWER,
    LOST_REQUEST,
    AnswerProxies,
    Strike,
)
from tests.deaths import Death
from tests.faults.run import through
from tests.kafka.sink_driver import SinkUnderTest, assert_none_open
from tests.scenarios.cluster import Cluster, unique
from tests.waiting import wait_until

TASKS = 2
ONE_TASK = 1
"""Ends of several tasks are under way at once: whether a broken connection takes the second one along is a
matter of time."""
_PATIENT_MS = 60_000
"""A request that is slow on a busy machine has to be answered: only faults lose answers."""
_TRACED = ("InitProducerId", "AddPartitionsToTxn", "Produce", "EndTxn")
_WAITS = DID_NOTHING | {codes.CONCURRENT_TRANSACTIONS}
"""How often a broker says "not yet" is a matter of time: its coordinator loads, or writes markers."""


@dataclass
class Trace:
    """What a cluster has answered to the sink.

    Attributes:
        lines: one for each request of a transaction, in the order in which they were sent.
        end: of each transactional id how far its epoch is, and its state; then the values that readers see.
    """

    lines: list[str] = field(default_factory=list)
    end: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Return it line by line, so that a failed test shows the first difference."""
        return "\n".join((*self.lines, "--- at the end", *self.end))


class Recorder:
    """Notes the requests of transactions, and their answers."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._sent: list[tuple[str, Any, PendingResponse]] = []
        self._first: dict[str, int] = {}

    @contextmanager
    def records(self) -> Iterator[None]:
        """Note what all connections send."""
        original = KafkaConnections.send

        def send(
            connections: KafkaConnections, request: Any, node_id: Any, timeout_ms: int | None = None
        ) -> PendingResponse:
            pending = original(connections, request, node_id, timeout_ms)
            name = type(request).__name__.removesuffix("Request")
            if name in _TRACED and self._id_of(request) is not None:
                self._sent.append((name, request, pending))
            return pending

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(KafkaConnections, "send", send)
            yield

    def lines(self) -> list[str]:
        """Return what was sent and answered."""
        found = [self._line(*each) for each in self._sent]
        return [each for each in found if each is not None]

    def epoch(self, transactional_id: str, epoch: int) -> int:
        """Return how many epochs after its first one an id is."""
        return epoch - self._first.setdefault(transactional_id, epoch)

    def name(self, transactional_id: str) -> str:
        """Return a transactional id without the prefix of the run."""
        return transactional_id.removeprefix(self._prefix)

    def _id_of(self, request: Any) -> str | None:
        found = getattr(request, "transactional_id", None)
        found = found or getattr(request, "v3_and_below_transactional_id", None)
        return found if isinstance(found, str) and found.startswith(self._prefix) else None

    def _line(self, name: str, request: Any, pending: PendingResponse) -> str | None:
        transactional_id = self._id_of(request) or ""
        try:
            response = pending.result(0)
        except PenstockError:
            return f"{name} {self.name(transactional_id)} {_asked(request)}-> no answer"
        code = _code(name, response)
        if code in _WAITS:
            return None
        epoch = getattr(response, "producer_epoch", -1)
        told = "" if code or epoch < 0 else f" epoch +{self.epoch(transactional_id, epoch)}"
        return f"{name} {self.name(transactional_id)} {_asked(request)}-> {code}{told}"


def _asked(request: Any) -> str:
    is_commit = getattr(request, "committed", None)
    return "" if is_commit is None else "commit " if is_commit else "abort "


def _code(name: str, response: Any) -> int:
    if name == "Produce":
        ((answer,),) = [each.partition_responses for each in response.responses]
        return int(answer.error_code)
    if name == "AddPartitionsToTxn":
        said = response.results_by_topic_v3_and_below
        return max(int(each.partition_error_code) for topic in said for each in topic.results_by_partition)
    return int(response.error_code)


class Scene:
    """One prefix and one topic on a cluster, and the faults of its requests."""

    def __init__(self, cluster: Cluster, proxies: AnswerProxies) -> None:
        self.proxies = proxies
        self.prefix = unique("same")
        settings = ConnectionSettings(
            tuple(cluster.bootstrap_servers.split(",")),
            "test-traces",
            request_timeout_ms=_PATIENT_MS,
            default_api_timeout_ms=2 * _PATIENT_MS,
        )
        self.connections = KafkaConnections(settings)
        self.sink = SinkUnderTest(settings, self.connections, cluster.topic(TASKS), self.prefix)
        self._last_step: Step | None = None

    def strike(self, api: str, fault: str, skipped: int = 0) -> None:
        """Let a fault happen to one of the next requests, when the broker makes none of them wait."""
        self._await_markers()
        self.proxies.arm(Strike(api, fault, skipped))

    def reached(self, step: Step) -> None:
        """Let the driver die at this step, or continue when all markers are written."""
        if step is self._last_step:
            self._last_step = None
            raise Death
        self._await_markers()

    def recover(self, *, timeout_ms: int | None = None) -> Mandate:
        """Let a new driver take the prefix."""
        with self.sink.driver(wanted_timeout_ms=timeout_ms) as driver:
            return driver.recover()

    def commit(self, reports: list[TaskReport]) -> str:
        """Let a driver commit; return the name of its error. After an error it aborts, as Spark's does."""
        with self.sink.driver() as driver:
            try:
                driver.commit(reports)
            except PenstockError as error:
                with suppress(PenstockError):
                    driver.abort(reports)
                return type(error).__name__
        return "done"

    def tasks(self, mandate: Mandate, batch_id: int, count: int = TASKS) -> list[TaskReport]:
        """Let all tasks of a batch write."""
        return self.sink.tasks(mandate, batch_id, count)

    def batch(self, batch_id: int, tasks: int = TASKS) -> str:
        """Run a whole batch."""
        return self.commit(self.tasks(self.recover(), batch_id, tasks))

    def dies_at(self, step: Step, reports: list[TaskReport]) -> None:
        """Let the driver die in a commit."""
        self._last_step = step
        with suppress(Death), self.sink.driver() as driver:
            driver.commit(reports)
        assert self._last_step is None, f"the driver did not come to {step}"

    def await_aborted(self, reports: list[TaskReport]) -> None:
        """Wait until the broker has aborted the transactions of all tasks after their time-out."""
        written = [each.committable for each in reports if each.committable is not None]
        names = [each.identity.transactional_id for each in written]
        assert len(names) == TASKS
        transactions = Transactions(self.connections)

        def are_aborted() -> bool:
            found = transactions.describe(names).values()
            return all(each is not None and each.state is TransactionState.COMPLETE_ABORT for each in found)

        wait_until(are_aborted, "the time-out of all transactions")

    def _await_markers(self) -> None:
        transactions = Transactions(self.connections)

        def are_written() -> bool:
            listed = transactions.list_open(lambda name: name.startswith(self.prefix))
            return all(each.state is TransactionState.ONGOING for each in listed)

        wait_until(are_written, "the markers of all transactions")


Schedule = Callable[[Scene], list[str]]
SCHEDULES: dict[str, Schedule] = {}


def schedule(function: Schedule) -> Schedule:
    """Make a function a schedule. It returns what it has seen."""
    SCHEDULES[function.__name__] = function
    return function


@schedule
def two_batches_are_committed(scene: Scene) -> list[str]:
    return [scene.batch(0), scene.batch(1)]


@schedule
def a_batch_is_aborted_and_written_again(scene: Scene) -> list[str]:
    reports = scene.tasks(scene.recover(), 0)[:1]
    with scene.sink.driver() as driver:
        driver.abort(reports)
    return [scene.batch(0)]


@schedule
def an_older_driver_is_fenced(scene: Scene) -> list[str]:
    reports = scene.tasks(scene.recover(), 0)
    newer = scene.tasks(scene.recover(), 0)
    return [scene.commit(reports), scene.commit(newer)]


@schedule
def a_transaction_times_out_before_its_decision(scene: Scene) -> list[str]:
    reports = scene.tasks(scene.recover(timeout_ms=3_000), 0)
    scene.await_aborted(reports)
    return [scene.commit(reports), scene.batch(0)]


@schedule
def a_decided_batch_is_finished_by_the_next_driver(scene: Scene) -> list[str]:
    scene.dies_at(Step.DECIDED, scene.tasks(scene.recover(), 0))
    return [scene.commit(scene.tasks(scene.recover(), 0)), scene.batch(1)]


@schedule
def the_end_of_a_decision_comes_late(scene: Scene) -> list[str]:
    """It comes when the next batch has open transactions."""
    scene.strike("EndTxn", HELD_REQUEST)
    first = scene.batch(0)
    reports = scene.tasks(scene.recover(), 1)
    scene.proxies.release()
    return [first, scene.commit(reports)]


@schedule
def the_end_of_a_task_comes_late(scene: Scene) -> list[str]:
    scene.strike("EndTxn", HELD_REQUEST, skipped=1)
    first = scene.batch(0, ONE_TASK)
    reports = scene.tasks(scene.recover(), 1, ONE_TASK)
    scene.proxies.release()
    return [first, scene.commit(reports)]


@schedule
def the_answer_to_a_decision_is_lost(scene: Scene) -> list[str]:
    scene.strike("EndTxn", LOST_ANSWER)
    return [scene.batch(0), scene.batch(1)]


@schedule
def the_answer_to_a_task_is_lost(scene: Scene) -> list[str]:
    scene.strike("EndTxn", LOST_ANSWER, skipped=1)
    return [scene.batch(0, ONE_TASK), scene.batch(1, ONE_TASK)]


@schedule
def the_end_of_a_decision_comes_twice(scene: Scene) -> list[str]:
    scene.strike("EndTxn", DOUBLED_REQUEST)
    return [scene.batch(0), scene.batch(1)]


@schedule
def the_record_of_a_decision_is_written_and_its_answer_lost(scene: Scene) -> list[str]:
    reports = scene.tasks(scene.recover(), 0)
    scene.strike("Produce", LOST_ANSWER, skipped=1)  # the first one says that the query begins
    return [scene.commit(reports), scene.batch(1)]


@schedule
def a_take_over_is_lost_and_sent_again(scene: Scene) -> list[str]:
    first = scene.batch(0)
    scene.strike("InitProducerId", LOST_ANSWER)
    second = scene.batch(1)
    scene.strike("InitProducerId", LOST_REQUEST, skipped=1)
    return [first, second, scene.batch(2)]


def trace_of(cluster: Cluster, run: Schedule) -> Trace:
    """Run a schedule on a cluster."""
    with AnswerProxies(cluster.bootstrap_servers) as proxies, through(proxies):
        scene = Scene(cluster, proxies)
        recorder = Recorder(scene.prefix)
        observe(scene.reached)
        try:
            with recorder.records():
                seen = run(scene)
            assert proxies.disarm() or "strike" not in run.__code__.co_names
            assert_none_open(scene.sink)
            return Trace(recorder.lines(), [*seen, *_end(scene, cluster, recorder)])
        finally:
            observe(None)
            scene.connections.close()


def _end(scene: Scene, cluster: Cluster, recorder: Recorder) -> list[str]:
    names = [f"{scene.prefix}-committer", *(f"{scene.prefix}-{at}-0" for at in range(TASKS))]
    found = Transactions(scene.connections).describe(names)
    states = [
        f"{recorder.name(name)} {each.state.value} +{recorder.epoch(name, each.identity.producer_epoch)}"
        for name, each in sorted(found.items())
        if each is not None
    ]
    records = judge.consume_all(cluster.bootstrap_servers, scene.sink.topic)
    return [*states, *sorted(f"{each.partition} {each.value!r}" for each in records)]
