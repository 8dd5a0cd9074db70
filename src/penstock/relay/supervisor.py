"""Keep a continuous query alive: start its job, watch it, plan again, stop.

Runs on the driver, on one thread. A job runs the tasks of one plan; Spark's is in `penstock.spark`.
Invariants: at most one job has the present plan; whatever ends the query, its group is left and nothing stays
open, if Kafka can be reached.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

from penstock.client.net.broker_errors import is_retriable
from penstock.errors import ClientError, PenstockError
from penstock.relay.driver import PlanDriver, QueryPlan
from penstock.relay.progress import Progress
from penstock.relay.restarts import FAILURES_MAX, Restarts, Slots

_log = logging.getLogger(__name__)
_LOOK_S = 1.0
_END_S = 10.0
"""How long a job may take to end after its plan is over, before it is cancelled."""
_SLOT_PATIENCE_MS = 20_000
_SAY_WAITING_S = 60.0


class Job(Protocol):
    """Runs the tasks of one plan."""

    @property
    def has_ended(self) -> bool:
        """Return whether its tasks run no more."""

    @property
    def error(self) -> BaseException | None:
        """Return why it has failed; None if it has not."""

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end. Return whether it has ended."""

    def may_start_again(self) -> bool:
        """Return whether another job may do better after `error`."""

    def cancel(self) -> None:
        """End it by force. Raise nothing."""


