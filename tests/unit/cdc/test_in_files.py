"""Rows of `replicate` that tasks write into files: the same batches as on the driver, whatever dies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cdc import gather
from penstock.cdc.in_files import Staging
from penstock.errors import DecodeError, MaterializeError
from penstock.state.files import LocalFiles
from penstock.targets.batch import Batch
from penstock.targets.staged import Runner, Staged, StagingFolder
from tests.unit.cdc.messages import message
from tests.unit.cdc.test_batch import DeathError, Table, World, goods
from tests.unit.cdc.test_gather import Record
from tests.unit.targets.in_files import run_here


@pytest.fixture(autouse=True)
def each_task_writes_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "FEW_BYTES", -1)


class StagedTable(Table):
    """A table whose files tasks write."""

    def apply_staged(self, batch: Staged, run: Runner) -> bool:
        self.deaths.step()
        [found] = run(_Whole(batch), [()])
        assert found.digest() == batch.digest()
        return self.apply(found)


class _Whole:
    """Reads all rows of a batch in a task."""

    def __init__(self, batch: Staged) -> None:
        self._batch = batch

    def __call__(self, _item: tuple[()]) -> Batch:
        return self._batch.on_driver()


class StagedWorld(World):
    """A world with a staging folder, which may be used or not in each run."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.location = str(folder)
        self.is_staged = True
        self.error: Exception | None = None

    def table(self, source: Any) -> Table:
        return self.tables.setdefault(source.topic, StagedTable(self.deaths))

    def staging(self, batch_id: int) -> Staging | None:
        def run(function: Any, items: Sequence[Any]) -> list[Any]:
            self.deaths.step()
            if self.error is not None:
                raise self.error
            found = run_here(function, items)
            self.deaths.step()
            return found

        return Staging(StagingFolder(self.location, "query", batch_id), run) if self.is_staged else None

    def run(self, batch_id: int, records: Sequence[Record], **more: Any) -> None:
        super().run(batch_id, records, **more)
        if (staging := self.staging(batch_id)) is not None:
            staging.folder.sweep()

    def left(self) -> list[str]:
        return sorted(path.name for path in Path(self.location).rglob("*.ipc"))


CHANGE = st.tuples(
    st.sampled_from(["a", "b"]), st.integers(0, 4), st.sampled_from(["+I", "+U", "-D"]), st.integers(1, 3)
)
HISTORY = st.lists(st.lists(CHANGE, max_size=8), min_size=1, max_size=4)
WAYS = st.lists(st.booleans(), min_size=1, max_size=12)


@given(HISTORY, st.lists(st.integers(1, 30), max_size=8), st.integers(1, 4), WAYS)
def test_either_way_may_follow_and_repeat_the_other_whatever_dies(
    tmp_path_factory: pytest.TempPathFactory,
    history: list[list[tuple[str, int, str, int]]],
    deaths: list[int],
    tasks: int,
    ways: list[bool],
) -> None:
    world = StagedWorld(tmp_path_factory.mktemp("staging"))
    expected: dict[str, dict[int, dict[str, Any]]] = {}
    offset, ways = 0, list(ways)
    for batch_id, changes in enumerate(history):
        batch: list[Record] = []
        for topic, key, kind, width in changes:
            offset += 1
            row = {"id": key} | {name: f"{name}{offset}" for name in ("name", "more", "note")[:width]}
            batch.append((topic, key % 2, offset, message(kind, **row)))
            rows = expected.setdefault(topic, {})
            rows.pop(key, None)
            if kind != "-D":
                rows[key] = row
        is_done = False
        while not is_done:
            world.deaths.left = deaths.pop() if deaths else -1
            world.is_staged = ways.pop() if ways else True
            try:
                world.run(batch_id, batch, tasks=tasks)
                is_done = True
            except DeathError:
                continue
    found = {
        topic: {key: {n: v for n, v in row.items() if v is not None} for key, row in table.rows.items()}
        for topic, table in world.tables.items()
    }
    assert found == expected


def test_a_task_with_few_rows_gives_them_to_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gather, "FEW_BYTES", 2000)
    world = StagedWorld(tmp_path)
    few = [goods(offset, id=offset % 4, name="a") for offset in range(8)]
    world.error = AssertionError("expected no job")
    world.run(0, few, tasks=2)
    world.error = None
    many = [goods(offset, id=offset, name="x" * 100) for offset in range(8, 58)]
    newest = [goods(58, id=8, name="b"), *(goods(offset, "-D", id=9, name="x") for offset in range(59, 108))]
    world.run(1, [*many, *newest], tasks=2)
    expected = dict.fromkeys(range(4), "a") | dict.fromkeys(range(10, 58), "x" * 100) | {8: "b"}
    assert {key: row["name"] for key, row in world.tables["goods"].rows.items()} == expected
    assert world.left() == []


