"""Run a SELECT and show its rows: a live table on a terminal, else lines or JSON.

Runs on the driver. Invariant: the rows of a changelog are shown in their order. A bounded query ends; any
other goes on until Ctrl-C, which stops it and leaves its last rows on the screen.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from penstock.errors import OptionError
from penstock.spark.connect import is_connect
from penstock.spark.local_checkpoints import quick_local_checkpoints
from penstock.spark.one_thread import planned_in_one_thread
from penstock.spark.process.short_errors import short_errors_of_batches
from penstock.spark.reused_shuffles import without_reused_shuffles
from penstock.sql.functions.zones import local_rows
from penstock.sql.run.job import Job
from penstock.sql.shell import Format
from penstock.sql.shell.cells import aligned, cell, kind_and_cells, line, shown_names
from penstock.sql.shell.changes import FollowedRows

_JSON = "to_json(struct(*), map('ignoreNullFields', 'false'))"
_BATCH_ROWS = 1_000
_REFRESH_PER_S = 4
_MARGIN_LINES = 8
"""Lines of the screen that the table does not fill: its frame, its title and the prompt."""


@dataclass(frozen=True)
class Output:
    """Where rows go and how.

    Attributes:
        emit: takes a line.
        format: as the user chose it.
        is_terminal: whether a person looks at it.
        limit: the most rows that a live table keeps.
    """

    emit: Callable[[str], None]
    format: Format = Format.AUTO
    is_terminal: bool = False
    limit: int = 1_000_000

    @property
    def chosen(self) -> Format:
        """Return the format: a table on a terminal and lines elsewhere, unless the user has chosen one."""
        if self.format is not Format.AUTO:
            return self.format
        return Format.TABLE if self.is_terminal else Format.LINES


def show_frame(frame: Any, output: Output) -> None:
    """Show the rows of a DataFrame. For a stream it returns when the query has ended.

    Raises:
        KeyboardInterrupt: the user has stopped it.
        StreamingQueryException: the query failed.
        OptionError: streams are shown by Spark classic only.
    """
    if not frame.isStreaming:
        _show_batch(frame, output)
        return
    if is_connect(frame):
        raise OptionError(
            "the rows of a stream are shown with Spark classic only, because Spark Connect runs the query in "
            "another process. Use INSERT INTO, or SET 'execution.runtime-mode' = 'batch'.",
            option="spark.remote",
        )
    if output.chosen is Format.TABLE:
        _follow(local_rows(frame), output)
    elif output.chosen is Format.JSON:
        _run(frame.selectExpr(_JSON), lambda batch: _emit_json(batch.collect(), output))
    else:
        frame = local_rows(frame)
        _run(frame, lambda batch: _emit_lines(frame.columns, batch.collect(), output))


def _show_batch(frame: Any, output: Output) -> None:
    if output.chosen is Format.JSON:
        _emit_json(frame.selectExpr(_JSON).toLocalIterator(), output)
        return
    frame = local_rows(frame)
    if output.chosen is Format.LINES:
        _emit_lines(frame.columns, frame.toLocalIterator(), output)
        return
    names = list(frame.columns)
    rows = [tuple(map(cell, row)) for row in frame.limit(_BATCH_ROWS + 1).collect()]
    for text in aligned(names, rows[:_BATCH_ROWS]):
        output.emit(text)
    if len(rows) > _BATCH_ROWS:
        output.emit(f"There are more rows. These are the first {_BATCH_ROWS:,}.")


def _emit_json(rows: Iterable[Any], output: Output) -> None:
    for row in rows:
        output.emit(row[0])


def _emit_lines(names: Sequence[str], rows: Iterable[Any], output: Output) -> None:
    for row in rows:
        output.emit(line(*kind_and_cells(names, row)))


def _run(frame: Any, show: Callable[[Any], None]) -> None:
    shown = short_errors_of_batches(lambda batch, _: show(batch))
    writer = frame.writeStream.foreachBatch(shown)
    session = frame.sparkSession
    with (
        planned_in_one_thread(session),
        without_reused_shuffles(session),
        quick_local_checkpoints(session),
    ):
        query = _started(writer.start)
    Job("SELECT", [query]).wait()


def _started(start: Callable[[], Any]) -> Any:
    """Return the query that `start` starts. Ctrl-C waits until there is one, and stops it.

    Another thread starts it, so that Ctrl-C does not leave a query behind that only Spark knows.
    """
    outcome: Future[Any] = Future()

    def run() -> None:
        try:
            outcome.set_result(start())
        except BaseException as error:  # noqa: BLE001 - the other thread raises it
            outcome.set_exception(error)

    thread = threading.Thread(target=run, name="penstock-select")
    try:
        thread.start()
        return outcome.result()
    except KeyboardInterrupt:
        if (thread.is_alive() or outcome.done()) and outcome.exception() is None:
            outcome.result().stop()
        raise


def _follow(frame: Any, output: Output) -> None:
    """Show the rows that the query has so far, and at the end all of them."""
    table = _FollowedTable(frame.columns, output.limit)
    try:
        if output.is_terminal:
            table.show_while(lambda: _run(frame, table.apply))
        else:
            _run(frame, table.apply)
    finally:
        table.emit(output.emit)


class _FollowedTable:
    """A table that a query changes while another thread draws it."""

    def __init__(self, names: Sequence[str], limit: int) -> None:
        self._names = list(names)
        self._rows = FollowedRows(limit)
        self._lock = threading.Lock()

    def apply(self, batch: Any) -> None:
        for row in batch.collect():
            change = kind_and_cells(self._names, row)
            with self._lock:
                self._rows.apply(*change)

    def emit(self, emit: Callable[[str], None]) -> None:
        """Write the last rows as lines."""
        with self._lock:
            rows = self._rows.last(_BATCH_ROWS)
            count, dropped = len(self._rows), self._rows.dropped
        for text in aligned(shown_names(self._names), rows):
            emit(text)
        if count > len(rows) or dropped:
            emit(_last_of(len(rows), count + dropped))

    def show_while(self, work: Callable[[], None]) -> None:
        """Draw the table on the terminal while the query runs."""
        from rich.console import Console  # noqa: PLC0415 - only for terminals
        from rich.live import Live  # noqa: PLC0415 - only for terminals

        console = Console()
        with Live(
            get_renderable=lambda: self.drawn(console.height),
            console=console,
            refresh_per_second=_REFRESH_PER_S,
            transient=True,
        ):
            work()

    def drawn(self, height: int) -> Any:
        """Return the table as it fits into the height of a terminal."""
        from rich.table import Table  # noqa: PLC0415 - only for terminals
        from rich.text import Text  # noqa: PLC0415 - only for terminals

        with self._lock:
            rows = self._rows.last(max(1, height - _MARGIN_LINES))
            count = len(self._rows) + self._rows.dropped
        told = _last_of(len(rows), count) if count > len(rows) else _rows(count)
        drawn = Table(caption=f"{told} Ctrl-C stops the query.")
        for name in shown_names(self._names):
            drawn.add_column(Text(name), no_wrap=True)
        for row in rows:
            drawn.add_row(*map(Text, row))
        return drawn


def _rows(count: int) -> str:
    return "1 row." if count == 1 else f"{count:,} rows."


def _last_of(shown: int, count: int) -> str:
    return (
        f"This is the last of {_rows(count)}"
        if shown == 1
        else f"These are the last {shown:,} of {_rows(count)}"
    )
