"""A copy of one version of a state: another query continues from it, with these rows and no others."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import StateError
from penstock.state import store, tools
from penstock.state.columns import DELETED
from penstock.state.copied import check_version, is_staged, publish, stage
from penstock.state.copy_names import COPIES, is_copy_for, is_free
from penstock.state.files import Files
from penstock.state.identity import IDENTITY_FILE
from penstock.state.manifest import line_with_checksum
from penstock.state.marks import MARKS
from penstock.state.one_version import versions_in
from tests.unit.state.memory_files import MemoryFiles
from tests.unit.state.rows import (
    ALL_KEYS,
    PARTITIONS,
    Changes,
    digest_of,
    hashes_of,
    part_of,
    state_of,
    store_in,
    task_of,
)
from tests.unit.state.test_remote_files import files_in

HEIR = "query-2"


@pytest.fixture(autouse=True)
def _no_open_runs() -> None:
    store._OPEN.clear()


def run_batch(
    files: Files, batch_id: int, changes: Changes, run_id: str = "a", query_id: str = "query-1"
) -> None:
    mine = store_in(files, query_id)
    for partition in range(PARTITIONS):
        begun = mine.begin(replace(task_of(run_id, batch_id, partition), query_id=query_id))
        part = part_of(changes, partition)
        if part:
            mine.save(begun, mine.load(begun, partition), state_of(part), digest_of(part), 0)
        mine.finish(begun, [partition] if part else [])


def copy_version(source: Files, target: Files, batch_id: int, query_id: str) -> None:
    stage(source, target, batch_id, query_id)
    publish(target, query_id)


def rows_before(files: Files, batch_id: int, query_id: str, run_id: str = "reader") -> dict[int, str]:
    mine = store_in(files, query_id)
    begun = mine.begin(replace(task_of(run_id, batch_id), query_id=query_id))
    rows: dict[int, str] = {}
    for partition in range(PARTITIONS):
        found = mine.load(begun, partition).snapshot.find(hashes_of(ALL_KEYS), 0)
        rows.update({row["k"]: row["v"] for row in found.to_pylist() if not row[DELETED]})
    return rows


def a_state() -> MemoryFiles:
    """Return a state of which the versions 2, 3 and 4 are complete; 5 has begun."""
    files = MemoryFiles()
    run_batch(files, 0, dict.fromkeys(range(20), "x"))
    run_batch(files, 1, {0: None, 1: "y"})
    run_batch(files, 2, {2: "two"})
    run_batch(files, 3, {3: "three"})
    run_batch(files, 4, {4: "four", 5: "four"})
    mine = store_in(files)
    begun = mine.begin(task_of("a", 5, 0))
    mine.save(begun, mine.load(begun, 0), state_of({6: "begun"}), digest_of({6: "begun"}), 0)
    return files


def test_the_copy_has_the_rows_of_one_version_and_another_query_continues() -> None:
    source, target = a_state(), MemoryFiles()
    assert versions_in(source, PARTITIONS) == {2, 3, 4}
    before = dict(source.contents)
    copy_version(source, target, 3, HEIR)
    assert source.contents == before
    assert list(tools.verify(target)) == []
    assert is_copy_for(target, HEIR)
    assert not is_copy_for(source, HEIR)
    expected = {**dict.fromkeys(range(2, 20), "x"), 1: "y", 2: "two", 3: "three"}
    assert rows_before(target, 1, HEIR, "a") == expected
    run_batch(target, 1, {7: "seven"}, "b", HEIR)
    run_batch(target, 2, {8: "eight"}, "b", HEIR)
    assert rows_before(target, 3, HEIR) == {**expected, 7: "seven", 8: "eight"}
    run_batch(source, 5, {6: "six"}, "b")
    assert rows_before(source, 6, "query-1")[6] == "six", "the old query runs on"


def test_each_query_has_its_own_folder() -> None:
    source, target = a_state(), MemoryFiles()
    copy_version(source, target, 4, HEIR)
    with pytest.raises(StateError, match="does not belong to this query: the query id"):
        rows_before(source, 1, HEIR)
    with pytest.raises(StateError, match="does not belong to this query: the query id"):
        rows_before(target, 5, "query-1")
    with pytest.raises(StateError, match=r"There is no state in .* but the checkpoint is at batch 1"):
        rows_before(MemoryFiles(), 1, HEIR)


@pytest.mark.parametrize(
    ("batch_id", "why"), [(1, "of different times"), (5, "only 1 of its 2 tasks"), (9, "of different times")]
)
def test_a_version_that_is_not_there_is_refused(batch_id: int, why: str) -> None:
    source, target = a_state(), MemoryFiles()
    mine = store_in(source)
    mine.finish(mine.begin(task_of("a", 5, 0)), [0])
    with pytest.raises(StateError, match=why):
        check_version(source, batch_id)
    with pytest.raises(StateError, match=why):
        copy_version(source, target, batch_id, HEIR)
    assert target.contents == {}


def test_a_damaged_or_missing_file_is_refused_and_the_copy_is_no_state() -> None:
    for damage in ("change", "delete", "no manifest", "no folder"):
        source, target = a_state(), MemoryFiles()
        runs = [name for name in source.contents if name.startswith("0/") and name.endswith(".arrow")]
        if damage == "change":
            source.contents.update({name: source.contents[name][:-1] + b"!" for name in runs})
        elif damage == "delete":
            for name in runs:
                source.delete(name)
        else:
            for name in list(source.contents):
                if name.startswith("0/4-" if damage == "no manifest" else "0/"):
                    source.delete(name)
        with pytest.raises(StateError):
            copy_version(source, target, 4, HEIR)
        assert IDENTITY_FILE not in target.contents
        with pytest.raises(StateError, match="There is no state"):
            rows_before(target, 1, HEIR)


class DyingFiles(MemoryFiles):
    """A folder whose writer dies after some files."""

    def __init__(self, contents: dict[str, bytes], left: int) -> None:
        super().__init__()
        self.contents, self._left = contents, left

    @contextlib.contextmanager
    def create(self, path: str) -> Iterator[Any]:
        if self._left == 0:
            raise OSError("the writer died")
        self._left -= 1
        with super().create(path) as sink:
            yield sink


def test_a_copy_that_dies_at_each_file_is_made_again_of_another_version_and_for_another_query() -> None:
    source, whole = a_state(), MemoryFiles()
    copy_version(source, whole, 4, HEIR)
    for left in range(len(whole.contents) + 1):
        target = MemoryFiles()
        with contextlib.suppress(OSError):
            copy_version(source, DyingFiles(target.contents, left), 4, "a query that never was")
        assert not is_copy_for(target, HEIR)
        assert is_free(target)
        copy_version(source, target, 3, HEIR)
        assert target.contents.keys() == whole_of(source, 3).keys(), "nothing is left of the other copy"
        assert rows_before(target, 1, HEIR, "a") == rows_before_copy(source, 3)
        assert list(tools.verify(target)) == []


def whole_of(source: MemoryFiles, batch_id: int) -> dict[str, bytes]:
    target = MemoryFiles()
    copy_version(source, target, batch_id, HEIR)
    return target.contents


def rows_before_copy(source: MemoryFiles, batch_id: int) -> dict[int, str]:
    target = MemoryFiles()
    copy_version(source, target, batch_id, HEIR)
    store._OPEN.clear()
    found = rows_before(target, 1, HEIR, "a")
    store._OPEN.clear()
    return found


class PausedFiles(MemoryFiles):
    """A folder of a command that is paused before one of its changes, while others change the folder, too."""

    def __init__(self, target: MemoryFiles, left: int, meanwhile: Callable[[], None]) -> None:
        super().__init__()
        self.root, self.contents = target.root, target.contents
        self._left, self._meanwhile = left, meanwhile

    @property
    def has_paused(self) -> bool:
        return self._left < 0

    def _pause(self) -> None:
        if self._left == 0:
            self._meanwhile()
        self._left -= 1

    @contextlib.contextmanager
    def create(self, path: str) -> Iterator[Any]:
        with super().create(path) as sink:
            yield sink
            self._pause()

    def delete(self, path: str) -> None:
        self._pause()
        super().delete(path)


def check_job(target: MemoryFiles, expected: dict[int, str]) -> None:
    """The job of a copy goes on, and has its rows."""
    assert rows_before(target, 2, HEIR, "b") == {**expected, 7: "seven"}
    run_batch(target, 2, {8: "eight"}, "b", HEIR)
    run_batch(target, 3, {9: "nine"}, "b", HEIR)
    assert rows_before(target, 4, HEIR) == {**expected, 7: "seven", 8: "eight", 9: "nine"}
    store._OPEN.clear()


@pytest.mark.parametrize("loses", ["an older version", "the same version"])
def test_a_command_that_is_paused_while_it_copies_harms_no_job_that_another_one_has_started(
    loses: str,
) -> None:
    source, left, has_paused = a_state(), 0, True
    expected = rows_before_copy(source, 4)
    while has_paused:
        target = MemoryFiles()

        def win(target: MemoryFiles = target) -> None:
            copy_version(source, target, 4, HEIR)
            run_batch(target, 1, {7: "seven"}, "b", HEIR)

        late = PausedFiles(target, left, win)
        stage(source, late, 3 if loses == "an older version" else 4, "a query that never will be")
        if has_paused := late.has_paused:
            check_job(target, expected)
        left += 1
    assert left > PARTITIONS


def test_a_copy_is_published_by_two_commands_at_once() -> None:
    source, left, has_paused = a_state(), 0, True
    expected = rows_before_copy(source, 4)
    while has_paused:
        target = MemoryFiles()
        copy_version(source, target, 3, "a query that never was")
        stage(source, target, 3, "another one")
        stage(source, target, 4, HEIR)

        def other(target: MemoryFiles = target) -> None:
            publish(target, HEIR)
            run_batch(target, 1, {7: "seven"}, "b", HEIR)

        late = PausedFiles(target, left, other)
        publish(late, HEIR)
        if has_paused := late.has_paused:
            check_job(target, expected)
        left += 1
    assert left > PARTITIONS


def test_a_copy_is_published_only_if_it_is_whole() -> None:
    source, target = a_state(), MemoryFiles()
    assert not is_staged(target, HEIR)
    with pytest.raises(StateError, match="has no copy of a state for query query-2"):
        publish(target, HEIR)
    stage(source, target, 4, HEIR)
    assert is_staged(target, HEIR)
    assert not is_copy_for(target, HEIR)
    run = next(path for path in target.contents if path.endswith(".arrow"))
    kept = target.contents.pop(run)
    assert not is_staged(target, HEIR), "a command for another query has deleted it"
    target.contents[run] = kept
    (note,) = target.names(COPIES)
    contents = target.contents[f"{COPIES}/{note}"]
    target.contents[f"{COPIES}/{note}"] = contents.replace(b'"format": 1', b'"format": 9')
    with pytest.raises(StateError, match="does not match its checksum"):
        publish(target, HEIR)
    target.contents[f"{COPIES}/{note}"] = line_with_checksum({"format": 9})
    with pytest.raises(StateError, match="has format 9, and this version of penstock reads format 1"):
        publish(target, HEIR)


def test_a_folder_that_a_job_has_used_is_never_written() -> None:
    source, target = a_state(), MemoryFiles()
    copy_version(source, target, 4, HEIR)
    run_batch(target, 1, {7: "seven"}, "b", HEIR)
    before = dict(target.contents)
    for folder in (target, source):
        assert not is_free(folder)
        with pytest.raises(StateError, match="is in use"):
            copy_version(source, folder, 4, "query-3")
    assert target.contents == before


class BusyFiles(MemoryFiles):
    """The folder of a job that runs a batch as soon as rows are read."""

    def __init__(self, contents: dict[str, bytes], work: Any) -> None:
        super().__init__()
        self.contents, self._work = contents, work

    def read(self, path: str) -> pa.Buffer:
        if path.endswith(".arrow") and self._work is not None:
            work, self._work = self._work, None
            work()
        return super().read(path)


def test_a_job_that_runs_meanwhile_deletes_the_version_or_leaves_it() -> None:
    expected = rows_before_copy(a_state(), 4)
    for start, is_there in ((4, True), (2, False)):
        source, target = a_state(), MemoryFiles()

        def more(source: MemoryFiles = source) -> None:
            for batch_id in (5, 6):
                run_batch(source, batch_id, dict.fromkeys(ALL_KEYS, "z" * batch_id), "b")

        busy = BusyFiles(source.contents, more)
        if is_there:
            copy_version(busy, target, start, HEIR)
            assert rows_before(target, 1, HEIR, "a") == expected
        else:
            with pytest.raises(StateError, match="does not have that version any more"):
                copy_version(busy, target, start, HEIR)
            assert IDENTITY_FILE not in target.contents


def test_a_version_that_is_computed_again_meanwhile_is_not_copied() -> None:
    source, target = a_state(), MemoryFiles()
    busy = BusyFiles(source.contents, lambda: run_batch(source, 4, {4: "again"}, "b"))
    with pytest.raises(StateError, match="does not have that version any more"):
        copy_version(busy, target, 4, HEIR)
    assert not target.names(MARKS)


def test_rows_that_are_numbered_by_batches_are_refused() -> None:
    source = a_state()
    text = source.contents[IDENTITY_FILE].replace(b'"operator": "test"', b'"operator": "append_join"')
    source.contents[IDENTITY_FILE] = text
    with pytest.raises(StateError, match="numbers its rows by batches"):
        copy_version(source, MemoryFiles(), 4, HEIR)


def test_a_state_in_a_store_is_copied_to_a_store(tmp_path: Path) -> None:
    (source, _), (target, _) = (files_in(tmp_path / name) for name in ("old", "new"))
    run_batch(source, 0, dict.fromkeys(ALL_KEYS, "x"))
    run_batch(source, 1, {1: "y"})
    source.keep_copies("0", ())
    source.keep_copies("1", ())
    copy_version(source, target, 1, HEIR)
    assert not [*(tmp_path / "old" / "cache").rglob("*.arrow")], "no copies stay on this machine"
    assert rows_before(target, 1, HEIR, "a") == {**dict.fromkeys(ALL_KEYS, "x"), 1: "y"}
    assert list(tools.verify(target)) == []
