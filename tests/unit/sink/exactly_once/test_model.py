"""The driver's protocol over a cluster in memory: any history of deaths, zombies, time-outs and operators.

Something may happen before and after each request that the driver sends. Requests and answers get lost, or
come twice, and sometimes the cluster cannot be reached for longer than the client waits.

The source is a row of chunks. Spark's checkpoint says how many chunks are done, and which the batch that is
under way has. An operator may restore an older copy of it, lose its newest file, or create the target again.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any
from unittest import mock

from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.client.transactions.steps import TransactionProtocol
from penstock.errors import ExactlyOnceError, PenstockError, TransactionsInDoubtError
from penstock.sink.exactly_once import _target_topics as committer_topics
from penstock.sink.exactly_once._reused_ids import ReusedIds
from penstock.sink.exactly_once.by_hand import Resolution, TransactionTools
from penstock.sink.exactly_once.committable import TaskReport
from penstock.sink.exactly_once.decision import DecisionStatus
from penstock.sink.exactly_once.mandate import Mandate
from penstock.sink.exactly_once.names import TransactionNames
from penstock.testing.fake.control import Action, LoseAnswer, LoseRequest, SeenRequest, Twice
from tests.deaths import Death
from tests.examples import examples
from tests.unit.fake_driver import (
    PREFIX,
    driver,
    expected,
    resolve,
    rows_of,
    run_task,
)
from tests.unit.sink_cluster import PATIENCE_MS, SinkCluster
from tests.unit.virtual_time import VIRTUAL

FOREIGN = "app-2-0-0"
FOREVER_MS = 1 << 40
FAULTY = ("AddPartitionsToTxn", "EndTxn", "InitProducerId", "Produce")


class Chaos:
    """Spark running one query to its end, with everything going wrong at random.

    With `has_operator` somebody meddles with the checkpoint and the target, and does what the errors say.
    """

    def __init__(self, seed: int, protocol: TransactionProtocol, *, has_operator: bool) -> None:
        self.random = random.Random(seed)
        self.random_of_workers = random.Random(seed)
        """Of its own, so that a seed that found a bug still makes the same drivers die."""
        self.has_operator = has_operator
        self.plan = [0]
        self.previous_plan: list[int] = []
        self.lost_plan: list[int] | None = None
        """Another plan of the batch, which may be the one that is decided."""
        self.first_chunk = 0
        """What came before went with the target."""
        self.cluster = SinkCluster(protocol)
        self.zombies: list[Callable[[], object]] = []
        self.processes = [ReusedIds(), ReusedIds()]
        """Spark's workers."""
        self.is_calm = False
        self.is_overtaken = False
        self.is_in_task = False
        self.unreachable_until_ms = 0
        self.cluster.client.moment = self.moment
        for api in FAULTY:
            self.cluster.kafka.control(api, self.fault, times=None)

    def happens(self, probability: float) -> bool:
        return not self.is_calm and self.random.random() < probability

    def fault(self, seen: SeenRequest) -> Action | None:
        """Of the network."""
        if self.is_calm:
            return None
        if VIRTUAL.now_ms() < self.unreachable_until_ms:
            return LoseAnswer()
        if not self.happens(0.03):
            return None
        if self.random.random() < 0.5:
            self.unreachable_until_ms = VIRTUAL.now_ms() + PATIENCE_MS
        return self.random.choice((LoseRequest(), LoseAnswer(), Twice()))

    def moment(self, request: Any) -> None:
        """Before or after a request of the driver."""
        if not self.happens(0.04):
            return
        what = self.random.random()
        if what < 0.2 and not self.is_in_task:  # a process runs one task at a time
            self.let_zombies_walk()
        elif what < 0.4:
            self.time_something_out()
        elif what < 0.6 and self.has_operator:
            self.operate()
        else:
            raise Death

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Let nothing happen at the requests of somebody else."""
        self.cluster.client.moment = lambda request: None
        try:
            yield
        finally:
            self.cluster.client.moment = self.moment

    def operate(self) -> None:
        """Somebody runs `penstock transactions`."""
        tools = TransactionTools(TransactionNames(PREFIX), self.cluster.transactions, self.cluster.log_store)
        command = self.random.choice((tools.recover, tools.abort, partial(self.resolve, tools)))
        self.is_overtaken = True
        with self.undisturbed(), suppress(PenstockError):
            command()

    def resolve(self, tools: TransactionTools) -> None:
        """The wrong word about a batch that is not in doubt."""
        for decision in tools.decisions():
            is_clear = decision.status in (DecisionStatus.FINISHED, DecisionStatus.WITHDRAWN)
            if is_clear and not decision.is_in_doubt:
                tools.resolve(decision.query_id, self.random.choice(list(Resolution)))

    def time_something_out(self) -> None:
        names = sorted(self.cluster.open_ids() - {FOREIGN})
        if names:
            self.cluster.time_out(self.random.choice(names))

    def let_zombies_walk(self) -> None:
        zombies, self.zombies = self.zombies, []
        for zombie in zombies:
            with self.undisturbed(), suppress(PenstockError):
                zombie()
            # Only a zombie may find itself behind a newer driver that died while it decided.
            self.cluster.client.timed_out.clear()

    # ----- the operator

    def meddles(self, probability: float) -> bool:
        return self.has_operator and self.happens(probability)

    def restore_older_copy(self, batch_id: int) -> None:
        """Spark plans the batch before this one again, with a chunk more; then the newest is restored."""
        kept = self.plan
        self.plan = [*self.previous_plan, self.previous_plan[-1] + 1]
        for _ in range(2):
            assert not self.run_batch(batch_id - 1), (
                "an older copy of the checkpoint was taken for the newest"
            )
        self.plan = kept

    def lose_newest_offsets(self) -> None:
        """Spark plans the batch again, with a chunk more."""
        if self.lost_plan is None:
            self.lost_plan = self.plan
            self.plan = [*self.plan, self.plan[-1] + 1]

    def recreate_target(self) -> None:
        self.cluster.recreate_target()
        self.first_chunk = self.plan[0]

    def go_on(self, doubt: TransactionsInDoubtError) -> None:
        """As the error says."""
        if "created again" in doubt.message or "with their topic" in doubt.message:
            was_calm, self.is_calm = self.is_calm, True
            with suppress(ExactlyOnceError):  # the doubt could not be written down: the next start repeats it
                resolve(self.cluster, is_taken=False)
            self.is_calm = was_calm
        elif self.lost_plan is not None:
            self.plan, self.lost_plan = self.lost_plan, self.plan  # the newest checkpoint is found

    def batch_done(self) -> None:
        self.previous_plan, self.lost_plan = self.plan, None
        self.plan = [self.plan[-1] + 1]

    def run_batch(self, batch_id: int) -> bool:
        """One try at one batch; whether Spark has written it into its commit log."""
        try:
            return self.try_batch(batch_id)
        except TransactionsInDoubtError as doubt:
            self.go_on(doubt)
            return False
        finally:
            if self.is_overtaken:  # it may be behind an operator who died while deciding, like a zombie
                self.cluster.client.timed_out.clear()
                self.is_overtaken = False

    def rows_of(self, spark_partition_id: int) -> list[str]:
        return [row for chunk in self.plan for row in rows_of(chunk, spark_partition_id)]

    def write(self, mandate: Mandate, batch_id: int, spark_partition_id: int) -> TaskReport:
        rows = self.rows_of(spark_partition_id)
        workers = self.random_of_workers
        if workers.random() < 0.1:
            self.processes[workers.randrange(2)] = ReusedIds()
        task = partial(run_task, self.cluster, mandate, batch_id, spark_partition_id, rows=rows)
        if self.happens(0.2):
            task(attempt=1, process=workers.choice(self.processes))  # a stray
        if not self.is_calm and workers.random() < 0.1:
            self.zombies.append(partial(task, process=workers.choice(self.processes)))
        report = task(process=workers.choice(self.processes))
        if self.happens(0.05):
            self.time_something_out()
        return report

    def write_all(self, mandate: Mandate, batch_id: int) -> list[TaskReport]:
        self.is_in_task = True
        try:
            return [self.write(mandate, batch_id, at) for at in range(3)]
        finally:
            self.is_in_task = False

    def try_batch(self, batch_id: int) -> bool:
        try:
            mandate = driver(self.cluster).recover()
            if self.meddles(0.1):
                self.operate()
            reports = self.write_all(mandate, batch_id)
            if self.happens(0.2):
                stale = list(reports)
                self.zombies.append(lambda: driver(self.cluster).commit(stale))
                return False
            committing = driver(self.cluster)
            try:
                committing.commit(reports)
            except PenstockError as error:
                if not self.happens(0.3):
                    driver(self.cluster).abort(reports)
                if isinstance(error, TransactionsInDoubtError):
                    raise
                return False
        except TransactionsInDoubtError:
            raise
        except (PenstockError, Death):
            return False
        return not self.happens(0.1)  # died before Spark's commit log

    def run(self, batch_count: int) -> None:
        batch_id = 0
        for _ in range(40):
            if batch_id and self.meddles(0.1):
                self.restore_older_copy(batch_id)
            if self.meddles(0.05):
                self.recreate_target()
            if self.meddles(0.05):
                self.lose_newest_offsets()
            if self.run_batch(batch_id):
                self.batch_done()
                batch_id += 1
            if batch_id == batch_count:
                break
        self.let_zombies_walk()
        self.is_calm = True
        while batch_id < batch_count:
            assert any(self.run_batch(batch_id) for _ in range(4))
            self.batch_done()
            batch_id += 1
        driver(self.cluster).recover()


@settings(max_examples=examples(15), deadline=None)
@given(seed=st.integers(0, 2**32), protocol=st.sampled_from(TransactionProtocol), has_operator=st.booleans())
@example(seed=0, protocol=TransactionProtocol.V2, has_operator=False)
def test_every_row_once_whatever_dies(seed: int, protocol: TransactionProtocol, has_operator: bool) -> None:
    with mock.patch.object(committer_topics, "_GRACE_SECONDS", 0.0):
        check_history(Chaos(seed, protocol, has_operator=has_operator))


def check_history(chaos: Chaos) -> None:
    chaos.is_calm = True
    chaos.cluster.write(chaos.cluster.take(FOREIGN), ["foreign"])
    chaos.is_calm = False
    chaos.cluster.ids[FOREIGN].timeout_ms = FOREVER_MS
    chaos.run(6)
    assert Counter(chaos.cluster.committed) == expected(range(chaos.first_chunk, chaos.plan[0]))
    assert chaos.cluster.open_ids() == {FOREIGN}
    assert chaos.cluster.client.timed_out == []
