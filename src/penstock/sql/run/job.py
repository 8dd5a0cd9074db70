"""A running job: the streaming queries of one statement, watched together.

Runs in the user's program. Invariant: if one query of a job fails, the others are stopped within a second, so
a job never goes on with a part of its inserts. A thread watches the queries, whether or not the user waits.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from penstock.errors import CheckpointError
from penstock.source.checkpoint_offset import SourceOffset, parse_reported
from penstock.source.stopping import is_reached
from penstock.spark.continuous import ContinuousQuery, stop_together
from penstock.spark.java_process import until_answered
from penstock.spark.stop_after_batch import check_stop_after_batch, stop_all_after_batch
from penstock.sql.connectors.datagen.offset import made_offset
from penstock.sql.connectors.sessions import reason

_POLL_S, _POLL_NEAR_END_S = 0.2, 0.02
RUNNING, FINISHED, FAILED, CANCELED = "RUNNING", "FINISHED", "FAILED", "CANCELED"
"""The states of a job, as Flink names them. A job that was stopped is CANCELED."""


@dataclass(frozen=True)
class Part:
    """One INSERT of a job.

    Attributes:
        target: the table that it writes.
        label: the name that it reports with.
        folder: of its checkpoint; None without one.
        is_continuous: whether it runs without micro-batches.
    """

    target: str
    label: str
    folder: str | None = None
    is_continuous: bool = False


class Job:
    """The streaming queries of one INSERT or statement set; without any if the inserts were batches.

    Attributes:
        name: of the job.
        queries: Spark's queries, in the order of the inserts.
        parts: the inserts, in the same order.
        id: of this run of the job, as Flink writes ids.
        started_at: when the job was started.
    """

    def __init__(
        self,
        name: str,
        queries: list[Any],
        parts: Sequence[Part] = (),
        *,
        explain: Callable[[str], str] = str,
    ) -> None:
        """Take queries that run.

        Args:
            name: of the job.
            queries: Spark's queries.
            parts: the inserts, in the same order; () if they have the name of the job.
            explain: adds to why a query failed what the session knows of it.
        """
        self._explain = explain
        self.name = name
        self.queries = queries
        self.parts = parts or [Part(name, name) for _ in queries]
        self.id = uuid.uuid4().hex
        self.started_at = datetime.now(UTC)
        self._is_stopped = False
        self._watcher: threading.Thread | None = None
        self._on_failure: Callable[[Job], None] | None = None
        self._is_over = threading.Event()

    @property
    def status(self) -> str:
        """Return RUNNING, FINISHED, FAILED or CANCELED."""
        if any(_error(query) is not None for query in self.queries):
            return FAILED
        if self.is_active:
            return RUNNING
        return CANCELED if self._is_stopped else FINISHED

    @property
    def error(self) -> str:
        """Return why the job failed, in one line; "" if it did not fail."""
        return self._explain(next((each for each in map(error_line, self.queries) if each), ""))

    @property
    def is_active(self) -> bool:
        """Return whether a query still runs."""
        return any(query.isActive for query in self.queries)

    @property
    def is_stopping(self) -> bool:
        """Return whether a stop was asked for, and a query still runs."""
        return self._is_stopped and self.is_active

    def wait(self, timeout: float | None = None, *, stops_on_ctrl_c: bool = True) -> bool:
        """Wait until all queries have ended. A query over bounded tables ends by itself.

        Args:
            timeout: seconds to wait at most; None for as long as it takes.
            stops_on_ctrl_c: whether KeyboardInterrupt stops the queries at once, as an error does.

        Returns:
            True if all have ended; False if the time was up first.

        Raises:
            StreamingQueryException: a query failed. The others are stopped then.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            while self.is_active:
                for query in self.queries:
                    _wait_for(query)
                if deadline is not None and time.monotonic() >= deadline:
                    return not self.is_active
            for query in self.queries:
                query.awaitTermination()
        except BaseException as error:
            if stops_on_ctrl_c or not isinstance(error, KeyboardInterrupt):
                with contextlib.suppress(Exception):  # the first error says more, also if Java has ended
                    self.stop()
            raise
        return True

    def watch(self, on_failure: Callable[[Job], None] | None = None) -> None:
        """Stop the other queries as soon as one fails, from now on. A job of one query needs no watch.

        Args:
            on_failure: is called with the job when it has failed, in another thread.
        """
        if (len(self.queries) > 1 or (self.queries and on_failure)) and self._watcher is None:
            self._on_failure = on_failure
            self._watcher = threading.Thread(
                target=self._watch, args=(on_failure,), name="penstock-sql-job", daemon=True
            )
            self._watcher.start()

    def _watch(self, on_failure: Callable[[Job], None] | None) -> None:
        with contextlib.suppress(Exception):  # Spark is gone, and its queries with it
            while not self._is_over.wait(_POLL_S):
                if any(not query.isActive and query.exception() is not None for query in self.queries):
                    self._stop_queries()
                    if on_failure is not None:
                        on_failure(self)
                    return
                if not self.is_active:
                    return

    def stop(self) -> None:
        """Stop all queries. Each continues from its checkpoint when the script runs again.

        Raises:
            Exception: the first error of stopping a query. The other queries are stopped first.
        """
        self._end_watch()
        self._stop_queries()

    def stop_after_batch(self, timeout_ms: int | None = None) -> bool:
        """Stop all queries between two batches, so that a changed script may continue from here.

        Args:
            timeout_ms: the longest time to wait; None for as long as it takes.

        Returns:
            True if all have stopped; False if the time was up first. Each query still stops after its batch
            then, if that was begun. Call this again to wait longer.

        Raises:
            PenstockError: the queries are of Spark Connect, which cannot do that. They still run.
            StreamingQueryException: a query failed. The others have stopped.
        """
        return stop_jobs_after_batch([self], timeout_ms)

    def _end_watch(self) -> None:
        try:
            self._is_stopped = self._is_stopped or self.is_active
        except Exception:  # noqa: BLE001 - Ctrl-C may have cut off a call before this one
            self._is_stopped = True
        self._is_over.set()
        if self._watcher is not None and self._watcher is not threading.current_thread():
            self._watcher.join()

    def _watch_again(self) -> None:
        """Watch the queries as before `_end_watch`. `_is_stopped` stays: a query may still stop for it."""
        with contextlib.suppress(Exception):  # Spark is gone, and its queries with it
            if self._watcher is not None and self.is_active:
                self._is_over.clear()
                self._watcher = None
                self.watch(self._on_failure)

    def _stop_queries(self) -> None:
        errors: list[Exception] = []
        stop_together(each for each in self.queries if isinstance(each, ContinuousQuery))
        for query in self.queries:
            try:
                _stop(query)
            except Exception as error:  # noqa: BLE001 - the others have to be stopped first
                errors.append(error)
        if errors:
            raise errors[0]


