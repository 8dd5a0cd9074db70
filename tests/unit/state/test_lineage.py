"""Dead runs, late attempts, speculation, replays with other rows: a later run reads what was committed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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
from penstock.state import lineage, store
from penstock.state.lineage import Claim, Lineage, lineage_of
from penstock.state.manifest import InputDigest, Manifest
from penstock.state.store import BatchTask, Loaded
from tests.examples import examples
from tests.unit.state.memory_files import MemoryFiles
from tests.unit.state.rows import (
    ALL_KEYS,
    PARTITIONS,
    QUERY,
    Changes,
    contents,
    digest_of,
    part_of,
    run_batch,
    state_of,
    store_in,
)

KEYS = ALL_KEYS[:6]
CHANGES = st.dictionaries(st.sampled_from(KEYS), st.one_of(st.none(), st.text(max_size=2)), max_size=3)


@dataclass
class Attempt:
    """A task that stops after each thing that others can see."""

    run: int
    batch_id: int
    steps: Iterator[None]
    is_done: bool = False


class Runs(RuleBasedStateMachine):
    """Runs of a query, one after another. Tasks of dead runs go on."""

    @initialize()
    def start(self) -> None:
        self.files = MemoryFiles()
        self.run = 0
        self.batch_id = 0
        self.expected: dict[int, str] = {}
        self.pending: Changes | None = None
        self.attempts: list[Attempt] = []

    def teardown(self) -> None:
        store._OPEN.clear()

    def _steps(self, run: int, batch_id: int, changes: Changes) -> Iterator[None]:
        mine = store_in(self.files)
        begun = mine.begin(BatchTask(QUERY, f"run-{run}", batch_id))
        yield
        loaded: list[Loaded] = []
        for partition in range(PARTITIONS):
            if part_of(changes, partition):
                loaded.append(mine.load(begun, partition))
                yield
        for each in loaded:
            part = part_of(changes, each.partition)
            mine.save(begun, each, state_of(part), digest_of(part), 0)
            yield
        mine.finish(begun)

    def _is_current(self, attempt: Attempt) -> bool:
        return (attempt.run, attempt.batch_id) == (self.run, self.batch_id)

    @rule(changes=CHANGES, steps=st.integers(1, 7))
    def begin(self, changes: Changes, steps: int) -> None:
        """A run may compute a batch again with other rows, but its attempts all have the same."""
        if self.pending is None:
            self.pending = changes
        made = self._steps(self.run, self.batch_id, self.pending)
        self.attempts.append(Attempt(self.run, self.batch_id, made))
        self._advance(self.attempts[-1], steps)

    @precondition(lambda self: any(not each.is_done for each in self.attempts))
    @rule(which=st.integers(0, 100), steps=st.integers(1, 7))
    def go_on(self, which: int, steps: int) -> None:
        waiting = [each for each in self.attempts if not each.is_done]
        self._advance(waiting[which % len(waiting)], steps)

    def _advance(self, attempt: Attempt, steps: int) -> None:
        try:
            for _ in range(steps):
                next(attempt.steps)
        except StopIteration:
            attempt.is_done = True
        except StateError:
            assert not self._is_current(attempt), "the newest run is never refused"
            self.attempts.remove(attempt)

    @precondition(lambda self: any(each.is_done and self._is_current(each) for each in self.attempts))
    @rule()
    def commit(self) -> None:
        assert self.pending is not None
        for key, value in self.pending.items():
            self.expected.pop(key, None)
            if value is not None:
                self.expected[key] = value
        self.pending = None
        self.batch_id += 1

    @precondition(lambda self: bool(self.attempts))
    @rule(which=st.integers(0, 100))
    def late_task(self, which: int) -> None:
        """A task of an older run begins only now."""
        old = self.attempts[which % len(self.attempts)]
        if old.run < self.run and any(each.run == self.run for each in self.attempts):
            with pytest.raises(StateError):
                store_in(self.files).begin(BatchTask(QUERY, f"run-{old.run}", old.batch_id))

    @rule(forgets=st.booleans())
    def restart(self, forgets: bool) -> None:
        self.run += 1
        self.pending = None
        if forgets:
            store._OPEN.clear()

    @invariant()
    def the_state_is_what_was_committed(self) -> None:
        if self.batch_id:
            for run in (self.run, self.run + 1):
                assert contents(store_in(self.files), self.batch_id, f"run-{run}") == self.expected


@pytest.mark.hypothesis
def test_a_run_reads_what_was_committed_whoever_writes_late() -> None:
    machine: Any = Runs
    run_state_machine_as_test(machine, settings=settings(stateful_step_count=30, max_examples=examples(25)))


def test_two_runs_that_began_at_once_are_told_apart_by_their_rows() -> None:
    both = frozenset({Claim(1, 4, "a" * 16), Claim(1, 4, "b" * 16)})
    manifests = [
        Manifest(4, QUERY, run, "", InputDigest(row_count), (), 1) for run, row_count in (("a", 1), ("b", 2))
    ]
    assert Lineage(both, Claim(1, 4, "a" * 16), "a").choose(manifests) == manifests[:1]
    assert Lineage(both | {Claim(2, 5, "c" * 16)}, Claim(2, 5, "c" * 16), "c").choose(manifests) == manifests


def test_a_manifest_of_a_newer_run_is_noticed_without_its_claim() -> None:
    own = Claim(1, 4, "a" * 16)
    newer = Manifest(4, QUERY, "b", "", InputDigest(), (), 2)
    with pytest.raises(StateError, match="A newer run"):
        Lineage(frozenset({own}), own, "a").choose([newer])


def test_a_state_without_claims_goes_on() -> None:
    """What was written before runs claimed their epochs."""
    files = MemoryFiles()
    for batch_id in range(2):
        run_batch(store_in(files), BatchTask(QUERY, "a", batch_id), {0: str(batch_id)})
    for name in files.names(lineage.RUNS):
        files.delete(f"{lineage.RUNS}/{name}")
    assert lineage_of(files, "b", 2).own == Claim(1, 2, lineage_of(files, "b", 2).own.run_hash)  # type: ignore[union-attr]
    assert contents(store_in(files), 2) == {0: "1"}


@pytest.mark.parametrize("first_batches", [(2, 2), (2, 1)])
def test_of_two_runs_that_claim_at_once_at_most_one_writes(
    first_batches: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run a lists the claims before b has written its own, and claims after it."""
    files, write = MemoryFiles(), lineage.write_claim
    for batch_id in range(2):
        run_batch(store_in(files), BatchTask(QUERY, "z", batch_id), {0: str(batch_id), 1: str(batch_id)})
    task_of_a, task_of_b = (
        BatchTask(QUERY, run, batch) for run, batch in zip("ab", first_batches, strict=True)
    )

    def write_after_b(of_files: MemoryFiles, claim: Claim) -> None:
        monkeypatch.setattr(store, "write_claim", write)
        run_batch(store_in(files), task_of_b, {1: "b"})
        write(of_files, claim)

    monkeypatch.setattr(store, "write_claim", write_after_b)
    for task in (task_of_a, task_of_a, BatchTask(QUERY, "b", task_of_b.batch_id + 1)):
        with pytest.raises(StateError, match="or both began at once"):
            store_in(files).begin(task)
    expected = {0: str(task_of_b.batch_id - 1), 1: "b"}
    assert contents(store_in(files), task_of_b.batch_id + 1, "c") == expected
    run_batch(store_in(files), BatchTask(QUERY, "c", task_of_b.batch_id + 1), {0: "c"})
