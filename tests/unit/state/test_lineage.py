"""Dead runs, late attempts, speculation, replays with other rows: a later run reads what was committed."""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
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
from penstock.state import plans, store, sweep, tools
from penstock.state.lineage import RUNS, Claim, Lineage, epoch_of, read_lineage, take_plan, write_claim
from penstock.state.manifest import InputDigest, Manifest
from penstock.state.marks import MARKS
from penstock.state.store import BatchTask
from tests.examples import examples
from tests.unit.state.memory_files import MemoryFiles
from tests.unit.state.rows import (
    ALL_KEYS,
    PARTITIONS,
    QUERY,
    Changes,
    contents,
    load_task,
    part_of,
    run_batch,
    run_task,
    save_task,
    store_in,
    task_of,
)

KEYS = ALL_KEYS[:6]
CHANGES = st.dictionaries(st.sampled_from(KEYS), st.one_of(st.none(), st.text(max_size=2)), max_size=3)


@dataclass
class Driver:
    """A DataFrame of one process, and how many stages its Spark has run."""

    plan_number: int
    stage_id: int = 0


@dataclass
class Attempt:
    """A task that stops after each thing that others can see. It has not begun yet."""

    run: int
    batch_id: int
    partition: int
    steps: Iterator[None]
    is_done: bool = False


class Runs(RuleBasedStateMachine):
    """Runs of a query, one after another. Tasks of dead runs go on, and begin late."""

    @initialize()
    def start(self) -> None:
        self.files = MemoryFiles()
        self.run = 0
        self.batch_id = 0
        self.expected: dict[int, str] = {}
        self.pending: Changes | None = None
        self.attempts: list[Attempt] = []
        self.attempt_ids = itertools.count()  # Spark gives each number once
        self.has_claimed = False
        self.drivers = [self._driver()]

    def teardown(self) -> None:
        store._OPEN.clear()

    def _driver(self) -> Driver:
        return Driver(take_plan(self.files, "a1"))

    def _task(self, driver: Driver, run: int, partition: int) -> BatchTask:
        return BatchTask(
            QUERY,
            f"run-{run}",
            self.batch_id,
            plan_number=driver.plan_number,
            stage_id=driver.stage_id,
            task_id=partition,
            attempt_id=next(self.attempt_ids),
        )

    def _steps(self, task: BatchTask, changes: Changes) -> Iterator[None]:
        mine = store_in(self.files)
        begun = mine.begin(task)
        yield
        loaded = [mine.load(begun, task.task_id)] if part_of(changes, task.task_id) else []
        yield
        save_task(mine, (begun, loaded), changes)

    def _is_current(self, attempt: Attempt) -> bool:
        return (attempt.run, attempt.batch_id) == (self.run, self.batch_id)

    @rule(changes=CHANGES, partition=st.integers(0, PARTITIONS - 1), steps=st.integers(0, 4))
    def begin(self, changes: Changes, partition: int, steps: int) -> None:
        """A run may compute a batch again with other rows, but its attempts all have the same."""
        if self.pending is None:
            self.pending = changes
        made = self._steps(self._task(self.drivers[-1], self.run, partition), self.pending)
        self.attempts.append(Attempt(self.run, self.batch_id, partition, made))
        self._advance(self.attempts[-1], steps)

    @precondition(lambda self: any(not each.is_done for each in self.attempts))
    @rule(which=st.integers(0, 100), steps=st.integers(1, 4))
    def go_on(self, which: int, steps: int) -> None:
        """Also a task of a dead run that has not begun before."""
        waiting = [each for each in self.attempts if not each.is_done]
        self._advance(waiting[which % len(waiting)], steps)

    def _advance(self, attempt: Attempt, steps: int) -> None:
        try:
            for _ in range(steps):
                next(attempt.steps)
                self.has_claimed |= attempt.run == self.run
        except StopIteration:
            attempt.is_done = True
        except StateError:
            assert not self._is_current(attempt), "the newest run is never refused"
            self.attempts.remove(attempt)

    def _is_batch_done(self) -> bool:
        done = {each.partition for each in self.attempts if each.is_done and self._is_current(each)}
        return len(done) == PARTITIONS

    @precondition(_is_batch_done)
    @rule()
    def commit(self) -> None:
        assert self.pending is not None
        for key, value in self.pending.items():
            self.expected.pop(key, None)
            if value is not None:
                self.expected[key] = value
        self.pending = None
        self.batch_id += 1
        self.drivers[-1].stage_id += 1

    @precondition(lambda self: self.has_claimed and not self._is_batch_done())
    @rule(is_restarted=st.booleans())
    def spark_commits_a_batch_that_was_read_in_part(self, is_restarted: bool) -> None:
        """The state does not continue from it. The user repeats the batch."""
        with pytest.raises(StateError):
            contents(store_in(self.files), self.batch_id + 1, f"run-{self.run + is_restarted}")

    @rule(forgets=st.booleans(), has_new_driver=st.booleans())
    def restart(self, forgets: bool, has_new_driver: bool) -> None:
        self.run += 1
        self.pending = None
        self.has_claimed = False
        if has_new_driver:
            self.drivers.append(self._driver())
        self.drivers[-1].stage_id += 1
        if forgets:
            store._OPEN.clear()

    @precondition(lambda self: len(self.drivers) > 1)
    @rule(which=st.integers(0, 100))
    def restart_with_an_older_dataframe(self, which: int) -> None:
        """It is refused: a task of the newer one may still begin, and would take its batches away."""
        older = self.drivers[which % (len(self.drivers) - 1)]
        older.stage_id += 1
        before = dict(self.files.contents)
        with pytest.raises(StateError):
            store_in(self.files).begin(self._task(older, 10_000, 0))
        assert self.files.contents == before

    @invariant()
    def the_state_is_what_was_committed(self) -> None:
        if self.batch_id:
            for run in (self.run, self.run + 1):
                assert contents(store_in(self.files), self.batch_id, f"run-{run}") == self.expected


