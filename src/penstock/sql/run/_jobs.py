"""SHOW JOBS, DESCRIBE JOB and STOP JOB.

Runs on the driver. Invariant: a job that has ended stays in the list until the session ends, with its error.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import PenstockError
from penstock.security.location import without_secrets
from penstock.spark.stop_after_batch import can_stop_after_batch
from penstock.sql.run.job import RUNNING, Job, Result, error_line


def shown(jobs: Sequence[Job]) -> Result:
    """Return all jobs of a session, in the order of their starts."""
    columns = ("job id", "job name", "status", "start time", "error")
    rows = ((job.id, job.name, job.status, f"{job.started_at:%Y-%m-%d %H:%M:%SZ}", job.error) for job in jobs)
    return Result(columns=columns, rows=tuple(rows))


def found(jobs: Sequence[Job], wanted: str) -> Job:
    """Return the job with this id or name. Of several with one name it is the one that runs, or the last.

    Raises:
        ValueError: there is no such job, or several of this name run.
    """
    for job in jobs:
        if job.id == wanted:
            return job
    named = [job for job in jobs if job.name == wanted]
    if not named:
        raise ValueError(f"there is no job '{wanted}' in this session. SHOW JOBS lists the jobs.")
    running = [job for job in named if job.status == RUNNING]
    if len(running) > 1:
        raise ValueError(
            f"{len(running)} jobs named '{wanted}' run. Give the id of one, which SHOW JOBS shows."
        )
    return (running or named)[-1]


def described(job: Job) -> Result:
    """Return the inserts of a job."""
    rows = []
    for query, part in zip(job.queries, job.parts, strict=True):
        last = query.lastProgress if query.isActive else None
        batch = "" if last is None else str(last.get("batchId", ""))  # a continuous query has none
        rows.append((part.target, batch, _shown_folder(part.folder), error_line(query)))
    return Result(columns=("insert into", "last batch", "checkpoint", "error"), rows=tuple(rows))


def stopped(job: Job, *, with_savepoint: bool) -> Result:
    """Stop a job after its batch.

    Raises:
        ValueError: the job does not run; or it is on Spark Connect, which cannot stop after a batch.
        PenstockError: the job failed before its batch had ended.
    """
    if job.status != RUNNING:
        raise ValueError(
            f"the job '{job.name}' does not run: it is {job.status}.{job.error and ' '}{job.error}"
        )
    if not all(map(can_stop_after_batch, job.queries)):
        raise ValueError(
            f"Spark Connect cannot stop the job '{job.name}' after a batch. It still runs. Ctrl-D, or "
            "`job.stop()` in Python, stops it at once. Start the same script once more before you change it."
        )
    try:
        job.stop_after_batch()
    except Exception as error:
        if not job.error:
            raise
        raise PenstockError(f"The job '{job.name}' failed before it could stop: {job.error}") from error
    where = "where it had committed" if _is_continuous(job) else "between two batches"
    said = f"The job '{job.name}' has stopped {where}. It continues from there when it runs again."
    if not with_savepoint:
        return Result(said)
    # A checkpoint stays where it is, so it is also what Flink calls a savepoint.
    rows = tuple((_shown_folder(part.folder),) for part in job.parts)
    return Result(said, columns=("savepoint path",), rows=rows)


def _is_continuous(job: Job) -> bool:
    return all(part.is_continuous for part in job.parts)


def _shown_folder(folder: str | None) -> str:
    return "" if folder is None else without_secrets(folder)
