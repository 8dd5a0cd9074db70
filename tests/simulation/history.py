"""One history: Spark's order of calls under the faults of a plan, then peace, then the judge.

A driver that starts plans what is not planned yet in Spark's checkpoint, and runs a planned batch again if it
is not done. Several drivers may run at once. What a user does between two starts is in `users`.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from unittest import mock

from penstock.client.net import backoff
from penstock.errors import PenstockError
from penstock.sink.exactly_once import _finish, _target_topics, log_topic
from penstock.sink.exactly_once import log as decision_log
from penstock.sink.exactly_once.committable import TaskReport
from penstock.sink.exactly_once.mandate import Mandate
from penstock.sink.exactly_once.task_writer import TaskAttempt
from tests.deaths import Death
from tests.simulation.checkpoints import Checkpoints, PlannedBatch
from tests.simulation.claims import Claims
from tests.simulation.judge import Violation, check, check_done
from tests.simulation.network import QUERY, Network, ignoring_errors, seeded_ids
from tests.simulation.plan import Plan
from tests.simulation.users import Users
from tests.simulation.worker import Driver, Executor, tasks_without_threads
from tests.unit.turns import Actor
from tests.unit.virtual_time import VIRTUAL, client_waits_in_virtual_time

Rows = list[tuple[str, str]]
TASK_FAILURES = 4
"""Spark's `spark.task.maxFailures`."""
MOST_DRIVERS = 3
TRIES_IN_PEACE = 4
"""Starts that a batch may need when nothing fails any more. Each may end with an error."""


