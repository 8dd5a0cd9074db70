"""Read Spark's local properties: the query, batch and partition of a task or of a `foreachBatch` function.

Runs on executors, and on the driver. Invariant: only this module has the names of Spark's local properties.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from typing import Any

from pyspark import TaskContext

from penstock.errors import StateError
from penstock.spark.connect import is_connect

QUERY_ID_PROPERTY = "sql.streaming.queryId"
"""The id of the streaming query. It changes only with the checkpoint."""
BATCH_ID_PROPERTY = "streaming.sql.batchId"
"""The number of the micro-batch."""
RUN_ID_PROPERTY = "spark.jobGroup.id"
"""The id of one run of a streaming query, which Spark sets as its job group."""

DESCRIPTION_PROPERTY = "spark.job.description"
"""A text with the ids of query, run and batch, unless the user sets another one."""
_RUN_ID = re.compile(r"runId = ([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})")


_KNOWN_MAX = 10_000
_known: set[str] = set()
"""Messages for which `is_new_in_run` was asked in this process."""


@dataclass(frozen=True)
class Turn:
    """The number of a task and of its micro-batch, for partitioners that distribute rows in turn."""

    spark_partition_id: int = 0
    batch_id: int = 0


def turn_of_task() -> Turn:
    """Return the turn of the current Spark task."""
    context = TaskContext.get()
    if context is None:
        return Turn()
    batch_id = context.getLocalProperty(BATCH_ID_PROPERTY)
    return Turn(context.partitionId(), int(batch_id) if batch_id else 0)


def query_and_batch_of_task() -> tuple[str, int] | None:
    """Return the query id and batch id of the current Spark task; None if Spark does not tell them."""
    context = TaskContext.get()
    if context is None:
        return None
    query_id, batch_id = (context.getLocalProperty(name) for name in (QUERY_ID_PROPERTY, BATCH_ID_PROPERTY))
    return None if query_id is None or batch_id is None else (query_id, int(batch_id))


@dataclass(frozen=True)
class BatchTask:
    """A task of a batch of a streaming query.

    Attributes:
        query_id: of the streaming query. It changes only with the checkpoint.
        run_id: of one run of the query, from its start to its stop.
        batch_id: of the micro-batch.
        stage_id: of Spark's stage. A later stage of one SparkContext has a higher one.
        task_id: the number of the task in its stage.
        attempt_id: of the attempt of the task, unique in the SparkContext.
    """

    query_id: str
    run_id: str
    batch_id: int
    stage_id: int = 0
    task_id: int = 0
    attempt_id: int = 0


def batch_of_task() -> BatchTask | None:
    """Return the current Spark task; None outside a streaming query.

    Raises:
        StateError: the run id is not there, because the user has set a job group.
    """
    context = TaskContext.get()
    found = query_and_batch_of_task()
    if context is None or found is None:
        return None
    group = context.getLocalProperty(RUN_ID_PROPERTY) or ""
    description = context.getLocalProperty(DESCRIPTION_PROPERTY) or ""
    return BatchTask(
        found[0],
        run_id_in(group, description),
        found[1],
        context.stageId(),
        context.partitionId(),
        context.taskAttemptId(),
    )


def run_id_in(group: str, description: str) -> str:
    """Return the id of the run. Spark writes it into the description of each batch's job too.

    Raises:
        StateError: neither has it.
    """
    for text in (description, f"runId = {group}"):
        if written := _RUN_ID.search(text):
            return written[1]
    raise StateError(
        f"Spark's job group is {group!r} and not the id of the query's run, which the state needs to tell "
        "retries from restarts. Nothing was written. Do not call setJobGroup in `foreachBatch`."
    )


def driver_property(rows: Any, name: str) -> str | None:
    """Return a local property of the driver's thread; None on Spark Connect, which has none."""
    if is_connect(rows):
        return None
    value: str | None = rows.sparkSession.sparkContext.getLocalProperty(name)
    return value


def is_new_in_run(message: str) -> bool:
    """Return whether no process of this machine has asked for the message in this run of the query.

    The processes of a machine share a folder of Spark, which Spark deletes with the application. If it cannot
    be written, a warning comes once for each process. None is lost.
    """
    context = TaskContext.get()
    run = "" if context is None else context.getLocalProperty(RUN_ID_PROPERTY) or ""
    name = hashlib.sha256(f"{run} {message}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
    if name in _known:
        return False
    if len(_known) >= _KNOWN_MAX:
        _known.clear()
    _known.add(name)
    from pyspark import SparkFiles  # noqa: PLC0415 - the thin client of Spark Connect has none

    try:
        descriptor = os.open(
            os.path.join(SparkFiles.getRootDirectory(), f".penstock-said-{name}"),  # noqa: PTH118 - small
            os.O_CREAT | os.O_EXCL | os.O_WRONLY,
        )
    except FileExistsError:
        return False
    except OSError:
        return True
    os.close(descriptor)
    return True
