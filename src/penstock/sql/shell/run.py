"""Run scripts on a session and show what their statements give.

Runs on the driver's machine. Invariant: a failure has one message without a traceback, and an exit status
that a scheduler can use.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import OptionError, PenstockError, SchemaError, SqlError, SqlFailedError
from penstock.spark.continuous import ContinuousQuery
from penstock.spark.java_process import is_of_ended_java, java_gone
from penstock.spark.one_thread import left_to_the_start
from penstock.spark.stop_after_batch import can_stop_after_batch
from penstock.sql.connectors.sessions import reason
from penstock.sql.language.parse import ParsedStatement, parse_script
from penstock.sql.language.source import Source
from penstock.sql.run.job import Job, Result, stop_jobs_after_batch
from penstock.sql.run.session import Session
from penstock.sql.run.settings import RESULT_MODE, RESULT_ROWS
from penstock.sql.shell import Format
from penstock.sql.shell.cells import aligned
from penstock.sql.shell.select import Output, show_frame

FINISHED, FAILED, MISTAKE, INTERRUPTED = 0, 1, 2, 130
_PROGRESS_S = 10.0
STOP_TIMEOUT_MS = 60_000
_STOPPED = "Stopped."
_CONTINUES = "Each INSERT continues from its checkpoint when the script runs again."
_GOES_ON = "An INSERT without micro-batches continues where it had committed."
_CUT_OFF = "A batch may be cut off: start the same script once more before you change it."
_log = logging.getLogger(__name__)


class StoppedError(Exception):
    """A command has to end: the message for the user and the exit status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@contextmanager
def failures() -> Iterator[None]:
    """Turn errors of users, jobs and Spark into `StoppedError`.

    The status is 2 for a mistake in the script or its options, 1 for a job that failed, 130 for Ctrl-C.
    """
    try:
        yield
    except StoppedError:
        raise
    except KeyboardInterrupt:
        raise StoppedError(_STOPPED, INTERRUPTED) from None
    except SqlFailedError as error:
        raise StoppedError(str(error), FAILED) from error
    except (SqlError, OptionError, SchemaError) as error:
        raise StoppedError(str(error), MISTAKE) from error
    except PenstockError as error:
        raise StoppedError(str(error), FAILED) from error
    except Exception as error:
        message = _of_spark(error)
        if message is None:
            raise
        _log.debug("a job failed", exc_info=error)
        raise StoppedError(message, FAILED) from error


def _of_spark(error: Exception) -> str | None:
    """Return what an error of Spark or of its Java process means; None for another error."""
    try:
        message = reason(error)
    except Exception as again:  # it asks Java for the text
        if not is_of_ended_java(again):
            raise
        return java_gone()
    if message is not None:
        return f"A job failed: {message}"
    return java_gone() if is_of_ended_java(error) else None


