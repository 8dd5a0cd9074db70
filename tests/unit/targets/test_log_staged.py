"""Changes that tasks have written into files become the rows of a log that the driver would have written."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import MaterializeError, OptionError, RowError
from penstock.spark.materialize import _applies_staged
from penstock.state.columns import is_hashable
from penstock.targets import ChangeLogTable, DeltaTable, SqlTable, _delta_staged, staged
from penstock.targets import delta as our_delta
from penstock.targets import iceberg as our_iceberg
from penstock.targets.all_rows import AllChanges, AllRows
from penstock.targets.staged import StagingFolder
from penstock.targets.staged_changes import StageChanges, StagedChanges
from tests.examples import examples
from tests.unit.targets.changes import QUERY
from tests.unit.targets.histories import (
    CHANGES,
    COLUMNS,
    ROWS,
    Change,
    apply,
    batch,
    in_files,
    time_of,
)
from tests.unit.targets.in_files import dying, run_here, sent
from tests.unit.targets.test_history import STORED
from tests.unit.targets.test_iceberg import VALUES, add_compaction, opened

deltalake: Any = pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg.catalog.sql")
KINDS = ("delta", "iceberg")
EACH = pytest.mark.parametrize("kind", KINDS)
COMMITS: dict[str, tuple[Any, str]] = {
    "delta": (our_delta, "_commit_actions"),
    "iceberg": (our_iceberg, "_commit"),
}


@pytest.fixture(autouse=True)
def tasks_write_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "FEW_BYTES", -1)
    monkeypatch.setattr(_delta_staged, "DRIVER_BYTES", 0)


def log_in(folder: Path, kind: str) -> ChangeLogTable:
    return ChangeLogTable(STORED[kind].make(folder))


def check(folder: Path, kind: str, parts: Sequence[Sequence[Change]]) -> None:
    """Compare the log with the changes of all batches."""
    columns = log_in(folder, kind)._shape(COLUMNS)[0]
    read = STORED[kind].read(folder, columns).to_pylist()
    rows = sorted(read, key=lambda row: (row["change_batch"], row["change_number"]))
    places = [(row["change_batch"], row["change_number"]) for row in rows]
    assert places == [(number, at) for number, part in enumerate(parts) for at in range(len(part))]
    for number, part in enumerate(parts):
        for key in range(4):
            of_key = [row for row in rows if (row["change_batch"], row["id"]) == (number, key)]
            found = [(row["name"], row["at"], row["row_kind"]) for row in of_key]
            assert found == [(one.name, time_of(one.at), one.kind) for one in part if one.key == key]


@EACH
@settings(max_examples=examples(8), deadline=None)
@given(
    st.lists(st.lists(CHANGES, max_size=6), min_size=1, max_size=4),
    st.lists(st.sampled_from(["files", "driver"]), min_size=8, max_size=8),
    st.lists(st.integers(1, 4), min_size=8, max_size=8),
)
def test_either_way_may_follow_and_repeat_the_other(
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    parts: list[list[Change]],
    ways: list[str],
    tasks: list[int],
) -> None:
    folder = tmp_path_factory.mktemp(kind)
    target = log_in(folder, kind)
    for number, part in enumerate(parts):
        first, second = (
            in_files(folder, number, part, tasks[at])
            if ways[at] == "files"
            else batch(number, part, tasks[at])
            for at in (2 * number, 2 * number + 1)
        )
        assert first.digest() == second.digest()
        assert apply(target, first)
        assert not apply(target, second)
        check(folder, kind, parts[: number + 1])


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(CHANGES, min_size=1, max_size=12), st.integers(1, 4), st.integers(0, 2000))
def test_the_digest_and_the_order_do_not_depend_on_the_tasks_and_their_files(
    tmp_path_factory: pytest.TempPathFactory, changes: list[Change], tasks: int, few_bytes: int
) -> None:
    folder, whole = tmp_path_factory.mktemp("stage"), batch(0, changes, 1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(staged, "FEW_BYTES", few_bytes)
        found = in_files(folder, 0, changes, tasks)
    assert found.digest() == whole.digest()
    if isinstance(found, StagedChanges):
        assert sorted(found.key_rows.column("id").to_pylist()) == sorted({one.key for one in changes})
        assert sum(found.counts) == len(changes)
        found = found.changes(found.paths)
        assert found.digest() == whole.digest()
    for key in range(4):
        of_key = [row["name"] for row in found.rows.to_pylist() if row["id"] == key]
        assert of_key == [one.name for one in changes if one.key == key]


def test_the_digest_of_all_types_is_that_of_the_driver(tmp_path: Path) -> None:
    columns = pa.schema([("id", pa.int64()), *((name, kind) for name, (kind, _) in VALUES.items())])
    assert not all(is_hashable(one.type) for one in columns), "nested ones are compared too"
    row = {name: value for name, (_, value) in VALUES.items()}
    values = [{"id": 1}, row | {"id": 2}, row | {"id": 1}, row | {"id": 3, "small": None}]
    rows, all_rows = pa.Table.from_pylist(values, columns), AllRows(("id",), columns)
    stage = StageChanges(all_rows, StagingFolder(str(tmp_path), QUERY, 0))
    receipts = [one for at in ([0, 2], [1], [3]) for one in stage.run(rows.take(at).to_batches())]
    found = stage.batch(QUERY, pa.Table.from_batches(receipts))
    assert isinstance(found, StagedChanges)
    whole = pa.Table.from_batches(list(all_rows.run(rows.to_batches())))
    assert found.digest() == AllChanges(QUERY, 0, ("id",), whole).digest()


@pytest.mark.parametrize("few_bytes", [-1, 200])
def test_rows_of_a_key_from_two_tasks_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_bytes: int
) -> None:
    """Also if both gave few rows, which the driver writes into one file."""
    monkeypatch.setattr(staged, "FEW_BYTES", few_bytes)
    stage = StageChanges(ROWS, StagingFolder(str(tmp_path), QUERY, 7))
    parts = [[1, 2], [3, 1], [*range(10, 90)]]
    tables = [pa.table([ids, ["a"] * len(ids), [time_of(0)] * len(ids)], schema=COLUMNS) for ids in parts]
    receipts = [each for rows in tables for each in stage.run(rows.to_batches())]
    found = stage.batch(QUERY, pa.Table.from_batches(receipts))
    assert isinstance(found, StagedChanges)
    assert len(found.paths) == (3 if few_bytes < 0 else 2)
    with pytest.raises(RowError, match="Rows of 1 keys of batch 7 came from more than one task"):
        found.check_keys()


FIRST = [Change(1, "a", 0, "+I"), Change(2, "b", 1, "+I"), Change(1, "b", 2, "+U")]
SECOND = [Change(1, "c", 3, "+U"), Change(3, "x", 4, "+I"), Change(2, None, 5, "-D")]


@EACH
@pytest.mark.parametrize("step", ["in a task", "before the commit", "after the commit"])
def test_a_driver_that_dies_applies_the_batch_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, step: str
) -> None:
    target, (owner, commit) = log_in(tmp_path, kind), COMMITS[kind]
    assert apply(target, in_files(tmp_path, 0, FIRST))
    with dying(monkeypatch, owner, commit, step) as run:
        apply(target, in_files(tmp_path, 1, SECOND), run)
    again = batch(1, SECOND) if step == "after the commit" else in_files(tmp_path, 1, SECOND, 3)
    assert apply(target, again) == (step != "after the commit")
    check(tmp_path, kind, [FIRST, SECOND])


def compact_iceberg(folder: Path) -> None:
    with opened(folder) as table, table.transaction() as transaction:
        add_compaction(transaction, table)


COMPACTED: dict[str, Callable[[Path], Any]] = {
    "delta": lambda folder: deltalake.DeltaTable(str(folder / "t")).optimize.compact(),
    "iceberg": compact_iceberg,
}


@EACH
@pytest.mark.parametrize("way", ["files", "driver"])
def test_a_compaction_meanwhile_is_a_conflict_and_the_rows_are_appended_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, way: str
) -> None:
    target, waiting, tries = log_in(tmp_path, kind), [1], []
    for number in range(2):
        assert apply(target, in_files(tmp_path, number, FIRST))

    def compact_once() -> None:
        if waiting:
            waiting.pop()
            COMPACTED[kind](tmp_path)

    def run(function: Any, items: Sequence[Any]) -> list[Any]:
        found = run_here(function, items)
        compact_once()
        return found

    owner, name = COMMITS[kind] if way == "files" else (COMMITS[kind][0], "_commit")
    commit = getattr(owner, name)

    def committed(*arguments: Any) -> Any:
        tries.append(1)
        if way == "driver":
            compact_once()
        return commit(*arguments)

    monkeypatch.setattr(owner, name, committed)
    made = in_files(tmp_path, 2, SECOND) if way == "files" else batch(2, SECOND)
    assert apply(target, made, run)
    assert not waiting
    assert len(tries) == 2, "the commit went on top of the compaction"
    check(tmp_path, kind, [FIRST, FIRST, SECOND])


@EACH
def test_of_two_drivers_that_append_one_applies_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    target, owner = log_in(tmp_path, kind), COMMITS[kind][0]
    assert apply(target, batch(0, FIRST))
    commit, waiting = owner._commit, [batch(1, SECOND)]

    def other_first(*arguments: Any) -> Any:
        if waiting:
            assert apply(target, waiting.pop())
        return commit(*arguments)

    monkeypatch.setattr(owner, "_commit", other_first)
    assert not apply(target, batch(1, SECOND))
    check(tmp_path, kind, [FIRST, SECOND])


@EACH
def test_of_two_drivers_one_applies_the_batch_and_other_changes_are_refused(
    tmp_path: Path, kind: str
) -> None:
    target = log_in(tmp_path, kind)
    other = in_files(tmp_path, 0, FIRST, 3)

    def run(function: Any, items: Sequence[Any]) -> list[Any]:
        found = run_here(function, items)
        apply(target, other)
        return found

    assert not apply(target, in_files(tmp_path, 0, FIRST), run)
    with pytest.raises(MaterializeError, match=r"was applied to .* before with other rows"):
        apply(target, in_files(tmp_path, 0, [FIRST[2], *FIRST[:2]]))
    check(tmp_path, kind, [FIRST])


def test_a_delta_log_with_a_column_of_another_writer_gets_null_in_it(tmp_path: Path) -> None:
    target = log_in(tmp_path, "delta")
    field = deltalake.Field("note", deltalake.schema.PrimitiveType("string"))
    assert apply(target, batch(0, FIRST))
    deltalake.DeltaTable(str(tmp_path / "t")).alter.add_columns([field])
    assert apply(target, batch(1, SECOND))
    assert apply(target, in_files(tmp_path, 2, SECOND))
    check(tmp_path, "delta", [FIRST, SECOND, SECOND])
    rows = pa.table(deltalake.DeltaTable(str(tmp_path / "t")).to_pyarrow_table())
    assert rows.column("note").null_count == rows.num_rows


def test_a_batch_of_few_bytes_is_appended_by_the_driver_without_reading_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_delta_staged, "DRIVER_BYTES", 1 << 20)

    def fail(function: Any, items: Sequence[Any]) -> list[Any]:
        raise AssertionError("tasks ran")

    target = log_in(tmp_path, "delta")
    for number in range(2):
        assert apply(target, in_files(tmp_path, number, FIRST), fail)
    done = deltalake.DeltaTable(str(tmp_path / "t")).history(1)[0]
    assert (done["operation"], done["operationParameters"]["mode"]) == ("WRITE", "Append")
    check(tmp_path, "delta", [FIRST, FIRST])


def test_a_batch_is_sent_to_tasks_without_its_keys(tmp_path: Path) -> None:
    found = in_files(tmp_path, 0, [Change(number, "a", 1, "+I") for number in range(1000)])
    assert isinstance(found, StagedChanges)
    assert found.key_rows.num_rows == 1000
    assert len(pickle.dumps(found)) < 3000
    assert sent(found).key_rows.num_rows == 1000


def test_a_log_in_a_database_does_not_take_staging(tmp_path: Path) -> None:
    table = ChangeLogTable(SqlTable("t", lambda: None, "sqlite"))
    assert not _applies_staged(table)
    rows = SqlTable("t", lambda: None, executors_copy=True)
    assert _applies_staged(rows)
    assert not _applies_staged(ChangeLogTable(rows))
    assert not _applies_staged(SqlTable("t", lambda: None))
    assert _applies_staged(ChangeLogTable(DeltaTable("t")))
    found = in_files(tmp_path, 0, FIRST)
    with pytest.raises(OptionError, match="`staging` is not for table t"):
        apply(table, found)
