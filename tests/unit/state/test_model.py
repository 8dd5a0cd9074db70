"""The state is a dict, whatever dies when: a model test with a crash at every operation on a file."""

from __future__ import annotations

import contextlib
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from penstock.errors import StateError
from penstock.state import merge, run, store, sweep
from penstock.state.lineage import read_claims, write_claim
from tests.examples import examples
from tests.unit.state.crashing_files import Crash, CrashingAzure, CrashingFiles
from tests.unit.state.rows import (
    ALL_KEYS,
    PARTITIONS,
    contents,
    load_task,
    run_batch,
    save_task,
    store_in,
    task_of,
)

CHANGES = st.dictionaries(st.sampled_from(ALL_KEYS), st.one_of(st.none(), st.text(max_size=3)), max_size=16)
CRASH_AT = st.integers(0, 60)


class StateMachine(RuleBasedStateMachine):
    """One query whose driver and tasks die, run twice and come late."""

    files = CrashingFiles

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.batch_id = 0
        self.run_number = 0
        self.expected: dict[int, str] = {}
        self.pending: dict[int, str | None] | None = None
        self.last: dict[int, str | None] = {}
        self.last_run = 0

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()
        store._OPEN.clear()

    def _store(self, crash_at: int | None = None) -> store.StateStore:
        return store_in(self.files(self.folder.name, crash_at))

    def _run(self) -> str:
        return f"run-{self.run_number}"

    def _input(self, changes: dict[int, str | None]) -> dict[int, str | None]:
        """Spark has planned a batch: it stays the same until it is committed."""
        if self.pending is None:
            self.pending = changes
        return self.pending

    def _committed(self) -> None:
        assert self.pending is not None
        for key, value in self.pending.items():
            self.expected.pop(key, None)
            if value is not None:
                self.expected[key] = value
        self.last, self.pending, self.last_run = self.pending, None, self.run_number
        self.batch_id += 1

    @rule(changes=CHANGES)
    def batch(self, changes: dict[int, str | None]) -> None:
        run_batch(self._store(), self._run(), self.batch_id, self._input(changes))
        self._committed()

    @rule(changes=CHANGES, crash_at=CRASH_AT, kills_driver=st.booleans(), forgets=st.booleans())
    def crash(self, changes: dict[int, str | None], crash_at: int, kills_driver: bool, forgets: bool) -> None:
        try:
            run_batch(self._store(crash_at), self._run(), self.batch_id, self._input(changes))
        except Crash:
            if forgets:
                store._OPEN.clear()
        else:  # all tasks are done; did the driver hear of it?
            if not kills_driver:
                self._committed()
        if kills_driver:
            self.run_number += 1

    @rule(changes=CHANGES)
    def speculation(self, changes: dict[int, str | None]) -> None:
        given = self._input(changes)
        for task_id in range(PARTITIONS):
            attempts = [self._store(), self._store()]
            tasks = [task_of(self._run(), self.batch_id, task_id) for _ in attempts]
            read = [load_task(each, task, given) for each, task in zip(attempts, tasks, strict=True)]
            for each, one in zip(attempts, read, strict=True):
                save_task(each, one, given)
        self._committed()

    @precondition(lambda self: self.batch_id > 0 and self.pending is None)
    @rule(crash_at=st.one_of(st.none(), CRASH_AT))
    def late_attempt(self, crash_at: int | None) -> None:
        """An attempt that Spark believes dead does the last batch again, after it was committed."""
        try:
            run_batch(self._store(crash_at), f"run-{self.last_run}", self.batch_id - 1, self.last)
        except (Crash, StateError):
            store._OPEN.clear()

    @rule(crash_at=st.integers(0, 5))
    def claim_again(self, crash_at: int) -> None:
        """Another task of the newest run has seen no claim of it. It dies while it writes one."""
        found = read_claims(self.files(self.folder.name))
        if found:
            claim = max(found, key=lambda each: each.epoch)
            with contextlib.suppress(Crash):
                write_claim(self.files(self.folder.name, crash_at), claim, "")
            assert claim in read_claims(self.files(self.folder.name))

    @rule()
    def restart(self) -> None:
        self.run_number += 1
        store._OPEN.clear()

    @invariant()
    def the_state_is_the_dict(self) -> None:
        if self.batch_id == 0:
            return
        assert contents(self._store(), self.batch_id, f"run-{self.run_number}") == self.expected

    @invariant()
    def old_files_go_away(self) -> None:
        for partition in ("0", "1", "batches"):
            folder = Path(self.folder.name, partition)
            versions = {int(path.name.partition("-")[0]) for path in folder.glob("*.json")}
            assert len(versions) <= store.VERSIONS_TO_KEEP + 3


