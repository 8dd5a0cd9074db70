"""stop_on_signal: let SIGTERM and Ctrl-C stop the queries of a program between two batches.

Runs in the user's program, on Spark classic. Invariants: a handler asks Spark nothing itself, because it may
interrupt a call of Spark in the same thread; the handlers of before are back when the block ends.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from penstock.spark.stop_after_batch import stop_all_after_batch, warn_of_cut

_log = logging.getLogger(__name__)
SAME_S = 0.5
"""A terminal and a wrapper such as `uv run` may both pass on one Ctrl-C. Two in so short a time are one."""


@contextmanager
def stop_on_signal(*queries: Any, timeout_ms: int = 60_000) -> Iterator[None]:
    """Within the block, SIGTERM and Ctrl-C stop the queries after their batches; a second one at once.

        with penstock.stop_on_signal(query):
            query.awaitTermination()

    `awaitTermination()` returns when the query has stopped. The block ends only then, so `spark.stop()` after
    it cuts nothing off. Call it in the main thread, because Python sets handlers of signals only there.

    Args:
        queries: running queries of Spark classic.
        timeout_ms: after this time the queries are stopped at once, and the log says so. It should be shorter
            than the time that a supervisor waits before SIGKILL.
    """
    ending = _StopHandler(queries, timeout_ms)
    before = {number: signal.signal(number, ending) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        ending.wait()
        for number, handler in before.items():
            signal.signal(number, handler)


class _StopHandler:
    """A handler of signals that stops queries in threads of its own."""

    def __init__(self, queries: Sequence[Any], timeout_ms: int) -> None:
        self._queries = queries
        self._timeout_ms = timeout_ms
        self._threads: list[threading.Thread] = []
        self._came_s = float("-inf")

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Begin to stop the queries: after their batches at the first signal, at once at the next one."""
        now_s = time.monotonic()
        came_s, self._came_s = self._came_s, now_s  # first, because the next signal may interrupt this call
        if now_s - came_s < SAME_S:
            return
        if not self._threads:
            self._start(self._stop_after_batch)
        elif len(self._threads) == 1:
            self._start(self._stop_at_once)

    def wait(self) -> None:
        """Wait until what a signal has begun is done."""
        for thread in self._threads:
            thread.join()

    def _start(self, target: Any) -> None:
        thread = threading.Thread(target=target, name="penstock-stop", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _stop_after_batch(self) -> None:
        _log.warning("Stopping after the batch. A second Ctrl-C or SIGTERM stops at once.")
        try:
            if stop_all_after_batch(self._queries, self._timeout_ms):
                return
            warn_of_cut(self._timeout_ms)
        except Exception as error:  # noqa: BLE001 - a query that failed tells it to its own awaitTermination
            _log.warning("Stopping after the batch failed: %s", str(error).partition("\n")[0])
        self._stop_at_once()

    def _stop_at_once(self) -> None:
        for query in self._queries:
            try:
                query.stop()
            except Exception as error:  # noqa: BLE001 - the others have to be stopped too
                _log.warning("A query could not be stopped: %s", str(error).partition("\n")[0])
