"""Give each executor of this process a part of a core, by Linux's control groups of version 1.

So one machine with few cores stands for several slow ones: what more executors bring shows, although all of
them together have no more cores. Needs root, and `/sys/fs/cgroup/cpu`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_GROUPS, _PERIOD_US = Path("/sys/fs/cgroup/cpu"), 20_000
_EXECUTOR, _PATIENCE_S = b"CoarseGrainedExecutorBackend", 60


@contextmanager
def limited_executors(count: int, cores: float) -> Iterator[None]:
    """Limit the executors below this process, and the processes that they start.

    Args:
        count: how many executors there are.
        cores: of each.

    Raises:
        OSError: the control groups are not there, or may not be made.
        AssertionError: there are fewer executors after a minute.
    """
    made: list[Path] = []
    try:
        for pid in _executors(count):
            group = _GROUPS / f"penstock-{os.getpid()}-{pid}"
            group.mkdir()
            made.append(group)
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(round(cores * _PERIOD_US)))
            (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        for group in made:
            for pid in (group / "cgroup.procs").read_text().split():
                (_GROUPS / "cgroup.procs").write_text(pid)
            group.rmdir()


def _executors(count: int) -> list[int]:
    """Return the processes of the executors when all of them have begun."""
    end = time.monotonic() + _PATIENCE_S
    while len(found := [pid for pid in _below(os.getpid()) if _EXECUTOR in _command(pid)]) < count:
        if time.monotonic() > end:
            raise AssertionError(f"expected {count} executors, got {len(found)}")
        time.sleep(0.1)
    return found


def _below(pid: int) -> Iterator[int]:
    """Yield the processes that a process has started, and those that they have."""
    try:
        children = Path(f"/proc/{pid}/task").glob("*/children")
        started = [int(each) for listed in children for each in listed.read_text().split()]
    except OSError:  # it has ended
        return
    for child in started:
        yield child
        yield from _below(child)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
