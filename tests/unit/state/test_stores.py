"""The state on stores of other machines, through pyarrow's file systems. `tests/stores` runs the stores."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import traceback
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import StateError
from penstock.state import store, tools
from penstock.state.files import TEMPORARY, ArrowFiles, Files, open_files
from penstock.state.lineage import take_plan
from penstock.state.plans import read_plans
from penstock.targets.batch import DELETED, Batch
from penstock.targets.parquet import ParquetTable
from tests.stores.servers import SLOW_STORES, STORES, Store
from tests.unit.state.rows import (
    Changes,
    contents,
    load_task,
    run_batch,
    save_task,
    store_in,
    task_of,
)
from tests.waiting import wait_until


@pytest.fixture(scope="module", params=STORES)
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store. Its server runs for all tests of the module."""
    run, missing = STORES[request.param]
    if reason := missing():
        pytest.skip(reason)
    if request.param in SLOW_STORES and "STORES" not in os.environ:
        pytest.skip("too slow for make unit: make stores")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        with run(tmp_path_factory.mktemp(request.param)) as store:
            yield store


@pytest.fixture
def location(running: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A URI of a folder. Copies of runs are in the folder of the test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield running.uri(f"bucket/{uuid.uuid4().hex}/state")
    store._OPEN.clear()


def complete_names(files: Files, folder: str) -> list[str]:
    """Return the names of complete files."""
    return [name for name in files.names(folder) if TEMPORARY not in name]


def both_at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Run calls in threads that begin together. Return their results, or their errors of the state."""
    begin = Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        begin.wait(60)
        try:
            return call()
        except StateError as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def test_a_state_lives_on_a_store(running: Store, location: str) -> None:
    files = open_files(location)
    assert isinstance(files, ArrowFiles)
    for batch_id in range(5):
        run_batch(store_in(files), "a", batch_id, {batch_id: str(batch_id)})
    store._OPEN.clear()
    elsewhere = open_files(location)
    elsewhere._cache.root += "-of-another-machine"  # type: ignore[attr-defined]
    assert contents(store_in(elsewhere), 5) == {key: str(key) for key in range(5)}
    assert tools.inspect(elsewhere).batch_id == 4
    assert list(tools.verify(elsewhere)) == []
    (run,) = {name for name in files.names("0") if name.startswith("4-") and name.endswith(".arrow")}
    files.delete(f"0/{run}")
    files.delete(f"0/{run}")  # it is gone already
    store._OPEN.clear()
    with pytest.raises(StateError, match=f"{run} does not exist") as raised:
        contents(store_in(files), 5)
    assert not any(secret in str(raised.value) for secret in running.secrets)


def test_two_attempts_of_each_task_race(location: str) -> None:
    """A retry of a task that was believed dead, or speculation: both end, and either result will do."""
    files = open_files(location)
    expected: dict[int, str] = {}

    def attempt(changes: Changes, batch_id: int, task_id: int) -> None:
        mine = store_in(open_files(location))
        task = task_of("a", batch_id, task_id)
        save_task(mine, load_task(mine, task, changes), changes)

    for batch_id in range(3):
        changes: Changes = {0: f"{batch_id}", 1: f"{batch_id}", batch_id + 2: "new"}
        calls = [
            lambda task=task, changes=changes, batch=batch_id: attempt(changes, batch, task)
            for task in (0, 0, 1, 1)
        ]
        assert both_at_once(*calls) == [None] * 4
        expected.update({key: value for key, value in changes.items() if value is not None})
    store._OPEN.clear()
    assert contents(store_in(files), 3) == expected
    assert list(tools.verify(files)) == []


def test_of_two_runs_that_race_the_newer_one_counts(location: str) -> None:
    """Two drivers begin one batch at once. The older one fails, or what it wrote does not count."""
    files = open_files(location)
    run_batch(store_in(files), "a", 0, {0: "0", 1: "0"})
    older, newer = both_at_once(
        lambda: run_batch(store_in(open_files(location)), "b", 1, {0: "older", 1: "older"}),
        lambda: run_batch(store_in(open_files(location)), "c", 1, {0: "newer"}),
    )
    assert newer is None
    assert older is None or "A newer run of the query has begun" in str(older)
    store._OPEN.clear()
    assert contents(store_in(files), 2, "d") == {0: "newer", 1: "0"}


def test_plans_that_are_taken_at_once_have_different_numbers(location: str) -> None:
    numbers = both_at_once(*(lambda plan=plan: take_plan(open_files(location), plan) for plan in "abc"))
    assert len({*numbers}) == 3
    assert read_plans(open_files(location))[-1].number == max(numbers)


_WRITER = """
import sys
from penstock.state.files import open_files
with open_files(sys.argv[1]).create(sys.argv[2]) as sink:
    sink.write(bytes(12 * 2**20))  # some of its parts are uploaded already
    print("written", flush=True)
    sys.stdin.read()
"""


def test_what_a_killed_writer_has_begun_is_not_there(running: Store, location: str) -> None:
    command = [sys.executable, "-c", _WRITER, location, "0/0-aa.arrow"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"written\n"
        wait_until(running.is_uploading, "a part is uploaded")
        writer.kill()
    files = open_files(location)
    assert complete_names(files, "0") == []
    for name in files.names("0"):
        files.delete(f"0/{name}")
    assert files.names("0") == [], "what a dead writer leaves can be deleted"


@pytest.mark.parametrize("size_bytes", [4, 3 << 20])
def test_what_a_failing_writer_has_begun_is_not_there(location: str, size_bytes: int) -> None:
    files = open_files(location)
    with contextlib.suppress(ConnectionError), files.create("0/0-bb.json") as sink:
        sink.write(bytes(size_bytes))
        raise ConnectionError
    assert files.names("0") == []


def test_a_file_is_there_again_and_again_while_others_write_it(location: str) -> None:
    """Many tasks write the claim of their run, all with the same contents. None of them takes it away."""
    files = open_files(location)
    contents = b"x" * 100

    def write() -> None:
        with open_files(location).create("runs/a.json") as sink:
            sink.write(contents)

    for _ in range(5):
        assert both_at_once(write, write, write) == [None] * 3
        assert files.read("runs/a.json").to_pybytes() == contents
    assert files.names("runs") == ["a.json"]


def test_a_file_that_another_task_has_deleted_is_no_error(location: str) -> None:
    files = open_files(location)
    with files.create("0/0-aa.json") as sink:
        sink.write(b"{}")
    files.delete("0/0-aa.json")
    files.delete("0/0-aa.json")
    files.delete("no-such-folder/0-aa.json")
    with pytest.raises(FileNotFoundError):
        files.read("0/0-aa.json")


def test_a_large_file_is_read_as_it_was_written(location: str) -> None:
    files = open_files(location)
    contents = b"".join(number.to_bytes(4, "big") for number in range(1_000_000))
    with files.create("0/0-aa.arrow") as sink:
        for start in range(0, len(contents), 300_000):
            sink.write(contents[start : start + 300_000])
    assert files.read("0/0-aa.arrow").to_pybytes() == contents
    assert files.names("0") == ["0-aa.arrow"]


def test_a_listing_has_all_names(location: str) -> None:
    files = open_files(location)
    names = [f"{number:03}.json" for number in range(23)]
    for name in names:
        with files.create(f"0/{name}") as sink:
            sink.write(b"{}")
    assert files.names("0") == names
    assert files.names("no-such-folder") == []


def test_no_error_of_a_store_shows_a_secret(running: Store) -> None:
    if running.refused_uri is None:
        pytest.skip("this store takes every user")
    files = open_files(running.refused_uri("bucket/state"))

    def write() -> None:
        with files.create("0/0-aa.json") as sink:
            sink.write(b"{}")

    calls: list[Callable[[], Any]] = [
        lambda: files.names("0"),
        lambda: files.read("0/0-aa.json"),
        lambda: files.delete("0/0-aa.json"),
        write,
    ]
    for call in calls:
        with pytest.raises(OSError, match=r"Azure|403") as raised:
            call()
        shown = "".join(traceback.format_exception(raised.value))
        assert not any(secret in shown for secret in running.secrets), shown


def test_a_table_of_parquet_files_lives_on_a_store(location: str) -> None:
    table = ParquetTable(location, bucket_count=2, versions_kept=2)
    for batch_id in range(4):
        rows = pa.table({"id": [1, batch_id + 2], "name": [f"{batch_id}", "new"], DELETED: [False, False]})
        batch = Batch("query-1", batch_id, ("id",), rows)
        assert table.apply(batch)
        assert not table.apply(batch), "Spark repeats the batch"
    files = open_files(location)
    newest = table.newest()
    assert newest is not None
    read = [pq.read_table(pa.BufferReader(files.read(file))) for file in newest.files.values()]
    found = {row["id"]: row["name"] for each in read for row in each.to_pylist()}
    assert found == {1: "3", **dict.fromkeys(range(2, 6), "new")}
    assert len(files.names("_versions")) == 2
