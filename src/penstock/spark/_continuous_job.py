"""Run the tasks of a plan as one job of Spark that does not end by itself, on Spark classic and Connect.

Runs on the driver (Connect: in the client's program), and `_tasks` on executors. It uses nothing of Spark's
data sources. Invariants: a task whose plan is over ends well; one that another attempt has fenced fails,
because Spark takes a task that ends for done and stops its other attempts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from penstock.errors import PenstockError
from penstock.relay.driver import QueryPlan
from penstock.relay.task import ContinuousPlan, run_task
from penstock.spark.connect import is_connect
from penstock.spark.explain_failure import explain_failure
from penstock.spark.map_rows import map_rows

_POOL = "spark.scheduler.pool"
_COLUMN = "task"
_PASS = frozenset(
    (
        "BrokerUnavailableError",
        "ClientError",
        "FetchError",
        "ProduceError",
        "ProducerFencedError",
        "RequestTimeoutError",
        "TransactionError",
    )
)
"""Errors of a task that another start may cure. Any other one would come again."""


class SparkJob:
    """The job of one plan, on a thread of its own.

    Args:
        spark: a session.
        plan: of the tasks.
        tag: a name that no other job has, to cancel it.
        description: for Spark's pages.
        on_end: is called when the job has ended.
    """

    def __init__(
        self, spark: Any, plan: QueryPlan, tag: str, description: str, on_end: Callable[[], None]
    ) -> None:
        self.error: BaseException | None = None
        self._spark = spark
        self._plan = plan
        self._tag = tag
        self._description = description
        self._on_end = on_end
        self._is_connect = is_connect(spark)
        self._pool = None if self._is_connect else spark.sparkContext.getLocalProperty(_POOL)
        self._ended = threading.Event()
        threading.Thread(target=self._run, name="penstock-continuous-job", daemon=True).start()

    @property
    def has_ended(self) -> bool:
        """Return whether its tasks run no more."""
        return self._ended.is_set()

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end. Return whether it has ended."""
        return self._ended.wait(timeout_s)

    def may_start_again(self) -> bool:
        """Return whether another job may do better after `error`."""
        if isinstance(self.error, PenstockError):
            return type(self.error).__name__ in _PASS
        if "Traceback (most recent call last)" in str(self.error):
            return False  # of the user's function
        return self._is_connect or not self._spark.sparkContext._jsc.sc().isStopped()  # noqa: SLF001

    def cancel(self) -> None:
        """Cancel the job. Its Python workers may live for some seconds more."""
        with suppress(Exception):  # Spark has gone, and the tasks with it
            if self._is_connect:
                self._spark.interruptTag(self._tag)
            else:
                self._spark.sparkContext.cancelJobGroup(self._tag)

    def _run(self) -> None:
        try:
            self._name()
            count = len(self._plan.tasks)
            numbers = self._spark.range(0, count, 1, count)
            map_rows(numbers, _tasks(self._plan.tasks), f"{_COLUMN} BIGINT").collect()
        except BaseException as error:  # noqa: BLE001 - the supervisor judges it
            failure = explain_failure(error)
            self.error = error if failure is None else failure.error_class(failure.message)
        finally:
            self._ended.set()
            self._on_end()

    def _name(self) -> None:
        """Name the job in this thread, whose jobs have the properties that are set here."""
        if self._is_connect:
            self._spark.addTag(self._tag)
            return
        context = self._spark.sparkContext
        context.setJobGroup(self._tag, self._description)
        if self._pool is not None:
            context.setLocalProperty(_POOL, self._pool)


def _tasks(
    plans: tuple[ContinuousPlan, ...],
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of a task of Spark, which carries the plan of each."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        attempt = 0 if context is None else context.attemptNumber()
        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        for number in numbers:
            run_task(plans[number], attempt)
        yield pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64())], [_COLUMN])

    return run
