"""Log a warning of tasks once for each run of a query, although many processes run its tasks.

Runs on executors. Invariant: a warning may come twice, once for each machine, but none is lost. The processes
of one machine share a folder of Spark, which Spark deletes with the application.
"""

from __future__ import annotations

import hashlib
import os

from pyspark import SparkFiles, TaskContext

from penstock.spark._task_context import RUN_ID_PROPERTY

_KNOWN_MAX = 10_000
_known: set[str] = set()


def is_new_in_run(message: str) -> bool:
    """Return whether no process of this machine has asked for the message in this run of the query."""
    context = TaskContext.get()
    run = "" if context is None else context.getLocalProperty(RUN_ID_PROPERTY) or ""
    name = hashlib.sha256(f"{run} {message}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
    if name in _known:
        return False
    if len(_known) >= _KNOWN_MAX:
        _known.clear()
    _known.add(name)
    try:
        descriptor = os.open(
            os.path.join(SparkFiles.getRootDirectory(), f".penstock-said-{name}"),  # noqa: PTH118 - small
            os.O_CREAT | os.O_EXCL | os.O_WRONLY,
        )
    except FileExistsError:
        return False
    except OSError:  # the folder cannot be written: once for each process then
        return True
    os.close(descriptor)
    return True
