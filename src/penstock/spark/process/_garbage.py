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
