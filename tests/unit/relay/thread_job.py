"""A job whose tasks are threads, instead of Spark's."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.errors import PenstockError
from penstock.relay.driver import QueryPlan
from penstock.relay.task import ContinuousPlan, run_task

PASS = {"ProducerFencedError", "BrokerUnavailableError"}


class ThreadJob:
    """Runs the tasks of a plan; at most `slots` at a time. One task that fails ends it, as in local mode."""

    def __init__(self, plan: QueryPlan, on_end: Callable[[], None], slots: int = 99) -> None:
        self.error: BaseException | None = None
        self._slots = threading.Semaphore(slots)
        self._on_end = on_end
        self._has_failed = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(each,)) for each in plan.tasks]
        self._watcher = threading.Thread(target=self._watch)
        for each in (*self._threads, self._watcher):
            each.start()

    @property
    def has_ended(self) -> bool:
        return not self._watcher.is_alive()

    def wait(self, timeout_s: float) -> bool:
        self._watcher.join(timeout_s)
        return self.has_ended

    def may_start_again(self) -> bool:
        return isinstance(self.error, PenstockError) and type(self.error).__name__ in PASS

    def cancel(self) -> None:
        """Do nothing: threads cannot be killed."""

    def give_slots(self, count: int) -> None:
        """Let so many more tasks begin."""
        self._slots.release(count)

    def _run(self, task: ContinuousPlan) -> None:
        with self._slots:
            if self._has_failed.is_set():
                return
            try:
                run_task(task)
            except BaseException as error:  # noqa: BLE001 - as Spark tells it
                self.error = error
                self._has_failed.set()

    def _watch(self) -> None:
        for each in self._threads:
            while each.is_alive() and not self._has_failed.is_set():
                each.join(0.05)
        self._on_end()
