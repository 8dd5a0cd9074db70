"""What the soak of continuous queries judges: growth, and records that are lost, doubled or out of order."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.soak import continuous, plot
from tests.soak.slopes import EachOnceInOrder, Limit, after_warm_up, grows, slope_an_hour

SECONDS = [10.0 * number for number in range(361)]
LIMIT = Limit(an_hour=4.0, at_least=3.0)


@given(st.floats(-100, 100), st.floats(-1_000, 1_000))
def test_the_slope_of_a_line_is_its_growth_in_an_hour(an_hour: float, begin: float) -> None:
    values = [begin + an_hour * at / 3_600 for at in SECONDS]
    assert slope_an_hour(SECONDS, values) == pytest.approx(an_hour, abs=1e-6)


def test_samples_of_one_moment_have_no_slope() -> None:
    assert slope_an_hour([5.0, 5.0], [1.0, 2.0]) == 0.0


def test_the_warm_up_is_a_quarter_of_the_run() -> None:
    assert after_warm_up([0.0, 10.0, 20.0, 30.0, 40.0]) == 1


@pytest.mark.parametrize(
    ("an_hour", "hours", "is_growth"),
    [(0.0, 1.0, False), (3.9, 1.0, False), (5.0, 1.0, True), (5.0, 0.5, False), (40.0, 0.5, True)],
)
def test_growth_counts_if_it_is_steep_and_large(an_hour: float, hours: float, is_growth: bool) -> None:
    seconds = [hours * at for at in SECONDS]
    noise = [0.5 * (number % 3) for number in range(len(seconds))]
    values = [100 + an_hour * at / 3_600 + more for at, more in zip(seconds, noise, strict=True)]
    assert grows(seconds, values, LIMIT) is is_growth


def test_what_grows_in_the_warm_up_only_is_no_growth() -> None:
    values = [100.0 + min(at, 800.0) for at in SECONDS]
    assert not grows(SECONDS, values, LIMIT)


def test_too_few_samples_are_not_judged() -> None:
    assert not grows([0.0, 10.0], [1.0, 1_000.0], LIMIT)


@given(st.integers(1, 200), st.permutations(range(4)))
def test_keys_may_come_in_any_order_of_each_other(written: int, order: list[int]) -> None:
    found = EachOnceInOrder(4)
    for key in order:
        for number in range(key, written, 4):
            found.take(number)
    found.end(written)
    assert found.wrong == []
    assert found.count == written


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((0, 1, 2, 3, 4, 5, 6), "key 1: expected 7 as its last record, got 5"),
        ((0, 1, 2, 3, 4, 5, 6, 7, 5), "record 5: doubled"),
        ((0, 1, 4, 2, 3, 5, 6, 7), "record 4: 2 is missing before it"),
        ((0, 1, 3, 5, 7), "key 0: expected 6 as its last record, got 0"),
    ],
)
def test_a_record_that_is_lost_doubled_or_out_of_order_is_named(numbers: tuple[int, ...], words: str) -> None:
    found = EachOnceInOrder(2)
    for number in numbers:
        found.take(number)
    found.end(8)
    assert any(words in each for each in found.wrong), found.wrong


def sampled(**growing: float) -> list[dict[str, float]]:
    return [
        dict.fromkeys(continuous.COLUMNS, 10.0)
        | {"seconds": at}
        | {column: 10 + an_hour * at / 3_600 for column, an_hour in growing.items()}
        for at in SECONDS
    ]


def test_what_grows_fails_the_soak_by_its_name() -> None:
    assert continuous.problems_of(sampled()) == []
    growing = {
        "workers_mb": 20.0,
        "driver_files": 5.0,
        "jvm_threads": 5.0,
        "behind": 900.0,
        "broker_mb": 90.0,
    }
    found = continuous.problems_of(sampled(**growing))
    assert sorted(found) == ["behind grows", "driver_files grows", "jvm_threads grows", "workers_mb grows"]


def test_the_figures_say_the_growth_and_the_cores() -> None:
    found = continuous.figures_of(sampled(workers_mb=3_600.0, workers_cpu_s=360.0))
    assert found["workers_mb"]["an_hour"] == 3_600.0
    assert found["workers_cores"] == 0.1


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_a_process_holds_memory_files_and_threads() -> None:
    found = continuous._held([os.getpid()])
    assert found["mb"] > 5
    assert found["threads"] >= 1
    assert found["files"] >= 3
    assert continuous._held([]) == dict.fromkeys(found, 0.0)


def test_a_plot_has_a_line_for_each_process_and_figure(tmp_path: Path) -> None:
    file = tmp_path / "samples.csv"
    with file.open("w", newline="") as out:
        lines = csv.DictWriter(out, continuous.COLUMNS)
        lines.writeheader()
        for at in range(8):
            lines.writerow({column: at * (10 if column == "seconds" else 1) for column in continuous.COLUMNS})
    *panels, behind = plot.drawn(plot.read(file)).axes
    assert [panel.get_ylabel() for panel in panels] == list(plot.PANELS.values())
    for panel in (*panels, behind):
        assert len(panel.lines) == (1 if panel is behind else len(continuous.ROLES))
        assert all(list(line.get_ydata()) == list(range(8)) for line in panel.lines)
        assert list(panel.lines[0].get_xdata()) == [at / 6 for at in range(8)]


def test_samples_without_a_line_are_not_drawn(tmp_path: Path) -> None:
    (tmp_path / "samples.csv").write_text(",".join(continuous.COLUMNS) + "\n")
    with pytest.raises(ValueError, match="has no sample"):
        plot.read(tmp_path / "samples.csv")
