"""The benchmark works, and all systems get the same result: each case once, with few records."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks import exactly_once, harness, metrics_cost, micro_batches, nexmark, planning, streaming
from benchmarks.cases import CASES
from benchmarks.changelogs import decode, many_keys, normalize, sums
from benchmarks.changelogs.messages import FORMATS
from benchmarks.inputs import INPUTS, OUTPUT_TOPIC, PARTITION_COUNT, fill, make_topic
from benchmarks.measured import Measured
from benchmarks.sql import first_rows
from benchmarks.sql import runs as sql_runs
from benchmarks.systems import PENSTOCK, SPARK_DEFAULT, SPARK_TUNED, Bench, taking_part
from benchmarks.usage import SPARK_JVM
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
    found, said = _measured(bench, filled, name, rounds=0)
    assert set(found) == set(CASES[name].systems(with_flink=False))
    assert len(said) == len(found)


def test_a_row_tells_what_its_system_took(bench: Bench, filled: set[str]) -> None:
    found, _ = _measured(bench, filled, "raw-read-aggregate", rounds=1)
    for system in (PENSTOCK, SPARK_DEFAULT):
        spent = found[system]
        assert spent.median_s > 0
        assert set(spent.cpu_s) == set(spent.peak_memory_mb) == taking_part(system)
        assert min(spent.peak_memory_mb.values()) > 20
        assert spent.cpu_s[SPARK_JVM] > 0


def test_a_stream_is_seen_whole_and_timed(bench: Bench) -> None:
    durations = streaming.Durations(warm_up_s=0, small_s=1.0, idle_s=0.5)
    found = streaming.measure(bench, [PENSTOCK], 1, durations, say=str)
    late = found[streaming.LATENCY][PENSTOCK]
    assert 0 < late["p50_ms"] <= late["p99_ms"]


def test_a_stream_without_a_trigger_is_timed(bench: Bench) -> None:
    durations = streaming.Durations(warm_up_s=0, small_s=0.5)
    found = streaming.measure_shortest_trigger(bench, 1, durations, say=str)[streaming.SHORTEST]
    assert found[PENSTOCK][streaming.P50_RATIO] > 0
    assert found[SPARK_TUNED]["p50_ms"] > 0


def test_small_batches_are_timed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {"MANY_PARTITIONS": 6, "SHUFFLE_PARTITIONS": 3, "WARM_UP_BATCHES": 0, "SLOW_MS": 0}
    for name, value in few.items():
        monkeypatch.setattr(micro_batches, name, value)
    found = micro_batches.measure(bench, 1, 2, say=str)
    assert found[micro_batches.MANY_MEASURE][PENSTOCK][micro_batches.TIMES_AS_FAST] > 0
    assert found[micro_batches.SHUFFLE_MEASURE][PENSTOCK][micro_batches.EXACTLY_ONCE_RATIO] > 0


def test_the_cost_of_metrics_is_timed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SMALL_RECORDS": 20, "SCRAPED_PARTITIONS": 50, "WARM_UP_BATCHES": 0}.items():
        monkeypatch.setattr(metrics_cost, name, value)
    monkeypatch.setattr(micro_batches, "WARM_UP_BATCHES", 0)
    found = metrics_cost.measure(bench, 1, 2, say=str)
    assert set(found) == {metrics_cost.RAW, metrics_cost.SMALL, metrics_cost.SCRAPE}
    for name in (metrics_cost.RAW, metrics_cost.SMALL):
        assert found[name][PENSTOCK][metrics_cost.RATIO] > 0


def test_exactly_once_is_timed_beside_at_least_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exactly_once, "POLL_S", 0.2)
    found = exactly_once.measure(bench, seconds=0.05, rounds=1, small_batches=1)
    assert found.records_per_batch > PARTITION_COUNT
    for durations_ms in (found.large_batch_ms, found.small_batch_ms):
        assert set(durations_ms) == set(exactly_once.GUARANTEES)
        assert min(durations_ms.values()) > 0
    assert found.throughput_ratio > 0


def test_planning_is_timed(bootstrap: str) -> None:
    found = planning.measure(bootstrap, 20, rounds=1)
    assert set(found) == set(planning.LIMITS)
    assert all(0 < seconds < 60 for seconds in found.values())


def test_operators_over_changelogs_are_timed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"EVENTS": 4_000, "KEYS": 100, "BATCHES": 2}.items():
        monkeypatch.setattr(normalize, name, value)
    few = {"FEW_KEYS": 200, "LOADED_ROWS": 1_000, "SMALL_ROWS": 10, "SMALL_BATCHES": 2, "WARM_UP_BATCHES": 0}
    for name, value in few.items():
        monkeypatch.setattr(many_keys, name, value)
    found = normalize.measure(bench, 1, warm_ups=1)
    assert min(found[each]["cpu_us"] for each in (PENSTOCK, normalize.MAX_BY, normalize.KEYED_STATE)) > 0
    for name, value in {"EVENTS": 400, "BATCHES": 2, "WARM_UPS": 0}.items():
        monkeypatch.setattr(sums, name, value)
    monkeypatch.setattr(sums, "GROUPS", (3,))
    assert len(sums.measure(bench.spark, 1)) == 2
    of_many = many_keys.measure(bench.spark, 1_500)[PENSTOCK]
    assert min(of_many[each] for each in (many_keys.SMALL_RATIO, many_keys.DISK_RATIO)) > 0
    assert of_many[many_keys.RESTART] > 0
    assert of_many[many_keys.WORKER_PEAK] > 20


def test_every_changelog_format_gives_the_rows_of_sparks_own_functions(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode, "BLOCK", 40)
    said: list[str] = []
    decode.measure(bench, 0, 100, said.append)
    assert said == [f"{decode.measure_name(each)}: same answer" for each in FORMATS]


def test_a_changelog_format_is_timed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "BLOCK", 20)
    found = decode.measure(bench, 1, 20, say=str, formats=["maxwell-json"])
    (figures,) = found.values()
    assert figures[PENSTOCK][decode.TIMES[SPARK_TUNED]] > 0


def test_scripts_of_sql_give_the_rows_that_they_must(spark: SparkSession, bootstrap: str) -> None:
    """Each run compares its rows with those that plain Python makes of the orders."""
    bench = sql_runs.SqlBench(spark, bootstrap)
    for name in ("window-aggregate", "top-n"):
        found = sql_runs.measure_script(name, bench, RECORDS, rounds=1, warm_ups=0, say=str)
        assert found[PENSTOCK].records_per_s > 0
    said: list[str] = []
    first_rows.measure_first_rows(bench, 0, said.append, kinds=[first_rows.WARM])
    assert len(said) == 1


@pytest.mark.parametrize("change", [+1, -1])
def test_a_row_too_many_or_too_few_ends_the_run(change: int) -> None:
    row = (1, "customer-00001", 1)
    with pytest.raises(harness.WrongAnswerError, match="rows instead of 1"):
        sql_runs.check("filter", Counter({row: 1 + change}), Counter({row: 1}))


def _measured(
    bench: Bench, filled: set[str], name: str, rounds: int
) -> tuple[dict[str, Measured], list[str]]:
    case = CASES[name]
    if not case.is_generated and case.input_topic not in filled:
        fill(bench.bootstrap_servers, case.input_topic, RECORDS)
        filled.add(case.input_topic)
    count = INPUTS[case.input_topic].count(RECORDS)
    own = replace(bench, input_topic=case.input_topic, record_count=count)
    said: list[str] = []
    return harness.measure_case(name, case, own, rounds, said.append, warm_ups=1), said


def test_a_query_of_nexmark_is_timed_and_one_that_is_refused_is_told(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    run = nexmark.Nexmark(spark, bootstrap, None, tmp_path)
    topics = {run.fill(count): count for count in (50, 500)}
    found = run.measure("q8", topics, 1, say=str)
    assert found[PENSTOCK].median_s > 0
    assert run.measure("q6", topics, 1, say=str)[PENSTOCK].seconds == []
    assert [*run.refused] == ["q6"]
