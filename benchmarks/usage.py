"""Measure what some work costs the machine: processor seconds and memory of each kind of process.

Reads /proc, so it works on Linux only and reports nothing elsewhere. A process that ended before the second
snapshot is not counted, because PySpark's daemon does not wait for its workers and so their time is not added
to the daemon's. Only idle workers end: Spark ends a worker that had no work for a minute.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

BROKER = "broker"
DRIVER = "driver"
SPARK_JVM = "Spark's JVM"
PYTHON_WORKERS = "Python workers"
FLINK_JVM = "Flink's JVM"
FLINK_CLIENT = "Flink's client"
_PROC = Path("/proc")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    """What /proc says of a process at one moment."""

    parent_pid: int
    cpu_s: float
    peak_memory_mb: float
    anonymous_memory_mb: float
    kind: str


Snapshot = dict[int, Process]


def snapshot() -> Snapshot:
    """Return this process and all its descendants."""
    table = {int(folder.name): found for folder in _PROC.glob("[0-9]*") if (found := _process(folder))}
    ours = {os.getpid()}
    for _ in table:
        more = {pid for pid, process in table.items() if process.parent_pid in ours} - ours
        if not more:
            break
        ours |= more
    return {pid: table[pid] for pid in ours if pid in table}


def reset_peaks(processes: Snapshot) -> None:
    """Reset the peaks of memory."""
    for pid in processes:
        with suppress(OSError):
            (_PROC / str(pid) / "clear_refs").write_text("5")


def anonymous_memory_mb(kind: str) -> float:
    """Return the largest memory of a process of this kind, without files that are mapped into it."""
    return max((each.anonymous_memory_mb for each in snapshot().values() if each.kind == kind), default=0.0)


@dataclass(frozen=True)
class Spent:
    """Processor seconds and the largest resident memory of a process, by kind of process."""

    cpu_s: dict[str, float]
    peak_memory_mb: dict[str, float]


def spent(before: Snapshot, after: Snapshot, kinds: Collection[str]) -> Spent:
    """Return what processes of these kinds took between two snapshots, with `reset_peaks` at the first.

    All systems live beside each other for the whole run, so `kinds` keeps the others' out of the figures.
    """
    cpu_s: dict[str, float] = defaultdict(float)
    peak_mb: dict[str, float] = defaultdict(float)
    for pid, process in sorted(after.items(), key=lambda each: each[1].kind):
        if process.kind in kinds:
            cpu_s[process.kind] += process.cpu_s - (before[pid].cpu_s if pid in before else 0.0)
            peak_mb[process.kind] = max(peak_mb[process.kind], process.peak_memory_mb)
    return Spent(dict(cpu_s), dict(peak_mb))


def _process(folder: Path) -> Process | None:
    with suppress(OSError, ValueError, StopIteration):
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        # utime and stime, its own and those of the children that it has waited for
        ticks = sum(map(int, fields[11:15]))
        status = (folder / "status").read_text().splitlines()
        peak_kb, anonymous_kb = _kilobytes(status, "VmHWM"), _kilobytes(status, "RssAnon")
        cpu_s = ticks / _TICKS_PER_SECOND
        return Process(int(fields[1]), cpu_s, peak_kb / 1024, anonymous_kb / 1024, _kind(folder))
    return None


def _kilobytes(status: list[str], name: str) -> int:
    return int(next(line for line in status if line.startswith(name)).split()[1])


def _kind(folder: Path) -> str:
    command = (folder / "cmdline").read_bytes().decode(errors="replace")
    if "kafka.Kafka" in command:
        return BROKER
    if "org.apache.flink" in command:
        return FLINK_JVM
    if "java" in command.partition("\0")[0]:
        return SPARK_JVM
    if "flink_worker" in command:
        return FLINK_CLIENT
    return DRIVER if int(folder.name) == os.getpid() else PYTHON_WORKERS
