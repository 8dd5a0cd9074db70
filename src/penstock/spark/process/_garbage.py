"""Freeze the objects of imported modules in PySpark's workers, so that garbage collection is fast.

Runs on the executor, at the start of each task, and in the processes that plan and commit writes on the
driver, which Spark uses again for each micro-batch. PySpark's daemon calls `gc.collect()` after every task of
a process that it keeps. The collection visits each object of every imported module, which costs 30 to 50 ms
of CPU after any task (docs/performance.md). Frozen objects are not visited.

Invariant: freezes only in processes of PySpark's daemon, from their second task on, and again only when more
modules are imported than ever before. It does not freeze with each task, because frozen objects are never
collected. The daemon has collected just before, so hardly any garbage is frozen.
"""

from __future__ import annotations

import gc


class WorkerObjects:
    """Decides when to freeze the objects of this process."""

    def __init__(self) -> None:
        self._has_run = False
        self._most_modules = 0

    def begin_task(self, module_count: int) -> None:
        """Note that a task begins with that many imported modules; freeze if there are more than before."""
        if self._has_run and module_count > self._most_modules:
            gc.freeze()
            self._most_modules = module_count
        self._has_run = True
