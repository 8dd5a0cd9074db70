"""Spares PySpark's workers the search for garbage among what is merely imported.

Runs on the executor, at the start of each task, and in the processes that plan and commit writes on the
driver, which Spark uses again for each micro-batch. PySpark's daemon calls `gc.collect()` after every task of
a process that it keeps, and that looks at each object of every imported module: 30 to 50 ms of processor,
whatever the task did (docs/performance.md). Objects that are frozen are not looked at.

Invariant: only in processes of PySpark's daemon, from their second task on, and again only when more modules
are imported than ever before: not task by task, for what is frozen is never collected. The daemon has
collected right before, so hardly any garbage is kept by it.
"""

from __future__ import annotations

import gc
import sys

from penstock.spark.logs import show_messages
from penstock.spark.worker_socket import JvmConnection

_DAEMON = "pyspark.daemon"
_REPEATING = ("pyspark.sql.worker.plan_data_source_read", "pyspark.sql.worker.python_streaming_sink_runner")
"""What runs beside the process of a stream that plans its batches, and the one that prepares its writes."""


class WorkerObjects:
    """Decides when the objects of this process are frozen."""

    def __init__(self) -> None:
        self._has_run = False
        self._most_modules = 0

    def begin_task(self, module_count: int) -> None:
        """A task begins, with that many modules imported."""
        if self._has_run and module_count > self._most_modules:
            gc.freeze()
            self._most_modules = module_count
        self._has_run = True


_OBJECTS = WorkerObjects()
_CONNECTION = JvmConnection()


def begin_task() -> None:
    """To be called at the start of every task; does nothing outside of PySpark's processes."""
    show_messages()
    if is_spark_worker():
        _CONNECTION.hurry()
        _OBJECTS.begin_task(len(sys.modules))


def is_spark_worker() -> bool:
    """Whether this process was forked by PySpark's daemon, which collects between tasks."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == _DAEMON


def repeats_parsing() -> bool:
    """Whether this process parses options of a stream that another process of the query parses too.

    A process that PySpark's daemon forks loads the module of what it is to do. The one that plans a stream's
    batches loads some of them too, and is not forked. Where nothing is known: no.
    """
    return is_spark_worker() and any(name in sys.modules for name in _REPEATING)