class StateMachineOnAzure(StateMachine):
    """The same on Azure."""

    files = CrashingAzure


@pytest.mark.hypothesis
@pytest.mark.parametrize(
    ("machine", "rows_per_piece"), [(StateMachine, 4), (StateMachine, 65_536), (StateMachineOnAzure, 4)]
)
def test_the_state_is_a_dict_whatever_dies(
    monkeypatch: pytest.MonkeyPatch, machine: Any, rows_per_piece: int
) -> None:
    for module in (run, merge):
        monkeypatch.setattr(module, "ROWS_PER_PIECE", rows_per_piece)
    run_state_machine_as_test(
        machine,
        settings=settings(stateful_step_count=30, max_examples=examples(7)),
    )


@pytest.mark.parametrize("files", [CrashingFiles, CrashingAzure])
def test_a_crash_at_each_operation_changes_nothing(tmp_path: Path, files: type[CrashingFiles]) -> None:
    """Every point of one batch, one after another: the batch is not there, or it is there whole."""
    before: dict[int, str | None] = dict.fromkeys(range(8), "old")
    after: dict[int, str | None] = {0: "new", 1: None, 9: "new"}
    crash_at, is_done = 0, False
    for batch_id in range(2):
        run_batch(store_in(files(str(tmp_path / "before"))), "a", batch_id, before)
    while not is_done:
        folder = str(tmp_path / str(crash_at))
        shutil.copytree(tmp_path / "before", folder)
        try:
            run_batch(store_in(files(folder, crash_at)), "a", 2, after)
        except Crash:
            store._OPEN.clear()
            assert contents(store_in(files(folder)), 2, "b") == before
            run_batch(store_in(files(folder)), "b", 2, after)
        else:
            is_done = True
        expected = {**dict.fromkeys(range(2, 8), "old"), 0: "new", 9: "new"}
        assert contents(store_in(files(folder)), 3, "c") == expected
        crash_at += 1
        store._OPEN.clear()
    assert crash_at > 20


def test_the_folder_stays_small_over_many_batches_starts_and_kills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every third batch is killed at another operation, and half of the kills end the driver."""
    monkeypatch.setattr(sweep, "CLAIMS_MAX", 4)
    chance, run_number, expected = random.Random(1), 0, dict[int, str]()
    sizes: list[int] = []
    for batch_id in range(100):
        changes: dict[int, str | None] = {chance.choice(ALL_KEYS): str(batch_id) for _ in range(4)}
        if batch_id % 3 == 0:
            with contextlib.suppress(Crash):
                crash_at = chance.randint(0, 50)
                run_batch(
                    store_in(CrashingFiles(str(tmp_path), crash_at)), f"run-{run_number}", batch_id, changes
                )
            store._OPEN.clear()
            run_number += batch_id % 2
        run_batch(store_in(CrashingFiles(str(tmp_path))), f"run-{run_number}", batch_id, changes)
        expected.update({key: value for key, value in changes.items() if value is not None})
        sizes.append(sum(path.is_file() for path in tmp_path.rglob("*")))
    assert contents(store_in(CrashingFiles(str(tmp_path))), 100) == expected
    assert max(sizes[70:]) <= max(sizes[20:50]) + 5, "it does not grow"
    assert max(sizes) < 80, max(sizes)
