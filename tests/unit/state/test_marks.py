"""How many partitions have reached the state: counted from the marks of a batch."""

from __future__ import annotations

import pytest

from penstock.state.marks import (
    MARKS,
    Mark,
    computed_twice,
    count_reached,
    old_marks,
    read_marks,
    saved_partitions,
)
from tests.unit.state.memory_files import MemoryFiles


def mark(task: int, partition: int | None = None, *, stage: int = 1, attempt: int | None = None) -> Mark:
    return Mark(5, 9, "a" * 16, "b" * 8, stage, task, 100 + task if attempt is None else attempt, partition)


@pytest.mark.parametrize(
    ("marks", "count"),
    [
        ([], 0),
        ([mark(0, 0), mark(1), mark(2, 2)], 3),
        ([mark(0, 0), mark(0, 0, attempt=7), mark(1), mark(1, attempt=8)], 2),  # retries, speculation
        ([mark(4, 0), mark(5), mark(6, 2)], 3),  # union
        ([mark(0, 0), mark(0), mark(1, 2), mark(1)], 4),  # coalesce to two tasks
        ([mark(0), mark(0, attempt=7), mark(0, attempt=7)], 2),  # coalesce, and a first attempt that died
        ([mark(0), mark(1, stage=2), mark(2, 2, stage=2), mark(3, stage=3)], 4),  # isEmpty goes on in stages
        ([mark(0), mark(0, stage=2), mark(1, stage=2)], 2),  # first, and then a write
        ([mark(0), mark(0), mark(0, stage=2), mark(1, stage=2)], 2),  # coalesce in one of them
        ([mark(0, 3), mark(1, 3)], 1),
        # The operator stands twice in one stage, and the tasks of partition 0 fail.
        ([mark(task) for task in (1, 2, 3, 5, 6, 7)], 3),  # its union with itself
        ([mark(task) for task in (1, 2, 3, 6, 7, 8)], 3),  # one task of another DataFrame stands between
        ([mark(1), mark(2, 2), mark(3), mark(5), mark(6, 2), mark(7)], 3),
        ([mark(task) for task in range(8)], 4),  # no task fails
        ([mark(task) for task in range(4)] + [mark(5)], 4),  # all of one side
        # persist and isEmpty, and then coalesce to two tasks: the operator has run for partition 0
        ([mark(0, 0), mark(0, stage=2), mark(1, stage=2), mark(1, stage=2)], 4),
        ([mark(0), mark(0, 1, stage=2), mark(1, stage=2), mark(1, stage=2)], 3),  # it has no rows: not known
        # `first` of two coalesced tasks, and a write of all four of which two failed
        ([mark(0, 0), mark(1), mark(0, 0, stage=2), mark(2, stage=2), mark(3, 3, stage=2)], 3),
        ([mark(0), mark(1, stage=2), mark(0, 1, stage=3), mark(2, stage=3)], 3),  # isEmpty, then a part
    ],
)
def test_partitions_are_counted_once(marks: list[Mark], count: int) -> None:
    assert count_reached(marks, 4) == count


@pytest.mark.parametrize(
    ("marks", "partition"),
    [
        ([mark(0, 0), mark(0, 0, attempt=7), mark(1, 1), mark(2), mark(3)], None),  # a retry
        ([mark(0, 0), mark(0, 1), mark(1, 2), mark(1)], None),  # coalesce
        ([mark(1, 2, stage=1), mark(2, 2, stage=2)], None),  # two actions
        ([mark(2, 2), mark(6, 2)], None),  # its union with itself
        ([mark(2, 2), mark(6, 2), mark(10, 2)], None),  # a crossJoin with it on the right
        ([mark(0), mark(1), mark(2, 1), mark(3, 1)], 1),  # a crossJoin with it on the left
        ([mark(0, 0), mark(3, 0)], 0),
        ([mark(0, 2), mark(0, 2)], 2),  # coalesce of its union with itself
    ],
)
def test_a_partition_that_a_stage_computes_several_times(marks: list[Mark], partition: int | None) -> None:
    assert computed_twice(marks, 4) == partition


def test_the_name_of_a_mark_has_everything() -> None:
    files = MemoryFiles()
    marks = [mark(0, 17), mark(1), mark(255, 0, stage=2**31, attempt=2**60)]
    for each in marks:
        with files.create(f"{MARKS}/{each.name}"):
            pass
    assert {*read_marks(files)} == {*marks}
    assert saved_partitions(marks) == {0, 17}


def test_marks_of_tasks_that_do_not_run_any_more_are_deleted_by_others() -> None:
    marks = [Mark(version, 9, "a" * 16, "b" * 8, 1, task, 1, None) for version in range(8) for task in (0, 7)]
    assert {(each.task_id, each.version) for each in marks if each.name in old_marks(marks, 0, 5)} == {
        *((0, version) for version in range(5)),
        *((7, version) for version in range(2)),
    }
