"""`python -m benchmarks.backlog` reads each record of a stand-in once, and finds memory that grows."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.backlog import Job, faults, growth_mb, measure
from benchmarks.stand_in import Shape

RANDOM = Shape(brokers=1, topics=1, partitions=1, records=61, value_bytes=16 << 10)
GIGABYTES = 0.4


def test_a_small_backlog_is_read_whole_in_little_memory() -> None:
    found = measure(RANDOM, GIGABYTES, Job())
    assert found["faults"] == []
    assert found["wire_gb"] == pytest.approx(GIGABYTES, rel=0.01)
    assert found["requests"]["Fetch"] < 200


def test_a_leak_is_found() -> None:
    [fault] = measure(RANDOM, GIGABYTES, Job(leaks=True))["faults"]
    assert "memory of the task grew" in fault


def test_one_task_reads_topic_partitions_of_several_brokers() -> None:
    shape = Shape(3, 2, 3, records=20, value_bytes=500, kind="events", compression="lz4")
    found = measure(shape, 0.002, Job(one_task=True))
    assert found["faults"] == []
    assert found["tasks"] == 1
    assert found["arrow_gb"] > 2 * found["wire_gb"]


def test_a_read_that_is_ended_early_is_not_a_whole_one() -> None:
    found = measure(RANDOM, 10, Job(minutes=0))
    assert found["faults"] == []
    assert not found["is_whole"]
    assert found["wire_gb"] < 1


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"rows": 9}, "expected 10 rows, got 9"),
        ({"incomplete_tasks": 1}, "1 tasks did not get each offset once"),
        ({"peak_mb": 300.0}, "the task had 300.0 MB"),
        ({"grown_mb": 16.0}, "the memory of the task grew by 16.0 MB"),
    ],
)
def test_each_fault_is_named(changed: dict[str, Any], fault: str) -> None:
    found: dict[str, Any] = {"rows": 10, "incomplete_tasks": 0, "peak_mb": 299.0, "grown_mb": 15.0}
    assert faults(found, rows=10) == []
    assert faults(found | changed, rows=10) == [fault]


def test_growth_is_that_from_the_second_quarter_to_the_last() -> None:
    assert growth_mb([(at, mb) for at, mb in enumerate([100, 150, 190, 191, 189, 190, 192, 190])]) == 1
    assert growth_mb([(at, 100.0 + at) for at in range(100)]) == 50
    assert growth_mb([(0, 100)]) == 0
