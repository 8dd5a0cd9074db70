"""Starts a job in a session of its own, follows what it prints, and kills it or its workers."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

from tests.waiting import PATIENCE_S

SILENCE_S = 300.0
"""The longest time without output. Spark starts before the first line, and a drained backlog is one batch."""

ROOT = Path(__file__).parents[2]
PYTHON = "CHAOS_PYTHON"
"""The environment variable with the Python of jobs, which may have another PySpark; if not set, this one."""


class JobProcess:
    """One `python -m tests.chaos.<job>`. On exit from the context all its processes have ended."""

    def __init__(
        self, module: str, arguments: list[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self._log = log.open("ab")
        self.process = subprocess.Popen(
            [os.environ.get(PYTHON, sys.executable), "-u", "-m", module, *arguments],
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> JobProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.decode().strip())
        self._lines.put(None)

    def wait_for_line(self, is_wanted: Callable[[str], bool], timeout_s: float = SILENCE_S) -> str:
        """Wait for a line of the job's output, as long as other lines come. Fail with the job's log."""
        while True:
            try:
                line = self._lines.get(timeout=timeout_s)
            except queue.Empty:
                raise AssertionError(f"the job is silent for {timeout_s:.0f} s:\n{self.log_tail()}") from None
            if line is None:
                self.process.wait(timeout=PATIENCE_S)
                raise AssertionError(f"the job ended with {self.process.returncode}:\n{self.log_tail()}")
            if is_wanted(line):
                return line

    def wait_for_batch(self, batch_id: int, timeout_s: float = SILENCE_S) -> None:
        """Waits until the batch with this id, or a later one, is finished."""
        self.wait_for_line(lambda line: line.startswith("batch ") and int(line[6:]) >= batch_id, timeout_s)

    def wait_until_done(self, timeout_s: float = SILENCE_S) -> None:
        self.wait_for_line(lambda line: line == "done", timeout_s)
        assert self.process.wait(timeout=PATIENCE_S) == 0, self.log_tail()

    def wait_for_failure(self, text: str, timeout_s: float = SILENCE_S) -> None:
        """Wait until the job ends with an error. Its text is in the job's log."""
        assert self.process.wait(timeout=timeout_s) != 0, "the job ended without an error"
        log = Path(self._log.name).read_text(errors="replace")
        assert text in log, f"not in the log of the job: {text}\n{self.log_tail()}"

    def log_tail(self, size_bytes: int = 6_000) -> str:
        self._log.flush()
        return Path(self._log.name).read_bytes()[-size_bytes:].decode(errors="replace")

    def python_workers(self) -> list[int]:
        """Process ids of Spark's Python workers under this job."""
        return python_workers_of({self.process.pid})

    def kill(self) -> None:
        """SIGKILL to the job and everything that it started."""
        for pid in _tree(_processes(), {self.process.pid}):
            _kill(pid)
        self.process.wait(timeout=PATIENCE_S)
        self._reader.join(timeout=PATIENCE_S)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._log.close()

    def kill_driver(self) -> None:
        """SIGKILL to the driver: the Python program and its JVM, at once."""
        self.kill()


def python_workers_of(groups: set[int]) -> list[int]:
    """Process ids of Spark's Python workers (the children of its daemons) in and under process groups."""
    table = _processes()
    daemons = {pid for pid, (_, _, command) in table.items() if "pyspark.daemon" in command}
    return sorted(pid for pid in _tree(table, groups) if pid in daemons and table[pid][0] in daemons)


def executors_of(groups: set[int]) -> list[int]:
    """Process ids of Spark's executors in and under process groups."""
    table = _processes()
    return sorted(pid for pid in _tree(table, groups) if "CoarseGrainedExecutorBackend" in table[pid][2])


def _tree(table: dict[int, tuple[int, int, str]], groups: set[int]) -> list[int]:
    """The processes of groups and all their descendants (workers have groups of their own)."""
    found = [pid for pid, (_, group, _) in table.items() if group in groups]
    for pid in found:
        found.extend(child for child, (parent, _, _) in table.items() if parent == pid and child not in found)
    return found


def kill_one(pids: list[int]) -> int:
    """Send SIGKILL to the first process that still lives. Return its id, or 0."""
    return next((pid for pid in pids if _kill(pid)), 0)


def ancestor(pid: int, words: str) -> int:
    """Return the nearest ancestor of this process whose command line has these words."""
    table = _processes()
    while pid in table:
        pid = table[pid][0]
        if pid in table and words in table[pid][2]:
            return pid
    raise AssertionError(f"no process above is a {words}")


def kill_process(pid: int) -> None:
    """SIGKILL to one process that a test has started."""
    assert _kill(pid), f"process {pid} had ended already"


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _processes() -> dict[int, tuple[int, int, str]]:
    """Pid -> (parent pid, process group, command line)."""
    proc = Path("/proc/self/stat")
    return _linux_processes(proc.parents[1]) if proc.exists() else _listed_processes()


def _linux_processes(proc: Path) -> dict[int, tuple[int, int, str]]:
    """Read /proc, because a small machine has no `ps`."""
    table = {}
    for stat in proc.glob("[0-9]*/stat"):
        try:
            # The name of the program stands in brackets and may hold anything.
            _, parent, group, *_ = stat.read_text(errors="replace").rpartition(")")[2].split()
            command = stat.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):  # it ended just now
            continue
        table[int(stat.parent.name)] = (int(parent), int(group), command.strip())
    return table


def _listed_processes() -> dict[int, tuple[int, int, str]]:
    listing = subprocess.run(
        ["ps", "-e", "-o", "pid=,ppid=,pgid=,args="], capture_output=True, text=True, check=True
    ).stdout
    table = {}
    for line in listing.splitlines():
        pid, parent, group, *command = line.split(None, 3)
        table[int(pid)] = (int(parent), int(group), command[0] if command else "")
    return table