def stop_jobs_after_batch(jobs: Iterable[Job], timeout_ms: int | None = None) -> bool:
    """Stop several jobs at the same time, as `Job.stop_after_batch` does."""
    active = [job for job in jobs if job.is_active]
    given = [query for job in active for query in job.queries]
    continuous = [query for query in given if isinstance(query, ContinuousQuery)]
    queries = [query for query in given if not isinstance(query, ContinuousQuery)]
    for query in queries:
        check_stop_after_batch(query)
    has_stopped = False
    try:
        for job in active:
            job._end_watch()  # noqa: SLF001 - of the same module
        stop_together(continuous)  # they have no batches, and go on where they have committed
        has_stopped = stop_all_after_batch(queries, timeout_ms)
        for query in continuous:
            query.awaitTermination(0)  # raises if it has failed
    finally:
        if not has_stopped:  # the time was up, Ctrl-C, or an error: queries may still run
            for job in active:
                job._watch_again()  # noqa: SLF001 - of the same module
    return has_stopped


def error_line(query: Any) -> str:
    """Return why a query failed: the sentence of penstock, or Spark's first line; "" if it did not fail."""
    error = _error(query)
    return "" if error is None else (reason(error) or str(error)).partition("\n")[0]


def _error(query: Any) -> BaseException | None:
    return None if query.isActive else query.exception()


def _stop(query: Any) -> None:
    try:
        query.stop()
    except Exception:  # noqa: BLE001 - Ctrl-C may have cut off a call before this one
        until_answered(query.stop)


def _wait_for(query: Any) -> None:
    """Give one query a moment, and stop it if all of its tables are bounded and read to their ends."""
    progress = query.lastProgress if query.isActive else None
    if is_read(progress):
        query.stop()
    else:
        query.awaitTermination(_POLL_NEAR_END_S if is_nearly_read(progress) else _POLL_S)


Row = tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """What a statement gave.

    Attributes:
        message: a line for the user; "" without one.
        columns: the names of the columns of `rows`.
        rows: of SHOW, DESCRIBE and EXPLAIN, as texts.
        job: of an INSERT or statement set.
        frame: the DataFrame of a SELECT.
        is_changing: whether the last column of `frame` says how each row changes the result.
    """

    message: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    job: Job | None = None
    frame: Any = None
    is_changing: bool = False


def is_read(progress: Mapping[str, Any] | None) -> bool:
    """Return whether all sources of a query are bounded and at their ends; False before the first batch.

    The last batch has to begin there: only then is the batch that reached the ends in Spark's commit log.
    """
    sources = progress.get("sources", []) if progress is not None else []
    return bool(sources) and all(_is_at_end(source["startOffset"], source["endOffset"]) for source in sources)


def is_nearly_read(progress: Mapping[str, Any] | None) -> bool:
    """Return whether the last batch came to the ends, so that the next batch shows it; False if unknown."""
    sources = progress.get("sources", []) if progress is not None else []
    return bool(sources) and all(_is_at_end(source["endOffset"], source["endOffset"]) for source in sources)


def _is_at_end(start: Any, end: Any) -> bool:
    made = made_offset(end)
    if made is not None:
        begun = made_offset(start)
        return made.is_done and begun is not None and begun.row == made.row
    reached = _offset(end)
    if reached is None or reached.markers.stops is None:
        return False
    first = _offset(start)
    return first is not None and is_reached(first)


def _offset(text: Any) -> SourceOffset | None:
    try:
        return SourceOffset.from_json(parse_reported(text))
    except (CheckpointError, ValueError, TypeError, AttributeError):
        return None
