"""`penstock.progress`: a progress bar for a query that has an end, in a terminal or a notebook.

Runs in the user's program, on Spark classic and Connect. Invariant: only the query's progress reports are
read; the query does not notice.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.observe.progress import kafka_positions, start_positions
from penstock.source.checkpoint_offset import Positions

_POLL_S = 0.2


@dataclass(frozen=True)
class Passed:
    """How far a query is.

    Attributes:
        done: offsets that it has passed since it was started.
        total: offsets from there to the ends of the logs in the last report.
        batches: batches that have ended.
    """

    done: int
    total: int
    batches: int


def progress(query: Any, timeout: float | None = None, *, console: Any = None) -> bool:
    """Show how far a streaming query is until it has ended. Return whether it has ended.

    The bar has records, rate and time left. It counts offsets of the sources that read Kafka, penstock's and
    Spark's own, to the ends of the logs. With `availableNow` these are fixed. It is drawn in terminals and
    notebooks; elsewhere only its last state is printed.

    Args:
        query: a running StreamingQuery.
        timeout: seconds to wait at most; None: until the query ends.
        console: a `rich.console.Console`; None: stdout.

    Raises:
        StreamingQueryException: the query failed.
    """
    deadline_s = None if timeout is None else time.monotonic() + timeout
    meter = _Meter()
    with new_bars(console) as shown:
        task = shown.add_task(query.name or "query", total=0, rate="")
        begun_s = time.monotonic()
        while True:
            has_ended = bool(query.awaitTermination(_POLL_S))
            passed = meter.after(_reports(query, meter))
            rate = passed.done / max(time.monotonic() - begun_s, 1e-9)
            shown.update(task, completed=passed.done, total=passed.total, rate=f"{rate:,.0f}/s", refresh=True)
            if has_ended or (deadline_s is not None and time.monotonic() >= deadline_s):
                return has_ended


def _reports(query: Any, meter: _Meter) -> Sequence[Any]:
    """Return the newest report; all that Spark keeps, which are a hundred, while a start is unknown."""
    if not meter.knows_starts:
        found: Sequence[Any] = query.recentProgress
        return found
    last = query.lastProgress
    return [] if last is None else [last]


def new_bars(console: Any) -> Any:
    """Return the `rich.progress.Progress` for a terminal, a notebook or a file. A task has the field `rate`.

    Args:
        console: a `rich.console.Console`; None: stdout.
    """
    from rich import get_console  # noqa: PLC0415 - lazy
    from rich.progress import Progress  # noqa: PLC0415 - lazy

    if not (console or get_console()).is_jupyter:
        return Progress(*_columns(), console=console)
    from penstock.observe.notebook_bar import NotebookProgress  # noqa: PLC0415 - only in a kernel

    return NotebookProgress(*_columns())


def _columns() -> tuple[Any, ...]:
    """Return the columns of a bar. A task without a total only counts."""
    from rich.progress import BarColumn, ProgressColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415 - lazy
    from rich.text import Text  # noqa: PLC0415 - lazy

    class _Records(ProgressColumn):
        def render(self, task: Any) -> Text:
            of_total = "" if task.total is None else f" of {task.total:,.0f}"
            return Text(f"{task.completed:,.0f}{of_total} records, {task.fields['rate']}")

    return TextColumn("{task.description}"), BarColumn(), _Records(), TimeRemainingColumn()


class _Meter:
    """Adds up progress reports. Spark keeps the last hundred, so the first is remembered here."""

    def __init__(self) -> None:
        self._starts: dict[int, Positions] = {}
        self.knows_starts = False

    def after(self, reports: Sequence[Any]) -> Passed:
        """Return how far the query is by its reports, oldest first."""
        if not reports:
            return Passed(0, 0, 0)
        for report in reports:
            for number, source in enumerate(report.sources):
                if number not in self._starts and (start := start_positions(source)) is not None:
                    self._starts[number] = start
        self.knows_starts = all(
            number in self._starts or _is_of_another_system(source)
            for number, source in enumerate(reports[-1].sources)
        )
        done = total = 0
        for number, source in enumerate(reports[-1].sources):
            of_source = _passed(self._starts.get(number, {}), source)
            done, total = done + of_source[0], total + of_source[1]
        return Passed(done, max(done, total), len(reports))


_NOT_READ_YET = (None, "None", "null")
"""An offset that is missing. PySpark makes a text of it."""


def _is_of_another_system(source: Any) -> bool:
    """Return whether a source has read, and not Kafka."""
    return source.endOffset not in _NOT_READ_YET and kafka_positions(source.endOffset) is None


def _passed(start: Mapping[Any, int], source: Any) -> tuple[int, int]:
    """Return the offsets passed, and those to the ends of the logs. A new topic partition begins at 0."""
    end, latest = kafka_positions(source.endOffset), kafka_positions(source.latestOffset)
    if end is None:
        return 0, 0
    done = {tp: max(0, position - start.get(tp, 0)) for tp, position in end.items()}
    left = [max(0, last - end[tp]) for tp, last in (latest or {}).items() if tp in end]
    return sum(done.values()), sum(done.values()) + sum(left)
