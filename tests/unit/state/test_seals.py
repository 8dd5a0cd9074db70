"""What a seal says of versions before it: of their marks, and of the partitions that have files."""

from __future__ import annotations

import pytest

from penstock.state import sweep
from penstock.state.lineage import RUNS, read_lineage
from penstock.state.marks import read_marks, short_hash
from penstock.state.seal import Seal
from tests.unit.state.memory_files import MemoryFiles
from tests.unit.state.rows import contents, run_batch, run_task, store_in, task_of


@pytest.fixture(autouse=True)
def most_runs_write_a_seal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "CLAIMS_MAX", 1)


def newest(files: MemoryFiles) -> Seal:
    seal = read_lineage(files).seal
    assert seal is not None
    return seal


def test_a_batch_without_rows_has_marks_only_and_stays_in_the_seal() -> None:
    """The run of the seal dies before it commits, so the next one needs the batch before the seal."""
    files = MemoryFiles()
    run_batch(store_in(files), "run-0", 0, {0: "0", 1: "1"})
    run_batch(store_in(files), "run-1", 1, {})
    for run in range(2, 6):  # each writes a seal at the same batch, and deletes the claims of before
        run_task(store_in(files), task_of(f"run-{run}", 2), {0: "dead"})
        seal = newest(files)
        assert (seal.run_hash, seal.first_batch) == (short_hash(f"run-{run}"), 2)
        assert (1, short_hash("run-1")) in seal.runs
        assert contents(store_in(files), 2, "run-9") == {0: "0", 1: "1"}
    assert short_hash("run-1") not in "".join(files.names(RUNS)), "only the seal knows run 1"
    run_batch(store_in(files), "run-9", 2, {1: "one"})
    assert contents(store_in(files), 3) == {0: "0", 1: "one"}


def test_the_marks_of_a_dead_run_are_left_out_of_the_seal_and_never_count() -> None:
    """All tasks of run 1 have ended, and Spark did not commit its batch. Run 2 has other rows for it."""
    files = MemoryFiles()
    run_batch(store_in(files), "run-0", 0, {0: "0", 1: "1"})
    run_batch(store_in(files), "run-1", 1, {0: "dead", 1: "dead"})
    run_batch(store_in(files), "run-2", 1, {})
    for run in range(3, 6):
        run_task(store_in(files), task_of(f"run-{run}", 2), {})
        versions = {version: run_hash for version, run_hash in newest(files).runs if version == 1}
        assert versions == {1: short_hash("run-2")}
        assert {mark.run_hash for mark in read_marks(files) if mark.version == 1} == {
            short_hash("run-1"),
            short_hash("run-2"),
        }, "the marks of the dead run are still there"
        assert contents(store_in(files), 2, "run-9") == {0: "0", 1: "1"}
    assert short_hash("run-2") not in "".join(files.names(RUNS)), "only the seal tells the two runs apart"
