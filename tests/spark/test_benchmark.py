"""The benchmark works, and all who take part find the same: each case once, with few records."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks import harness, planning, streaming
from benchmarks.cases import CASES
from benchmarks.inputs import INPUTS, OUTPUT_TOPIC, PARTITION_COUNT, fill, make_topic
from benchmarks.systems import PENSTOCK, Bench
from pyspark.sql import SparkSession

RECORDS = 4_000


@pytest.fixture(scope="module")
def bench(spark: SparkSession, bootstrap: str) -> Bench:
    make_topic(bootstrap, OUTPUT_TOPIC, PARTITION_COUNT)
    return Bench(spark, bootstrap, "", OUTPUT_TOPIC, RECORDS)


@pytest.fixture(scope="module")
def filled() -> set[str]:
    """The input topics that there are."""
    return set()


@pytest.mark.parametrize("name", CASES)
def test_everybody_gives_the_same_answer(
    bench: Bench, filled: set[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if name == "read-200-partitions":  # Spark's own needs a second for each
        monkeypatch.setitem(INPUTS, "orders-200-partitions", replace(INPUTS["orders"], partition_count=5))
    case = CASES[name]
    if not case.is_generated and case.input_topic not in filled:
        fill(bench.bootstrap_servers, case.input_topic, RECORDS)
        filled.add(case.input_topic)
    count = INPUTS[case.input_topic].count(RECORDS)
    own = replace(bench, input_topic=case.input_topic, record_count=count)
    said: list[str] = []
    found = harness.measure_case(name, case, own, rounds=0, say=said.append)
    assert set(found) == set(case.systems(with_flink=False))
    assert len(said) == len(found)


def test_a_stream_is_seen_whole_and_timed(bench: Bench) -> None:
    durations = streaming.Durations(warm_up_s=0, small_s=1.0, idle_s=0.5)
    found = streaming.measure(bench, [PENSTOCK], 1, durations, say=str)
    late = found[streaming.LATENCY][PENSTOCK]
    assert 0 < late["p50_ms"] <= late["p99_ms"]


def test_planning_is_timed(bootstrap: str) -> None:
    found = planning.measure(bootstrap, 20, rounds=1)
    assert set(found) == set(planning.LIMITS)
    assert all(0 < seconds < 60 for seconds in found.values())
