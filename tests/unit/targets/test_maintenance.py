"""Compaction, vacuum and expired snapshots between batches leave the rows, and the next batch is applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from penstock.targets import DeltaTable, _delta_staged, staged
from penstock.targets import _iceberg_changes as changing
from tests.deaths import Death
from tests.unit.targets.changes import Change, after, batch
from tests.unit.targets.histories import Change as Event
from tests.unit.targets.histories import Oracle, versions_of
from tests.unit.targets.histories import batch as events
from tests.unit.targets.in_files import in_files, run_here
from tests.unit.targets.test_delta import stored as stored_in_delta
from tests.unit.targets.test_history import history_in, rows_in
from tests.unit.targets.test_iceberg import add_compaction, opened, stored, target_in

deltalake: Any = pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg.catalog.sql")
BATCHES = 6


@pytest.fixture(autouse=True)
def tasks_write_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "FEW_BYTES", -1)
    monkeypatch.setattr(_delta_staged, "DRIVER_BYTES", 0)
    monkeypatch.setattr(changing, "SMALL_BYTES", 0)


def changes_of(number: int) -> list[Change]:
    first: list[Change] = [(key, f"{number}", "+U") for key in range(number, number + 6)]
    return [*first, (number - 1, None, "-D")]


def sweep(table: Any) -> None:
    table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)


OF_DELTA: dict[str, Callable[[Any], Any]] = {
    "compact": lambda table: table.optimize.compact(),
    "order": lambda table: table.optimize.z_order(["id"]),
    "vacuum": sweep,
    "checkpoint": lambda table: (table.create_checkpoint(), table.cleanup_metadata()),
}


@pytest.mark.parametrize("name", OF_DELTA)
def test_a_delta_table_between_batches(tmp_path: Path, name: str) -> None:
    target, true = DeltaTable(str(tmp_path / "t")), dict[int, str | None]()
    for number in range(BATCHES):
        true = after(true, changes_of(number))
        if number % 2:
            assert target.apply(batch(number, changes_of(number)))
        else:
            found: Any = in_files(tmp_path, number, changes_of(number))
            assert target.apply_staged(found, run_here)
        OF_DELTA[name](deltalake.DeltaTable(target.uri))
        assert stored_in_delta(tmp_path / "t") == true
        assert not target.apply(batch(number, changes_of(number)))


def data_files(folder: Path) -> int:
    return len(list((folder / "t").glob("*.parquet")))


def test_a_full_vacuum_sweeps_the_files_of_an_attempt_that_failed(tmp_path: Path) -> None:
    target = DeltaTable(str(tmp_path / "t"))
    assert target.apply(batch(0, changes_of(0)))

    def die(function: Any, items: Sequence[Any]) -> list[Any]:
        run_here(function, items)
        raise Death

    found: Any = in_files(tmp_path, 1, changes_of(1))
    with pytest.raises(Death):
        target.apply_staged(found, die)
    before = data_files(tmp_path)
    table = deltalake.DeltaTable(target.uri)
    assert before > len(table.file_uris())
    sweep(table)
    assert data_files(tmp_path) == len(table.file_uris())
    assert target.apply_staged(found, run_here)
    assert stored_in_delta(tmp_path / "t") == after(after({}, changes_of(0)), changes_of(1))


def compact(folder: Path) -> None:
    with opened(folder) as table, table.transaction() as transaction:
        add_compaction(transaction, table)


def expire(folder: Path) -> None:
    """Expire all snapshots but the current one."""
    with opened(folder) as table:
        table.maintenance.expire_snapshots().older_than(datetime.now(UTC)).commit()
        assert len(table.snapshots()) == 1


@pytest.mark.parametrize("work", [compact, expire])
def test_an_iceberg_table_between_batches(tmp_path: Path, work: Callable[[Path], None]) -> None:
    target, true = target_in(tmp_path), dict[int, str | None]()
    for number in range(BATCHES):
        true = after(true, changes_of(number))
        if number % 2:
            assert target.apply(batch(number, changes_of(number)))
        else:
            found: Any = in_files(tmp_path, number, changes_of(number))
            assert target.apply_staged(found, run_here)
        work(tmp_path)
        assert stored(tmp_path) == true
        assert not target.apply(batch(number, changes_of(number)))


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_history_between_batches(tmp_path: Path, kind: str) -> None:
    target, oracle = history_in(tmp_path, kind), Oracle()
    for number in range(BATCHES):
        part = [Event(key, f"{number}", number, "+U") for key in range(number % 3, 4)]
        oracle.apply(part)
        assert target.apply(events(number, part))
        if kind == "delta":
            deltalake.DeltaTable(str(tmp_path / "t")).optimize.compact()
        else:
            compact(tmp_path)
        assert versions_of(rows_in(tmp_path, kind)) == oracle.versions()
