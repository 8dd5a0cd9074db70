"""Rows of large data files are deleted by position, and files and manifests stay few."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.targets import IcebergTable
from penstock.targets import _iceberg_changes as changing
from penstock.targets import iceberg as ours
from penstock.targets._iceberg_rows import positions_of
from penstock.targets._keys import Keys
from penstock.targets._table_properties import new_properties
from penstock.targets.batch import DELETED, Batch
from tests.examples import examples
from tests.unit.targets.changes import HISTORIES, QUERY, Change, after, batch
from tests.unit.targets.test_iceberg import (
    add_compaction,
    check_history,
    opened,
    stored,
    target_in,
)

deleting: Any = pytest.importorskip("penstock.targets._iceberg_deletes")
exceptions: Any = pytest.importorskip("pyiceberg.exceptions")
manifest: Any = pytest.importorskip("pyiceberg.manifest")
sql: Any = pytest.importorskip("pyiceberg.catalog.sql")

WIDE = pa.schema([("id", pa.int64()), ("text", pa.string())])


@pytest.fixture
def no_file_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changing, "SMALL_BYTES", 0)


def deletes_in(folder: Path) -> int:
    """Return the number of files with deletes; each data file has at most one."""
    with opened(folder) as table:
        tasks = list(table.scan().plan_files())
    assert all(len(task.delete_files) <= 1 for task in tasks)
    found = {one.file_path for task in tasks for one in task.delete_files}
    return len(found)


@settings(max_examples=examples(6), deadline=None)
@given(HISTORIES, st.lists(st.booleans(), min_size=5, max_size=5), st.sampled_from([0.0, 0.5, 1.0]))
def test_every_history_gives_the_true_table(
    tmp_path_factory: pytest.TempPathFactory,
    history: list[list[Change]],
    repeats: list[bool],
    share: float,
) -> None:
    folder = tmp_path_factory.mktemp("iceberg")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(changing, "SMALL_BYTES", 0)
        patched.setattr(changing, "_DELETED_AT_MOST", share)
        patched.setattr(deleting, "_MANIFESTS_AT_MOST", 1)
        patched.setattr(deleting, "_DATA_MANIFESTS_AT_MOST", 2)
        check_history(folder, history, repeats, deletes_in)


def numbered(number: int, keys: Any, text: str | None) -> Batch:
    """Return a batch that gives keys a text, or deletes them."""
    count = len(keys)
    rows = pa.table([pa.array(keys, pa.int64()), pa.array([text] * count, pa.string())], schema=WIDE)
    deleted = pa.array([text is None] * count)
    return Batch(QUERY, number, ("id",), rows.append_column(pa.field(DELETED, pa.bool_(), False), deleted))


def stored_text(folder: Path) -> dict[int, str]:
    with opened(folder) as table:
        rows = table.scan().to_arrow().to_pylist()
    return {row["id"]: row["text"] for row in rows}


@pytest.mark.usefixtures("no_file_is_small")
def test_a_large_file_stays_until_half_of_its_rows_are_deleted(tmp_path: Path) -> None:
    target = target_in(tmp_path)
    target.apply(numbered(0, range(1000), "first"))
    with opened(tmp_path) as table:
        first = next(iter(table.scan().plan_files())).file.file_path
    for number in range(1, 6):
        target.apply(numbered(number, range(number * 90, number * 90 + 100), f"batch {number}"))
        with opened(tmp_path) as table:
            tasks = {task.file.file_path: task for task in table.scan().plan_files()}
            summary = table.current_snapshot().summary.additional_properties
        assert first in tasks
        assert [one.record_count for one in tasks[first].delete_files] == [number * 90 + 10]
        assert int(summary["total-delete-files"]) == deletes_in(tmp_path)
    target.apply(numbered(6, range(540, 640), None))
    with opened(tmp_path) as table:
        assert first not in {task.file.file_path for task in table.scan().plan_files()}
        summary = table.current_snapshot().summary.additional_properties
        found = table.scan().to_arrow()
    assert int(summary["total-delete-files"]) == deletes_in(tmp_path)
    assert sorted(found.column("id").to_pylist()) == [*range(540), *range(640, 1000)]
    assert pc.sum(pc.equal(found.column("text"), "first")).as_py() == 450


def test_small_files_become_one_when_their_rows_change(tmp_path: Path) -> None:
    target = target_in(tmp_path)
    for number in range(5):
        target.apply(numbered(number, [number, 100 + number], "first"))
    target.apply(numbered(5, range(5), "second"))
    with opened(tmp_path) as table:
        assert [task.file.record_count for task in table.scan().plan_files()] == [10]
        assert table.current_snapshot().summary.additional_properties["deleted-data-files"] == "5"


@pytest.mark.usefixtures("no_file_is_small")
def test_manifests_stay_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleting, "_MANIFESTS_AT_MOST", 3)
    monkeypatch.setattr(deleting, "_DATA_MANIFESTS_AT_MOST", 5)
    target, true = target_in(tmp_path), dict[int, str | None]()
    for number in range(12):
        changes: list[Change] = [(number * 10 + each, f"{number}", "+I") for each in range(10)]
        changes += [(number * 10 - 5, None, "-D"), (number * 10 - 13, "late", "+U")]
        true = after(true, changes)
        target.apply(batch(number, changes))
        with opened(tmp_path) as table:
            assert len(table.current_snapshot().manifests(table.io)) <= 11
    assert stored(tmp_path) == true


def test_a_commit_reads_each_manifest_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for the keys reads it too. pyiceberg's own commit reads it twice, which costs requests."""
    target, avro = target_in(tmp_path), pytest.importorskip("pyiceberg.avro.file")
    for number in range(3):
        target.apply(numbered(number, [number, 100 + number], "first"))
    read, enter = Counter[str](), avro.AvroFile.__enter__

    def noted(file: Any) -> Any:
        read[file.input_file.location] += 1
        return enter(file)

    with monkeypatch.context() as patched:
        patched.setattr(avro.AvroFile, "__enter__", noted)
        target.apply(numbered(3, [0, 1], "second"))
    assert len(read) >= 4, "a list and three manifests"
    assert set(read.values()) == {2}
    assert stored_text(tmp_path) == {
        0: "second",
        1: "second",
        2: "first",
        **dict.fromkeys((100, 101, 102), "first"),
    }


