"""stop_after_batch: stop streaming queries between two batches, so that no batch comes again.

Runs in the user's program, on Spark classic. `query.stop()` interrupts a batch wherever it is, and Spark then
repeats it at the next start. Here Spark's own loop ends instead, as it does at the end of a query with the
trigger `availableNow`: its state is set to TERMINATED, which the loop reads before it plans a batch.

Spark reads the state once more after it has planned a batch, and interrupts the batch then. So the state is
set only while a batch writes, or while the thread pauses between two batches that are both in the logs. If
the next batch has been begun meanwhile, the state is set back. Invariant: a batch that writes is finished, in
the target and in Spark's commit log. Spark may still interrupt a batch at the moment in which it begins,
before it writes. The log says so then.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import time
from collections.abc import Sequence
from typing import Any

from penstock.errors import PenstockError
from penstock.spark.connect import is_connect

_log = logging.getLogger(__name__)
_LOOK_MS = 20
_PLANS, _RUNS, _WRITES, _WAITS = "constructNextBatch", "runBatch", "SQLExecution$.", "waitTillTime"
"""Functions of Spark on the stack of a query's thread: what it does."""
_CONTINUOUS = "ContinuousExecution"
"""Spark's class of a query with the trigger `continuous`. It never looks at the state that ends the loop."""
_SLEEPS = "Thread.sleep"
"""On the stack while the thread waits for its trigger, or for new rows."""


def stop_after_batch(query: Any, timeout_ms: int | None = None) -> bool:
    """Stop a streaming query after the batch that runs now, and wait until it has stopped.

    Every batch of the checkpoint is then complete, in the target and in Spark's commit log. So the next start
    repeats no batch, and the query may be changed before it (docs/change-a-job.md). It works with every
    source and sink, and every trigger but `continuous`. A batch that an earlier run left unfinished is
    finished first. A batch may still be cut off, by something else or at the moment in which it begins. A
    warning then says so, and the next start repeats the batch.

    Args:
        query: a running StreamingQuery of Spark classic.
        timeout_ms: the longest time to wait for the end of the batch; None for as long as it takes.

    Returns:
        True if the query has stopped. False if the time was up first: call this again to wait longer, or
        `query.stop()` to cut the batch off.

    Raises:
        PenstockError: the query is one of Spark Connect, which cannot stop between two batches, or has the
            trigger `continuous`, which has no batches. It still runs.
        StreamingQueryException: the query failed, also if it failed before the call.
    """
    return stop_all_after_batch([query], timeout_ms)


def stop_all_after_batch(queries: Sequence[Any], timeout_ms: int | None = None) -> bool:
    """Stop several queries as `stop_after_batch` does, at the same time.

    Raises:
        PenstockError: as there. No query is stopped then.
        StreamingQueryException: of the first query that failed. The others have stopped.
    """
    deadline_s = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
    stopped = [_StoppingQuery(query) for query in queries]
    running = stopped
    while running := [each for each in running if not each.has_ended()]:
        if deadline_s is not None and time.monotonic() >= deadline_s:
            return False
        running[0].wait()
    for each in stopped:
        each.warn_of_unfinished()
    for query in queries:
        if query.exception() is not None:
            query.awaitTermination()  # raises it
    return True


def stop_soon(queries: Sequence[Any], timeout_ms: int) -> None:
    """Stop queries after their batches if that takes no longer than `timeout_ms`, else at once.

    It is for clearing up after another error, so it raises none of its own. Ctrl-C ends the waiting: the
    queries are stopped at once then, and KeyboardInterrupt is passed on.
    """
    try:
        with contextlib.suppress(Exception):
            if not stop_all_after_batch(queries, timeout_ms):
                warn_of_cut(timeout_ms)
    finally:
        for query in queries:
            with contextlib.suppress(Exception):
                query.stop()


def warn_of_cut(timeout_ms: int) -> None:
    """Log a warning that batches are cut off because they did not end in time."""
    _log.warning(
        "The batch did not end within %s ms, so it is cut off. The next start repeats it: start the "
        "same query once more before you change it.",
        timeout_ms,
    )


def can_stop_after_batch(query: Any) -> bool:
    """Return whether `stop_after_batch` serves the query: Spark Connect does not let it."""
    return not is_connect(query)


