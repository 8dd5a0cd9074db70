"""A batch reads no file of metadata that its process knows, and finds each change of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.errors import MaterializeError
from tests.unit.targets.changes import batch
from tests.unit.targets.test_iceberg import NAME, catalog, opened, set_properties, stored, target_in

known: Any = pytest.importorskip("penstock.targets._iceberg_metadata")
serializers: Any = pytest.importorskip("pyiceberg.serializers")
memory: Any = pytest.importorskip("pyiceberg.catalog.memory")


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the files of metadata that are parsed from now on."""
    found: list[str] = []
    read = serializers.FromInputFile.table_metadata

    def noted(file: Any, *arguments: Any) -> Any:
        found.append(file.location)
        return read(file, *arguments)

    monkeypatch.setattr(serializers.FromInputFile, "table_metadata", noted)
    return found


def test_a_batch_parses_no_metadata_that_the_batch_before_has_written(
    tmp_path: Path, parsed: list[str]
) -> None:
    target = target_in(tmp_path)
    target.apply(batch(0, [(1, "a", "+I")]))
    parsed.clear()
    target.apply(batch(1, [(2, "b", "+I")]))
    target.apply(batch(2, [(1, "c", "+U")]))
    assert parsed == []
    assert stored(tmp_path) == {1: "c", 2: "b"}


def test_a_deep_copy_of_a_commit_shares_the_snapshots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, copied = target_in(tmp_path), list[Any]()
    target.apply(batch(0, [(1, "a", "+I")]))
    snapshots: Any = pytest.importorskip("pyiceberg.table.snapshots")
    copy = snapshots.Snapshot.__deepcopy__

    def noted(self: Any, memo: Any = None) -> Any:
        copied.append(self)
        return copy(self, memo)

    monkeypatch.setattr(snapshots.Snapshot, "__deepcopy__", noted)
    for number in range(1, 4):
        target.apply(batch(number, [(number, "b", "+U")]))
    assert copied == []


def test_a_batch_finds_what_another_client_has_changed(tmp_path: Path) -> None:
    target = target_in(tmp_path)
    target.apply(batch(0, [(1, "a", "+I"), (2, "b", "+I")]))
    set_properties(tmp_path, {"commit.retry.num-retries": "4"})
    with pytest.raises(MaterializeError, match=r"commit\.retry\.num-retries"):
        target.apply(batch(1, [(2, "c", "+U")]))
    set_properties(tmp_path, {"commit.retry.num-retries": "0"})
    assert target.apply(batch(1, [(2, "c", "+U")]))
    with opened(tmp_path) as table:
        table.delete("id = 1")
    with pytest.raises(MaterializeError, match="Another writer"):
        target.apply(batch(2, [(3, "d", "+I")]))


def test_old_files_of_metadata_are_deleted(tmp_path: Path) -> None:
    """Each names all snapshots, so all of them together would fill a disk within hours."""
    target = target_in(tmp_path)
    target.apply(batch(0, [(1, "a", "+I")]))
    set_properties(tmp_path, {"write.metadata.previous-versions-max": "3"})
    for number in range(1, 8):
        target.apply(batch(number, [(number, "b", "+U")]))
    assert len(list(tmp_path.rglob("*.metadata.json"))) == 1 + 3
    assert stored(tmp_path) == dict.fromkeys(range(1, 8), "b")


def test_a_table_that_was_dropped_and_made_again_is_not_the_known_one(tmp_path: Path) -> None:
    target = target_in(tmp_path)
    target.apply(batch(0, [(1, "a", "+I")]))
    with catalog(tmp_path) as found:
        found.drop_table(NAME)
    with pytest.raises(MaterializeError, match="does not exist"):
        target.apply(batch(1, [(2, "b", "+I")]))
    target.apply(batch(0, [(5, "e", "+I")]))
    assert stored(tmp_path) == {5: "e"}


def test_the_table_that_was_not_used_for_longest_is_forgotten(tmp_path: Path) -> None:
    target = target_in(tmp_path)
    for number in range(3):
        target.apply(batch(number, [(number, "a", "+I")]))
    with opened(tmp_path) as table:
        metadata = table.metadata
    few = known.Memory(2 * (1 + len(metadata.snapshots)))
    for name in "abc":
        few.put((name,), f"{name}-1", metadata)
    assert [few.get((name,), f"{name}-1") for name in "abc"] == [None, metadata, metadata]
    few.put(("b",), "b-2", metadata)
    assert few.get(("b",), "b-1") is None
    few.put(("d",), "d-1", metadata)
    assert [few.get((name,), f"{name}-{at}") is None for name, at in (("c", 1), ("b", 2))] == [True, False]


def test_a_catalog_of_another_class_loads_as_it_does(tmp_path: Path) -> None:
    with memory.InMemoryCatalog("other", warehouse=f"file://{tmp_path}") as found:
        known.load_quickly(found)
        assert "load_table" not in vars(found)
