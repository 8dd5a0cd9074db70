"""`penstock.batch_progress`: a progress bar for batch reads, in a terminal or a notebook.

Runs in the user's program. Spark reports no records of a batch read while it runs, so the tasks send how much
they have read in datagrams. Invariant: the read does not notice, also if the program has ended.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from penstock.observe.bar import new_bars
from penstock.observe.batch_reports import PlanBoard
from penstock.observe.task_reports import Receiver
from penstock.options.metrics import PROGRESS_REPORT_TO

_DRAW_EVERY_S = 0.2
_LAST_REPORTS_S = 0.5
"""How long the last datagrams may be on their way after the last task has ended."""


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
        OSError: this machine does not have the address, or it is `0.0.0.0` or `::`.
    """
    plans = PlanBoard()
    receiver = Receiver(host, plans.take)
    try:
        with new_bars(console) as shown:
            bar = _Bar(shown, plans, receiver)
            try:
                address = receiver.address
                yield {PROGRESS_REPORT_TO.key: f"{address.host}:{address.port}:{address.token}"}
                bar.wait_for_last_reports()
            finally:
                bar.close()
    finally:
        receiver.close()


class _Bar:
    """One line of a progress display, and the thread that keeps it new."""

    def __init__(self, shown: Any, plans: PlanBoard, receiver: Receiver) -> None:
        self._shown, self._plans, self._receiver = shown, plans, receiver
        self._task = shown.add_task("read", total=None, rate="")
        self._begun_s = time.monotonic()
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-batch-progress", daemon=True)
        self._thread.start()

    def wait_for_last_reports(self) -> None:
        """Wait a moment if not all offsets are read: a limit may have ended the read, or reports are late."""
        self._receiver.catch_up()  # without the reports of planning, nothing seems to be missing
        ends_at_s = time.monotonic() + _LAST_REPORTS_S
        while self._done() < self._plans.planned() and time.monotonic() < ends_at_s:
            self._is_closed.wait(_DRAW_EVERY_S / 10)

    def close(self) -> None:
        """Draw the last state."""
        self._is_closed.set()
        self._thread.join()
        self._draw()

    def _run(self) -> None:
        while not self._is_closed.wait(_DRAW_EVERY_S):
            self._draw()

    def _draw(self) -> None:
        planned, done = self._plans.planned(), self._done()
        rate = done / max(time.monotonic() - self._begun_s, 1e-9)
        total = max(planned, done) or None
        self._shown.update(self._task, completed=done, total=total, rate=f"{rate:,.0f}/s", refresh=True)

    def _done(self) -> int:
        """Return the offsets that were read. Gaps in a log count when its task has ended."""
        totals = self._receiver.snapshot()
        return max(totals["numRecordsIn"], totals["offsetsDone"])