@pytest.mark.hypothesis
@pytest.mark.parametrize("claims_max", [1, 100])
def test_a_run_reads_what_was_committed_whoever_writes_or_begins_late(
    claims_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few claims, most runs write a seal or delete the claims of before."""
    monkeypatch.setattr(sweep, "CLAIMS_MAX", claims_max)
    machine: Any = Runs
    run_state_machine_as_test(machine, settings=settings(stateful_step_count=30, max_examples=examples(30)))


def test_the_claims_of_many_runs_stay_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead run has written a version of an idle partition. It never counts, also after many starts."""
    monkeypatch.setattr(sweep, "CLAIMS_MAX", 8)
    files = MemoryFiles()
    late = store_in(files)
    run_batch(late, "run-0", 0, {0: "0", 1: "one"})
    dead = load_task(late, task_of("run-1", 1, 1), {1: "dead"})
    counts, batch_id = [], 1
    for run in range(2, 120):
        if run % 3:  # every third run dies before its batch is committed
            run_batch(store_in(files), f"run-{run}", batch_id, {0: str(run)})
            batch_id += 1
        else:
            run_task(store_in(files), task_of(f"run-{run}", batch_id), {0: "dead"})
        if run == 60:  # it was believed dead, and its batch is long past
            save_task(late, dead, {1: "dead"})
        counts.append(len(files.names(RUNS)))
    assert max(counts) <= 8 + 5
    assert contents(store_in(files), batch_id) == {0: "119", 1: "one"}
    assert list(tools.verify(files)) == []


def test_a_damaged_seal_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "CLAIMS_MAX", 1)
    files = MemoryFiles()
    for batch_id in range(4):
        run_batch(store_in(files), f"run-{batch_id}", batch_id, {0: "x"})
    path = max(path for path in files.contents if "seal-" in path)
    whole = files.contents[path]
    for damaged in (whole[:-5], whole.replace(b'"epoch"', b'"epocb"')):
        files.contents[path] = damaged
        with pytest.raises(StateError, match="does not match its checksum"):
            contents(store_in(files), 4)
    line = json.dumps({**json.loads(whole.partition(b"\n")[0]), "format": 3}).encode()
    files.contents[path] = b"%s\n%08x\n" % (line, zlib.crc32(line))
    with pytest.raises(StateError, match="has format 3"):
        contents(store_in(files), 4)
    del files.contents[path]
    monkeypatch.setattr(MemoryFiles, "names", lambda *_: [path.removeprefix("runs/")])
    with pytest.raises(StateError, match="is listed and cannot be read"):
        read_lineage(files)


def test_of_two_attempts_the_one_whose_runs_are_there_counts() -> None:
    """The other one was believed dead, and names a run that was merged and deleted."""
    files = MemoryFiles()
    run_batch(store_in(files), "a", 0, {0: "0", 1: "1"})
    for _ in range(2):
        run_task(store_in(files), task_of("a", 1), {0: "new"})
    run_task(store_in(files), task_of("a", 1, 1), {})
    runs = [path for path in sorted(files.contents) if path.startswith("0/1-") and path.endswith(".arrow")]
    assert len(runs) == 2
    for gone in runs:
        store._OPEN.clear()
        kept = files.contents.pop(gone)
        assert contents(store_in(files), 2) == {0: "new", 1: "1"}
        assert list(tools.verify(files)) == []
        files.contents[gone] = kept
    for gone in runs:
        del files.contents[gone]
    store._OPEN.clear()
    with pytest.raises(StateError, match="does not exist"):
        contents(store_in(files), 2)
    assert list(tools.verify(files))


def test_the_first_task_of_a_dead_run_takes_nothing_away() -> None:
    """It begins only after a newer run has committed the batch and the one after it."""
    for dead_batch in (1, 2):
        files = MemoryFiles()
        run_batch(store_in(files), "a", 0, {0: "0"})
        for batch_id in (1, 2):
            run_batch(store_in(files), "c", batch_id, {0: str(batch_id)})
        with pytest.raises(StateError, match="A newer run of the query has begun"):
            store_in(files).begin(task_of("b", dead_batch))
        for run_id in ("c", "d"):
            assert contents(store_in(files), 3, run_id) == {0: "2"}


