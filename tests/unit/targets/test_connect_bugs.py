"""Three faults of Kafka Connect's Iceberg sink, played on penstock's table: no row is lost or comes twice.

- apache/iceberg#17551: an old coordinator that does not end sets the position back, and records are skipped.
- apache/iceberg#16282: a coordinator dies between the commit and its note of it. The next one commits the
  same files again.
- apache/iceberg#15710: files of a worker that was too late come with those of the next commit, so deletes of
  that commit do not apply to them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import MaterializeError
from penstock.targets import IcebergTable, staged
from penstock.targets import _iceberg_changes as changing
from penstock.targets import iceberg as ours
from penstock.targets._iceberg_changes import library
from penstock.targets.batch import Batch
from penstock.targets.staged import Staged
from tests.deaths import Death
from tests.unit.targets.changes import Change, after, batch
from tests.unit.targets.in_files import in_files, run_here
from tests.unit.targets.test_iceberg import batches_in_snapshots, opened, stored, target_in

pytest.importorskip("pyiceberg.catalog.sql")

_ADDED = 1
"""The status of an entry of a manifest whose file is new."""
WAYS = pytest.mark.parametrize("way", ["files", "driver"])
PARTS: list[list[Change]] = [
    [(number, "a", "+I") for number in range(9)],
    [(1, "b", "+U"), (5, None, "-D"), (20, "b", "+I")],
    [(1, "c", "+U"), (20, "c", "+U"), (21, "c", "+I")],
    [(1, None, "-D"), (2, "d", "+U"), (22, "d", "+I")],
]


@pytest.fixture(autouse=True)
def files_are_large_and_tasks_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "FEW_BYTES", -1)
    monkeypatch.setattr(changing, "SMALL_BYTES", 0)  # so rows are deleted by position


def made(folder: Path, number: int, way: str) -> Batch | Staged:
    return in_files(folder, number, PARTS[number]) if way == "files" else batch(number, PARTS[number])


def apply(target: IcebergTable, found: Batch | Staged, run: Any = run_here) -> bool:
    return target.apply(found) if isinstance(found, Batch) else target.apply_staged(found, run)


def true_table(count: int) -> dict[int, str | None]:
    found = dict[int, str | None]()
    for part in PARTS[:count]:
        found = after(found, part)
    return found


def check(folder: Path, count: int) -> None:
    """Compare the table with the true one. Each file was added by one snapshot."""
    assert stored(folder) == true_table(count)  # it counts the rows of a key too
    assert batches_in_snapshots(folder) == list(range(count))
    added = Counter[str]()
    with opened(folder) as table:
        for snapshot in table.snapshots():
            entries = table.inspect.entries(snapshot_id=snapshot.snapshot_id).to_pylist()
            own = [one for one in entries if one["snapshot_id"] == snapshot.snapshot_id]
            added.update(one["data_file"]["file_path"] for one in own if one["status"] == _ADDED)
    assert set(added.values()) == {1}


@WAYS
def test_17551_an_old_driver_cannot_set_the_position_back(tmp_path: Path, way: str) -> None:
    old, new = target_in(tmp_path), target_in(tmp_path)
    assert apply(old, made(tmp_path, 0, way))
    late = made(tmp_path, 1, way)  # the old driver stands still with batch 1
    for number in (1, 2):
        assert apply(new, made(tmp_path, number, way))
    for _ in range(2):  # it goes on, and tries again
        with pytest.raises(MaterializeError, match=r"Batch 1 .* is older than batch 2"):
            apply(old, late)
    check(tmp_path, 3)
    # The new driver dies. The next one has its checkpoint, and cannot skip a batch without an error.
    with pytest.raises(MaterializeError, match=r"Batch 4 .* does not follow batch 2"):
        apply(target_in(tmp_path), batch(4, []))
    assert apply(target_in(tmp_path), made(tmp_path, 3, way))
    check(tmp_path, 4)


@WAYS
def test_16282_a_driver_that_dies_after_the_commit_does_not_commit_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    target, commit = target_in(tmp_path), ours._commit
    for number in range(4):

        def die(*arguments: Any) -> None:
            commit(*arguments)
            raise Death

        with monkeypatch.context() as patched:
            patched.setattr(ours, "_commit", die)
            with pytest.raises(Death):
                apply(target, made(tmp_path, number, way))
        for again in ("files", "driver"):
            assert not apply(target_in(tmp_path), made(tmp_path, number, again))
        check(tmp_path, number + 1)


def test_15710_files_that_come_too_late_are_in_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = target_in(tmp_path)
    assert apply(target, made(tmp_path, 0, "files"))
    commit, held = ours._commit, list[tuple[Any, ...]]()

    def hold(*arguments: Any) -> None:
        held.append(arguments)
        raise Death

    with (
        monkeypatch.context() as patched
    ):  # all tasks have written, and the driver is held up before the commit
        patched.setattr(ours, "_commit", hold)
        with pytest.raises(Death):
            apply(target, made(tmp_path, 1, "files"))
    for number in (1, 2):  # another driver repeats the batch, and goes on
        assert apply(target_in(tmp_path), made(tmp_path, number, "files"))
    conflict = library("exceptions").CommitFailedException
    with pytest.raises(conflict):  # the held one goes on: its files may not come into the table
        commit(*held[0])
    check(tmp_path, 3)
    assert apply(target, made(tmp_path, 3, "files"))
    check(tmp_path, 4)


def test_15710_a_late_task_of_another_attempt_is_in_no_commit(tmp_path: Path) -> None:
    target = target_in(tmp_path)
    assert apply(target, made(tmp_path, 0, "files"))

    def run_twice(function: Any, items: Sequence[Any]) -> list[Any]:
        """Run each task twice, as Spark does if it takes one for slow. One of them does not count."""
        found = run_here(function, items)
        run_here(function, items)
        return found

    for number in (1, 2, 3):
        assert apply(target, made(tmp_path, number, "files"), run_twice)
        check(tmp_path, number + 1)
