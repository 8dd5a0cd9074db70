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

from benchmarks import usage

_GROUPS, _PERIOD_US = Path("/sys/fs/cgroup/cpu"), 20_000
_EXECUTOR = b"CoarseGrainedExecutorBackend"
_PATIENCE_S, _POLL_S = 60, 0.1


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
    while len(found := [pid for pid in usage.snapshot() if _EXECUTOR in _command(pid)]) < count:
        if time.monotonic() > end:
            raise AssertionError(f"expected {count} executors, got {len(found)}")
        time.sleep(_POLL_S)
    return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has ended
        return b""