def test_files_of_a_dead_driver_are_swept_with_the_next_batch(tmp_path: Path) -> None:
    world = StagedWorld(tmp_path)
    world.tables["goods"] = StagedTable(world.deaths, error=ValueError("disk full"))
    with pytest.raises(ValueError, match="disk full"):
        world.run(0, [goods(0, id=1, name="a")])
    assert len(world.left()) == 1
    world.tables["goods"].error = None
    world.run(0, [goods(0, id=1, name="a")])
    assert world.left() == []


def test_a_target_without_tasks_gets_the_rows_from_the_driver(tmp_path: Path) -> None:
    world = StagedWorld(tmp_path)
    world.tables["goods"] = Table(world.deaths)
    world.run(0, [goods(0, id=1, name="a"), goods(1, id=2, name="b")], tasks=2)
    world.run(1, [goods(2, id=1, name="c", more="d")])
    assert world.tables["goods"].rows[1] == {"id": 1, "name": "c", "more": "d"}


def test_rows_of_one_key_in_two_partitions_are_refused(tmp_path: Path) -> None:
    world = StagedWorld(tmp_path)
    world.run(0, [goods(0, id=1, name="a")])
    row = message("+I", id=2, name="b")
    both = [("goods", 0, 1, row), ("goods", 1, 0, row)]
    with pytest.raises(DecodeError, match="Topic goods, Partitions 0, 1 have rows of one key"):
        world.run(1, both)
    world.run(1, both, on_table_error="leave-out")
    assert world.tables["goods"].rows == {1: {"id": 1, "name": "a"}}


def gone(world: StagedWorld) -> Iterator[None]:
    """Another driver deletes the files while the table is changed."""
    apply = StagedTable.apply_staged

    def swept(table: StagedTable, batch: Staged, run: Runner) -> bool:
        staging = world.staging(1)
        assert staging is not None
        staging.folder.sweep()
        return table.apply(batch.on_driver())

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(StagedTable, "apply_staged", swept)
        yield
    assert StagedTable.apply_staged is apply


def unreadable(_world: StagedWorld) -> Iterator[None]:
    """The store of the staging folder is too busy, where the driver reads the files."""

    def busy(_files: LocalFiles, _path: str) -> bytes:
        raise OSError("slow down")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            StagedTable, "apply_staged", lambda table, batch, _run: table.apply(batch.on_driver())
        )
        patched.setattr(LocalFiles, "read", busy)
        yield


def failing_jobs(world: StagedWorld) -> Iterator[None]:
    """Spark cancels the jobs, because the query is being stopped."""
    world.error = RuntimeError("the job was cancelled")
    yield
    world.error = None


@pytest.mark.parametrize("fault", [gone, unreadable, failing_jobs])
def test_a_fault_that_is_not_of_the_table_leaves_no_table_out(tmp_path: Path, fault: Any) -> None:
    world = StagedWorld(tmp_path)
    world.run(0, [goods(0, id=1, name="a")])
    for _ in fault(world):
        with pytest.raises(
            (MaterializeError, RuntimeError), match=r"not in the staging folder|slow down|cancelled"
        ):
            world.run(1, [goods(1, id=1, name="b")], on_table_error="leave-out")
    world.run(1, [goods(1, id=1, name="b")], on_table_error="leave-out")
    assert world.tables["goods"].rows == {1: {"id": 1, "name": "b"}}


def test_a_table_that_fails_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = StagedWorld(tmp_path)
    world.tables["goods"] = StagedTable(world.deaths, error=ValueError("disk full"))
    world.run(0, [goods(0, id=1, name="a")], on_table_error="leave-out")
    world.tables["goods"].error = None
    world.run(1, [goods(1, id=1, name="b")], on_table_error="leave-out")
    assert world.tables["goods"].rows == {}
    assert "left out in batch 0" in caplog.text


def test_a_topic_with_a_bad_record_gets_no_rows_of_its_other_tasks(tmp_path: Path) -> None:
    world = StagedWorld(tmp_path)
    world.run(0, [goods(0, id=1, name="a")], tasks=2)
    bad = message("bad", id=3, name="c")
    records = [("goods", 0, 1, message("+I", id=2, name="b")), ("goods", 1, 0, bad)]
    with pytest.raises(DecodeError, match="Topic goods"):
        world.run(1, records, tasks=2)
    world.run(1, records, tasks=2, on_table_error="leave-out")
    assert world.tables["goods"].rows == {1: {"id": 1, "name": "a"}}
