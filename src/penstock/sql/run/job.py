"""A running job: the streaming queries of one statement, watched together.

Runs in the user's program. Invariant: if one query of a job fails, the others are stopped within a second, so
a job never goes on with a part of its inserts. A thread watches the queries, whether or not the user waits.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

from penstock.sql.run._ends import is_nearly_read, is_read

_POLL_S, _POLL_NEAR_END_S = 0.2, 0.02


class Job:
    """The streaming queries of one INSERT or statement set; without any if the inserts were batches.

    Attributes:
        name: of the job.
        queries: Spark's queries, in the order of the inserts.
    """

    def __init__(self, name: str, queries: list[Any]) -> None:
        self.name = name
        self.queries = queries
        self._watcher: threading.Thread | None = None
        self._is_over = threading.Event()

    @property
    def is_active(self) -> bool:
        """Return whether a query still runs."""
        return any(query.isActive for query in self.queries)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all queries have ended. A query over bounded tables ends by itself.

        Args:
            timeout: seconds to wait at most; None for as long as it takes.

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
        except BaseException:
            self.stop()
            raise
        return True

    def watch(self) -> None:
        """Stop the other queries as soon as one fails, from now on. A job of one query needs no watch."""
        if len(self.queries) > 1 and self._watcher is None:
            self._watcher = threading.Thread(target=self._watch, name="penstock-sql-job", daemon=True)
            self._watcher.start()

    def _watch(self) -> None:
        with contextlib.suppress(Exception):  # Spark is gone, and its queries with it
            while not self._is_over.wait(_POLL_S) and self.is_active:
                if any(not query.isActive and query.exception() is not None for query in self.queries):
                    self._stop_queries()

    def stop(self) -> None:
        """Stop all queries. Each continues from its checkpoint when the script runs again.

        Raises:
            Exception: the first error of stopping a query. The other queries are stopped first.
        """
        self._is_over.set()
        if self._watcher is not None and self._watcher is not threading.current_thread():
            self._watcher.join()
        self._stop_queries()

    def _stop_queries(self) -> None:
        errors: list[Exception] = []
        for query in self.queries:
            try:
                _stop(query)
            except Exception as error:  # noqa: BLE001, PERF203 - the others have to be stopped first
                errors.append(error)
        if errors:
            raise errors[0]


def _stop(query: Any) -> None:
    try:
        query.stop()
    except Exception:  # noqa: BLE001 - Ctrl-C may break the connection of a call; the next call has a new one
        query.stop()


def _wait_for(query: Any) -> None:
    """Give one query a moment, and stop it if all of its tables are bounded and read to their ends."""
    progress = query.lastProgress if query.isActive else None
    if is_read(progress):
        query.stop()
    else:
        query.awaitTermination(_POLL_NEAR_END_S if is_nearly_read(progress) else _POLL_S)
