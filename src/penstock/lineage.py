"""`penstock.lineage.LineageListener`: OpenLineage's events of streaming and continuous queries.

Runs in the user's program, on Spark classic and Connect. Needs the extra `lineage`. Invariant: a query never
fails or waits because of its lineage.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock._pyspark import explain_import_error
from penstock.extras import missing_extra
from penstock.observe.lineage.continuous import as_progress, error_text, new_reports
from penstock.observe.lineage.datasets import Input, Output
from penstock.observe.lineage.outbox import Outbox
from penstock.observe.lineage.run import QueryDescription, Run, brief_error
from penstock.switches import Switch, is_on

try:
    import pyspark
    from pyspark.sql.streaming.listener import StreamingQueryListener
except ImportError as error:
    explain_import_error(error)
    raise

if TYPE_CHECKING:
    from penstock.spark.continuous import ContinuousQuery

__all__ = ["Input", "LineageListener", "Output"]

_log = logging.getLogger(__name__)

_CLOSE_TIMEOUT_S = 10.0
_END_EXPECTED_S = 2.0
"""Spark tells the end of a query a moment after `awaitTermination` has returned."""
_FOLLOW_S = 1.0
"""How often the reports of a continuous query are read. It keeps the last 100 seconds."""


class LineageListener(StreamingQueryListener):
    """Sends START, RUNNING and COMPLETE or FAIL for each query that is described.

        lineage = penstock.lineage.LineageListener(namespace="shop")
        lineage.describe(
            "orders-copy",
            inputs=[penstock.lineage.Input(source_options, orders.schema)],
            outputs=[penstock.lineage.Output(sink_options, rows.schema)],
        )
        spark.streams.addListener(lineage)
        rows.writeStream.queryName("orders-copy")....start()

    A job is the name of a query, a run is Spark's run of it. OpenLineage's own client sends the events. Its
    variables (`OPENLINEAGE_URL`, ...) or its file `openlineage.yml` say where to. End the program with
    `close()`. Without it, the end of the interpreter calls it.

    Args:
        namespace: of the jobs; None: `OPENLINEAGE_NAMESPACE`, or "default".
        client: an `OpenLineageClient`; None: a new one.
        running_every_s: the shortest time between two RUNNING events of a query, in seconds.
        whole_errors: whether FAIL has the whole text of the error, which may hold values of records. By
            default it has the class of the error, and the first line of an error of penstock. Of an error
            about records or rows (`DecodeError` and others) it has the class alone.

    Raises:
        MissingExtraError: `openlineage-python` is not installed.
    """

    def __init__(
        self,
        namespace: str | None = None,
        *,
        client: Any = None,
        running_every_s: float = 60.0,
        whole_errors: bool = False,
    ) -> None:
        self._namespace = namespace or os.environ.get("OPENLINEAGE_NAMESPACE") or "default"
        self._client = _client() if client is None else client
        self._running_every_s = running_every_s
        self._outbox = Outbox(self._client.emit)
        self._lock = threading.Condition()
        self._described: dict[str, QueryDescription] = {}
        self._runs: dict[str, Run] = {}
        self._told_at_s: dict[str, float] = {}
        self._whole_errors = whole_errors
        if is_on(Switch.EXIT_HOOK):
            atexit.register(self.close, _CLOSE_TIMEOUT_S)

    def describe(self, name: str, inputs: Sequence[Input] = (), outputs: Sequence[Output] = ()) -> None:
        """Say what a query reads and writes, before it is started.

        Args:
            name: of the query (`queryName`).
            inputs: its reads of Kafka, in the order of the query.
            outputs: its writes to Kafka.
        """
        with self._lock:
            self._described[name] = QueryDescription(tuple(inputs), tuple(outputs))

    def follow(self, query: ContinuousQuery) -> None:
        """Send the events of a continuous query, which Spark reports to no listener. Call it once.

            query = penstock.continuous(spark, source_options, None, sink_options, name="orders-copy")
            lineage.follow(query)

        Call `describe` with its name first. A thread of its own reads the reports of the query until it ends.

        Args:
            query: what `penstock.continuous` has returned.
        """
        run = self._run_of(query.name, query.runId)
        if run is not None:
            threading.Thread(
                target=self._follow, args=(query, run), name="penstock-lineage-follow", daemon=True
            ).start()

    def _follow(self, query: ContinuousQuery, run: Run) -> None:
        last, has_ended = None, False
        try:
            while not has_ended:
                has_ended = _ended_within(query, _FOLLOW_S)
                for report in new_reports(query.recentProgress, last):
                    self._take(run, as_progress(report))
                    last = report
        except Exception:  # noqa: BLE001 - lineage is for watching: the query goes on
            _log.exception("Reports of continuous query %s are missing in the lineage.", query.name)
            _ended_within(query, None)
        error = query.exception()
        self._end(run.run_id, None if error is None else error_text(error, is_whole=self._whole_errors))

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Wait until all events up to now are sent. Return whether they are."""
        return self._outbox.flush(timeout_s)

    def close(self, timeout_s: float = _CLOSE_TIMEOUT_S) -> None:
        """Send the waiting events, and end the thread. Raise nothing. End the queries first.

        It waits 2 seconds for the end of a query that Spark has not reported yet.

        Args:
            timeout_s: for all of it, in seconds. The log says how many events are dropped after it.
        """
        atexit.unregister(self.close)
        deadline_s = time.monotonic() + timeout_s
        with self._lock:
            self._lock.wait_for(lambda: not self._runs, min(_END_EXPECTED_S, timeout_s))
        self._outbox.close(max(0.0, deadline_s - time.monotonic()))
        try:
            self._client.close(max(0.0, deadline_s - time.monotonic()))
        except Exception as error:  # noqa: BLE001 - lineage is for watching: the program goes on
            _log.warning("Cannot close the client of OpenLineage: %s.", error)

    def onQueryStarted(self, event: Any) -> None:
        """Send START."""
        self._run_of(event.name, str(event.runId))

    def onQueryProgress(self, event: Any) -> None:
        """Send RUNNING, if the last one is old enough."""
        try:
            progress = event.progress
            run = self._run_of(progress.name, str(progress.runId))
            if run is None:
                return
            self._take(run, progress)
        except Exception:  # noqa: BLE001 - a listener must not end its thread
            _log.exception("A progress report is missing in the lineage. The query is not affected.")

    def _take(self, run: Run, progress: Any) -> None:
        """Add a report, and send RUNNING if the last one is old enough."""
        with self._lock:
            run.add(progress)
            now_s = time.monotonic()
            is_due = now_s - self._told_at_s.get(run.run_id, float("-inf")) >= self._running_every_s
            if is_due:
                self._told_at_s[run.run_id] = now_s
        if is_due:
            self._tell(run, "RUNNING")

    def onQueryIdle(self, event: Any) -> None:
        """Do nothing."""

    def onQueryTerminated(self, event: Any) -> None:
        """Send COMPLETE, or FAIL with the error."""
        self._end(str(event.runId), None if event.exception is None else self._error_of(event))

    def _end(self, run_id: str, error: str | None) -> None:
        with self._lock:
            run = self._runs.get(run_id)
            self._told_at_s.pop(run_id, None)
        if run is not None:
            self._tell(run, "COMPLETE" if error is None else "FAIL", error)
        with self._lock:
            self._runs.pop(run_id, None)  # after its event waits, so that close() sends it
            self._lock.notify_all()

    def _error_of(self, event: Any) -> str:
        text = str(event.exception)
        return text if self._whole_errors else brief_error(text, event.errorClassOnException)

    def _run_of(self, name: str | None, run_id: str) -> Run | None:
        """Return the run, and send START if it is new; None if the query is not described."""
        with self._lock:
            if run_id in self._runs:
                return self._runs[run_id]
            described = self._described.get(name or "")
            if described is None:
                _log.info("Query %s is not described, so it has no lineage.", name)
                return None
            run = self._runs[run_id] = Run(run_id, str(name), described)
        self._tell(run, "START")
        return run

    def _tell(self, run: Run, state: str, error: str | None = None) -> None:
        with self._lock:
            as_of_now = run.copy()

        def make() -> Any:
            from penstock.observe.lineage.events import event_of  # noqa: PLC0415 - needs the extra

            return event_of(as_of_now, state, self._namespace, pyspark.__version__, error)

        self._outbox.put(make, is_needed=state != "RUNNING")


def _ended_within(query: ContinuousQuery, timeout_s: float | None) -> bool:
    """Wait for the end of a query, whatever has ended it. Return whether it has ended."""
    try:
        return query.awaitTermination(timeout_s) is not False
    except Exception:  # noqa: BLE001 - `exception()` has it
        return True


def _client() -> Any:
    try:
        from openlineage.client import OpenLineageClient  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise missing_extra("lineage", "A listener for OpenLineage") from error
    return OpenLineageClient()