def test_of_two_runs_that_claim_at_once_the_later_one_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a lists the claims before b has written its own, and claims after it."""
    for run_id, other in (("a", "b"), ("b", "a")):
        files = MemoryFiles()
        run_batch(store_in(files), "a", 0, {0: "0"})
        first, second = (task_of({"a": "run-1", "b": "run-2"}[each], 1) for each in (run_id, other))

        def write_after_the_other(of_files: MemoryFiles, claim: Claim, plan_id: str) -> None:
            monkeypatch.setattr(store, "write_claim", write_claim)
            load_task(store_in(of_files), second, {})  # noqa: B023 - called in this turn of the loop
            write_claim(of_files, claim, plan_id)

        monkeypatch.setattr(store, "write_claim", write_after_the_other)
        if run_id == "a":
            with pytest.raises(StateError, match="A newer run"):
                store_in(files).begin(first)
            assert store_in(files).begin(second).lineage.is_claimed
        else:
            assert store_in(files).begin(first).lineage.own
            with pytest.raises(StateError, match="A newer run"):
                store_in(files).begin(second)


def test_a_batch_that_another_driver_ends_before_the_claim_is_noticed() -> None:
    """Run b was planned first and is late. Its first task has listed the marks before run a wrote batch 1."""

    class Slow(MemoryFiles):
        listed = 0

        def names(self, folder: str) -> list[str]:
            found = super().names(folder)
            if folder == MARKS and task.run_id == "b" and not self.listed:
                self.listed = 1
                run_batch(store_in(self), "a", 1, {0: "1"})
            return found

    files, task = Slow(), task_of("a", 0)
    run_batch(store_in(files), "a", 0, {0: "0"})
    task = task_of("b", 0)
    with pytest.raises(StateError, match="is newer than the checkpoint: it ends at batch 1"):
        store_in(files).begin(task)
    assert contents(store_in(files), 2) == {0: "1"}


def test_tasks_of_one_run_may_claim_in_two_stages() -> None:
    """Two actions of foreachBatch at once: neither takes the rows of the other away."""
    files = MemoryFiles()
    tasks = [BatchTask(QUERY, "a", 0, plan_number=1, stage_id=stage, task_id=stage - 7) for stage in (7, 8)]
    for task in tasks:  # the second one has listed the claims before the first one wrote its own
        write_claim(files, Claim(task.epoch, 0, task.run_hash), "")
        save_task(store_in(files), load_task(store_in(files), task, {0: "x", 1: "y"}), {0: "x", 1: "y"})
    assert contents(store_in(files), 1) == {0: "x", 1: "y"}


def test_a_manifest_of_a_newer_run_is_noticed_without_its_claim() -> None:
    own = Claim(1, 4, "a" * 16)
    newer = Manifest(4, QUERY, "b", "", InputDigest(), (), 2)
    with pytest.raises(StateError, match="A newer run"):
        Lineage(frozenset({own}), own, "a").choose([newer])


class Interrupted(MemoryFiles):
    """Files at which another caller may do all of its work before each operation."""

    def __init__(self, moments: list[bool], other: Callable[[], None]) -> None:
        super().__init__()
        self._moments = moments
        self._other = other

    def _pause(self) -> None:
        if self._moments and self._moments.pop():
            self._other()

    def names(self, folder: str) -> list[str]:
        self._pause()
        found = super().names(folder)
        self._pause()
        return found

    def create(self, path: str) -> Any:
        self._pause()
        return super().create(path)

    def delete(self, path: str) -> None:
        self._pause()
        super().delete(path)


@pytest.mark.hypothesis
@settings(max_examples=examples(200))
@given(moments=st.lists(st.booleans(), max_size=40))
def test_each_plan_has_a_number_of_its_own_and_later_ones_are_higher(moments: list[bool]) -> None:
    numbers: list[int] = []

    def plan() -> None:
        done_before = max(numbers, default=0)
        numbers.append(take_plan(files, f"{len(numbers):x}"))
        assert numbers[-1] > done_before

    files = Interrupted(moments, plan)
    for _ in range(3):
        plan()
    assert len(set(numbers)) == len(numbers)
    assert len(plans.read_plans(files)) >= 1
    assert max(each.number for each in plans.read_plans(files)) == max(numbers)


def test_a_number_is_higher_than_those_of_runs_without_their_plans() -> None:
    files = MemoryFiles()
    write_claim(files, Claim(epoch_of(7, 1), 0, "a" * 16), "")
    assert [take_plan(files, "aa"), take_plan(files, "bb")] == [8, 9]
    assert [each.number for each in plans.read_plans(files)] == [9], "older files are deleted"


def test_a_folder_that_does_not_list_new_files_gives_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    files = MemoryFiles()
    monkeypatch.setattr(MemoryFiles, "names", lambda *_: [])
    with pytest.raises(StateError, match="the files that were written are not listed"):
        take_plan(files, "aa")