@dataclass(frozen=True)
class Shell:
    """A session, and where its results are shown.

    Attributes:
        session: runs the statements.
        output: shows rows.
        note: takes a line about progress, which is not a result.
    """

    session: Session
    output: Output
    note: Callable[[str], None]

    def run(self, text: str, *, explain: bool = False) -> None:
        """Run a script, statement by statement, and show what each gave.

        If a statement fails or is stopped, those behind it are not run, and a note says how many they are.
        """
        source, statements = Source(text), parse_script(text)
        for number, parsed in enumerate(statements, start=1):
            try:
                with self._failures_of_jobs():
                    self._run(parsed, source, explain=explain)
            except BaseException:
                if left := len(statements) - number:
                    were = "1 statement behind it was" if left == 1 else f"{left} statements behind it were"
                    self.note(f"Statement {number} of {len(statements)} did not end well: {were} not run.")
                raise

    def _run(self, parsed: ParsedStatement, source: Source, *, explain: bool) -> None:
        with left_to_the_start():  # `show_frame` starts the query of a SELECT
            result = self.session.explained(parsed, source) if explain else self.session.run(parsed, source)
        self._show(result)

    def _show(self, result: Result) -> None:
        if result.message:
            self.note(result.message)
        if result.frame is not None:
            show_frame(result.frame, self._chosen_output())
        elif result.columns:
            for text in aligned(result.columns, result.rows):
                self.output.emit(text)

    def _chosen_output(self) -> Output:
        """Return the output with what SET has chosen, unless the command line has chosen a format."""
        given = {row[0]: row[1] for row in self.session.execute("SET")[0].rows}
        output = replace(self.output, limit=int(given.get(RESULT_ROWS, self.output.limit)))
        if output.format is Format.AUTO and given.get(RESULT_MODE) == "changelog":
            return replace(output, format=Format.LINES)
        return output

    def wait(self, jobs: list[Job]) -> None:
        """Wait for all jobs, and note their progress. If one fails, the others are stopped.

        Raises:
            KeyboardInterrupt: the user wants to stop. The jobs still run: see `stop_after_batch`.
        """
        together = Job("all", [query for job in jobs for query in job.queries])
        shown_at = time.monotonic()
        with self._failures_of_jobs():
            while not together.wait(1.0, stops_on_ctrl_c=False):
                if time.monotonic() - shown_at >= _PROGRESS_S:
                    shown_at = time.monotonic()
                    for job in jobs:
                        for text in progress(job):
                            self.note(text)

    @contextmanager
    def _failures_of_jobs(self) -> Iterator[None]:
        """Turn errors of Spark into `StoppedError`, with the tables of the topics that they name."""
        try:
            yield
        except Exception as error:
            message = _of_spark(error)
            if message is None:
                raise
            _log.debug("a job failed", exc_info=error)
            raise StoppedError(self.session.topics.named(message), FAILED) from error

    def stop_after_batch(self, timeout_ms: int) -> bool:
        """Stop all jobs after their batches, and say so. Return False if a batch has to be cut off.

        Raises:
            KeyboardInterrupt: the user does not want to wait.
        """
        jobs = [job for job in self.session.jobs if job.is_active]
        if not jobs:
            return True
        names = ", ".join(job.name for job in jobs)
        if not all(can_stop_after_batch(query) for job in jobs for query in job.queries):
            self.note(f"Stopping {names} at once, because Spark Connect cannot stop after a batch.")
            return False
        self.note(f"Stopping {names} after the batch; another Ctrl-C stops at once.")
        has_stopped = stop_jobs_after_batch(jobs, timeout_ms)
        if not has_stopped:
            self.note(f"The batch did not end within {timeout_ms / 1000:g} s, so it is cut off.")
        return has_stopped

    def stopped(self, *, is_cut_off: bool) -> str:
        """Return what the user has to know after a stop: an INSERT continues if it has a position."""
        said = [_STOPPED]
        if self.session.checkpoints:
            said += [_CONTINUES, *([_CUT_OFF] if is_cut_off else [])]
        if any(part.is_continuous for job in self.session.jobs for part in job.parts):
            said.append(_GOES_ON)
        return " ".join(said)


def progress(job: Job) -> Iterator[str]:
    """Return a line for each query of a job: its batch with the rows, rows a second, and the time it took."""
    for query, part in zip(job.queries, job.parts, strict=True):
        last: Any = query.lastProgress
        if isinstance(query, ContinuousQuery) and last is not None:
            rate = float(last["inputRowsPerSecond"])
            yield f"{part.label}: {rate:,.0f} rows/s, {last['numTransactions']:,} transactions"
        elif last is not None:
            count, rate = int(last["numInputRows"]), float(last["processedRowsPerSecond"] or 0)
            rows = "1 row" if count == 1 else f"{count:,} rows"
            took_ms = last["durationMs"].get("triggerExecution", 0)
            yield f"{part.label}: batch {last['batchId']}, {rows}, {rate:,.0f} rows/s, {took_ms:,} ms"
