"""Batches whose rows are in files, and tasks that run in this process, for tests of targets."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.targets import staged
from penstock.targets.batch import Batch, LastRows
from penstock.targets.staged import Stage, Staged, StagingFolder
from tests.deaths import Death
from tests.unit.targets.changes import LAST_ROWS, QUERY, Change


def run_here(function: Any, items: Sequence[Any]) -> list[Any]:
    """Run as tasks do: with copies of the function and of the items."""
    called = sent(function)
    return [sent(called(sent(each))) for each in items]


def sent(value: Any) -> Any:
    """Return what arrives in another process."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - of this test


def parts_of(rows: pa.Table, stage: Stage, task_of: Callable[[int], int]) -> pa.Table:
    """Return the receipts of tasks that get the rows, in order."""
    tasks: dict[int, list[int]] = {}
    for index in range(rows.num_rows):
        tasks.setdefault(task_of(index), []).append(index)
    receipts = [each for found in tasks.values() for each in stage.run(rows.take(found).to_batches())]
    return pa.Table.from_batches(receipts, staged._RECEIPTS)


def stage_in(folder: Path, number: int, last_rows: LastRows = LAST_ROWS) -> Stage:
    return Stage(last_rows, StagingFolder(str(folder / "staging"), QUERY, number))


def in_files(folder: Path, number: int, changes: Sequence[Change], tasks: int = 3) -> Batch | Staged:
    """Return a batch of which each task has all rows of some keys."""
    names = ("id", "na%me", "row_kind")
    schema = LAST_ROWS.columns.append(pa.field("row_kind", pa.string()))
    rows = pa.Table.from_pylist([dict(zip(names, each, strict=True)) for each in changes], schema=schema)
    stage = stage_in(folder, number)
    return stage.batch(QUERY, parts_of(rows, stage, lambda index: changes[index][0] % tasks))


@contextmanager
def dying(
    patch: pytest.MonkeyPatch, owner: object, name: str, step: str
) -> Iterator[Callable[[Any, Sequence[Any]], list[Any]]]:
    """Let the driver die: "in a task", or "before ..." or "after ..." a function. Yield what runs tasks."""
    called = getattr(owner, name)

    def die(*arguments: Any) -> None:
        if step.startswith("after"):
            called(*arguments)
        raise Death

    def die_in_a_task(function: Any, items: Sequence[Any]) -> list[Any]:
        run_here(function, items[:1])
        raise Death

    with patch.context() as patched:
        if step != "in a task":
            patched.setattr(owner, name, die)
        run = die_in_a_task if step == "in a task" else run_here
        with pytest.raises(Death):
            yield run
