"""The benchmark's report, and the bounds of a run."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from benchmarks import exactly_once, metrics_cost, micro_batches, planning, report, streaming
from benchmarks.__main__ import EXACTLY_ONCE, PLANNED_PARTITIONS
from benchmarks.cases import CASES
from benchmarks.changelogs import decode, many_keys, normalize
from benchmarks.changelogs.messages import FORMATS
from benchmarks.harness import WrongAnswerError, check_answer
from benchmarks.measured import Measured, Measures
from benchmarks.systems import CONFLUENT, FLINK, PENSTOCK, PENSTOCK_TUNED, SPARK_DEFAULT, SPARK_TUNED
from benchmarks.usage import Spent

CASE = "raw-read-noop"
PLANNING = f"planning-{PLANNED_PARTITIONS}-topic-partitions"
MILLISECONDS = dict.fromkeys(exactly_once.GUARANTEES, 1.0)
MILLISECONDS_BY_SYSTEM = {PENSTOCK: 100.0, SPARK_TUNED: 1_234.0}


def streams(figure: str, ratio: str) -> dict[str, dict[str, float]]:
    systems = streaming.everybody(with_flink=True)
    found = {system: {figure: 2.0} for system in systems} | {SPARK_TUNED: {figure: 4.0}}
    streaming.add_ratios(found, figure, ratio)
    assert found[PENSTOCK][ratio] == 0.5
    assert ratio not in found[FLINK]
    return found


def measured(*seconds: float) -> Measured:
    found = Measured(2_000_000, 200_000_000)
    for each in seconds:
        found.add(each, Spent({"broker": each / 10}, {"broker": 100 * each}))
    return found


def a_run() -> report.Run:
    systems = {PENSTOCK: measured(1.0, 9.0, 2.0), SPARK_DEFAULT: measured(5.0), SPARK_TUNED: measured(2.9)}
    figures = {EXACTLY_ONCE: {PENSTOCK: {"throughput_ratio": 0.89}}}
    return report.Run({"processor": "two cores"}, {"rounds": 3}, {CASE: systems}, figures)


def test_medians_make_the_rates() -> None:
    found = measured(1.0, 9.0, 2.0).as_json()
    assert (found["median_s"], found["records_per_s"], found["mb_per_s"]) == (2.0, 1_000_000, 100.0)
    assert (found["cpu_s"], found["peak_memory_mb"]) == ({"broker": 0.2}, {"broker": 900})


def test_each_bound_that_is_missed_is_told() -> None:
    missed = report.missed_bounds(a_run())
    assert missed == [
        f"{CASE}: 1.45x of {SPARK_TUNED}, at least 1.5x wanted",
        f"{EXACTLY_ONCE}: throughput_ratio of {PENSTOCK} is 0.89, wanted is {{'at_least': 0.9}}",
    ]


def test_what_was_not_measured_misses_nothing_and_is_told() -> None:
    nothing = report.Run({}, {})
    assert report.missed_bounds(nothing) == []
    everything = report.unmeasured_bounds(nothing)
    assert {f"{CASE}: {FLINK}", f"{EXACTLY_ONCE}: throughput_ratio of {PENSTOCK}"} <= set(everything)
    told = report.unmeasured_bounds(a_run())
    assert set(everything) - set(told) == {
        f"{CASE}: {SPARK_DEFAULT}",
        f"{CASE}: {SPARK_TUNED}",
        f"{EXACTLY_ONCE}: throughput_ratio of {PENSTOCK}",
    }


def test_flink_is_held_against_the_penstock_that_reads_the_columns_that_flink_reads() -> None:
    case = "raw-read-aggregate"
    systems = {PENSTOCK: measured(2.0), FLINK: measured(2.2), PENSTOCK_TUNED: measured(1.0)}
    run = report.Run({}, {}, {case: systems})
    assert report.missed_bounds(run) == []
    assert f"| {case} ({PENSTOCK_TUNED}) | {FLINK} | 2.20x | 1.3x | 1.3x |" in report.markdown(run, "any")
    systems[PENSTOCK_TUNED] = measured(2.0)
    assert report.missed_bounds(run) == [f"{case}: 1.10x of {FLINK}, at least 1.3x wanted"]


def test_the_bounds_name_what_is_measured() -> None:
    bounds = json.loads(report.BOUNDS.read_text())
    for bound in report.ratio_bounds():
        assert {bound.other, bound.system} <= set(CASES[bound.case].systems(with_flink=True))
        assert bound.system in {PENSTOCK, PENSTOCK_TUNED}
        assert 0 < bound.at_least <= bound.aim
    figures = {
        EXACTLY_ONCE: set(exactly_once.Report(1, MILLISECONDS, MILLISECONDS).figures()),
        PLANNING: {f"{name}_s" for name in planning.LIMITS},
    }
    found: Measures = {measure: {PENSTOCK: dict.fromkeys(names, 1.0)} for measure, names in figures.items()}
    found |= micro_batches.as_measures(MILLISECONDS_BY_SYSTEM, MILLISECONDS)
    of_metrics = {metrics_cost.WITHOUT: 100.0, metrics_cost.WITH: 101.0}
    found |= metrics_cost.as_measures(of_metrics, of_metrics, 0.5)
    assert found[metrics_cost.RAW][PENSTOCK][metrics_cost.RATIO] == 1.01
    found[streaming.SMALL] = streams("cpu_ms_per_200_ms", streaming.CPU_RATIO)
    found[streaming.SHORTEST] = streams("p50_ms", streaming.P50_RATIO)
    found[normalize.MEASURE] = {PENSTOCK: {normalize.OVER_SCAN: 1.0}}
    of_keys = (many_keys.SMALL_RATIO, many_keys.RESTART, many_keys.DISK_RATIO)
    found[many_keys.MEASURE] = {PENSTOCK: dict.fromkeys(of_keys, 1.0)}
    found |= {decode.measure_name(each): decode.figures(decoding_times(), 100) for each in FORMATS}
    for measure, systems in bounds["figures"].items():
        for system, names in systems.items():
            assert set(names) <= set(found[measure][system])


def decoding_times() -> decode.AllTimes:
    """Seconds, and CPU microseconds a message, of each system: raw, and decoded."""
    times = {PENSTOCK: (1.0, 3.0), SPARK_TUNED: (2.0, 9.0), FLINK: (1.5, 4.5)}
    return {
        (system, is_raw): decode.Times([seconds[1 - is_raw]] * 3, [2 * seconds[1 - is_raw]] * 3)
        for system, seconds in times.items()
        for is_raw in (True, False)
    }


def test_the_ratios_of_decoding_are_of_the_whole_read_and_of_what_it_costs_over_a_raw_read() -> None:
    found = decode.figures(decoding_times(), 300)
    assert found[PENSTOCK] == {
        "messages_per_s": 100,
        "raw_messages_per_s": 300,
        "cpu_us": 6.0,
        "cpu_us_over_raw": 4.0,
        "times_as_fast_as_spark": 3.0,
        "decoding_times_spark": 3.5,
        "times_as_fast_as_flink": 1.5,
        "decoding_times_flink": 1.5,
    }
    assert set(found[FLINK]) == {"messages_per_s", "raw_messages_per_s", "cpu_us", "cpu_us_over_raw"}


def test_the_ratios_of_small_batches() -> None:
    times = dict(zip(micro_batches.GUARANTEES, (100.0, 130.0), strict=True))
    found = micro_batches.as_measures(MILLISECONDS_BY_SYSTEM, times)
    assert found[micro_batches.MANY_MEASURE] == {
        PENSTOCK: {"batch_ms": 100.0, micro_batches.TIMES_AS_FAST: 12.34},
        SPARK_TUNED: {"batch_ms": 1_234.0},
    }
    assert found[micro_batches.SHUFFLE_MEASURE][PENSTOCK][micro_batches.EXACTLY_ONCE_RATIO] == 1.3


def test_a_run_is_saved_as_json_as_markdown_and_as_a_plot(tmp_path: Path) -> None:
    page = report.save(a_run(), "named", tmp_path).read_text()
    assert f"| {CASE} | penstock | 1.00 | 100 |  | broker 0.2 | broker 900 |" in page
    assert f"|  | {SPARK_DEFAULT} | 0.40 | 40 | 2.50x | broker 0.5 | broker 500 |" in page
    assert "- processor: two cores" in page
    saved = json.loads((tmp_path / "named.json").read_text())
    assert saved["cases"][CASE][PENSTOCK]["seconds"] == [1.0, 9.0, 2.0]
    plotted = ElementTree.fromstring((tmp_path / "named.svg").read_text())  # noqa: S314 - ours
    bars = [float(each.get("width", "")) for each in plotted.iterfind(".//{*}rect") if each.get("x")]
    assert bars == pytest.approx([420, 168, 420 * 2 / 2.9], abs=0.1)


def test_flink_takes_part_when_it_is_asked_for() -> None:
    assert FLINK not in CASES[CASE].systems(with_flink=False)
    assert FLINK in CASES[CASE].systems(with_flink=True)
    assert FLINK in streaming.everybody(with_flink=True)
    assert CASES[CASE].systems(with_flink=False)[0] == PENSTOCK


@pytest.mark.parametrize("found", [(9, 500), (10, 501), (11,)])
def test_another_answer_than_the_others_ends_the_run(found: tuple[int, ...]) -> None:
    with pytest.raises(WrongAnswerError, match=CONFLUENT):
        check_answer(CASE, CONFLUENT, found, expected=(10, 500), count=10)


def test_the_number_of_records_has_to_be_right_for_the_first_too() -> None:
    with pytest.raises(WrongAnswerError, match="9 records instead of 10"):
        check_answer(CASE, PENSTOCK, (9, 500), expected=None, count=10)


def test_who_tells_less_is_held_to_that() -> None:
    assert check_answer(CASE, CONFLUENT, (10,), expected=(10, 500), count=10) == (10, 500)
