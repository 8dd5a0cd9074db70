"""The driver's protocol over a cluster in memory: any history of deaths, zombies and time-outs."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable

from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.client.transactions import TransactionProtocol
from penstock.errors import PenstockError
from penstock.sink.committable import TaskReport
from penstock.sink.committer_steps import Step, observe
from penstock.sink.decision import DecisionStatus
from penstock.sink.recovery_tools import Resolution, TransactionTools
from penstock.sink.transaction_names import TransactionNames
from tests.deaths import Death
from tests.unit.fake_driver import (
    PREFIX,
    driver,
    expected,
    run_task,
)
from tests.unit.fake_transactions import FakeCluster

FOREIGN = "app-2-0-0"
MODEL_EXAMPLES = int(os.environ.get("PENSTOCK_MODEL_EXAMPLES", "200"))
"""How many histories the model is tried on; `make chaos` may take thousands."""


class Chaos:
    """Spark running one query to its end, with everything going wrong at random."""

    def __init__(self, seed: int, protocol: TransactionProtocol, *, has_operator: bool) -> None:
        self.has_operator = has_operator
        self.random = random.Random(seed)
        self.cluster = FakeCluster(protocol)
        self.zombies: list[Callable[[], object]] = []
        self.is_calm = False
        self.cluster.loses_answer = lambda what: self.happens(0.05)
        observe(self.step)

    def happens(self, probability: float) -> bool:
        return not self.is_calm and self.random.random() < probability

    def step(self, reached: Step) -> None:
        if self.happens(0.1):
            self.let_zombies_walk()
        if self.happens(0.1):
            self.time_something_out()
        if self.has_operator and self.happens(0.1):
            self.operate()
        if self.happens(0.15):
            raise Death

    def operate(self) -> None:
        """Somebody runs `penstock transactions`."""
        tools = TransactionTools(TransactionNames(PREFIX), self.cluster, self.cluster)
        observe(None)
        try:
            command = self.random.choice((tools.recover, tools.abort, None))
            if command is None:
                self.resolve(tools)
            else:
                command()
        except PenstockError:
            pass
        finally:
            observe(self.step)

    def resolve(self, tools: TransactionTools) -> None:
        """The wrong word about a batch that is not in doubt."""
        for decision in tools.decisions():
            if decision.status in (DecisionStatus.FINISHED, DecisionStatus.WITHDRAWN):
                tools.resolve(decision.query_id, self.random.choice(list(Resolution)))

    def time_something_out(self) -> None:
        names = sorted(self.cluster.open_ids() - {FOREIGN})
        if names:
            self.cluster.time_out(self.random.choice(names))

    def let_zombies_walk(self) -> None:
        zombies, self.zombies = self.zombies, []
        for zombie in zombies:
            observe(None)
            try:
                zombie()
            except (PenstockError, Death):
                pass
            finally:
                observe(self.step)
                # Only a zombie may find itself behind a newer driver that died while it decided.
                self.cluster.waited_for.clear()

    def run_batch(self, batch_id: int) -> bool:
        """One try at one batch; whether Spark has written it into its commit log."""
        reports: list[TaskReport] = []
        try:
            mandate = driver(self.cluster).recover()
            if self.has_operator and self.happens(0.1):
                self.operate()
            for at in range(3):
                if self.happens(0.2):
                    run_task(self.cluster, mandate, batch_id, at, attempt=1)  # a stray
                reports.append(run_task(self.cluster, mandate, batch_id, at))
                if self.happens(0.05):
                    self.time_something_out()
            if self.happens(0.2):
                stale = list(reports)
                self.zombies.append(lambda: driver(self.cluster).commit(stale))
                return False
            committing = driver(self.cluster)
            try:
                committing.commit(reports)
            except PenstockError:
                if not self.happens(0.3):
                    driver(self.cluster).abort(reports)
                return False
        except (PenstockError, Death):
            return False
        return not self.happens(0.1)  # died before Spark's commit log

    def run(self, batch_count: int) -> None:
        batch_id = 0
        for _ in range(40):
            batch_id += self.run_batch(batch_id)
            if batch_id == batch_count:
                break
        self.let_zombies_walk()
        self.is_calm = True
        while batch_id < batch_count:
            assert self.run_batch(batch_id) or self.run_batch(batch_id)
            batch_id += 1
        driver(self.cluster).recover()


@settings(max_examples=MODEL_EXAMPLES, deadline=None)
@given(seed=st.integers(0, 2**32), protocol=st.sampled_from(TransactionProtocol), has_operator=st.booleans())
@example(seed=0, protocol=TransactionProtocol.V2, has_operator=False)
# A zombie behind a driver that died while it decided.
@example(seed=251046, protocol=TransactionProtocol.V1, has_operator=False)
def test_every_row_once_whatever_dies(seed: int, protocol: TransactionProtocol, has_operator: bool) -> None:
    chaos = Chaos(seed, protocol, has_operator=has_operator)
    foreign = chaos.cluster.init_producer(FOREIGN, transaction_timeout_ms=1, protocol=protocol)
    chaos.cluster.write(foreign, ["foreign"])
    try:
        chaos.run(6)
    finally:
        observe(None)
    assert Counter(chaos.cluster.committed) == expected(range(6))
    assert chaos.cluster.open_ids() == {FOREIGN}
    assert chaos.cluster.waited_for == []
