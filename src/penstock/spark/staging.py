"""Batches of `materialize` that are too large for the driver: tasks write the files of the table.

Runs in `foreachBatch`, on Spark classic and Connect. Invariant: what a task has done counts once, by the
result that Spark takes of it. Files of other attempts are left behind.
"""

from __future__ import annotations

import logging
import pickle
import urllib.parse
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.util import inheritable_thread_target

from penstock.security.location import without_secrets_in
from penstock.spark.connect import is_connect
from penstock.spark.map_rows import map_rows
from penstock.targets.all_rows import AllChanges, AllRows
from penstock.targets.batch import Batch, LastRows
from penstock.targets.staged import RECEIPTS, Runner, Stage, Staged, StagingFolder
from penstock.targets.staged_changes import StageChanges, StagedChanges

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger(__name__)
_TASKS = 64
"""At most, with Spark Connect, which does not tell how many cores there are."""
_TASKS_A_CORE = 2
_RESULT = pa.schema([("number", pa.int64()), ("result", pa.binary())])


def folder_of(location: str, query_id: str, batch_id: int) -> StagingFolder:
    """Return where the rows of a batch are written."""
    return StagingFolder(location, urllib.parse.quote(query_id, safe=""), batch_id)


def stage_of(work: LastRows | AllRows, location: str, query_id: str, batch_id: int) -> Stage | StageChanges:
    """Return how the rows of a batch are written into the folder of its query."""
    folder = folder_of(location, query_id, batch_id)
    return StageChanges(work, folder) if isinstance(work, AllRows) else Stage(work, folder)


def staged_batch(
    rows: DataFrame, stage: Stage | StageChanges, query_id: str
) -> Batch | Staged | AllChanges | StagedChanges:
    """Choose the rows of a batch in tasks. Return them, or where they are if a task has many."""
    receipts: Any = map_rows(rows, stage.run, RECEIPTS).toArrow()
    return stage.batch(query_id, receipts)


def sweep(folder: StagingFolder) -> None:
    """Delete the files of a batch that is done. An error is only logged, as the tables have the batch."""
    try:
        folder.sweep()
    except Exception as error:  # noqa: BLE001 - stores have many
        _log.warning(
            "Files of batch %s in the staging folder were not deleted (%s: %s). Each table has the batch. "
            "They are deleted after a later batch.",
            folder.batch_id,
            type(error).__name__,
            without_secrets_in(str(error)),
        )


def runner_of(rows: DataFrame) -> Runner:
    """Return what runs functions in tasks of the session of a DataFrame."""

    def run(function: Any, items: Sequence[Any]) -> list[Any]:
        if not items:
            return []
        spark: Any = rows.sparkSession
        work = pa.table({"number": range(len(items)), "item": [pickle.dumps(each) for each in items]})
        tasks = _TASKS if is_connect(rows) else spark.sparkContext.defaultParallelism * _TASKS_A_CORE
        spread = spark.createDataFrame(work).repartition(min(len(items), tasks), "number")
        called = map_rows(spread, _Called(function).run, "number BIGINT, result BINARY")
        found = called.toArrow().sort_by("number")
        if found.column("number").to_pylist() != list(range(len(items))):
            raise AssertionError(f"expected a result for each of {len(items)} items, got {found.num_rows}")
        return [pickle.loads(each) for each in found.column("result").to_pylist()]  # noqa: S301 - of our tasks

    if is_connect(rows):
        return run
    # The job of a thread has the group of the query then, by which Spark stops it with the query.
    inherited: Runner = inheritable_thread_target(rows.sparkSession)(run)
    return inherited


class _Called:
    """Calls a function for each item of a task. Pickled to the tasks."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the number and the result of each item."""
        for batch in batches:
            numbers, items = (column.to_pylist() for column in batch.columns)
            for number, item in zip(numbers, items, strict=True):
                result = pickle.dumps(self._function(pickle.loads(item)))  # noqa: S301 - of our driver
                yield pa.RecordBatch.from_arrays([pa.array([number]), pa.array([result])], schema=_RESULT)
