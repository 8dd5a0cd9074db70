"""The state on S3, through pyarrow's file system and a small server that speaks its protocol."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from penstock.errors import StateError
from penstock.state import store, tools
from penstock.state.files import ArrowFiles, open_files
from penstock.state.lineage import take_plan
from penstock.state.plans import read_plans
from tests.s3_server import S3, running_s3
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

USER = "penstock:hidden"


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    """A server. Copies of runs are in the folder of the test."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with running_s3() as running:
        yield running
    store._OPEN.clear()


@pytest.fixture
def place(s3: S3) -> str:
    """A URI of a folder."""
    return s3.uri("bucket/state", USER)


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


def test_a_state_lives_on_s3(place: str) -> None:
    files = open_files(place)
    assert isinstance(files, ArrowFiles)
    for batch_id in range(5):
        run_batch(store_in(files), "a", batch_id, {batch_id: str(batch_id)})
    store._OPEN.clear()
    elsewhere = open_files(place)
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
    assert "hidden" not in str(raised.value)


def test_two_attempts_of_each_task_race(place: str) -> None:
    """A retry of a task that was believed dead, or speculation: both end, and either result will do."""
    files = open_files(place)
    expected: dict[int, str] = {}

    def attempt(changes: Changes, batch_id: int, task_id: int) -> None:
        mine = store_in(open_files(place))
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


def test_of_two_runs_that_race_the_newer_one_counts(place: str) -> None:
    """Two drivers begin one batch at once. The older one fails, or what it wrote does not count."""
    files = open_files(place)
    run_batch(store_in(files), "a", 0, {0: "0", 1: "0"})
    older, newer = both_at_once(
        lambda: run_batch(store_in(open_files(place)), "b", 1, {0: "older", 1: "older"}),
        lambda: run_batch(store_in(open_files(place)), "c", 1, {0: "newer"}),
    )
    assert newer is None
    assert older is None or "A newer run of the query has begun" in str(older)
    store._OPEN.clear()
    assert contents(store_in(files), 2, "d") == {0: "newer", 1: "0"}


def test_plans_that_are_taken_at_once_have_different_numbers(place: str) -> None:
    numbers = both_at_once(*(lambda plan=plan: take_plan(open_files(place), plan) for plan in "abc"))
    assert len({*numbers}) == 3
    assert read_plans(open_files(place))[-1].number == max(numbers)


_WRITER = """
import sys
from penstock.state.files import open_files
with open_files(sys.argv[1]).create(sys.argv[2]) as sink:
    sink.write(bytes(12 * 2**20))  # some of its parts are uploaded already
    sys.stdin.read()
"""


def test_what_a_killed_writer_has_begun_is_not_there(s3: S3, place: str) -> None:
    command = [sys.executable, "-c", _WRITER, place, "0/0-aa.arrow"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as writer:
        wait_until(lambda: any(s3.uploads.values()), "a part is uploaded")
        writer.kill()
    assert open_files(place).names("0") == []


def test_what_a_failing_writer_has_begun_is_not_there(place: str) -> None:
    files = open_files(place)
    with contextlib.suppress(ConnectionError), files.create("0/0-bb.json") as sink:
        sink.write(b"half")
        raise ConnectionError
    assert files.names("0") == []
