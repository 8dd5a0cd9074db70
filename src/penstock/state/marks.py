"""The marks of a batch: which of its tasks have reached the state, and whether these are all.

Runs on executors, and in `penstock state`. Each task writes a mark after it has saved its partition, also if
it had no rows. The name of the file has everything, so that no task has to read the marks of all others:

    <batch>-<epoch>-<run>-<plan>-<stage>.<task>.<attempt>-<partition>-<random>.json

All but the batch are hexadecimal digits. `<partition>` is `none` in the mark of a task without rows, because
it does not know which partition it has. Invariant: a batch has reached the state if marks of one run stand
for all partitions. Partitions with rows are told apart by their numbers, and the others are counted.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from penstock.state.files import Files

MARKS = "batches"
"""The folder of the marks."""
_BATCHES_ALONE = 3
_HEX = "([0-9a-f]+)"
_NAME = re.compile(rf"(\d+)-{_HEX}-{_HEX}-{_HEX}-{_HEX}\.{_HEX}\.{_HEX}-([0-9a-f]+|none)-{_HEX}\.json")


@dataclass(frozen=True)
class Mark:
    """One mark.

    Attributes:
        version: Spark's batch id.
        epoch: of the run of the query.
        run_hash: of the id of the run.
        plan_hash: of the id of the DataFrame.
        stage_id: Spark's.
        task_id: the number of the task in its stage. `coalesce` and `union` change it.
        attempt_id: different for each attempt of a task.
        partition: of the state; None if the task had no rows.
        token: different for each mark, because a task may have several partitions after `coalesce`.
    """

    version: int
    epoch: int
    run_hash: str
    plan_hash: str
    stage_id: int
    task_id: int
    attempt_id: int
    partition: int | None
    token: str = field(default_factory=lambda: uuid.uuid4().hex[:8])

    @property
    def name(self) -> str:
        """Return the name of the file."""
        task = f"{self.stage_id:x}.{self.task_id:x}.{self.attempt_id:x}"
        partition = "none" if self.partition is None else f"{self.partition:x}"
        return (
            f"{self.version}-{self.epoch:016x}-{self.run_hash}-{self.plan_hash}-{task}-{partition}-"
            f"{self.token}.json"
        )


def short_hash(text: str) -> str:
    """Return a hash for the name of a file."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_marks(files: Files) -> list[Mark]:
    """Return the marks of all batches."""
    found = map(_NAME.fullmatch, files.names(MARKS))
    return [
        Mark(
            int(name[1]),
            int(name[2], 16),
            name[3],
            name[4],
            int(name[5], 16),
            int(name[6], 16),
            int(name[7], 16),
            None if name[8] == "none" else int(name[8], 16),
            name[9],
        )
        for name in found
        if name is not None
    ]


def old_marks(marks: Iterable[Mark], task_id: int, before: int) -> list[str]:
    """Return the names of the marks that a task deletes.

    Each task deletes its own, so that not all do the same. All delete those that are still there some batches
    later: there is no task with their number any more.

    Args:
        marks: of all batches.
        task_id: of the task.
        before: the batch before which marks are not needed.
    """
    return [
        mark.name
        for mark in marks
        if mark.version < before and (mark.task_id == task_id or mark.version < before - _BATCHES_ALONE)
    ]


def saved_partitions(marks: Iterable[Mark]) -> frozenset[int]:
    """Return the partitions of which marks say that they have a version of the batch."""
    return frozenset(mark.partition for mark in marks if mark.partition is not None)


def count_reached(marks: Collection[Mark], partition_count: int) -> int:
    """Return for how many partitions the marks of one batch and one run stand.

    Partitions with rows count by their numbers, whichever stage saved them.

    One action of Spark usually runs all tasks in one stage. `first`, `take` and `isEmpty` run a few tasks in
    one stage, and more in the next, with higher numbers. They are added up if no task had several
    partitions. Otherwise (after `coalesce`) a number may mean other partitions, and the best stage counts.
    """
    by_stage = groupby(sorted(marks, key=lambda mark: mark.stage_id), key=lambda mark: mark.stage_id)
    stages = [list(of_stage) for _, of_stage in by_stage]
    counts = [_count_empty(each, partition_count) for each in [*stages, *_chains(stages)]]
    return len(saved_partitions(marks)) + max(counts, default=0)


def _chains(stages: Iterable[list[Mark]]) -> Iterator[list[Mark]]:
    """Yield the marks of stages that go on where the one before ended, and whose tasks had one partition."""
    chain: list[Mark] = []
    for stage in stages:
        tasks = Counter((mark.task_id, mark.attempt_id) for mark in stage)
        goes_on = not chain or min(tasks)[0] > max(mark.task_id for mark in chain)
        if max(tasks.values()) > 1 or not goes_on:
            yield chain
            chain = []
        if max(tasks.values()) == 1:
            chain = [*chain, *stage]
    yield chain


def computed_twice(marks: Iterable[Mark], partition_count: int) -> int | None:
    """Return a partition that one stage has computed several times, so that its tasks cannot be counted.

    `crossJoin` gives each partition to several tasks with numbers side by side, and `coalesce` of a union of
    the operator with itself gives a task both copies. In a plain union of the operator with itself the two
    tasks of a partition are at least `partition_count` apart, which `count_reached` knows.
    """
    tasks: dict[tuple[int, int], set[int]] = {}
    attempts = Counter((mark.stage_id, mark.attempt_id, mark.partition) for mark in marks)
    for mark in marks:
        if mark.partition is not None:
            tasks.setdefault((mark.stage_id, mark.partition), set()).add(mark.task_id)
            if attempts[mark.stage_id, mark.attempt_id, mark.partition] > 1:
                return mark.partition
    for (_, partition), found in tasks.items():
        if any(later - earlier < partition_count for earlier, later in pairwise(sorted(found))):
            return partition
    return None


def _count_empty(marks: Collection[Mark], partition_count: int) -> int:
    """Count partitions without rows, by the attempt of each task that has the most.

    An operator that stands twice in a stage (a union with itself) has two tasks for each partition. Their
    numbers are at least `partition_count` apart, so as many numbers in a row never count a partition twice.
    """
    without_rows = [mark for mark in marks if mark.partition is None]
    empty = Counter((mark.task_id, mark.stage_id, mark.attempt_id) for mark in without_rows)
    of_task: dict[int, int] = {}
    for (task_id, _, _), count in empty.items():
        of_task[task_id] = max(count, of_task.get(task_id, 0))
    tasks = sorted(of_task)
    ends = (bisect_left(tasks, task_id + partition_count) for task_id in tasks)
    counts = (sum(of_task[task_id] for task_id in tasks[start:end]) for start, end in enumerate(ends))
    return max(counts, default=0)
