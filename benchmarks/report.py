"""Show what a run measured: JSON, Markdown, a table in the terminal, a plot. Compare it with `bounds.json`.

Invariant: everything that is shown is computed from the JSON file. Figures of two runs are never mixed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.harness import SLOW_S, WARM_UPS
from benchmarks.measured import Cases, Measured, Measures
from benchmarks.systems import FLINK, PENSTOCK, PENSTOCK_TUNED, SPARK_DEFAULT, SPARK_TUNED

RESULTS = Path(__file__).parent / "results"
BOUNDS = Path(__file__).parent / "bounds.json"
_HEADINGS = ("case", "system", "M records/s", "MB/s", "penstock is", "CPU s", "peak MB")
_BOUND_HEADINGS = ("case", "against", "times as fast", "aim", "held to")
_COLORS = {
    PENSTOCK: "#2f6f4f",
    PENSTOCK_TUNED: "#5fa37f",
    SPARK_DEFAULT: "#c9a227",
    SPARK_TUNED: "#b5651d",
    FLINK: "#b03a5b",
}
_OTHER_COLOR = "#9aa5b1"


@dataclass
class Run:
    """All measurements of one run."""

    machine: dict[str, str]
    settings: dict[str, int]
    cases: Cases = field(default_factory=dict)
    measures: Measures = field(default_factory=dict)


@dataclass(frozen=True)
class Bound:
    """How many times as fast as another system penstock should be in a case, and must be.

    `aim` is the goal. `at_least` is the bound of a run. It is lower than the goal if
    docs/performance-parts.md says why the goal is not reached. `system` is the penstock that is compared: as
    it comes, or tuned.
    """

    case: str
    other: str
    aim: float
    at_least: float
    system: str

    def reached(self, run: Run) -> float | None:
        """Return the ratio that a run measured, or None if it did not measure both systems."""
        return ratio(run.cases.get(self.case, {}), self.other, self.system)


def ratio(systems: dict[str, Measured], other: str, system: str = PENSTOCK) -> float | None:
    """Return how many times as fast as `other` penstock was."""
    if other not in systems or system not in systems:
        return None
    return systems[other].median_s / systems[system].median_s


def ratio_bounds() -> list[Bound]:
    """Read the bounds from `bounds.json`."""
    found = json.loads(BOUNDS.read_text())["ratios"]
    return [
        Bound(case, other, each["aim"], each.get("at_least", each["aim"]), each.get("system", PENSTOCK))
        for case, others in found.items()
        for other, each in others.items()
    ]


def save(run: Run, name: str, folder: Path = RESULTS) -> Path:
    """Write `<name>.json`, `<name>.md` and `<name>.svg`."""
    cases = {
        case: {system: measured.as_json() for system, measured in systems.items()}
        for case, systems in run.cases.items()
    }
    found = {"machine": run.machine, "settings": run.settings, "cases": cases, "measures": run.measures}
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(found, indent=2) + "\n")
    (folder / f"{name}.svg").write_text(plot(run.cases))
    path = folder / f"{name}.md"
    path.write_text(markdown(run, name))
    return path


def show(run: Run, console: Console) -> None:
    """Make the tables for the terminal: processor time of all processes, memory of the largest one."""
    table = Table(*_HEADINGS, title="Throughput, medians")
    for row in _rows(run.cases, is_brief=True):
        table.add_row(*row)
    console.print(table)
    table = Table(*_BOUND_HEADINGS, title="Aims")
    for bound in _bound_rows(run):
        table.add_row(*bound)
    console.print(table)
    if run.measures:
        table = Table("measure", "system", "figures", title="Other measures")
        for measure in _measure_rows(run.measures):
            table.add_row(*measure)
        console.print(table)


def markdown(run: Run, name: str) -> str:
    """Make the Markdown page of a run."""
    settings = ", ".join(f"{value:,} {what}" for what, value in run.settings.items())
    lines = [
        "# What `make bench` measured",
        "",
        *described(run.machine),
        f"- {settings}; {WARM_UPS} warm-ups of each system, then the systems in turn; medians",
        f"- who took more than {SLOW_S:.0f} s to warm up was warmed up once",
        "",
        "Every row of a case gave the same answer. CPU seconds and peak memory are of the kinds of processes",
        "that take part, memory of the largest process. A JVM gives hardly any memory back: Spark's holds",
        "what any system before made it take. Spark's own connector writes at-least-once in every case.",
        "Flink's times leave out its planning and start, the others' contain Spark's; its CPU seconds leave",
        "out nothing.",
        "",
        f"![Million records a second]({name}.svg)",
        "",
        *markdown_table(_BOUND_HEADINGS, _bound_rows(run)),
        "",
        *markdown_table(_HEADINGS, _rows(run.cases)),
    ]
    if run.measures:
        lines += ["", *markdown_table(("measure", "system", "figures"), _measure_rows(run.measures))]
    return "\n".join([*lines, ""])


def described(machine: dict[str, str]) -> list[str]:
    """Return machine and versions, in Markdown."""
    return [f"- {what}: {value}" for what, value in machine.items()]


def markdown_table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the lines of a Markdown table."""
    lines = [headings, tuple("---" for _ in headings), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def plot(cases: Cases) -> str:
    """Draw bars of million records a second, as SVG."""
    bars = [
        (case if system == PENSTOCK else "", system, measured.records_per_s / 1e6)
        for case, systems in cases.items()
        for system, measured in systems.items()
    ]
    widest = max((rate for _, _, rate in bars), default=1.0)
    lines, y = [], 30
    for case, system, rate in bars:
        y += 12 if case else 0
        width = 420 * rate / widest
        color = _COLORS.get(system, _OTHER_COLOR)
        lines += [
            f'<text x="10" y="{y + 12}" font-weight="bold">{escape(case)}</text>',
            f'<text x="300" y="{y + 12}" text-anchor="end">{escape(system)}</text>',
            f'<rect x="310" y="{y}" width="{width:.1f}" height="15" fill="{color}"/>',
            f'<text x="{315 + width:.1f}" y="{y + 12}">{rate:.2f}</text>',
        ]
        y += 19
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="800" height="{y + 20}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
        '<text x="10" y="18">Million records a second, median</text>'
    )
    return "\n".join([head, *lines, "</svg>", ""])