class Supervisor:
    """Runs one query from `start` to its end.

    Args:
        driver: plans.
        start_job: starts the job of a plan, which calls the function when it ends.
        tasks_max: the largest number of tasks; None: one for each topic partition.
        names: fields of each progress report.
        on_end: is called last, when the query has ended, or did not start.
    """

    def __init__(
        self,
        driver: PlanDriver,
        start_job: Callable[[QueryPlan, Callable[[], None]], Job],
        tasks_max: int | None,
        names: Mapping[str, Any],
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self.error: BaseException | None = None
        self.progress = Progress(names)
        self.message = "Initializing"
        self.plan: QueryPlan | None = None
        self.begun_tasks = 0
        """How many tasks of `plan` have begun; 0 if their job has ended."""
        self.failed_jobs = 0
        self._driver = driver
        self._start_job = start_job
        self._tasks_max = tasks_max
        self._on_end = on_end
        self._stopping, self._wake = threading.Event(), threading.Event()
        self._restarts = Restarts()
        self._said = ""
        self._discover_at_s = self._say_at_s = 0.0
        self._thread = threading.Thread(target=self._run, name="penstock-continuous", daemon=True)

    def start(self) -> None:
        """Make the first plan, and start its job.

        Raises:
            PenstockError: there is no first plan. Nothing was read or written.
        """
        try:
            self.plan = self._driver.new_plan(self._tasks_max)
        except BaseException:
            self._end(None)
            raise
        self.progress.begin(self.plan.positions, time.time())
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Return whether the query has not ended."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Let the query end. Do not wait."""
        self._stopping.set()
        self._wake.set()

    def join(self, timeout_s: float | None) -> bool:
        """Wait for the end of the query. Return whether it has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    # ----- the thread

    def _run(self) -> None:
        job: Job | None = None
        try:
            plan = self.plan
            while plan is not None and not self._stopping.is_set():
                self.plan, self.begun_tasks = plan, 0
                self.progress.forget_plans(plan.membership.generation)
                self._say(f"Starting {len(plan.tasks)} tasks, plan {plan.membership.generation}")
                job = self._start_job(plan, self._wake.set)
                plan = self._watch(plan, job)
        except BaseException as error:  # noqa: BLE001 - the handle raises it
            self.error = error
            self._warn(f"Terminated with an error: {error}")
        finally:
            self._end(job)
            if self.error is None:
                self._say("Stopped")

    def _end(self, job: Job | None) -> None:
        try:
            self._end_in_kafka(job)
        finally:
            self._on_end()

    def _end_in_kafka(self, job: Job | None) -> None:
        self.begun_tasks = 0
        self._driver.leave()
        if job is not None:
            _await_end(job)
            with suppress(PenstockError):  # for the last report only
                self._look()
            self._driver.abort_open()
        self._driver.close()

    def _watch(self, plan: QueryPlan, job: Job) -> QueryPlan | None:
        """Return the next plan when this one is over; None if the query stops."""
        slots = Slots(len(plan.tasks), _SLOT_PATIENCE_MS)
        self._discover_at_s = self._next_discovery()
        self._say_at_s = time.monotonic() + _SAY_WAITING_S
        while not self._stopping.is_set():
            self._wake.wait(_LOOK_S)
            self._wake.clear()
            if job.has_ended:
                return self._after(job)
            if not self._driver.is_member:
                self._warn("The group has dropped this query: heartbeats did not arrive. Planning again")
                return self._replan(job)
            with_problem(self._look, self._say_once)
            if self._lacks_slots(plan, slots) or self._has_grown():
                return self._replan(job)
        return None

    def _lacks_slots(self, plan: QueryPlan, slots: Slots) -> bool:
        """Return whether another plan needs fewer tasks."""
        if slots.are_enough:
            return False
        begun = with_problem(self._driver.begun_tasks, self._say_once)
        if begun is None:
            return False
        fewer = slots.see(begun, int(time.monotonic() * 1000))
        self.begun_tasks = slots.begun
        if fewer is not None:
            self._tasks_max = fewer
            self._warn(f"Spark has slots for {fewer} of {len(plan.tasks)} tasks. Planning again with {fewer}")
        elif begun == len(plan.tasks):
            self._say(f"Running {len(plan.tasks)} tasks, plan {plan.membership.generation}")
        elif not slots.begun and time.monotonic() >= self._say_at_s:
            self._say_at_s = time.monotonic() + _SAY_WAITING_S
            self._warn("No task has begun: Spark has no free slot. Nothing is read until it has one")
        return fewer is not None

    def _has_grown(self) -> bool:
        """Return whether another plan has to take up new topic partitions."""
        if time.monotonic() < self._discover_at_s:
            return False
        self._discover_at_s = self._next_discovery()
        has_grown = with_problem(self._driver.has_new_topic_partitions, self._say_once)
        if has_grown:
            self._say("There are new topic partitions. Planning again")
        return bool(has_grown)

    def _next_discovery(self) -> float:
        after_ms = self._driver.settings.discovery_ms
        return float("inf") if after_ms is None else time.monotonic() + after_ms / 1000

    def _after(self, job: Job) -> QueryPlan | None:
        """Return the next plan after a job that has ended by itself."""
        self.begun_tasks = 0
        if job.error is None:
            self._warn("The tasks have ended, because their plan is over. Planning again")
            return self._plan_again()
        if not job.may_start_again():
            raise job.error
        with_problem(self._look, self._say_once)
        pause_ms = self._restarts.pause_ms(self.progress.totals.transactions)
        if pause_ms is None:
            raise ClientError(
                f"The job of the continuous query has failed {FAILURES_MAX + 1} times, and committed nothing "
                f"between the failures, so the query has ended. {self._driver.settings.promise} The last "
                f"failure: {job.error}"
            ) from job.error
        self.failed_jobs += 1
        self._warn(f"The job has failed, and is started again in {pause_ms} ms: {job.error}")
        return None if self._stopping.wait(pause_ms / 1000) else self._plan_again()

    def _replan(self, job: Job) -> QueryPlan | None:
        """Make the next plan, and wait until the tasks of this one have ended."""
        self.begun_tasks = 0
        plan = self._plan_again()
        _await_end(job)
        with_problem(self._look, self._say_once)  # of the plan that is over
        return plan

    def _plan_again(self) -> QueryPlan | None:
        """Make the next plan. Kafka may be away for a while; None: the query stops meanwhile."""
        pause_s = _LOOK_S
        while not self._stopping.is_set():
            try:
                return self._driver.new_plan(self._tasks_max)
            except PenstockError as error:
                if not is_retriable(error):
                    raise
                self._say_once(error)
            self._stopping.wait(pause_s)
            pause_s = min(2 * pause_s, _SAY_WAITING_S)
        return None

    def _look(self) -> None:
        if self.plan is not None:
            self.progress.see(self._driver.offsets(), self.plan.membership.generation, time.time())

    def _say(self, what: str) -> None:
        self.message = what
        _log.info("Continuous query %s: %s.", self._driver.settings.group_id, what)

    def _warn(self, what: str) -> None:
        self.message = what
        _log.warning("Continuous query %s: %s.", self._driver.settings.group_id, what)

    def _say_once(self, error: PenstockError) -> None:
        if error.message != self._said:
            self._said = error.message
            _log.warning("Continuous query %s: %s", self._driver.settings.group_id, error.message)


def with_problem(do: Callable[[], Any], on_problem: Callable[[PenstockError], None]) -> Any:
    """Return what `do` returns; None after a problem that passes, which is told.

    Raises:
        PenstockError: the problem does not pass.
    """
    try:
        return do()
    except PenstockError as error:
        if not is_retriable(error):
            raise
        on_problem(error)
        return None


def _await_end(job: Job) -> None:
    if not job.wait(_END_S):
        job.cancel()
        job.wait(_END_S)
