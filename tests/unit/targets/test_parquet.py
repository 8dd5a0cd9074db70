"""A folder of Parquet files is equal to its changelog after each batch, and a version is seen as a whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import MaterializeError, OptionError
from penstock.state.files import LocalFiles
from penstock.targets import DeltaTable, ParquetTable, _parquet_buckets, parquet
from penstock.targets.batch import Batch, LastRows
from tests.examples import examples
from tests.unit.targets.changes import COLUMNS, HISTORIES, OUT_OF_ORDER, Change, after, batch


def stored(paths: list[str]) -> dict[int, str | None]:
    rows = pa.concat_tables([pq.read_table(path) for path in paths])
    assert rows.schema.equals(COLUMNS)
    found = [tuple(row.values()) for row in rows.to_pylist()]
    assert len(dict(found)) == len(found)
    return dict(found)


@pytest.fixture(autouse=True, scope="module")
def quick_disk() -> Iterator[None]:
    """Leave out fsync, because the machine does not lose power in these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.mark.parametrize("made", [ParquetTable, DeltaTable])
def test_no_message_shows_the_credentials_in_a_uri(made: Any) -> None:
    for target in (made("s3://user:hidden@bucket/table?x=hidden"), made("/tables/a?b@c")):
        assert "hidden" not in f"{target} {target!r}"
    assert str(target).endswith(" /tables/a?b@c")


@settings(max_examples=examples(8))
@given(HISTORIES, st.lists(st.booleans(), min_size=5, max_size=5), st.integers(1, 3), st.integers(1, 3))
def test_every_history_gives_the_true_table(
    tmp_path_factory: pytest.TempPathFactory,
    history: list[list[Change]],
    repeats: list[bool],
    bucket_count: int,
    versions_kept: int,
) -> None:
    folder = tmp_path_factory.mktemp("parquet")
    target = ParquetTable(str(folder), bucket_count, versions_kept)
    true: dict[int, str | None] = {}
    seen: list[tuple[list[str], dict[int, str | None]]] = []
    for number, changes in enumerate(history):
        true = after(true, changes)
        assert target.apply(batch(number, changes))
        if repeats[number]:
            assert not target.apply(batch(number, changes))
        seen.append((target.paths(), true))
        for paths, table in seen[-versions_kept:]:
            assert stored(paths) == table
    manifests = list((folder / "_versions").iterdir())
    assert len(manifests) == min(len(history), versions_kept)
    named = {path for paths, _ in seen[-versions_kept:] for path in paths}
    assert {str(path) for path in (folder / "data").iterdir()} == named


def test_a_version_that_is_not_published_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = ParquetTable(str(tmp_path), 2)
    target.apply(batch(0, [(1, "a", "+I"), (2, "b", "+I")]))

    def fail(self: LocalFiles, temporary: Path, file: Path) -> None:
        if file.suffix == ".json":
            raise OSError("no space left")
        temporary.replace(file)

    with monkeypatch.context() as patched:
        patched.setattr(LocalFiles, "publish", fail)
        with pytest.raises(OSError, match="no space"):
            target.apply(batch(1, [(1, "a", "-D"), (2, "c", "+U")]))
    assert stored(target.paths()) == {1: "a", 2: "b"}
    assert target.apply(batch(1, [(1, "a", "-D"), (2, "c", "+U")]))
    assert stored(target.paths()) == {2: "c"}


def test_an_empty_table_has_its_columns_and_a_missing_one_is_an_error(tmp_path: Path) -> None:
    target = ParquetTable(str(tmp_path))
    with pytest.raises(MaterializeError, match="has no version yet"):
        target.paths()
    target.apply(batch(0, []))
    assert stored(target.paths()) == {}


@pytest.mark.parametrize(
    ("other", "message"),
    [
        *OUT_OF_ORDER,
        (
            Batch("query-1", 2, ("id",), LastRows(("id",), COLUMNS.remove(1)).schema.empty_table()),
            r"which are not those of .* Query query-1 keeps the table",
        ),
    ],
)
def test_a_batch_that_does_not_follow_is_an_error(tmp_path: Path, other: Batch, message: str) -> None:
    target = ParquetTable(str(tmp_path))
    target.apply(batch(0, [(1, "a", "+I")]))
    target.apply(batch(1, [(1, "b", "+U")]))
    with pytest.raises(MaterializeError, match=message):
        target.apply(other)
    assert stored(target.paths()) == {1: "b"}


def test_a_damaged_manifest_is_an_error(tmp_path: Path) -> None:
    target = ParquetTable(str(tmp_path))
    target.apply(batch(0, [(1, "a", "+I")]))
    manifest = next((tmp_path / "_versions").iterdir())
    contents = manifest.read_bytes()
    manifest.write_bytes(contents.replace(b'"batch_id": 0', b'"batch_id": 7'))
    with pytest.raises(MaterializeError, match="is damaged"):
        target.apply(batch(1, []))


def test_the_numbers_are_checked(tmp_path: Path) -> None:
    for option in ("bucket_count", "versions_kept"):
        with pytest.raises(OptionError, match=f"at least 1 for `{option}`"):
            ParquetTable(str(tmp_path), **{option: 0}).check(COLUMNS, ["id"])


def test_the_number_of_buckets_is_that_of_the_first_batch(tmp_path: Path) -> None:
    ParquetTable(str(tmp_path), 3).apply(batch(0, [(key, "a", "+I") for key in range(9)]))
    changed = ParquetTable(str(tmp_path), 5)
    changed.apply(batch(1, [(key, "b", "+U") for key in range(9)]))
    assert stored(changed.paths()) == dict.fromkeys(range(9), "b")


def test_of_two_drivers_with_other_rows_the_later_one_takes_its_version_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, write = ParquetTable(str(tmp_path), 1), _parquet_buckets.write_buckets
    target.apply(batch(0, [(1, "a", "+I")]))

    def after_the_other(*given: Any) -> dict[int, str]:
        monkeypatch.setattr(parquet, "write_buckets", write)
        assert ParquetTable(str(tmp_path), 1).apply(batch(1, [(1, "c", "+U")]))
        return write(*given)

    monkeypatch.setattr(parquet, "write_buckets", after_the_other)
    with pytest.raises(MaterializeError, match="Another driver has published batch 1"):
        target.apply(batch(1, [(1, "b", "+U")]))
    assert stored(target.paths()) == {1: "c"}
    monkeypatch.setattr(parquet, "write_buckets", after_the_other)
    for path in (tmp_path / "_versions").glob("0000000001-*"):
        path.unlink()
    assert target.apply(batch(1, [(1, "c", "+U")])), "both have the same rows"
    assert stored(target.paths()) == {1: "c"}


def test_two_versions_of_a_batch_are_not_chosen_from(tmp_path: Path) -> None:
    """A driver has died before it could take its version back."""
    target = ParquetTable(str(tmp_path), 1)
    target.apply(batch(0, [(1, "a", "+I")]))
    (manifest,) = (tmp_path / "_versions").iterdir()
    other = manifest.with_name(f"0000000000-{'0' * 16}.json")
    other.write_bytes(manifest.read_bytes())
    for read in (target.paths, lambda: target.apply(batch(1, []))):
        with pytest.raises(MaterializeError, match="has 2 versions of batch 0, and its newest"):
            read()
    other.unlink()
    assert target.apply(batch(1, []))