def missed_bounds(run: Run) -> list[str]:
    """Return each bound of `bounds.json` that was measured and is not reached."""
    missed = [
        f"{bound.case}: {found:.2f}x of {bound.other}, at least {bound.at_least}x wanted"
        for bound in ratio_bounds()
        if (found := bound.reached(run)) is not None and found < bound.at_least
    ]
    return missed + [
        f"{measure}: {figure} of {system} is {found}, wanted is {limits}"
        for measure, system, figure, limits in _figure_bounds()
        if (found := _figure(run, measure, system, figure)) is not None and not _is_within(found, limits)
    ]


def unmeasured_bounds(run: Run) -> list[str]:
    """Return each bound that the run did not measure."""
    ratios = [f"{bound.case}: {bound.other}" for bound in ratio_bounds() if bound.reached(run) is None]
    return ratios + [
        f"{measure}: {figure} of {system}"
        for measure, system, figure, _ in _figure_bounds()
        if _figure(run, measure, system, figure) is None
    ]


def _figure_bounds() -> Iterator[tuple[str, str, str, dict[str, float]]]:
    for measure, systems in json.loads(BOUNDS.read_text())["figures"].items():
        for system, figures in systems.items():
            for figure, limits in figures.items():
                yield measure, system, figure, limits


def _figure(run: Run, measure: str, system: str, figure: str) -> float | None:
    return run.measures.get(measure, {}).get(system, {}).get(figure)


def _is_within(figure: float, limits: dict[str, float]) -> bool:
    return limits.get("at_least", figure) <= figure <= limits.get("at_most", figure)


def _bound_rows(run: Run) -> list[tuple[str, ...]]:
    return [
        (
            bound.case + ("" if bound.system == PENSTOCK else f" ({bound.system})"),
            bound.other,
            f"{found:.2f}x",
            f"{bound.aim}x",
            f"{bound.at_least}x",
        )
        for bound in ratio_bounds()
        if (found := bound.reached(run)) is not None
    ]


def _rows(cases: Cases, *, is_brief: bool = False) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for case, systems in cases.items():
        for system, measured in systems.items():
            found = ratio(systems, system)
            rows.append(
                (
                    case if system == PENSTOCK else "",
                    system,
                    f"{measured.records_per_s / 1e6:.2f}",
                    f"{measured.mb_per_s:.0f}",
                    "" if system == PENSTOCK or found is None else f"{found:.2f}x",
                    _by_kind(measured.cpu_s, "{:.1f}", sum if is_brief else None),
                    _by_kind(measured.peak_memory_mb, "{:.0f}", max if is_brief else None),
                )
            )
    return rows


def _by_kind(
    figures: dict[str, float], form: str, together: Callable[[Iterable[float]], float] | None
) -> str:
    """Show the figures of each kind of process, or one figure for all."""
    if together is not None:
        return form.format(together([*figures.values(), 0.0]))
    shown = {kind: form.format(figure) for kind, figure in figures.items()}
    return ", ".join(f"{kind} {figure}" for kind, figure in shown.items() if float(figure))


def _measure_rows(measures: Measures) -> list[tuple[str, ...]]:
    return [
        (
            measure if number == 0 else "",
            system,
            ", ".join(f"{name} {figure:g}" for name, figure in figures.items()),
        )
        for measure, systems in measures.items()
        for number, (system, figures) in enumerate(systems.items())
    ]
