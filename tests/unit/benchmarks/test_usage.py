"""The processes whose processor time and memory are in a row of the benchmark."""

from __future__ import annotations

import os
import subprocess

import pytest
from benchmarks import streaming
from benchmarks.cases import CASES
from benchmarks.systems import ARROW, CONFLUENT, FLINK, PENSTOCK, PENSTOCK_TUNED, taking_part
from benchmarks.usage import (
    BROKER,
    DRIVER,
    FLINK_JVM,
    PYTHON_WORKERS,
    SPARK_JVM,
    Process,
    snapshot,
    spent,
)

SYSTEMS = sorted(
    {system for case in CASES.values() for system in case.systems(with_flink=True)}
    | set(streaming.everybody(with_flink=True))
)
IN_PYTHON = {PENSTOCK, PENSTOCK_TUNED, streaming.PENSTOCK_EXACTLY_ONCE, ARROW}


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_system_is_charged_for_those_who_work_for_it(system: str) -> None:
    kinds = taking_part(system)
    assert (FLINK_JVM in kinds) == (system == FLINK)
    assert (SPARK_JVM in kinds) == (system not in {FLINK, CONFLUENT})
    assert (PYTHON_WORKERS in kinds) == (system in IN_PYTHON)
    assert (DRIVER in kinds) == (system == CONFLUENT)
    assert (BROKER in kinds) == (system != ARROW)


def test_what_is_spent_leaves_out_who_takes_no_part() -> None:
    before = {
        1: Process(0, 10.0, 2_700.0, 50.0, FLINK_JVM),
        2: Process(0, 3.0, 300.0, 50.0, SPARK_JVM),
        3: Process(2, 1.0, 90.0, 50.0, PYTHON_WORKERS),
        4: Process(2, 7.0, 500.0, 50.0, PYTHON_WORKERS),  # ends meanwhile
    }
    after = {
        1: Process(0, 12.0, 2_800.0, 50.0, FLINK_JVM),
        2: Process(0, 4.5, 900.0, 50.0, SPARK_JVM),
        3: Process(2, 1.25, 95.0, 50.0, PYTHON_WORKERS),
        5: Process(2, 0.5, 120.0, 50.0, PYTHON_WORKERS),  # begins meanwhile
    }
    found = spent(before, after, {SPARK_JVM, PYTHON_WORKERS, BROKER})
    assert found.cpu_s == {SPARK_JVM: 1.5, PYTHON_WORKERS: 0.75}
    assert found.peak_memory_mb == {SPARK_JVM: 900.0, PYTHON_WORKERS: 120.0}


def test_this_process_and_its_children_are_seen() -> None:
    before = snapshot()
    child = subprocess.Popen(["sleep", "60"])
    try:
        after = snapshot()
    finally:
        child.kill()
        child.wait()
    assert after[os.getpid()].kind == DRIVER
    assert after[os.getpid()].peak_memory_mb > 10
    assert after[os.getpid()].cpu_s > 0
    assert child.pid not in before
    assert after[child.pid].parent_pid == os.getpid()
