"""`penstock.progress` and `penstock.batch_progress`: progress bars, in a terminal or a notebook.

Runs in the user's program, on Spark classic and Connect. A streaming query has progress reports. Of a batch
read Spark reports no records while it runs, so planning and tasks send theirs (`task_reports.py`).
Invariant: the query or read does not notice, also if the program has ended.
"""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from penstock.extras import import_extra
from penstock.observe.progress import kafka_positions, start_positions
from penstock.observe.task_reports import Receiver
from penstock.options.metrics import PROGRESS_REPORT_TO
from penstock.source.checkpoint_offset import Positions

_DRAW_EVERY_S = 0.2
_LAST_REPORTS_S = 0.5
"""How long the last datagrams may be on their way after the last task has ended."""
_NOTEBOOK_HTML = '<pre style="font-family:Menlo,Consolas,monospace;white-space:pre">{code}</pre>'


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
        MissingExtraError: `rich` of the extra `cli` is not installed.
        StreamingQueryException: the query failed.
    """
    deadline_s = None if timeout is None else time.monotonic() + timeout
    meter = _Meter()
    with _Bar(query.name or "query", console) as bar:
        while True:
            has_ended = bool(query.awaitTermination(_DRAW_EVERY_S))
            bar.draw(*meter.after(_reports(query, meter)))
            if has_ended or (deadline_s is not None and time.monotonic() >= deadline_s):
                return has_ended


@contextmanager
def batch_progress(host: str = "127.0.0.1", *, console: Any = None) -> Iterator[dict[str, str]]:
    """Show how far batch reads are, while the block runs. Yield an option for the reads to watch.

        with penstock.batch_progress() as watched:
            rows = spark.read.format("penstock").options(**options).options(**watched).load()
            rows.write.parquet("orders")

    The bar has records, rate and time left, over all reads with the option: each action reads again. It
    counts offsets. It is drawn in terminals and notebooks; elsewhere only its last state is printed.

    Args:
        host: the address of this machine, which the driver and the executors reach by UDP.
        console: a `rich.console.Console`; None: stdout.

    Raises:
        MissingExtraError: `rich` of the extra `cli` is not installed.
        OSError: this machine does not have the address, or it is `0.0.0.0` or `::`.
    """
    reads, is_over = _BatchReads(host), threading.Event()

    def draw_until_over() -> None:
        while not is_over.wait(_DRAW_EVERY_S):
            bar.draw(*reads.passed())

    with closing(reads.receiver), _Bar("read", console) as bar:
        drawing = threading.Thread(target=draw_until_over, name="penstock-batch-progress", daemon=True)
        drawing.start()
        try:
            address = reads.receiver.address
            yield {PROGRESS_REPORT_TO.key: f"{address.host}:{address.port}:{address.token}"}
            reads.wait_for_last_reports()
        finally:
            is_over.set()
            drawing.join()
            bar.draw(*reads.passed())


class _Bar:
    """A bar with records, rate and time left. It alone needs `rich`, and only while a bar is shown.

    Args:
        name: what is read.
        console: a `rich.console.Console`; None: stdout.
    """

    def __init__(self, name: str, console: Any) -> None:
        import_extra("cli", "rich.progress", "A progress bar")
        from rich import get_console  # noqa: PLC0415 - only if a bar is shown
        from rich.console import Console  # noqa: PLC0415 - the same
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415 - the same
        from rich.table import Column  # noqa: PLC0415 - the same

        def paper() -> Console:
            return Console(
                file=io.StringIO(), width=100, record=True, force_terminal=True, force_jupyter=False
            )

        # In a notebook rich needs ipywidgets. There it only formats (`disable`), and IPython draws.
        is_in_notebook = (console or get_console()).is_jupyter
        self._paper = paper if is_in_notebook else None
        self._notebook_output: Any = None
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[records]}", table_column=Column()),
            TimeRemainingColumn(),
            console=paper() if is_in_notebook else console,
            disable=is_in_notebook,
        )
        self._task = self._bars.add_task(name, total=None, records="")
        self._begun_s = time.monotonic()

    def __enter__(self) -> _Bar:
        self.draw(0, None)
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def draw(self, done: int, total: int | None) -> None:
        """Show how many records were read. Without a total the bar only counts."""
        of_total = "" if total is None else f" of {total:,}"
        rate = done / max(time.monotonic() - self._begun_s, 1e-9)
        records = f"{done:,}{of_total} records, {rate:,.0f}/s"
        self._bars.update(self._task, completed=done, total=total, records=records, refresh=True)
        if self._paper is not None:
            self._draw_in_notebook(self._paper())

    def _draw_in_notebook(self, paper: Any) -> None:
        """Draw into one output of the cell, over the last drawing."""
        from IPython.display import display  # noqa: PLC0415 - a kernel has it

        paper.print(self._bars.get_renderable())
        data = {
            "text/plain": paper.export_text(clear=False).rstrip(),
            "text/html": paper.export_html(code_format=_NOTEBOOK_HTML, inline_styles=True),
        }
        if self._notebook_output is None:
            self._notebook_output = display(data, raw=True, display_id=True)
        else:
            self._notebook_output.update(data, raw=True)


class _BatchReads:
    """What planning and tasks of batch reads have told, over all reads."""

    def __init__(self, host: str) -> None:
        self._planned = 0
        self.receiver = Receiver(host, self.take_plan)

    def take_plan(self, message: Mapping[str, Any]) -> None:
        """Add the offsets of a plan (`tell_plan`). Another message is ignored."""
        offsets = message.get("planned")
        if type(offsets) is int and offsets > 0:
            self._planned += offsets  # only the thread of the receiver writes

    def passed(self) -> tuple[int, int | None]:
        """Return the offsets that were read, and all; None before a plan."""
        done = self._done()
        return done, max(self._planned, done) or None

    def wait_for_last_reports(self) -> None:
        """Wait a moment if not all offsets are read: a limit may have ended the read, or reports are late."""
        self.receiver.catch_up()  # without the reports of planning, nothing seems to be missing
        ends_at_s = time.monotonic() + _LAST_REPORTS_S
        while self._done() < self._planned and time.monotonic() < ends_at_s:
            time.sleep(_DRAW_EVERY_S / 10)

    def _done(self) -> int:
        """Return the offsets that were read. Gaps in a log count when its task has ended."""
        totals = self.receiver.snapshot()
        return max(totals["numRecordsIn"], totals["offsetsDone"])


def _reports(query: Any, meter: _Meter) -> Sequence[Any]:
    """Return the newest report; all that Spark keeps, which are a hundred, while a start is unknown."""
    if not meter.knows_starts:
        found: Sequence[Any] = query.recentProgress
        return found
    last = query.lastProgress
    return [] if last is None else [last]


class _Meter:
    """Adds up progress reports. Spark keeps the last hundred, so the first is remembered here."""

    def __init__(self) -> None:
        self._starts: dict[int, Positions] = {}
        self.knows_starts = False

    def after(self, reports: Sequence[Any]) -> tuple[int, int]:
        """Return the offsets passed since the start, and those from there to the ends of the logs.

        Args:
            reports: of Spark, oldest first.
        """
        if not reports:
            return 0, 0
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
        return done, max(done, total)


_NOT_READ_YET = (None, "None", "null")
"""An offset that is missing. PySpark makes a text of it."""


def _is_of_another_system(source: Any) -> bool:
    return source.endOffset not in _NOT_READ_YET and kafka_positions(source.endOffset) is None


def _passed(start: Mapping[Any, int], source: Any) -> tuple[int, int]:
    """Return the offsets passed, and those to the ends of the logs. A new topic partition begins at 0."""
    end, latest = kafka_positions(source.endOffset), kafka_positions(source.latestOffset)
    if end is None:
        return 0, 0
    done = {tp: max(0, position - start.get(tp, 0)) for tp, position in end.items()}
    left = [max(0, last - end[tp]) for tp, last in (latest or {}).items() if tp in end]
    return sum(done.values()), sum(done.values()) + sum(left)
