"""Tasks write the buckets of a folder of Parquet files, and the table is that of the driver."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import MaterializeError
from penstock.targets import ParquetTable, staged
from penstock.targets.batch import Batch
from penstock.targets.staged import Staged
from tests.examples import examples
from tests.unit.targets.changes import HISTORIES, Change, after, batch
from tests.unit.targets.in_files import dying, in_files, run_here
from tests.unit.targets.test_parquet import stored

BUCKETS = 3


@pytest.fixture(autouse=True)
def each_task_writes_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "FEW_BYTES", -1)


def target_in(folder: Path) -> ParquetTable:
    return ParquetTable(str(folder / "table"), BUCKETS)


def apply(folder: Path, found: Batch | Staged, run: Any = run_here) -> bool:
    target = target_in(folder)
    return target.apply(found) if isinstance(found, Batch) else target.apply_staged(found, run)


def rows_of(folder: Path) -> dict[int, str | None]:
    return stored(target_in(folder).paths())


@settings(max_examples=examples(8), deadline=None)
@given(HISTORIES, st.lists(st.sampled_from(["files", "driver"]), min_size=10, max_size=10))
def test_either_way_may_follow_and_repeat_the_other(
    tmp_path_factory: pytest.TempPathFactory, history: list[list[Change]], ways: list[str]
) -> None:
    folder, true = tmp_path_factory.mktemp("parquet"), dict[int, str | None]()
    for number, changes in enumerate(history):
        true = after(true, changes)
        first, second = (
            in_files(folder, number, changes) if way == "files" else batch(number, changes)
            for way in ways[2 * number : 2 * number + 2]
        )
        assert apply(folder, first)
        assert not apply(folder, second)
        assert rows_of(folder) == true
    names = sorted(path.name for path in (folder / "table" / "_versions").iterdir())
    assert [int(name[:10]) for name in names] == list(range(len(history)))


def test_only_the_buckets_with_a_key_are_written(tmp_path: Path) -> None:
    assert apply(tmp_path, in_files(tmp_path, 0, [(key, "a", "+I") for key in range(30)]))
    before, items = set(target_in(tmp_path).paths()), list[Any]()

    def run(function: Any, given: Sequence[Any]) -> list[Any]:
        items.extend(given)
        return run_here(function, given)

    assert apply(tmp_path, in_files(tmp_path, 1, [(1, "b", "+U")]), run)
    assert len(before) == BUCKETS
    assert len(items) == len(set(target_in(tmp_path).paths()) - before) == 1
    assert rows_of(tmp_path) == dict.fromkeys(range(30), "a") | {1: "b"}


@pytest.mark.parametrize("step", ["in a task", "before the manifest", "after the manifest"])
def test_a_driver_that_dies_applies_the_batch_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    first: list[Change] = [(number, "a", "+I") for number in range(9)]
    changes: list[Change] = [(1, "b", "+U"), (5, None, "-D"), (20, "c", "+I")]
    assert apply(tmp_path, in_files(tmp_path, 0, first))
    with dying(monkeypatch, ParquetTable, "_publish", step) as run:
        apply(tmp_path, in_files(tmp_path, 1, changes), run)
    assert apply(tmp_path, in_files(tmp_path, 1, changes)) == (step != "after the manifest")
    assert rows_of(tmp_path) == after(dict.fromkeys(range(9), "a"), changes)


def test_of_two_drivers_with_other_rows_the_later_one_takes_its_version_back(tmp_path: Path) -> None:
    assert apply(tmp_path, in_files(tmp_path, 0, [(1, "a", "+I")]))
    other = in_files(tmp_path, 1, [(1, "c", "+U")])

    def run(function: Any, items: Sequence[Any]) -> list[Any]:
        found = run_here(function, items)
        assert apply(tmp_path, other)
        return found

    with pytest.raises(MaterializeError, match="Another driver has published batch 1"):
        apply(tmp_path, in_files(tmp_path, 1, [(1, "b", "+U")]), run)
    assert rows_of(tmp_path) == {1: "c"}