def check_stop_after_batch(query: Any) -> None:
    """Check that `stop_after_batch` serves the query.

    Raises:
        PenstockError: Spark Connect does not give access to what runs the batches.
    """
    if not can_stop_after_batch(query):
        raise PenstockError(
            "Spark Connect cannot stop a query between two batches. The query still runs. Call "
            "query.stop(). Before you change the query, start it once more as it is with "
            "trigger(availableNow=True): that finishes the batch that was cut off, and ends by itself."
        )


class _StoppingQuery:
    """A query that is about to stop. Each look moves it on if it can.

    Raises:
        PenstockError: the query is of Spark Connect, which does not give access to what runs the batches. Or
            the query has no batches.
    """

    def __init__(self, query: Any) -> None:
        check_stop_after_batch(query)
        self._query = query
        self._execution = query._jsq.streamingQuery()  # noqa: SLF001 - there is no public way
        if str(self._execution.getClass().getSimpleName()) == _CONTINUOUS:
            raise PenstockError(
                "A query with the trigger 'continuous' has no batches to stop between. The query still runs. "
                "Call query.stop(): the next start repeats what it has written since its last epoch."
            )
        jvm = _jvm()
        self._java = _JavaClasses(jvm)
        self._thread = self._execution.queryExecutionThread()
        self._state = self._execution.state()
        # Its package is not the same in all versions of Spark, but always that of the other states.
        package = str(self._state.get().getClass().getPackageName())
        states = functools.reduce(getattr, package.split("."), jvm)
        self._terminated = getattr(getattr(states, "TERMINATED$"), "MODULE$")

    def has_ended(self) -> bool:
        """Look at the query once. Return whether it has ended."""
        if not self._thread.isAlive():
            # Spark's loop may have ended between a look at it and the setting back of its state.
            self._state.set(self._terminated)
            return True
        # Nothing is cut off by `stop` then, because no batch begins when the sleep ends.
        if self._lets_loop_end() and _WAITS in self._look():
            self._query.stop()
        return False

    def wait(self) -> None:
        """Wait a moment, or until the query has ended."""
        self._thread.join(_LOOK_MS)

    def warn_of_unfinished(self) -> None:
        """Log a warning if the query has stopped before the end of a batch, and did not fail."""
        if self._query.exception() is None and not self._is_between_batches():
            _log.warning(
                "Query %s has stopped, and its last batch is planned and not finished. The next start "
                "repeats it: start the same query once more before you change it (docs/change-a-job.md).",
                self._query.name or self._query.id,
            )

    def _lets_loop_end(self) -> bool:
        """Let Spark's loop end before the next batch, unless a batch is just being planned."""
        before = self._state.get()
        if before.equals(self._terminated):
            return True
        if not self._may_end(self._look()) or not self._state.compareAndSet(before, self._terminated):
            return False
        stack = self._look()
        if _WRITES in stack or not (_PLANS in stack or _RUNS in stack):
            return True
        return not self._state.compareAndSet(self._terminated, before)

    def _may_end(self, stack: _Stack) -> bool:
        if _RUNS in stack:
            return _WRITES in stack
        # Without a pause the next batch would be planned before its beginning could be seen.
        return _SLEEPS in stack and _PLANS not in stack and self._is_between_batches()

    def _is_between_batches(self) -> bool:
        planned, done = (
            log.getLatestBatchId() for log in (self._execution.offsetLog(), self._execution.commitLog())
        )
        return bool(planned.equals(done))

    def _look(self) -> _Stack:
        return _Stack(self._java, self._thread)


class _JavaClasses:
    """Classes of Java that print a stack. Finding one by its name takes as long as several calls of it."""

    def __init__(self, jvm: Any) -> None:
        self.throwable = jvm.java.lang.Throwable
        self.string_writer, self.print_writer = jvm.java.io.StringWriter, jvm.java.io.PrintWriter


class _Stack:
    """The functions on the stack of a thread of Java at one moment.

    Java keeps the text. To send its 10 KB takes 50 ms, in which Spark's loop may plan the next batch.
    """

    def __init__(self, java: _JavaClasses, thread: Any) -> None:
        holder, text = java.throwable(), java.string_writer()
        holder.setStackTrace(thread.getStackTrace())
        holder.printStackTrace(java.print_writer(text))
        self._text = text.getBuffer()

    def __contains__(self, function: str) -> bool:
        return int(self._text.indexOf(function)) >= 0


def _jvm() -> Any:
    from pyspark import SparkContext  # noqa: PLC0415 - not for Spark Connect

    return SparkContext._jvm  # noqa: SLF001 - as PySpark itself reaches Java
