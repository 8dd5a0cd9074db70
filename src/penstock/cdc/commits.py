"""Give the tables of a batch their rows, several tables at a time.

Runs on the driver. Invariant: all tables of a batch were decided and written down before. A table that fails
does not keep the others from their rows; its error ends the batch, or leaves the table out by choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import pyarrow as pa

from penstock.errors import (
    MaterializeError,
    OptionError,
    PenstockError,
    StagedRowsError,
    TableOrderError,
)
from penstock.targets.batch import Batch
from penstock.targets.staged import AppliesStaged, Runner, Staged

_NOT_OF_THE_TABLE = (OptionError, StagedRowsError, TableOrderError, MemoryError)


@runtime_checkable
class RunsJobs(Protocol):
    """A table that Spark changes. Its job fails also because the query is stopped or an executor is lost."""

    runs_jobs: Literal[True]


class Target(Protocol):
    """A table that applies a batch as a whole; see `penstock.targets`."""

    def check(self, columns: pa.Schema, keys: Sequence[str]) -> None:
        """Raise an error if the table cannot hold these columns."""

    def apply(self, batch: Batch) -> bool:
        """Return False if the batch was applied before."""


class Failure(NamedTuple):
    """Why a table did not get its rows.

    Attributes:
        error: of the table, of Spark or of the staging folder.
        stops: whether the query has to stop, because the cause is perhaps not the table: it has other
            batches, a job of Spark has failed, perhaps because the query is being stopped, the files of the
            batch cannot be read, the driver lacks memory, or a setting of the session is wrong.
    """

    error: Exception
    stops: bool


class _Noting:
    """Runs tasks, and remembers if they have failed."""

    def __init__(self, run: Runner | None) -> None:
        self._run = run
        self.has_failed = False

    def __call__(self, function: Any, items: Sequence[Any]) -> list[Any]:
        if self._run is None:
            raise AssertionError("expected tasks for a batch in files")
        try:
            return self._run(function, items)
        except BaseException:
            self.has_failed = True
            raise


def apply_all(
    batches: Mapping[str, Batch | Staged],
    target_of: Callable[[str], Target],
    threads: int,
    run: Runner | None = None,
) -> dict[str, Failure]:
    """Apply a batch to each table. Return the failures by topic.

    Args:
        batches: by topic.
        target_of: returns the table of a topic.
        threads: how many tables are changed at a time.
        run: runs tasks for batches in files; None if there are none.
    """

    def apply(topic: str) -> Failure | None:
        noting = _Noting(run)
        target: Target | None = None
        try:
            target = target_of(topic)
            _apply(target, batches[topic], noting)
        except Exception as error:  # noqa: BLE001 - each library of a target has its own
            return Failure(error, noting.has_failed or _may_be_of_the_query(error, target))
        return None

    if len(batches) <= 1:
        return {topic: failure for topic in batches if (failure := apply(topic)) is not None}
    with ThreadPoolExecutor(min(threads, len(batches)), "penstock-replicate") as pool:
        found = dict(zip(batches, pool.map(apply, batches), strict=True))
    return {topic: failure for topic, failure in found.items() if failure is not None}


def _may_be_of_the_query(error: Exception, target: object) -> bool:
    is_of_a_job = isinstance(target, RunsJobs) and not isinstance(error, PenstockError)
    return is_of_a_job or isinstance(error, _NOT_OF_THE_TABLE)


def _apply(target: Target, batch: Batch | Staged, run: Runner) -> None:
    if isinstance(batch, Batch):
        target.apply(batch)
    elif isinstance(target, AppliesStaged):
        target.apply_staged(batch, run)
    else:
        target.apply(batch.on_driver())


def failed(errors: Mapping[str, Exception], batch_id: int, table_count: int) -> Exception:
    """Return the error of a batch in which tables failed: that of the first one, if it is the only one."""
    (topic, first), *others = sorted(errors.items())
    if not others and table_count == 1:
        return first
    rest = "".join(f"; {one}: {_short(error)}" for one, error in others)
    return MaterializeError(
        f"{len(errors)} of {table_count} tables of batch {batch_id} were not changed: {topic}: "
        f"{_short(first)}{rest}. The other tables have the batch. Spark repeats it when the query starts "
        "again, and each table gets it once. Correct the cause and start the query again. "
        "on_table_error='leave-out' leaves out a table that fails, but not one that has other batches.",
        batch_id=batch_id,
    )


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".strip().rstrip(".")
