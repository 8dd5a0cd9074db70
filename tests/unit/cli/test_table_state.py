"""The job of a table with a keyed state: shadow, promote and rollback carry a copy over, whatever dies."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli._table_hand_over import Wanted, hand_over
from penstock.cli._table_shadow import Side, compare, create
from penstock.cli.app import app
from penstock.errors import CheckpointError, OptionError, QueryEndedError, StateError, TableOrderError
from penstock.state.carried import CarriedState
from penstock.state.columns import DELETED
from penstock.state.files import LocalFiles
from penstock.state.lineage import take_plan
from penstock.targets.kept import kept
from tests.deaths import Death
from tests.unit.cli.table_job import Job, old_code
from tests.unit.cli.test_table_hand_over import AFTER, die_in
from tests.unit.cli.test_table_shadow import beside
from tests.unit.state.rows import PARTITIONS, digest_of, hashes_of, part_of, state_of, store_in, task_of
from tests.unit.targets.test_taken import Stored, in_delta, in_sqlite

KEYS = 8
OPERATORS = ("one", "two")


class StatefulJob(Job):
    """A job with two operators. Each keeps the newest offset of each key."""

    def __init__(self, target: Any, folder: Path, state: Path) -> None:
        super().__init__(target, folder, old_code)
        self.state, self._start = state, 0

    def run(self, end: int, *, is_cut_off: bool = False) -> list[tuple[int, int]]:
        """Run batches up to an offset, as a start of the query."""
        self._start += 1
        self._plans = {name: take_plan(LocalFiles(str(self.state / name)), "0a") for name in OPERATORS}
        return super().run(end, is_cut_off=is_cut_off)

    def before_applied(self, number: int, start: int, end: int) -> None:
        changes = {offset % KEYS: str(offset) for offset in range(start, end)}
        for name in OPERATORS:
            mine = store_in(LocalFiles(str(self.state / name)), self.query_id)
            for partition in range(PARTITIONS):
                task = replace(
                    task_of(f"{self.folder.name}-{self._start}", number, partition),
                    query_id=self.query_id,
                    plan_number=self._plans[name],
                    plan_id="0a",
                )
                begun, part = mine.begin(task), part_of(changes, partition)
                if part:
                    mine.save(begun, mine.load(begun, partition), state_of(part), digest_of(part), 0)
                mine.finish(begun, [partition] if part else [])

    def check(self, end: int) -> None:
        """Its state is that of all records, each read once."""
        expected = {offset % KEYS: str(offset) for offset in range(end)}
        for name in OPERATORS:
            mine = store_in(LocalFiles(str(self.state / name)), self.query_id)
            number = self.number
            task = replace(task_of("reader", number), query_id=self.query_id, plan_number=10_000)
            begun = replace(mine.begin(replace(task, plan_number=10_000)))
            rows: dict[int, str] = {}
            for partition in range(PARTITIONS):
                found = mine.load(begun, partition).snapshot.find(hashes_of(range(KEYS)), 0)
                rows.update({row["k"]: row["v"] for row in found.to_pylist() if not row[DELETED]})
            assert rows == expected


def wanted(running: StatefulJob, heir: StatefulJob, *, is_rollback: bool) -> Wanted:
    state = CarriedState(str(running.state), str(heir.state))
    return Wanted("t", str(running.folder), str(heir.folder), is_rollback, state)


@pytest.mark.parametrize("made", [in_sqlite, in_delta])
def test_the_state_is_handed_over_and_back_whatever_dies(
    tmp_path: Path, made: Callable[[Path], Stored]
) -> None:
    stored, end = made(tmp_path), 8
    jobs = [StatefulJob(stored.target, tmp_path / each, tmp_path / f"state {each}") for each in "abc"]
    running = jobs[0]
    running.run(end)
    for heir, is_rollback in zip(jobs[1:], (False, True), strict=True):
        asked = wanted(running, heir, is_rollback=is_rollback)
        table = kept(stored.target)
        assert hand_over(table, asked, is_sure=False).heir is None
        assert not heir.state.exists()
        for step in ("read", "state copied"):
            with pytest.raises(Death):
                hand_over(table, asked, is_sure=True, reached=die_in(step))
            end += 3
            running.run(end)
        for step in (AFTER[0], "state published", *AFTER[1:]):
            with pytest.raises(Death):
                hand_over(table, asked, is_sure=True, reached=die_in(step))
            with pytest.raises(QueryEndedError):
                running.run(end + 1)
        done = hand_over(table, asked, is_sure=True)
        assert done.was_done
        running = heir
        end += 5
        running.run(end)
        assert hand_over(table, asked, is_sure=True).heir == heir.query_id, "it changes nothing"
        end += 2
        running.run(end)
    running.check(end)


class PausedCreate:
    """`LocalFiles.create` of a command that is paused before one file of a folder becomes visible."""

    def __init__(self, folder: Path, left: int, meanwhile: Callable[[], object]) -> None:
        self._folder, self._left, self._meanwhile = str(folder), left, meanwhile
        self._create = LocalFiles.create

    @property
    def has_paused(self) -> bool:
        return self._left < 0

    @contextlib.contextmanager
    def __call__(self, files: LocalFiles, path: str) -> Iterator[Any]:
        with self._create(files, path) as sink:
            yield sink
            if files.root.startswith(self._folder):
                self._left -= 1
                if self._left == -1:
                    self._meanwhile()


def test_a_command_that_is_paused_while_it_copies_does_not_harm_the_job_of_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, has_paused = 0, True
    while has_paused:
        folder = tmp_path / str(left)
        folder.mkdir()
        stored = in_sqlite(folder)
        one, two = (StatefulJob(stored.target, folder / each, folder / f"state {each}") for each in "ab")
        one.run(8)
        table, asked = kept(stored.target), wanted(one, two, is_rollback=False)

        def win(asked: Wanted = asked, two: StatefulJob = two, table: Any = table) -> None:
            hand_over(table, asked, is_sure=True)
            two.run(10)

        paused = PausedCreate(two.state, left, win)
        with monkeypatch.context() as patched:
            patched.setattr(LocalFiles, "create", lambda files, path, paused=paused: paused(files, path))
            with contextlib.suppress(TableOrderError, CheckpointError, StateError):
                hand_over(table, asked, is_sure=True)
        two.run(13)
        two.check(13)
        has_paused = paused.has_paused
        left += 1
    assert left > len(OPERATORS)


def test_a_state_of_another_time_is_not_handed_over(tmp_path: Path) -> None:
    stored = in_sqlite(tmp_path)
    one, two = (StatefulJob(stored.target, tmp_path / each, tmp_path / f"state {each}") for each in "ab")
    one.run(8)
    asked = wanted(one, two, is_rollback=False)
    before: Mapping[Path, bytes] = {each: each.read_bytes() for each in one.state.rglob("*.json")}
    one.run(30)
    for each in [*one.state.rglob("*.json")]:
        each.unlink()
    for each, contents in before.items():
        each.parent.mkdir(parents=True, exist_ok=True)
        each.write_bytes(contents)
    for is_sure in (False, True):
        with pytest.raises(StateError, match="They are of different times"):
            hand_over(kept(stored.target), asked, is_sure=is_sure)
    assert kept(stored.target).seen().query_id == one.query_id
    assert not two.state.exists()


def test_a_state_that_was_forgotten_is_copied_by_the_next_call(tmp_path: Path) -> None:
    stored = in_sqlite(tmp_path)
    one, two = (StatefulJob(stored.target, tmp_path / each, tmp_path / f"state {each}") for each in "ab")
    one.run(8)
    asked = wanted(one, two, is_rollback=False)
    hand_over(kept(stored.target), replace(asked, state=None), is_sure=True)
    forgetful = StatefulJob(stored.target, two.folder, tmp_path / "empty")
    with pytest.raises(StateError, match="There is no state in"):
        forgetful.run(10)
    assert hand_over(kept(stored.target), asked, is_sure=True).was_done
    two.run(12)
    two.check(12)


def test_the_shadow_of_a_table_has_the_state_of_its_first_batch(tmp_path: Path) -> None:
    stored = in_delta(tmp_path)
    live = StatefulJob(stored.target, tmp_path / "live", tmp_path / "state")
    live.run(12)
    sides = (
        Side(kept(stored.target), "t", str(live.folder)),
        Side(kept(beside(stored)), "t-shadow", str(tmp_path / "shadow")),
    )
    state = CarriedState(str(live.state), str(tmp_path / "copied"))
    with pytest.raises(OptionError, match=r"and the state can be read \(4, 5\), .* got 2 to 5"):
        create(*sides, 2, None, state)
    made = create(*sides, None, None, state)
    assert (made.first, made.last) == (4, 5), "the state has no older version"
    shadow = StatefulJob(beside(stored), tmp_path / "shadow", tmp_path / "copied")
    assert shadow.run(12) == [(8, 12)]
    shadow.check(12)
    live.run(14)
    live.check(14)
    found = compare(*sides, None)
    assert found.batches == (5, 1)
    assert found.found is not None
    assert found.found.is_equal


@pytest.mark.parametrize("command", ["promote", "rollback"])
def test_the_commands_take_and_name_the_state(tmp_path: Path, command: str) -> None:
    stored = in_sqlite(tmp_path)
    one, two = (StatefulJob(stored.target, tmp_path / each, tmp_path / f"state {each}") for each in "ab")
    one.run(4)
    heir, running = two, one
    if command == "rollback":
        hand_over(kept(stored.target), wanted(one, two, is_rollback=False), is_sure=True)
        two.run(6)
        heir, running = StatefulJob(stored.target, tmp_path / "c", tmp_path / "state c"), two
    place = ["--sqlite", str(tmp_path / "shop.db"), "--checkpoint", str(running.folder)]
    place += ["--to", str(heir.folder), "--state", str(running.state), "--new-state", str(heir.state)]
    runner = CliRunner()
    looked = runner.invoke(app, ["table", command, "t", *place])
    assert "If the job has stopped, add --yes." in looked.output
    both = runner.invoke(app, ["table", command, "t", *place, "--yes", "--no-state"])
    assert isinstance(both.exception, OptionError)
    assert not heir.state.exists()
    done = runner.invoke(app, ["table", command, "t", *place, "--yes"])
    assert f"state = {heir.state}" in done.output, done.output
    heir.run(9)
    heir.check(9)