@pytest.mark.usefixtures("no_file_is_small")
def test_a_compaction_and_a_rollback_between_deletes(tmp_path: Path) -> None:
    target, true = target_in(tmp_path), dict[int, str | None]()
    history: list[list[Change]] = [
        [(key, "a", "+I") for key in range(10)],
        [(1, "b", "+U"), (2, None, "-D")],
        [(1, "c", "+U"), (3, None, "-D")],
    ]
    for number, changes in enumerate(history):
        true = after(true, changes)
        target.apply(batch(number, changes))
        with opened(tmp_path) as table, table.transaction() as transaction:
            if number == 1:
                add_compaction(transaction, table)
    assert stored(tmp_path) == true
    with opened(tmp_path) as table:
        second = [one for one in table.snapshots() if one.summary.additional_properties.get("penstock.batch")]
        table.manage_snapshots().rollback_to_snapshot(second[1].snapshot_id).commit()
    assert target.apply(batch(2, history[2]))
    assert stored(tmp_path) == true


@pytest.mark.usefixtures("no_file_is_small")
def test_a_table_of_the_first_format_has_no_deletes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def first_format(new: Batch) -> dict[str, str]:
        return {**new_properties(new), "format-version": "1"}

    target = target_in(tmp_path)
    monkeypatch.setattr(ours, "new_properties", first_format)
    target.apply(batch(0, [(1, "a", "+I"), (2, "b", "+I"), (3, "c", "+I")]))
    target.apply(batch(1, [(1, "d", "+U")]))
    assert stored(tmp_path) == {1: "d", 2: "b", 3: "c"}
    assert deletes_in(tmp_path) == 0
    with opened(tmp_path) as table:
        assert table.metadata.format_version == 1


KEYS = st.lists(
    st.tuples(st.integers(0, 6), st.sampled_from(["", "a", "é", "\U0001f600", "z" * 40])), unique=True
)


