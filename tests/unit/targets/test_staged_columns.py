"""Batches in files of tables whose columns change or are NOT NULL: the same table as by the driver."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import RowError
from penstock.targets import DeltaTable, ParquetTable, _delta_staged
from penstock.targets import _iceberg_changes as changing
from penstock.targets.batch import Batch, LastRows, sums_of
from penstock.targets.change import NO_CHANGE, ColumnChange
from penstock.targets.staged import Staged, StagingFolder
from tests.unit.targets.in_files import run_here
from tests.unit.targets.test_iceberg import opened, target_in

deltalake: Any = pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg.catalog.sql")

COLUMNS = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string(), nullable=False)]
)
NULLABLE = pa.schema([one.with_nullable(True) for one in COLUMNS])
WIDER = COLUMNS.append(pa.field("price", pa.int64()))
ADDED = ColumnChange(added=(WIDER.field("price"),))


@pytest.fixture(autouse=True)
def tasks_write_all_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_delta_staged, "DRIVER_BYTES", 0)
    monkeypatch.setattr(changing, "SMALL_BYTES", 0)


def iceberg_rows(folder: Path) -> pa.Table:
    with opened(folder) as table:
        return table.scan().to_arrow()


def delta_rows(folder: Path) -> pa.Table:
    return pa.table(deltalake.DeltaTable(str(folder / "delta")).to_pyarrow_table())


def parquet_rows(folder: Path) -> pa.Table:
    return pa.concat_tables(map(pq.read_table, ParquetTable(str(folder / "parquet"), 2).paths()))


def delta_in(folder: Path) -> DeltaTable:
    return DeltaTable(str(folder / "delta"))


def parquet_in(folder: Path) -> ParquetTable:
    return ParquetTable(str(folder / "parquet"), 2)


Kind = tuple[Callable[[Path], Any], Callable[[Path], pa.Table]]
KINDS: dict[str, Kind] = {
    "iceberg": (target_in, iceberg_rows),
    "delta": (delta_in, delta_rows),
    "parquet": (parquet_in, parquet_rows),
}


def batch(number: int, columns: pa.Schema, rows: list[tuple[Any, ...]], change: ColumnChange) -> Batch:
    """Return a batch of rows, of which the last value is their kind."""
    names = [*columns.names, "row_kind"]
    given = [dict(zip(names, one, strict=True)) for one in rows]
    table = pa.Table.from_pylist(given, schema=columns.append(pa.field("row_kind", pa.string())))
    return Batch("query", number, ("id",), LastRows(("id",), columns).last_rows(table), change)


def in_files(folder: Path, found: Batch) -> Staged:
    """Return the batch with half of its rows in each of two files."""
    stage = StagingFolder(str(folder / "staging"), "query", found.batch_id)
    half = found.rows.num_rows // 2
    parts = [found.rows.slice(0, half), found.rows.slice(half)]
    return Staged(
        found.query_id,
        found.batch_id,
        found.keys,
        found.rows.schema,
        stage.location,
        tuple(map(stage.write, parts)),
        tuple(map(sums_of, parts)),
        found.rows.nbytes,
        found.change,
    )


BATCHES = (
    batch(0, COLUMNS, [(1, "a", "+I"), (2, "b", "+I"), (3, "c", "+I")], NO_CHANGE),
    batch(1, COLUMNS, [(1, "z", "-D"), (2, "d", "+U"), (4, "e", "+I")], NO_CHANGE),
    batch(2, WIDER, [(3, "f", 5, "+U"), (4, "z", None, "-D"), (5, "g", 6, "+I")], ADDED),
    batch(3, WIDER, [(2, "h", 7, "+U"), (5, "z", None, "-D")], NO_CHANGE),
)
TRUE = (
    [(1, "a"), (2, "b"), (3, "c")],
    [(2, "d"), (3, "c"), (4, "e")],
    [(2, "d", None), (3, "f", 5), (5, "g", 6)],
    [(2, "h", 7), (3, "f", 5)],
)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("ways", list(itertools.product([True, False], repeat=2)))
def test_columns_change_in_files_as_on_the_driver(tmp_path: Path, name: str, ways: tuple[bool, bool]) -> None:
    make, rows = KINDS[name]
    target = make(tmp_path)
    batches = BATCHES[:2] if name == "parquet" else BATCHES  # its columns do not change
    for number, found in enumerate(batches):
        for is_first, way in zip((True, False), (ways[number % 2], ways[0]), strict=True):
            staged = in_files(tmp_path, found)
            assert staged.digest() == found.digest()
            applied = target.apply_staged(staged, run_here) if way else target.apply(found)
            assert applied is is_first
        assert sorted(map(tuple, (row.values() for row in rows(tmp_path).to_pylist()))) == TRUE[number]


def test_a_null_of_a_column_that_is_not_null_is_refused_by_the_task_of_delta(tmp_path: Path) -> None:
    target = delta_in(tmp_path)
    assert target.apply_staged(in_files(tmp_path, BATCHES[0]), run_here)
    bad = batch(1, NULLABLE, [(1, None, "+U"), (2, "x", "+U")], NO_CHANGE)
    with pytest.raises(RowError, match="Column 'name' of the Delta table is NOT NULL"):
        target.apply_staged(in_files(tmp_path, bad), run_here)
    assert delta_rows(tmp_path).sort_by("id").column("name").to_pylist() == ["a", "b", "c"]
