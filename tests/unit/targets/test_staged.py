"""Batches whose rows are in files are the same batches, and tasks write them into an Iceberg table once."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import MaterializeError, RowError
from penstock.spark.staging import sweep
from penstock.state.files import open_files
from penstock.targets import IcebergTable, staged
from penstock.targets import _iceberg_changes as changing
from penstock.targets import iceberg as ours
from penstock.targets.batch import Batch, LastRows
from penstock.targets.staged import Staged, StagingFolder
from tests.examples import examples
from tests.unit.targets.changes import HISTORIES, LAST_ROWS, QUERY, Change, after, batch
from tests.unit.targets.in_files import dying, in_files, parts_of, run_here, sent, stage_in
from tests.unit.targets.test_iceberg import (
    VALUES,
    add_compaction,
    batches_in_snapshots,
    opened,
    stored,
    target_in,
)

pytest.importorskip("pyiceberg.catalog.sql")


@pytest.fixture(autouse=True)
def each_task_writes_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "FEW_BYTES", -1)


def apply(target: IcebergTable, found: Batch | Staged, run: Any = run_here) -> bool:
    return target.apply(found) if isinstance(found, Batch) else target.apply_staged(found, run)


@pytest.mark.parametrize("small_bytes", [0, 8 << 20])
@settings(max_examples=examples(5), deadline=None)
@given(HISTORIES, st.lists(st.sampled_from(["files", "driver"]), min_size=10, max_size=10))
def test_either_way_may_follow_and_repeat_the_other(
    tmp_path_factory: pytest.TempPathFactory, small_bytes: int, history: list[list[Change]], ways: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("iceberg")
    target, true = target_in(folder), dict[int, str | None]()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(changing, "SMALL_BYTES", small_bytes)
        for number, changes in enumerate(history):
            true = after(true, changes)
            first, second = (
                in_files(folder, number, changes) if way == "files" else batch(number, changes)
                for way in ways[2 * number : 2 * number + 2]
            )
            assert first.digest() == second.digest()
            assert apply(target, first)
            assert not apply(target, second)
            assert stored(folder) == true
    assert batches_in_snapshots(folder) == list(range(len(history)))


ROWS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3), st.sampled_from(["+I", "-D"])), max_size=20)


@settings(max_examples=examples(20), deadline=None)
@given(ROWS)
def test_the_digest_of_all_types_does_not_depend_on_the_tasks(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, str]]
) -> None:
    columns = pa.schema([("id", pa.int64()), *((name, kind) for name, (kind, _) in VALUES.items())])
    changed = [
        {"id": number, "row_kind": kind} | {name: value for name, (_, value) in VALUES.items() if number % 3}
        for number, _, kind in rows
    ]
    table = pa.Table.from_pylist(changed, pa.schema([*columns, ("row_kind", pa.string())]))
    last_rows = LastRows(("id",), columns)
    stage = stage_in(tmp_path_factory.mktemp("stage"), 0, last_rows)
    task = {number: task for number, task, _ in rows}  # a key has one task
    found = stage.batch(QUERY, parts_of(table, stage, lambda index: task[rows[index][0]]))
    whole = Batch(QUERY, 0, ("id",), last_rows.last_rows(table))
    assert found.digest() == whole.digest()
    if isinstance(found, Staged):
        read = pa.concat_tables([found.rows(path) for path in found.paths])
        assert read.sort_by("id").equals(whole.rows.sort_by("id").combine_chunks())
        assert sorted(found.key_rows.column("id").to_pylist()) == sorted(task)


def test_few_rows_stay_with_the_driver_and_join_the_files_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = LAST_ROWS.columns
    few = pa.table([[1, 2], ["a", "b"]], schema=schema)
    many = pa.table([range(10, 1010), ["x" * 100] * 1000], schema=schema)
    monkeypatch.setattr(staged, "FEW_BYTES", 1000)
    stage = stage_in(tmp_path, 0)
    alone = stage.batch(QUERY, pa.Table.from_batches(stage.run(few.to_batches())))
    assert isinstance(alone, Batch)
    receipts = [each for rows in (few, many) for each in stage.run(rows.to_batches())]
    both = stage.batch(QUERY, pa.Table.from_batches(receipts))
    assert isinstance(both, Staged)
    assert len(both.paths) == 2
    target = target_in(tmp_path)
    assert apply(target, both)
    assert stored(tmp_path) == {1: "a", 2: "b"} | dict.fromkeys(range(10, 1010), "x" * 100)


def test_rows_of_a_key_from_two_tasks_are_an_error(tmp_path: Path) -> None:
    stage = stage_in(tmp_path, 0)
    rows = pa.table([[1, 2, 1], ["a", "b", "c"]], schema=LAST_ROWS.columns)
    found = stage.batch(QUERY, parts_of(rows, stage, lambda index: index))
    with pytest.raises(RowError, match="Rows of 1 keys of batch 0 came from more than one task"):
        found.check_keys()


@pytest.mark.parametrize("step", ["in a task", "before the commit", "after the commit"])
def test_a_driver_that_dies_applies_the_batch_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setattr(changing, "SMALL_BYTES", 0)
    target = target_in(tmp_path)
    first: list[Change] = [(number, "a", "+I") for number in range(9)]
    changes: list[Change] = [(1, "b", "+U"), (5, None, "-D"), (20, "c", "+I")]
    assert apply(target, in_files(tmp_path, 0, first))
    with dying(monkeypatch, ours, "_commit", step) as run:
        apply(target, in_files(tmp_path, 1, changes), run)
    assert apply(target, in_files(tmp_path, 1, changes)) == (step != "after the commit")
    assert stored(tmp_path) == after(dict.fromkeys(range(9), "a"), changes)
    assert batches_in_snapshots(tmp_path) == [0, 1]


def test_a_compaction_while_tasks_work_is_a_conflict_and_all_is_done_again(tmp_path: Path) -> None:
    target, waiting = target_in(tmp_path), [1]
    assert apply(target, in_files(tmp_path, 0, [(1, "a", "+I"), (2, "b", "+I")]))

    def run(function: Any, items: Sequence[Any]) -> list[Any]:
        found = run_here(function, items)
        if waiting:
            waiting.pop()
            with opened(tmp_path) as table, table.transaction() as transaction:
                add_compaction(transaction, table)
        return found

    assert apply(target, in_files(tmp_path, 1, [(1, "c", "+U")]), run)
    assert stored(tmp_path) == {1: "c", 2: "b"}
    other = in_files(tmp_path, 1, [(1, "d", "+U")])
    with pytest.raises(MaterializeError, match="with other rows"):
        apply(target, other)


def test_files_of_batches_that_are_done_are_swept(tmp_path: Path) -> None:
    for number in (3, 4, 12):
        in_files(tmp_path, number, [(1, "a", "+I")])
    (tmp_path / "staging" / QUERY / ".nfs0000").touch()
    stage_in(tmp_path, 4).files.sweep()
    foreign, left = open_files(str(tmp_path / "staging")).names(QUERY)
    assert (foreign, left.startswith("12-")) == (".nfs0000", True)


def test_a_file_of_a_killed_writer_is_swept_after_the_next_batch(tmp_path: Path) -> None:
    folder = tmp_path / "staging" / QUERY
    folder.mkdir(parents=True)
    for number in (3, 4, 12):
        (folder / f"{number}-{'a' * 32}.ipc.tmp-0123abcd").touch()
    files = open_files(str(tmp_path / "staging"))
    with files.create(f"{QUERY}/4-{'b' * 32}.ipc") as living:
        living.write(b"rows")
        stage_in(tmp_path, 4).files.sweep()
        assert [name.partition("-")[0] for name in files.names(QUERY)] == ["12", "4", "4"]
    assert f"4-{'b' * 32}.ipc" in files.names(QUERY)
    stage_in(tmp_path, 5).files.sweep()
    assert [name.partition("-")[0] for name in files.names(QUERY)] == ["12"]


@pytest.mark.parametrize("step", ["keys", "tasks"])
def test_a_driver_whose_files_another_one_has_swept_says_so_and_writes_nothing(
    tmp_path: Path, step: str
) -> None:
    target = target_in(tmp_path)
    changes: list[Change] = [(1, "a", "+I"), (2, "b", "+I")]
    slow, quick = (in_files(tmp_path, 0, changes) for _ in range(2))
    if step == "tasks":
        slow.check_keys()
    assert apply(target, quick)
    stage_in(tmp_path, 0).files.sweep()
    assert isinstance(slow, Staged)
    message = (
        r"^The file query-1/0-\w+\.ipc with rows of batch 0 of query query-1 is not in the staging folder "
        r"any more\. Another driver of the query has applied this batch or a later one .* the marker of the "
        r"table says if it was applied\.$"
    )
    with pytest.raises(MaterializeError, match=message) as found:
        slow.check_keys() if step == "keys" else slow.rows(slow.paths[0])
    assert found.value.facts["batch_id"] == 0
    if step == "tasks":
        assert not apply(target, slow), "the marker is judged before a file is read"
    assert batches_in_snapshots(tmp_path) == [0]


def test_a_sweep_that_fails_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "staging").touch()  # no folder
    sweep(StagingFolder("nothing://x", QUERY, 4))
    assert "Files of batch 4 in the staging folder were not deleted" in caplog.text


def test_a_batch_is_sent_to_tasks_without_its_keys(tmp_path: Path) -> None:
    found = in_files(tmp_path, 0, [(number, "a", "+I") for number in range(1000)])
    assert isinstance(found, Staged)
    before = len(pickle.dumps(found))
    found.check_keys()
    assert len(pickle.dumps(found)) == before
    assert sent(found).key_rows.equals(found.key_rows)