@dataclass
class Result:
    """What became of a history. `violation` None: all promises are kept."""

    plan: Plan
    violation: str | None
    trace: list[str]
    requests: int
    drivers: int

    @property
    def digest(self) -> str:
        """Return a digest of the trace. The same plan has the same."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()[:16]


@dataclass
class Application:
    """A Spark application: a driver with two Python workers, and executors."""

    number: int
    drivers: tuple[Driver, Driver]
    executors: list[Executor] = field(default_factory=list)


class History:
    """Runs one plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.network = Network(plan)
        self.turns = self.network.turns
        self.checkpoints = Checkpoints()
        self.claims = Claims(self.network)
        self.users = Users(self.network, self.checkpoints, self.claims)
        self.network.on_operator = self._spawn_operator
        self.network.on_user = self.users.tell
        self.application_count = self.start_count = 0
        self._idle: list[Application] = []

    # ----- Spark

    def application(self) -> Application:
        """Return an application: a new one, or one in which the query has stopped."""
        if self._idle and self.network.chance.random() < 0.5:
            return self._idle.pop()
        self.application_count += 1
        number = self.application_count
        drivers = (Driver(self.network, f"{number}.recovers"), Driver(self.network, f"{number}.commits"))
        return Application(number, drivers)

    def run_query(self) -> None:
        """Run batches until an error, a death, or the end of the source."""
        self.users.before_start()
        application = self.application()
        checkpoint = self.checkpoints.current
        while checkpoint.done < self.plan.batch_count:
            batch_id = checkpoint.done
            if len(checkpoint.planned) == batch_id:
                checkpoint.plan(self.network.chance.randint(1, 6))
            try:
                self._run_batch(application, batch_id, checkpoint.planned[batch_id])
            except PenstockError:
                self._idle.append(application)
                if not self.users.takes_error(batch_id, checkpoint):
                    raise
                continue
            if checkpoint.done != batch_id:
                self.network.say(f"{application.number} finds batch {batch_id} in the commit log")
                return
            checkpoint.done += 1
            self.checkpoints.progressed()
            self.network.say(f"{application.number} batch {batch_id} is done")
            # Later recoveries would repair it, so the end of the history does not show it.
            check_done(self.network, batch_id, self.claims.due(checkpoint, checkpoint.done))

    def _run_batch(self, application: Application, batch_id: int, planned: PlannedBatch) -> None:
        """Make the writer, run the tasks, commit; after an error abort, as Spark does."""
        recovers, commits = application.drivers
        reports: list[TaskReport] = []
        mandate = recovers.side.recover()
        try:
            for spark_partition_id in range(self.plan.task_count):
                rows = planned.rows(spark_partition_id, self.plan.task_count)
                reports.append(self._run_task(application, mandate, (batch_id, spark_partition_id), rows))
            commits.side.commit(reports)
        except PenstockError as error:
            self.claims.stopped(error, reports)
            ignoring_errors(lambda: commits.side.abort(reports))()
            raise

    def _run_task(
        self, application: Application, mandate: Mandate, place: tuple[int, int], rows: Rows
    ) -> TaskReport:
        if self.plan.is_speculative and self.network.chance.random() < 0.3 and not self.network.is_calm:
            # A stage that is tried again counts its attempts from 0.
            task = TaskAttempt(QUERY, *place, self.network.chance.choice((0, 1)))
            self.turns.spawn("speculative", lambda: self._speculate(application, mandate, task, rows))
            if self.network.chance.random() < 0.5:
                self.network.make_way(self.network.chance.randint(1, 12))
        for attempt in range(TASK_FAILURES):
            task = TaskAttempt(QUERY, *place, attempt)
            try:
                return self._executor(application).run_task(mandate, task, rows)
            except Death:
                self.network.say(f"{application.number} an executor is dead")
            except PenstockError as error:
                self.network.say(f"{application.number} task failed: {type(error).__name__}")
                self.network.failed_task_count += 1
                if attempt == TASK_FAILURES - 1:
                    raise
        raise PenstockError("Spark: the task failed 4 times.")

    def _executor(self, application: Application) -> Executor:
        alive = [each for each in application.executors if not each.is_dead]
        if len(alive) < 2:
            number = len(application.executors)
            made = Executor(self.network, f"{application.number}.executor{number}")
            application.executors.append(made)
            alive.append(made)
        return self.network.chance.choice(alive)

    def _speculate(self, application: Application, mandate: Mandate, task: TaskAttempt, rows: Rows) -> None:
        """Run an attempt whose report the driver does not take, on an executor of its own."""
        executor = Executor(self.network, f"{application.number}.speculative{task.spark_partition_id}")
        ignoring_errors(lambda: executor.run_task(mandate, task, rows))()

    def _spawn_operator(self) -> None:
        self.turns.spawn("operator", ignoring_errors(self.users.operator_command()))

    # ----- from the beginning to the end

    def run(self) -> Result:
        """Run the whole history, and judge it."""
        violation = None
        try:
            self._under_faults()
            self._in_peace()
            if broken := [*self.network.broken, *filter(None, [self.claims.broken()])]:
                raise Violation(broken[0])
            self._check_quiet()
            checkpoint = self.checkpoints.current
            self.network.end_neighbours()
            check(
                self.network,
                self.claims.due(checkpoint, self.plan.batch_count),
                self.claims.whole_or_absent(checkpoint),
            )
        except Violation as error:
            violation = str(error)
        except Exception as error:  # noqa: BLE001  # an error that is not told to the user is a bug
            violation = f"a crash: {error!r}"
        finally:
            self.turns.kill_all()
        network = self.network
        return Result(self.plan, violation, network.trace, network.step, self.application_count)

    def _check_quiet(self) -> None:
        """Raise Violation if a history without faults needed a second start, or a second try of a task."""
        is_quiet = not self.plan.faults
        if is_quiet and self.start_count != 1:
            raise Violation(f"nothing failed, but the query was started {self.start_count} times")
        if is_quiet and not self.plan.is_speculative and self.network.failed_task_count:
            raise Violation(f"nothing failed, but {self.network.failed_task_count} tasks did")

    def _under_faults(self) -> None:
        while self.checkpoints.current.done < self.plan.batch_count and self._goes_on():
            if not any(each.name == "query" for each in self.turns.actors):
                self._spawn_query()
            self._let_run(self.turns.actors[0])
        self.network.is_calm = True
        for actor in list(self.turns.actors):
            self.network.pause_after = None
            self.turns.run_to_the_end(actor)

    def _goes_on(self) -> bool:
        """Return whether a fault may come. A history without faults has a start, in which tasks speculate."""
        return self.network.may_have_faults() or (not self.plan.faults and not self.start_count)

    def _let_run(self, actor: Actor) -> None:
        self.turns.run(actor)
        if actor.is_done:
            return
        # It has made way: for one that waits, or for a new driver of the same query.
        self.turns.actors.remove(actor)
        self.turns.actors.append(actor)
        if len(self.turns.actors) == 1 and len(self.turns.actors) < MOST_DRIVERS:
            self._spawn_query()
            self.turns.actors.reverse()

    def _spawn_query(self) -> None:
        self.turns.spawn("query", self._query)

    def _query(self) -> None:
        self.start_count += 1
        try:
            self.run_query()
        except Death:
            self.network.say("a driver is dead")
        except PenstockError as error:
            self.network.say(f"the query stops: {type(error).__name__}: {error}")
            self.users.after_stop(error)

    def _in_peace(self) -> None:
        """Start the query until all is written. Nothing fails any more."""
        self.network.say("PEACE")
        starts, done = 0, self.checkpoints.current.done
        while self.checkpoints.current.done < self.plan.batch_count:
            now = self.checkpoints.current.done
            starts, done = (starts, done) if now == done else (0, now)
            if starts == TRIES_IN_PEACE:
                raise Violation(f"batch {done} is refused for ever: {self.network.trace[-1]}")
            starts += 1
            self.turns.run_to_the_end(self.turns.spawn("query", self._query))
        self.turns.run_to_the_end(self.turns.spawn("last", self._last_recovery))

    def _last_recovery(self) -> None:
        self.application().drivers[0].side.recover()


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Let Python look for garbage less often, because a history leaves little."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@contextmanager
def simulation() -> Iterator[None]:
    """Let all code wait in virtual time, and make as many requests less as tests can. For many histories."""
    with ExitStack() as stack:
        stack.enter_context(client_waits_in_virtual_time())
        stack.enter_context(tasks_without_threads())
        for room, name, value in (
            (_target_topics, "_GRACE_SECONDS", 0.0),
            (_finish, "_MARKER_POLL_SECONDS", 5.0),
            (log_topic, "_LONGEST_PAUSE_MS", 10_000),
            (decision_log, "SNAPSHOT_EVERY_OFFSETS", 8),
        ):
            stack.enter_context(mock.patch.object(room, name, value))
        stack.enter_context(_rare_collections())
        before = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(before)


def run_plan(plan: Plan) -> Result:
    """Run a plan within `simulation`."""
    VIRTUAL._shift_ms = 0
    with ExitStack() as stack:
        for room, name, value in seeded_ids(plan.seed):
            stack.enter_context(mock.patch.object(room, name, value))
        stack.enter_context(mock.patch.object(backoff, "random", random.Random(f"pauses {plan.seed}")))
        return History(plan).run()
