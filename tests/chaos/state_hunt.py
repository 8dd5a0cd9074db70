"""Kill drivers and workers of a query with keyed state at random, then compare its rows with a reference.

    python -m tests.chaos.state_hunt --kills 20 [--batches 60] [--rows 2000] [--seed 1] [--seconds 500]

The rows come doubled, shuffled and late. Each kill comes at a random moment of a batch. The program prints
what it killed. It ends with 0 if Spark's file sink holds exactly the rows of the reference, each as often.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import sys
import tempfile
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.state import tools
from penstock.state.files import LocalFiles
from tests.chaos.job_process import JobProcess, kill_one
from tests.unit.changelog.reference import Reference
from tests.unit.changelog.running import Row

COLUMNS = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("at", pa.int64()), ("row_kind", pa.string())])
PAUSE_MAX_S = 1.0
DRIVER, WORKER = "driver", "worker"


class StateHunt:
    """One query, its input, and the kills. The seed decides what it kills, but not when."""

    def __init__(self, folder: Path, *, batches: int, rows: int, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.kills: collections.Counter[str] = collections.Counter()
        self.expected = self._write_input(batches, rows)
        self._job: JobProcess | None = None

    def run(self, kill_count: int, *, ends_at_s: float = float("inf")) -> None:
        """Kill so often, or until the input or the time is over. Then let the query end, and compare."""
        try:
            while self.kills.total() < kill_count and time.monotonic() < ends_at_s and self._kill_something():
                pass
            self._drain()
        finally:
            self._end_job()
        self.check()

    def check(self) -> None:
        """Raise AssertionError unless the output has each row of the reference, as often."""
        written = collections.Counter(
            str(row)
            for path in self._committed()
            for row in pq.read_table(path).select(COLUMNS.names).to_pylist()
        )
        lost, more = self.expected - written, written - self.expected
        assert not lost, f"{lost.total()} rows are lost: {lost.most_common(3)}"
        assert not more, f"{more.total()} rows are too many: {more.most_common(3)}"
        assert list(tools.verify(LocalFiles(str(self.folder / "state")))) == []

    def _committed(self) -> set[Path]:
        """Return the files that count, by the log of Spark's file sink. Killed tasks leave others."""
        names: set[str] = set()
        for log in (self.folder / "out" / "_spark_metadata").iterdir():
            if not log.name.startswith("."):
                lines = log.read_text().splitlines()[1:]
                names.update(Path(json.loads(line)["path"]).name for line in lines)
        return {self.folder / "out" / name for name in names}

    def _write_input(self, batches: int, row_count: int) -> collections.Counter[str]:
        """Write one file for each batch, and return the rows that normalize makes of them."""
        (self.folder / "in").mkdir()
        reference, expected = Reference(), collections.Counter[str]()
        last: list[Row] = []
        kinds = ("+I", "+U", "+U", "+U", "-D")
        for number in range(batches):
            rows: list[Row] = [
                {
                    "k": self.random.randrange(row_count),
                    "v": self.random.randrange(3),
                    "at": number * row_count + place,
                    "row_kind": self.random.choice(kinds),
                }
                for place in range(row_count)
            ]
            batch = (
                rows + self.random.sample(last, len(last) // 10) + self.random.sample(rows, row_count // 10)
            )
            self.random.shuffle(batch)
            path = self.folder / "in" / f"{number:05}.parquet"
            pq.write_table(pa.Table.from_pylist(batch, COLUMNS), path)
            os.utime(path, (1_000_000 + number, 1_000_000 + number))
            expected.update(str(row) for row in reference.step(batch))
            last = rows
        return expected

    def _kill_something(self) -> bool:
        """Return whether the query still runs, or ran when it was killed."""
        job = self._running_job()
        if job is None:
            return False
        threading.Event().wait(self.random.uniform(0, PAUSE_MAX_S))
        if self.random.random() < 0.5:
            self._end_job()
            self.kills[DRIVER] += 1
            return True
        workers = job.python_workers()
        self.random.shuffle(workers)
        if kill_one(workers):
            self.kills[WORKER] += 1
        return True

    def _running_job(self) -> JobProcess | None:
        """Return a job that has just finished a batch; None if there is nothing left to do."""
        for _ in range(2):  # a kill may have ended the last job
            if self._job is None:
                self._job = self._start()
            try:
                line = self._job.wait_for_line(lambda line: line.startswith("batch ") or line == "done")
            except AssertionError:
                if self._job.process.poll() is None:
                    raise  # it hangs
                self._end_job()
            else:
                return self._job if line != "done" else None
        raise AssertionError("the query ended twice without a batch")

    def _start(self) -> JobProcess:
        arguments = ["--folder", str(self.folder)]
        return JobProcess("tests.chaos.normalize_job", arguments, self.folder / "job.log")

    def _drain(self) -> None:
        self._end_job()
        with self._start() as job:
            job.wait_until_done()

    def _end_job(self) -> None:
        if self._job is not None:
            self._job.kill()
            self._job = None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--rows", type=int, default=2_000, help="rows of a batch")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="kill no more after so long")
    arguments = parser.parse_args()
    ends_at_s = time.monotonic() + arguments.seconds
    with tempfile.TemporaryDirectory() as folder:
        hunt = StateHunt(Path(folder), batches=arguments.batches, rows=arguments.rows, seed=arguments.seed)
        hunt.run(arguments.kills, ends_at_s=ends_at_s)
        sys.stdout.write(f"kills: {dict(hunt.kills)}; {hunt.expected.total():,} rows, all of them right\n")


if __name__ == "__main__":
    main()
