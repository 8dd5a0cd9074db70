"""What a piece of work costs the machine: processor seconds and memory of each kind of process.

Reads /proc, so it knows Linux only; elsewhere it reports nothing. Python workers that end during the work
are counted by their parent, as Linux does for processes that were waited for.
"""

from __future__ import annotations

import os
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class _Process:
    parent_pid: int
    cpu_s: float
    peak_memory_mb: float
    kind: str


def snapshot() -> dict[int, _Process]:
    """This process and all below it."""
    table = {int(folder.name): found for folder in _PROC.glob("[0-9]*") if (found := _process(folder))}
    ours = {os.getpid()}
    for _ in table:
        more = {pid for pid, process in table.items() if process.parent_pid in ours} - ours
        if not more:
            break
        ours |= more
    return {pid: table[pid] for pid in ours if pid in table}


def reset_peaks(processes: dict[int, _Process]) -> None:
    """Let the peaks of memory begin anew."""
    for pid in processes:
        with suppress(OSError):
            (_PROC / str(pid) / "clear_refs").write_text("5")


def cpu_seconds(before: dict[int, _Process], after: dict[int, _Process]) -> dict[str, float]:
    """Processor seconds between two snapshots, by kind of process."""
    spent: dict[str, float] = defaultdict(float)
    for pid, process in after.items():
        spent[process.kind] += process.cpu_s - (before[pid].cpu_s if pid in before else 0.0)
    return {kind: round(seconds, 2) for kind, seconds in sorted(spent.items())}


def peak_memory_mb(processes: dict[int, _Process]) -> dict[str, float]:
    """The largest resident memory that a process of each kind has had since the peaks were reset."""
    peaks: dict[str, float] = defaultdict(float)
    for process in processes.values():
        peaks[process.kind] = max(peaks[process.kind], process.peak_memory_mb)
    return dict(sorted(peaks.items()))


def _process(folder: Path) -> _Process | None:
    with suppress(OSError, ValueError, StopIteration):
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        # utime, stime, and both of the children that it has waited for
        ticks = sum(map(int, fields[11:15]))
        status = (folder / "status").read_text().splitlines()
        peak_kb = int(next(line for line in status if line.startswith("VmHWM")).split()[1])
        return _Process(int(fields[1]), ticks / _TICKS_PER_SECOND, peak_kb / 1024, _kind(folder))
    return None


def _kind(folder: Path) -> str:
    command = (folder / "cmdline").read_bytes().decode(errors="replace")
    if "kafka.Kafka" in command:
        return "broker"
    if "java" in command.partition("\0")[0]:
        return "Spark's JVM"
    return "driver" if int(folder.name) == os.getpid() else "Python workers"
