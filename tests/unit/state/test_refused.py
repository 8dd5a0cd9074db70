"""A state that does not belong to the checkpoint is refused, and so is a damaged one."""

from __future__ import annotations

import contextlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pytest

from penstock.errors import RowError, StateError
from penstock.state import run, store, tools
from penstock.state.files import ArrowFiles, LocalFiles, open_files
from penstock.state.identity import IDENTITY_FILE, Identity
from penstock.state.manifest import InputDigest, Manifest, parse_name
from penstock.state.merge import count_to_merge
from penstock.state.shared_folder import FOLDER_FILE, check_folder_id, folder_id
from penstock.state.snapshot import Lifetime
from penstock.state.store import BatchTask, StateStore
from penstock.state.sweep import unneeded
from tests.unit.state.rows import (
    COLUMNS,
    QUERY,
    contents,
    digest_of,
    hashes_of,
    identity,
    load_task,
    run_batch,
    run_task,
    save_task,
    state_of,
    store_in,
    task_of,
)

Folder = Path


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A state with the batches 0 to 3."""
    for batch_id in range(4):
        run_batch(store_in(LocalFiles(str(tmp_path))), "a", batch_id, {0: str(batch_id), 1: "one"})
    store._OPEN.clear()
    return tmp_path


def read(folder: Folder, batch_id: int, run_id: str = "b") -> dict[int, str]:
    return contents(store_in(LocalFiles(str(folder))), batch_id, run_id)


def test_the_next_batch_finds_the_state(folder: Folder) -> None:
    assert read(folder, 4) == {0: "3", 1: "one"}


def test_a_replay_of_the_last_batch_finds_the_state_before_it(folder: Folder) -> None:
    assert read(folder, 3) == {0: "2", 1: "one"}


@pytest.mark.parametrize("batch_id", [5, 50])
def test_an_old_copy_of_the_state_is_refused(folder: Folder, batch_id: int) -> None:
    with pytest.raises(StateError, match="the state ends at batch 3 before it"):
        read(folder, batch_id)


@pytest.mark.parametrize("run_id", ["a", "b"])
@pytest.mark.parametrize("tasks", [(), (0,), (1,), (1, 1)])
def test_a_batch_of_which_only_some_tasks_ran_is_not_continued(
    folder: Folder, tasks: tuple[int, ...], run_id: str
) -> None:
    """With foreachBatch: `first`, `limit`, or a batch that was left out."""
    run_batch(store_in(LocalFiles(str(folder))), "a", 4, {0: "4"}, tasks=tasks)
    match = f"Batch 4 was committed, but only {len(set(tasks))} of its 2 tasks have used the state"
    if run_id == "b" and not tasks:
        match = "ends at batch 3 before it"  # a new run does not know that the batch was left out
    with pytest.raises(StateError, match=match):
        read(folder, 5, run_id)


def test_a_batch_that_was_read_in_part_may_be_repeated(folder: Folder) -> None:
    files = LocalFiles(str(folder))
    run_batch(store_in(files), "a", 4, {0: "part", 1: "part"}, tasks=[1])
    run_batch(store_in(files), "b", 4, {0: "whole", 1: "whole"})
    assert read(folder, 5) == {0: "whole", 1: "whole"}


def test_an_old_checkpoint_is_refused(folder: Folder) -> None:
    with pytest.raises(StateError, match="the state has no batch before it"):
        read(folder, 1)


def test_a_batch_without_rows_is_remembered(folder: Folder) -> None:
    run_batch(store_in(LocalFiles(str(folder))), "a", 4, {})
    assert read(folder, 5) == {0: "3", 1: "one"}


def test_a_partition_without_rows_for_long_keeps_its_state(tmp_path: Path) -> None:
    changes: dict[int, str | None] = {1: "one"}
    for batch_id in range(12):
        run_batch(store_in(LocalFiles(str(tmp_path))), "a", batch_id, changes)
        changes = {0: str(batch_id)}
    assert read(tmp_path, 12) == {0: "10", 1: "one"}


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (identity("query-2"), "the query id is 'query-1' in the state and 'query-2' in the query"),
        (identity(partitions=3), "the number of partitions is 2 in the state and 3"),
        (
            identity(columns=COLUMNS.append(pa.field("w", pa.int8()))),
            r"the columns are \[k int64, v string\]",
        ),
        (replace(identity(), arguments="[]"), "the arguments is '{}'"),
        (replace(identity(), operator="sum"), "the operator is 'test'"),
        (replace(identity(), operator_version=2), "the version of the operator is 1 in the state and 2"),
    ],
)
def test_the_state_of_something_else_is_refused(folder: Folder, other: Identity, message: str) -> None:
    wrong = StateStore(LocalFiles(str(folder)), other)
    for batch_id in (0, 4):
        with pytest.raises(StateError, match=message):
            wrong.begin(BatchTask("query-2", "b", batch_id))


def test_a_checkpoint_without_its_state_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"There is no state in .* the checkpoint is at batch 7"):
        read(tmp_path, 7)


def test_a_newer_format_is_refused(folder: Folder) -> None:
    path = folder / IDENTITY_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 3}))
    with pytest.raises(StateError, match="has format 3, and this version of penstock reads format 2"):
        read(folder, 4)


@pytest.mark.parametrize("pattern", ["0/3-*.json", "0/3-*.arrow", "batches/3-*-4.0.*.json", IDENTITY_FILE])
@pytest.mark.parametrize("kind", ["torn", "changed", "gone"])
def test_a_damaged_file_is_never_read_as_something_else(folder: Folder, pattern: str, kind: str) -> None:
    (path,) = folder.glob(pattern)
    whole = path.read_bytes()
    assert list(tools.verify(LocalFiles(str(folder)))) == []
    if kind == "gone":
        path.unlink()
    elif kind == "torn":
        path.write_bytes(whole[: len(whole) // 2])
    else:
        path.write_bytes(whole[:60] + bytes([whole[60] ^ 1]) + whole[61:])
    with pytest.raises(StateError):
        read(folder, 4)


@pytest.mark.parametrize("name", ["0/3-*.arrow", "1/2-*.arrow"])
def test_verify_finds_a_damaged_run(folder: Folder, name: str) -> None:
    (path,) = folder.glob(name)
    path.write_bytes(path.read_bytes()[:-1])
    problems = list(tools.verify(LocalFiles(str(folder))))
    assert problems
    assert all(f"{path.name} has" in problem for problem in problems)


def test_two_attempts_of_one_run_with_different_rows_are_refused(folder: Folder) -> None:
    """Two operators of a query with the same folder, or rows that are random."""
    files = LocalFiles(str(folder))
    one, other = task_of("a", 4), task_of("a", 4)
    first, second = load_task(store_in(files), one, {0: "x"}), load_task(store_in(files), other, {0: "y"})
    save_task(store_in(files), first, {0: "x"})
    assert list(tools.verify(files)) == []
    save_task(store_in(files), second, {0: "y"})
    run_batch(store_in(files), "a", 4, {}, tasks=[1])
    (problem,) = tools.verify(files)
    assert problem.startswith("partition 0, batch 4: 2 attempts of one run got different rows (1 rows), so")
    with pytest.raises(StateError, match="Two attempts of batch 4 got different rows for partition 0"):
        read(folder, 5, "a")


def test_a_batch_that_is_computed_again_after_a_restart_counts(folder: Folder) -> None:
    """Its rows may differ from those of the run that died, of which nothing was committed."""
    files = LocalFiles(str(folder))
    run_batch(store_in(files), "a", 4, {0: "dead"})
    run_batch(store_in(files), "b", 4, {0: "alive"})
    assert read(folder, 5, "b")[0] == read(folder, 5, "c")[0] == "alive"


def test_a_run_that_was_believed_dead_and_writes_late_does_not_count(folder: Folder) -> None:
    files = LocalFiles(str(folder))
    dead = task_of("a", 4)
    begun = load_task(store_in(files), dead, {0: "dead"})
    run_batch(store_in(files), "b", 4, {0: "alive"})
    save_task(store_in(files), begun, {0: "dead"})
    assert read(folder, 5, "b")[0] == read(folder, 5, "c")[0] == "alive"


def test_a_dead_run_does_not_count_in_partitions_where_its_batch_has_no_rows_any_more(folder: Folder) -> None:
    files = LocalFiles(str(folder))
    run_batch(store_in(files), "a", 4, {0: "dead", 1: "dead"})
    run_batch(store_in(files), "b", 4, {1: "alive"})
    assert read(folder, 5, "b") == read(folder, 5, "c") == {0: "3", 1: "alive"}
    for batch_id in range(5, 9):  # the version of the dead run is not the one that is kept
        run_batch(store_in(files), "c", batch_id, {1: "alive"})
    run_batch(store_in(files), "c", 9, {0: "new"})
    assert read(folder, 9, "c")[0] == "3"
    assert read(folder, 10, "c")[0] == "new"


def test_a_task_of_an_older_run_writes_and_deletes_nothing(folder: Folder) -> None:
    files = LocalFiles(str(folder))
    begun = load_task(store_in(files), task_of("a", 4), {0: "dead"})
    for batch_id in range(4, 8):
        run_batch(store_in(files), "b", batch_id, {0: f"alive {batch_id}"})
    with pytest.raises(StateError, match="A newer run of the query has begun"):
        store_in(files).begin(task_of("a", 4))
    save_task(store_in(files), begun, {0: "dead"})  # it had begun before
    assert read(folder, 8, "b")[0] == read(folder, 8, "c")[0] == "alive 7"


def test_a_checkpoint_that_is_older_than_the_state_claims_nothing(folder: Folder) -> None:
    with pytest.raises(StateError, match="newer than the checkpoint: it ends at batch 3, and the"):
        read(folder, 2)
    assert read(folder, 4) == {0: "3", 1: "one"}


def test_a_partition_that_is_gone_is_not_taken_for_empty(folder: Folder) -> None:
    shutil.rmtree(folder / "0")
    with pytest.raises(StateError, match="has no files of partition 0, but batch 0 has written some"):
        read(folder, 4)


def test_two_operators_in_one_folder_are_found_in_their_first_batch(tmp_path: Path) -> None:
    files = LocalFiles(str(tmp_path))
    one, other = (task_of("a", 0, number, plan) for number, plan in enumerate(("one", "other")))
    begun = load_task(store_in(files), other, {1: "y"})
    run_task(store_in(files), one, {0: "x"})
    with pytest.raises(StateError, match="Two operators of this query use the state"):
        store_in(files).begin(other)
    save_task(store_in(files), begun, {1: "y"})  # it had begun before
    with pytest.raises(StateError, match="Two operators of this query use the state"):
        store_in(files).begin(task_of("a", 1, plan_id="one"))
    later = task_of("b", 1, plan_id="third")
    assert store_in(LocalFiles(str(tmp_path))).begin(later).lineage.own is not None, (
        "a restart has a new plan"
    )


def test_a_stage_that_computes_a_partition_several_times_is_refused(tmp_path: Path) -> None:
    """A crossJoin above the operator: its tasks cannot be counted."""
    mine = store_in(LocalFiles(str(tmp_path)))
    run_batch(mine, "a", 0, {0: "x", 1: "y"})
    pair = [task_of("a", 1, number) for number in (0, 1)]
    begun = [mine.begin(task) for task in pair]
    for each in begun:  # both begin before one of them ends
        mine.save(each, mine.load(each, 0), state_of({0: "z"}), digest_of({0: "z"}), 0)
        mine.finish(each, [0])
    late = mine.begin(task_of("a", 1, 1))
    match = "One stage of batch 1 has computed partition 0 of the state in .* several times"
    with pytest.raises(StateError, match=match):
        mine.finish(late, [0])
    for run_id in ("a", "b"):
        with pytest.raises(StateError, match=match):
            mine.begin(task_of(run_id, 2))
    run_batch(mine, "b", 1, {0: "z"})
    assert read(tmp_path, 2) == {0: "z", 1: "y"}, "the batch may be repeated"


def test_a_folder_that_the_driver_does_not_see_is_refused(tmp_path: Path) -> None:
    files = LocalFiles(str(tmp_path / "driver"))
    known = folder_id(files)
    assert known == folder_id(files)
    check_folder_id(files, known)
    with pytest.raises(StateError, match="is not there on this machine"):
        check_folder_id(LocalFiles(str(tmp_path / "worker")), known)
    folder_id(LocalFiles(str(tmp_path / "worker")))
    with pytest.raises(StateError, match="is another folder on this machine"):
        check_folder_id(LocalFiles(str(tmp_path / "worker")), known)
    (tmp_path / "worker" / FOLDER_FILE).write_text("{")
    with pytest.raises(StateError, match="cannot be read"):
        check_folder_id(LocalFiles(str(tmp_path / "worker")), known)


def test_a_comment_of_a_column_does_not_count(folder: Folder) -> None:
    commented = pa.schema([field.with_metadata({"comment": "x"}) for field in COLUMNS])
    wrong = StateStore(LocalFiles(str(folder)), identity(columns=commented))
    run_batch(wrong, "b", 4, {0: "4"})
    assert read(folder, 5) == {0: "4", 1: "one"}


def test_rows_of_before_a_time_to_live_was_set_stay(tmp_path: Path) -> None:
    run_batch(store_in(LocalFiles(str(tmp_path))), "a", 0, {0: "a", 1: None})
    later = store_in(LocalFiles(str(tmp_path)), lifetime=Lifetime(ttl_ms=100, deleted_ttl_ms=10))
    assert contents(later, 1, now_ms=10**12) == {0: "a"}


def test_a_deleted_row_hides_older_runs_until_it_is_merged_with_them(tmp_path: Path) -> None:
    forgets = store_in(LocalFiles(str(tmp_path)), lifetime=Lifetime(remembers_deleted=False))
    run_batch(forgets, "a", 0, dict.fromkeys(range(0, 24, 2), "old"))
    run_batch(forgets, "a", 1, {0: None})
    run_batch(forgets, "a", 2, {2: "new"})
    loaded = forgets.load(forgets.begin(task_of("a", 3)), 0)
    assert [each.row_count for each in loaded.snapshot.runs] == [12, 2], "the oldest run is not merged yet"
    assert contents(forgets, 3) == {2: "new", **dict.fromkeys(range(4, 24, 2), "old")}
    run_batch(forgets, "a", 3, dict.fromkeys(range(0, 6, 2), "newer"))
    run_batch(forgets, "a", 4, {0: None, 4: None, 6: "x"})
    assert contents(forgets, 5) == {2: "newer", 6: "x", **dict.fromkeys(range(8, 24, 2), "old")}


def test_a_run_that_an_attempt_is_about_to_name_is_not_deleted() -> None:
    names = [
        parse_name(name) for name in ("3-aa.json", "5-bb.arrow", "5-cc.json", "1-dd.arrow", "5-ee.json.tmp-1")
    ]
    found = [name for name in names if name is not None]
    manifests: dict[str, Manifest | None] = {
        name: Manifest(int(name[0]), QUERY, "a", "", InputDigest(), ()) for name in ("3-aa.json", "5-cc.json")
    }
    assert unneeded(found, manifests, lambda _: True, 5, 2) == ["1-dd.arrow"]
    manifests["3-aa.json"] = None
    assert unneeded(found, manifests, lambda _: True, 5, 2) == [], "what it needs is not known"


def test_rows_end_with_their_time_whether_they_were_merged_or_not(tmp_path: Path) -> None:
    lifetime = Lifetime(ttl_ms=100, deleted_ttl_ms=10)
    with_ttl = store_in(LocalFiles(str(tmp_path)), lifetime=lifetime)
    run_batch(with_ttl, "a", 0, dict.fromkeys(range(0, 20, 2), "x"), now_ms=1000)
    run_batch(with_ttl, "a", 1, {0: "y", 2: None}, now_ms=1050)
    assert contents(with_ttl, 2, now_ms=1099) == {0: "y", **dict.fromkeys(range(4, 20, 2), "x")}
    assert contents(with_ttl, 2, now_ms=1100) == {0: "y"}
    run_batch(with_ttl, "a", 2, dict.fromkeys(range(0, 12, 2), "z"), now_ms=1200)
    loaded = with_ttl.load(with_ttl.begin(task_of("a", 3)), 0)
    assert sum(each.row_count for each in loaded.snapshot.runs) == 6, "the merge has removed the others"


def test_merging_keeps_the_number_of_runs_small() -> None:
    runs: list[int] = []
    for _ in range(5_000):
        count = count_to_merge(runs, 10)
        merged = sum(runs[len(runs) - count :]) + 10
        runs = [*runs[: len(runs) - count], merged]
    assert len(runs) <= 7


def test_a_large_run_is_found_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "ROWS_PER_PIECE", 3)
    files = LocalFiles(str(tmp_path))
    run_batch(store_in(files), "a", 0, {key: str(key) for key in range(24)})
    assert read(tmp_path, 1) == {key: str(key) for key in range(24)}
    missing = store_in(files).load(store_in(files).begin(task_of("a", 1)), 0).snapshot
    assert missing.find(hashes_of(range(100, 140)), 0).num_rows == 0


@pytest.mark.parametrize("is_object_store", [False, True])
def test_any_file_system_of_pyarrow(tmp_path: Path, is_object_store: bool) -> None:
    remote = pa.fs.SubTreeFileSystem(str(tmp_path / "remote"), pa.fs.LocalFileSystem())
    for folder in ("0", "1", "batches", "runs", "partitions"):  # object stores need none
        (tmp_path / "remote" / "state" / folder).mkdir(parents=True)
    files = ArrowFiles(remote, "state", str(tmp_path / "cache"))
    files._is_object_store = is_object_store
    for batch_id in range(6):
        run_batch(store_in(files), "a", batch_id, {batch_id: str(batch_id)})
    assert contents(store_in(files), 6) == {key: str(key) for key in range(6)}
    assert tools.inspect(files).batch_id == 5
    copies = list((tmp_path / "cache").glob("*/0/*.arrow"))
    runs = {file.name for file in tools._versions(files, 0)[-1].manifest.runs}
    assert {path.name for path in copies} <= runs, "copies of runs that were merged are deleted"
    store._OPEN.clear()
    for path in copies:
        path.write_bytes(b"damaged")
    assert contents(store_in(files), 6) == {key: str(key) for key in range(6)}
    shutil.rmtree(tmp_path / "cache")
    store._OPEN.clear()
    assert contents(store_in(files), 6) == {key: str(key) for key in range(6)}
    assert list(tools.verify(files)) == []


class Azure(pa.fs.SubTreeFileSystem):  # type: ignore[misc]  # pyarrow ships no types
    """A file system that shows files from the moment when their upload begins."""

    type_name = "abfs"


def test_what_a_dead_writer_leaves_on_azure_does_not_count(tmp_path: Path) -> None:
    for folder in ("0", "1", "batches", "runs", "partitions"):
        (tmp_path / "state" / folder).mkdir(parents=True)
    files = ArrowFiles(Azure(str(tmp_path), pa.fs.LocalFileSystem()), "state", str(tmp_path / "cache"))
    begun = [IDENTITY_FILE, "0/1-aaaaaaaaaaaa.json", "0/1-aaaaaaaaaaaa.arrow"]
    for name in begun:
        (tmp_path / "state" / name).touch()
    run_batch(store_in(files), "a", 0, {0: "0", 1: "0"})
    run_batch(store_in(files), "b", 1, {1: "1"})
    assert contents(store_in(files), 2) == {0: "0", 1: "1"}


@pytest.mark.parametrize("is_object_store", [False, True])
def test_an_upload_that_breaks_leaves_no_object(tmp_path: Path, is_object_store: bool) -> None:
    (tmp_path / "state" / "0").mkdir(parents=True)
    remote = pa.fs.SubTreeFileSystem(str(tmp_path), pa.fs.LocalFileSystem())
    files = ArrowFiles(remote, "state", str(tmp_path / "cache"))
    files._is_object_store = is_object_store
    with contextlib.suppress(ConnectionError), files.create("0/0-aa.json") as sink:
        sink.write(b"half")
        raise ConnectionError
    assert files.names("0") == []


def test_rows_of_more_than_two_gigabytes_are_an_error() -> None:
    class Wide:
        num_rows = 2

        def combine_chunks(self) -> pa.Table:  # a chunk of text holds 2 GB
            return pa.table({"a": pa.chunked_array([["x"], ["y"]])})

    with pytest.raises(RowError, match="2 rows of the state have more than 2 GB"):
        run._one_batch(Wide())


class NoReplacing(LocalFiles):
    """Files of a file system that does not replace a file by a rename, as HDFS."""

    def publish(self, temporary: Path, file: Path) -> None:
        if file.exists():
            raise FileExistsError(file)
        super().publish(temporary, file)


def test_tasks_of_the_first_batch_may_all_write_the_identity(tmp_path: Path) -> None:
    files = NoReplacing(str(tmp_path))
    first, second = store_in(files), store_in(files)
    begun = [each.begin(task_of("a", 0, number)) for number, each in enumerate((first, second))]
    for each, one in zip((first, second), begun, strict=True):
        each.finish(one, [])
    assert contents(first, 1) == {}
    other = store_in(files, "query-2")
    with pytest.raises(FileExistsError):
        other.finish(replace(begun[0], task=BatchTask("query-2", "a", 0)), [])


def test_locations(tmp_path: Path) -> None:
    assert isinstance(open_files(str(tmp_path)), LocalFiles)
    assert open_files(f"file://{tmp_path}").root == str(tmp_path)
    assert isinstance(
        open_files("s3://bucket/state?region=eu-west-1&allow_bucket_creation=false"), ArrowFiles
    )
    with pytest.raises(ValueError, match="nowhere://x") as refused:
        open_files("nowhere://user:hunter2@x?token=hunter2")
    assert "hunter2" not in str(refused.value)
    assert refused.value.__suppress_context__
    for location in ("file://data/state", "file://localhost/data", "file://"):
        with pytest.raises(ValueError, match="expected file:///folder, got"):
            open_files(location)
    for location in ("s3:/bucket/x", "file:/x", "dbfs:x"):
        with pytest.raises(ValueError, match=r"expected \w+://\.\.\., got"):
            open_files(location)


def test_inspect(folder: Folder) -> None:
    found = tools.inspect(LocalFiles(str(folder)))
    assert (found.identity, found.batch_id) == (identity(), 3)
    assert [(each.number, each.version, each.row_count) for each in found.partitions] == [
        (0, 3, 1),
        (1, 3, 1),
    ]
    with pytest.raises(StateError, match=r"it has no state\.json"):
        tools.inspect(LocalFiles(str(folder / "0")))
