"""Tasks find, compute and write the versions of a history, and it is the one that the driver would keep."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import MaterializeError, RowError
from penstock.options.warn import forget_warnings
from penstock.targets import HistoryTable, _delta_staged, _history_rows, staged
from penstock.targets import _iceberg_changes as changing
from penstock.targets.all_rows import AllRows
from penstock.targets.staged import StagingFolder
from penstock.targets.staged_changes import StageChanges, StagedChanges
from tests.deaths import Death
from tests.examples import examples
from tests.unit.targets.changes import QUERY
from tests.unit.targets.histories import (
    CHANGES,
    Change,
    Oracle,
    apply,
    batch,
    divided,
    in_files,
    versions_of,
    without_deletes_at_the_time_of_a_row,
)
from tests.unit.targets.in_files import dying, run_here
from tests.unit.targets.test_history import STORED, VALUES, history_in, rows_in
from tests.unit.targets.test_log_staged import COMMITS, COMPACTED, EACH

deltalake: Any = pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg.catalog.sql")


@pytest.fixture(autouse=True)
def tasks_write_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "FEW_BYTES", -1)
    monkeypatch.setattr(_delta_staged, "DRIVER_BYTES", 0)


def set_small_bytes(patch: pytest.MonkeyPatch, small_bytes: int) -> None:
    patch.setattr(_delta_staged, "_SMALL_BYTES", small_bytes)
    patch.setattr(changing, "SMALL_BYTES", small_bytes)


@EACH
@pytest.mark.parametrize(("small_bytes", "groups"), [(0, 1), (8 << 20, 16)])
@settings(max_examples=examples(6), deadline=None)
@given(
    st.lists(CHANGES, max_size=20).map(without_deletes_at_the_time_of_a_row),
    st.lists(st.sampled_from(["files", "driver"]), min_size=8, max_size=8),
    st.lists(st.integers(1, 4), min_size=8, max_size=8),
)
def test_either_way_may_follow_and_repeat_the_other(
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    small_bytes: int,
    groups: int,
    changes: list[Change],
    ways: list[str],
    tasks: list[int],
) -> None:
    folder, oracle = tmp_path_factory.mktemp(kind), Oracle()
    target = history_in(folder, kind)
    with pytest.MonkeyPatch.context() as patched:
        set_small_bytes(patched, small_bytes)
        patched.setattr(_history_rows, "_GROUPS", groups)
        for number, part in enumerate(divided(changes, 4)):
            oracle.apply(part)
            first, second = (
                in_files(folder, number, part, tasks[at])
                if ways[at] == "files"
                else batch(number, part, tasks[at])
                for at in (2 * number, 2 * number + 1)
            )
            assert first.digest() == second.digest()
            assert apply(target, first)
            assert not apply(target, second)
            assert versions_of(rows_in(folder, kind)) == oracle.versions()


FIRST = [Change(1, "a", 0, "+I"), Change(2, "b", 1, "+I"), Change(4, "d", 1, "+I")]
SECOND = [Change(1, "c", 2, "+U"), Change(2, None, 3, "-D"), Change(3, "x", 4, "+I"), Change(1, "e", 5, "+U")]


def true_versions(*parts: Sequence[Change]) -> list[Any]:
    oracle = Oracle()
    for each in parts:
        oracle.apply(each)
    return list(oracle.versions())


def run_until(call: int, *, is_done: bool) -> Callable[[Any, Sequence[Any]], list[Any]]:
    """Return what runs tasks, and dies in a call: after its first task, or after all of them."""
    calls = [0]

    def run(function: Any, items: Sequence[Any]) -> list[Any]:
        calls[0] += 1
        if calls[0] < call:
            return run_here(function, items)
        run_here(function, items if is_done else items[:1])
        raise Death

    return run


STEPS = {"find": 1, "compute": 2, "write": 3}


@EACH
@pytest.mark.parametrize("again", ["files", "driver"])
@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_a_driver_that_dies_in_or_after_tasks_applies_the_batch_once(
    tmp_path: Path, kind: str, step: str, again: str, *, is_done: bool
) -> None:
    target = history_in(tmp_path, kind)
    assert apply(target, in_files(tmp_path, 0, FIRST, 3))
    before = rows_in(tmp_path, kind)
    with pytest.raises(Death):
        apply(target, in_files(tmp_path, 1, SECOND, 3), run_until(STEPS[step], is_done=is_done))
    assert rows_in(tmp_path, kind).equals(before)
    found = in_files(tmp_path, 1, SECOND) if again == "files" else batch(1, SECOND)
    assert apply(target, found)
    assert versions_of(rows_in(tmp_path, kind)) == true_versions(FIRST, SECOND)


@EACH
@pytest.mark.parametrize("step", ["before the commit", "after the commit"])
def test_a_driver_that_dies_at_the_commit_applies_the_batch_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, step: str
) -> None:
    target, (owner, commit) = history_in(tmp_path, kind), COMMITS[kind]
    assert apply(target, in_files(tmp_path, 0, FIRST))
    with dying(monkeypatch, owner, commit, step) as run:
        apply(target, in_files(tmp_path, 1, SECOND), run)
    assert apply(target, in_files(tmp_path, 1, SECOND, 1)) == (step == "before the commit")
    assert not apply(target, batch(1, SECOND))
    assert versions_of(rows_in(tmp_path, kind)) == true_versions(FIRST, SECOND)


@EACH
@pytest.mark.parametrize("step", STEPS)
def test_a_compaction_meanwhile_is_a_conflict_and_all_is_done_again(
    tmp_path: Path, kind: str, step: str
) -> None:
    target, calls = history_in(tmp_path, kind), [0]
    for number, part in enumerate([FIRST, [Change(5, "f", 2, "+I"), Change(4, "g", 2, "+U")]]):
        assert apply(target, in_files(tmp_path, number, part))

    def run(function: Any, items: Sequence[Any]) -> list[Any]:
        found = run_here(function, items)
        calls[0] += 1
        if calls[0] == STEPS[step]:
            COMPACTED[kind](tmp_path)
        return found

    third = [Change(4, None, 6, "-D"), Change(5, "h", 7, "+U"), *SECOND]
    assert apply(target, in_files(tmp_path, 2, third), run)
    assert calls[0] == 6, "all three steps run again"
    parts = [FIRST, [Change(5, "f", 2, "+I"), Change(4, "g", 2, "+U")], third]
    assert versions_of(rows_in(tmp_path, kind)) == true_versions(*parts)


@EACH
def test_of_two_drivers_one_applies_the_batch_and_other_changes_are_refused(
    tmp_path: Path, kind: str
) -> None:
    target = history_in(tmp_path, kind)
    assert apply(target, in_files(tmp_path, 0, FIRST))
    other = in_files(tmp_path, 1, SECOND, 3)

    def run(function: Any, items: Sequence[Any]) -> list[Any]:
        found = run_here(function, items)
        apply(target, other)
        return found

    assert not apply(target, in_files(tmp_path, 1, SECOND), run)
    assert versions_of(rows_in(tmp_path, kind)) == true_versions(FIRST, SECOND)
    swapped = [*SECOND[1:3], SECOND[3], SECOND[0]]
    with pytest.raises(MaterializeError, match=r"was applied to .* before with other rows"):
        apply(target, in_files(tmp_path, 1, swapped))


@EACH
def test_changes_that_come_again_in_a_later_batch_change_nothing(tmp_path: Path, kind: str) -> None:
    """Then no task writes a version, and the batch is a commit with the marker."""
    target = history_in(tmp_path, kind)
    for number in range(2):
        assert apply(target, in_files(tmp_path, number, FIRST))
    assert versions_of(rows_in(tmp_path, kind)) == true_versions(FIRST)
    assert not apply(target, batch(1, FIRST))


@EACH
def test_a_delete_at_the_time_of_its_row_is_an_error_of_a_task(tmp_path: Path, kind: str) -> None:
    target = history_in(tmp_path, kind)
    assert apply(target, in_files(tmp_path, 0, FIRST))
    before = rows_in(tmp_path, kind)
    with pytest.raises(RowError, match=r"^1 deletes have the same value in column 'at' as the row"):
        apply(target, in_files(tmp_path, 1, [Change(3, "y", 9, "+I"), Change(1, None, 0, "-D")]))
    assert rows_in(tmp_path, kind).equals(before)


def test_deletes_of_all_tasks_that_end_no_version_are_warned_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    forget_warnings()
    target = history_in(tmp_path, "delta")
    for number in range(2):
        assert apply(target, in_files(tmp_path, number, [Change(1, None, 1, "-D"), Change(2, None, 2, "-D")]))
    warnings = [one.message for one in caplog.records if "A delete ends no version in" in one.message]
    assert len(warnings) == 1


def test_a_small_batch_in_files_is_applied_by_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_delta_staged, "DRIVER_BYTES", 1 << 20)

    def fail(function: Any, items: Sequence[Any]) -> list[Any]:
        raise AssertionError("tasks ran")

    target = history_in(tmp_path, "delta")
    for number, part in enumerate([FIRST, SECOND]):
        assert apply(target, in_files(tmp_path, number, part), fail)
    assert versions_of(rows_in(tmp_path, "delta")) == true_versions(FIRST, SECOND)


def test_a_delta_history_keeps_the_column_of_another_writer(tmp_path: Path) -> None:
    target = history_in(tmp_path, "delta")
    assert apply(target, in_files(tmp_path, 0, FIRST))
    table = deltalake.DeltaTable(str(tmp_path / "t"))
    table.alter.add_columns([deltalake.Field("note", deltalake.schema.PrimitiveType("string"))])
    assert apply(target, in_files(tmp_path, 1, SECOND))
    assert versions_of(rows_in(tmp_path, "delta")) == true_versions(FIRST, SECOND)


@EACH
@pytest.mark.parametrize("time", ["day", "number", "ntz"])
def test_versions_keep_their_values_of_all_types(tmp_path: Path, kind: str, time: str) -> None:
    columns = pa.schema([(name, of) for name, (of, _) in VALUES.items()])
    keys = ("a", "b")
    first = {name: value for name, (_, value) in VALUES.items()}
    later = {"day": first["day"].replace(day=3), "number": 8, "ntz": first["ntz"].replace(day=3)}
    nulls = {name: None for name in VALUES if name not in (*keys, time)}
    batches = [[first, first | {"a": 2}], [first | nulls | {time: later[time]}]]
    found = {}
    for way in ("files", "driver"):
        (tmp_path / way).mkdir()
        target = HistoryTable(STORED[kind].make(tmp_path / way), time=time)
        for number, rows in enumerate(batches):
            table = pa.Table.from_pylist(rows, columns)
            folder = StagingFolder(str(tmp_path / "staging"), QUERY, number)
            stage = StageChanges(AllRows(keys, columns), folder)
            changes = stage.batch(QUERY, pa.Table.from_batches(stage.run(table.to_batches())))
            assert isinstance(changes, StagedChanges)
            assert apply(target, changes if way == "files" else changes.changes(changes.paths))
        shape = target._shape(columns, keys)[0]
        read = STORED[kind].read(tmp_path / way, shape)
        found[way] = read.sort_by([("a", "ascending"), (time, "ascending")]).to_pylist()
    assert found["files"] == found["driver"]
    assert [row["is_current"] for row in found["files"]] == [False, True, True]


def test_names_of_files_are_those_that_a_sweep_deletes(tmp_path: Path) -> None:
    target, seen = history_in(tmp_path, "iceberg"), list[str]()

    def run(function: Any, items: Sequence[Any]) -> list[Any]:
        found = run_here(function, items)
        seen.extend(path.name for path in (tmp_path / "staging" / QUERY).iterdir())
        return found

    for number, part in enumerate([FIRST, SECOND]):
        assert apply(target, in_files(tmp_path, number, part), run)
    assert len(set(seen)) > 4
    assert all(re.fullmatch(r"[01]-[0-9a-f]{32}\.ipc", name) for name in seen)
    StagingFolder(str(tmp_path / "staging"), QUERY, 1).sweep()
    assert not list((tmp_path / "staging" / QUERY).iterdir())