@settings(max_examples=examples(30), deadline=None)
@given(KEYS, KEYS, st.integers(1, 5), st.sampled_from([["n"], ["t"], ["n", "t"], ["t", "n"]]))
def test_positions_are_those_of_the_rows_with_the_keys(
    rows: list[tuple[int, str]], wanted: list[tuple[int, str]], group_rows: int, names: list[str]
) -> None:
    ids = {"n": b"7", "t": b"8"}
    schema = pa.schema(
        [
            pa.field("other", pa.int8(), metadata={b"PARQUET:field_id": b"9"}),
            pa.field("t_x20", pa.string(), metadata={b"PARQUET:field_id": ids["t"]}),
            pa.field("n", pa.int32(), metadata={b"PARQUET:field_id": ids["n"]}),
        ]
    )
    file = pa.table([[1] * len(rows), [t for _, t in rows], [n for n, _ in rows]], schema=schema)
    with pa.BufferOutputStream() as stream:
        pq.write_table(file, stream, row_group_size=group_rows)
        content = stream.getvalue()
    kinds = {"n": pa.int64(), "t": pa.large_string()}
    known = sorted({tuple(one[index] for index in ("nt".index(name) for name in names)) for one in wanted})
    columns = [pa.array([each[at] for each in known], kinds[name]) for at, name in enumerate(names)]
    keys = Keys(pa.table(columns, names=names), [int(ids[name]) for name in names])
    found = positions_of(pa.BufferReader(content), keys)
    expected = [
        at for at, one in enumerate(rows) if tuple(one["nt".index(name)] for name in names) in set(known)
    ]
    assert found is not None
    assert found.tolist() == expected
    assert found.dtype == np.int64


def test_a_file_without_the_key_column_is_left_to_the_reader_of_iceberg() -> None:
    with pa.BufferOutputStream() as stream:
        pq.write_table(pa.table({"id": [1, 2]}), stream)
        content = stream.getvalue()
    assert positions_of(pa.BufferReader(content), Keys(pa.table({"id": [1]}), [1])) is None


@pytest.mark.usefixtures("no_file_is_small")
def test_many_keys_of_a_large_table_take_seconds(tmp_path: Path) -> None:
    """A condition with a value for each key did not end."""
    target: IcebergTable = target_in(tmp_path)
    target.apply(numbered(0, np.arange(400_000), "first"))
    target.apply(numbered(1, np.arange(0, 400_000, 4), "second"))
    assert deletes_in(tmp_path) == 1
    with opened(tmp_path) as table:
        found = table.scan().to_arrow()
    assert found.num_rows == 400_000
    assert len(pc.unique(found.column("id"))) == 400_000
    assert pc.sum(pc.equal(found.column("text"), "second")).as_py() == 100_000


def test_a_commit_that_landed_and_is_called_a_conflict_leaves_a_readable_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a client of a catalog repeats a request whose answer was lost."""
    target, commit = target_in(tmp_path), sql.SqlCatalog.commit_table
    target.apply(batch(0, [(1, "a", "+I")]))

    def twice(*arguments: Any, **named: Any) -> None:
        commit(*arguments, **named)
        raise exceptions.CommitFailedException("the branch has changed")

    with monkeypatch.context() as patched:
        patched.setattr(sql.SqlCatalog, "commit_table", twice)
        assert not target.apply(batch(1, [(1, "b", "+U"), (2, "c", "+I")]))
    assert stored(tmp_path) == {1: "b", 2: "c"}
    assert target.apply(batch(2, [(1, None, "-D")]))
    assert stored(tmp_path) == {2: "c"}


@pytest.mark.usefixtures("no_file_is_small")
def test_a_large_file_of_an_older_partition_spec(tmp_path: Path) -> None:
    target, true = target_in(tmp_path), dict[int, str | None]()
    for number, field in enumerate(["na%me", "id", None]):
        changes: list[Change] = [(10 * number + each, "a", "+I") for each in range(9)]
        changes += [(10 * each, "b", "+U") for each in range(number)]
        true = after(true, changes)
        target.apply(batch(number, changes))
        if field is not None:
            with opened(tmp_path) as table, table.update_spec() as update:
                update.add_field(field, "identity", f"by_{number}")
    assert stored(tmp_path) == true
    assert deletes_in(tmp_path) > 0


def test_a_file_with_deletes_in_another_format_is_read_by_pyiceberg(
    tmp_path: Path,
) -> None:
    """Its positions are unknown to us, so the data file is written again."""
    target = target_in(tmp_path)
    target.apply(batch(0, [(1, "a", "+I")]))
    with opened(tmp_path) as table:
        (task,) = table.scan().plan_files()
        work = changing.Work(table, Keys(pa.table({"id": [1]}), [1]))
        assert work._positions(task) is not None
        deletes = SimpleNamespace(file_format=manifest.FileFormat.ORC)
        assert work._positions(SimpleNamespace(file=task.file, delete_files=[deletes])) is None
