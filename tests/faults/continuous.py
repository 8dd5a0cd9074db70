"""Copy records by the task of a continuous query on a real broker, with a fault on one request at a time.

The task is the real one, on a thread instead of in Spark's worker. It is started again if it ends with an
error, and often without a reason, because only a start reads the offsets that are committed. Invariant: each
fault meets a request of a task that copies. What is held comes when later transactions are under way.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextlib import suppress

from penstock.client.cluster.log_offsets import commit_offsets, committed_offsets
from penstock.client.cluster.membership import OnlyMember
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.client.transactions.steps import TransactionProtocol
from penstock.errors import PenstockError
from penstock.relay.task import ContinuousPlan, ContinuousTask
from penstock.types import TopicPartition
from tests import judge
from tests.chaos.answer_proxy import LATE_REQUEST, AnswerProxies, Strike
from tests.chaos.copied_once import check_copy
from tests.faults.run import FAULTS, Tally, through
from tests.waiting import wait_until

CONTINUOUS_FAULTS = (*FAULTS, LATE_REQUEST)
_COMMON = ("TxnOffsetCommit", "EndTxn", "Produce", "Fetch")
_APIS_OF = {
    TransactionProtocol.V1: (*_COMMON, "AddOffsetsToTxn", "AddPartitionsToTxn"),
    TransactionProtocol.V2: _COMMON,
}
_PARTITIONS, _KEYS, _CHUNK = 3, 5, 30
_LANES = 2
_PATIENCE_S = 120.0
_STRIKE_S = 5.0
"""How long to wait for the request that is to be lost."""


class FaultyCopy:
    """A continuous query of one task without Spark, from one topic to another."""

    def __init__(self, bootstrap: str, protocol: TransactionProtocol, seed: int, name: str) -> None:
        self._bootstrap = bootstrap
        self._protocol = protocol
        self._chance = random.Random(f"{seed} {protocol.value}")
        self._source, self._target = f"{name}-source", f"{name}-target"
        self._kinds: list[tuple[str, str]] = []
        self._written = 0
        self._attempt = 0
        self._should_stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._ends_badly: list[BaseException] = []
        self._settings = ConnectionSettings(
            tuple(bootstrap.split(",")),
            "test-faults",
            request_timeout_ms=3_000,
            default_api_timeout_ms=12_000,
        )
        self._plain = KafkaConnections(self._settings)
        self._places = {TopicPartition(self._source, each): 0 for each in range(_PARTITIONS)}
        self.tally = Tally()
        self.on_batch: Callable[[Tally], None] = lambda tally: None

    def run(self, count: int) -> Tally:
        """Let so many faults happen one after the other, and judge.

        Raises:
            AssertionError: a record is lost, doubled or out of order, a transaction is open, or the task does
                not get on.
        """
        keep = {"retention.ms": "-1"}
        for topic in (self._source, self._target):
            judge.create_topic(self._bootstrap, topic, partitions=_PARTITIONS, config=keep)
        try:
            # The group and its first offsets are the driver's. Its requests meet no fault.
            assert not commit_offsets(self._plain, self._source, self._places)
            member = OnlyMember(self._plain, self._source, session_timeout_ms=300_000)
            plan = self._plan(member)
            with AnswerProxies(self._bootstrap) as proxies, through(proxies):
                for _ in range(count):
                    self._disturb(plan, proxies)
                self._await_all(plan, proxies)
                self._stop()
            check_copy(self._bootstrap, self._source, self._target, self._written, timeout_s=_PATIENCE_S)
        finally:
            self._stop()
            self._plain.close()
        return self.tally

    def _plan(self, member: OnlyMember) -> ContinuousPlan:
        ids = tuple(f"{self._source}-0-{lane}" for lane in range(_LANES))
        membership = member.renew()
        return ContinuousPlan(
            self._settings, self._places, self._target, ids, membership, self._protocol, commit_interval_ms=10
        )

    # ----- one fault

    def _disturb(self, plan: ContinuousPlan, proxies: AnswerProxies) -> None:
        """Copy a chunk under a fault. What is held comes while the next chunk is copied."""
        api, fault = self._kind()
        strike = Strike(api, fault, self._chance.randint(0, 3), seconds=self._chance.choice((0.2, 4.0)))
        proxies.arm(strike)
        with suppress(AssertionError):
            wait_until(lambda: self._struck(plan, proxies), "the request to be sent", timeout_s=_STRIKE_S)
        if proxies.disarm():
            self.tally.faults[api, fault] += 1
        self._await_all(plan, proxies)
        self._write()
        proxies.release()
        if self._chance.random() < 0.5:
            self._stop()
            self.tally.errors["(stopped in order)"] += 1
        self._await_all(plan, proxies)
        self.tally.batches += 1
        self.on_batch(self.tally)

    def _struck(self, plan: ContinuousPlan, proxies: AnswerProxies) -> bool:
        self._go_on(plan)
        if not proxies.has_struck:
            self._write()
        return proxies.has_struck

    def _kind(self) -> tuple[str, str]:
        if not self._kinds:
            self._kinds = [(api, fault) for api in _APIS_OF[self._protocol] for fault in CONTINUOUS_FAULTS]
            self._chance.shuffle(self._kinds)
        return self._kinds.pop()

    def _write(self) -> None:
        records = [
            judge.Record(b"%d" % number, key=b"%d" % (number % _KEYS), partition=number % _PARTITIONS)
            for number in range(self._written, self._written + _CHUNK)
        ]
        self._written += len(judge.produce(self._bootstrap, self._source, *records))

    # ----- the task

    def _go_on(self, plan: ContinuousPlan) -> None:
        """Start the task again if it has ended, as the query does."""
        if self._thread is not None and self._thread.is_alive():
            return
        for error in self._ends_badly:
            if not isinstance(error, PenstockError):
                raise error
            self.tally.errors[type(error).__name__] += 1
        self._ends_badly.clear()
        self._should_stop.clear()
        task = ContinuousTask(plan, self._attempt)
        self._attempt += 1
        self._thread = threading.Thread(target=self._run_task, args=(task,), daemon=True)
        self._thread.start()

    def _run_task(self, task: ContinuousTask) -> None:
        try:
            task.run(self._should_stop.is_set)
        except BaseException as error:  # noqa: BLE001  # raised by the next look, on the thread of the test
            self._ends_badly.append(error)

    def _stop(self) -> None:
        self._should_stop.set()
        if self._thread is not None:
            self._thread.join(_PATIENCE_S)
            assert not self._thread.is_alive(), "the task does not stop"
            self._thread = None

    def _await_all(self, plan: ContinuousPlan, proxies: AnswerProxies) -> None:
        def is_copied() -> bool:
            self._go_on(plan)
            return self._offset_sum() == self._written

        wait_until(is_copied, "all is copied", progress=self._offset_sum, timeout_s=_PATIENCE_S)

    def _offset_sum(self) -> int:
        with suppress(PenstockError):
            return sum(committed_offsets(self._plain, self._source, self._places).values())
        return -1
