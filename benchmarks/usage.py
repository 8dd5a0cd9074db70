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

DRIVER = "driver"
FLINK_JVM = "Flink's JVM"
_PROC = Path("/proc")
_LEAST_CPU_S = 0.02
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class _Process:
    parent_pid: int
    cpu_s: float
    peak_memory_mb: float
    kind: str


Snapshot = dict[int, _Process]


def snapshot() -> Snapshot:
    """This process and all below it."""
    table = {int(folder.name): found for folder in _PROC.glob("[0-9]*") if (found := _process(folder))}
    ours = {os.getpid()}
    for _ in table:
        more = {pid for pid, process in table.items() if process.parent_pid in ours} - ours
        if not more:
            break
        ours |= more
    return {pid: table[pid] for pid in ours if pid in table}


def reset_peaks(processes: Snapshot) -> None:
    """Let the peaks of memory begin anew."""
    for pid in processes:
        with suppress(OSError):
            (_PROC / str(pid) / "clear_refs").write_text("5")


@dataclass(frozen=True)
class Spent:
    """By kind of process: processor seconds, and the largest resident memory of a process."""

    cpu_s: dict[str, float]
    peak_memory_mb: dict[str, float]


def spent(before: Snapshot, after: Snapshot) -> Spent:
    """What happened between two snapshots, `reset_peaks` at the first; kinds that did nothing left out."""
    cpu_s: dict[str, float] = defaultdict(float)
    peak_mb: dict[str, float] = defaultdict(float)
    for pid, process in after.items():
        cpu_s[process.kind] += process.cpu_s - (before[pid].cpu_s if pid in before else 0.0)
        peak_mb[process.kind] = max(peak_mb[process.kind], process.peak_memory_mb)
    busy = sorted(kind for kind, seconds in cpu_s.items() if seconds >= _LEAST_CPU_S)
    return Spent({kind: cpu_s[kind] for kind in busy}, {kind: peak_mb[kind] for kind in busy})


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
    if "org.apache.flink" in command:
        return FLINK_JVM
    if "java" in command.partition("\0")[0]:
        return "Spark's JVM"
    if "flink_worker" in command:
        return "Flink's client"
    return DRIVER if int(folder.name) == os.getpid() else "Python workers"
