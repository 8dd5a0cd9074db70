"""Show errors of penstock to the user as their message, without a traceback of our files.

Runs on driver and executor, around the methods that Spark calls. Spark's Python processes send an error to
the JVM as text: the traceback, then the message. PySpark leaves the traceback out if the environment variable
SPARK_HIDE_TRACEBACK is set, as with its own `spark.sql.execution.pyspark.udf.hideTraceback.enabled`. PySpark
reads the variable when the error arrives, and then ends the process.

A function of `foreachBatch` runs in the user's program, where Py4J sends the text of the traceback. There the
frames are taken off the error instead: one frame of penstock is left, and those of PySpark.

Invariants: only errors that penstock raises on purpose are shortened. Any other error, a defect of penstock
or a failure in the user's code (partitioner, offsets initializer), keeps its traceback. `penstock.errors`
logs every traceback at DEBUG.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import wraps
from traceback import walk_tb
from typing import ParamSpec, TypeVar

from penstock.errors import PenstockError
from penstock.spark.explain_failure import explain_failure
from penstock.spark.process.kind import is_spark_process
from penstock.switches import Switch, is_on

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger("penstock.errors")
_HIDE = "SPARK_HIDE_TRACEBACK"
_BY_US = "penstock"
"""The value that penstock sets; PySpark accepts any text."""
_BELOW_US = ("penstock", "kafka", "pyarrow", "pyspark", "py4j", "psycopg", "deltalake", "pyiceberg")
_WRITTEN_BY_OTHERS = frozenset({*_BELOW_US, *sys.stdlib_module_names}) - {"__main__"}
"""Packages whose code runs below ours and is not the user's."""
_LONG = 600
"""Characters of an error of Java that Spark's regular expression surely takes."""
_CALL = re.compile(r"\s+(?:at [\w.$/<>@-]+\(|\.\.\. \d+ more)")
"""Begins a line of Java's stack trace."""
_SEARCHED = "py4j.protocol.Py4JJavaError: An error occurred while calling"
_INTERRUPTIONS = (
    "java.lang.InterruptedException",
    "java.io.InterruptedIOException",
    "java.nio.channels.ClosedByInterruptException",
)
"""Spark's regular expression (StreamExecution.PROXY_ERROR) is `_SEARCHED`, any text, and one of these."""
_TRACEBACK = "Traceback (most recent call last)"


def short_errors(method: Callable[P, T]) -> Callable[P, T]:
    """Shorten the errors of a method that Spark calls."""

    @wraps(method)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        with _shortened():
            return method(*args, **kwargs)

    return called


def short_errors_of_rows(
    method: Callable[P, Iterator[T]],
) -> Callable[P, Generator[T, None, None]]:
    """Shorten the errors of a generator that Spark asks for rows, also of a function for `mapInArrow`."""

    @wraps(method)
    def called(*args: P.args, **kwargs: P.kwargs) -> Generator[T, None, None]:
        rows = method(*args, **kwargs)
        try:
            while True:
                with _shortened():
                    try:
                        row = next(rows)
                    except StopIteration:
                        return
                yield row
        finally:
            if isinstance(rows, Generator):
                rows.close()

    return called


def short_errors_of_batches(function: Callable[P, T]) -> Callable[P, T]:
    """Shorten the errors of a function for `foreachBatch` that nothing but Spark calls.

    The error of a job that it runs comes from PySpark, with the calls of Java. It becomes the error of
    penstock that is its cause. Another long error of Java loses the calls of Java and keeps all else, unless
    it tells of an interruption: when a query is stopped, Spark searches the text for that with a regular
    expression that recurses for each character. A long text would end in a StackOverflowError of 1,024 lines,
    so it is cut.
    """

    @wraps(function, updated=())  # the function may be an object, whose attributes are its own
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            short = _short(error) or _without_calls(error)
            if short is None:
                _hide_no_more()
                raise
            _shorten(error)
        raise short.with_traceback(None) from None

    return called


@contextmanager
def _shortened() -> Iterator[None]:
    try:
        yield
    except PenstockError as error:
        if not is_spark_process() or _short(error) is None:
            _hide_no_more()
            raise
        _shorten(error)
        raise error.with_traceback(None) from None
    except BaseException:
        _hide_no_more()
        raise


def _short(error: Exception) -> PenstockError | None:
    """Return the error of penstock to show without a traceback; None if the traceback is needed."""
    if not is_on(Switch.SHORT_ERRORS):
        return None
    if isinstance(error, PenstockError):
        return None if _is_of_user_code(error.__cause__) else error
    reason = explain_failure(error)
    if reason is None or _TRACEBACK in str(error):
        return None
    return reason.error_class(reason.message)


def _without_calls(error: Exception) -> Exception | None:
    """Return a long error of Java without the calls of Java; None for another error."""
    text = str(error)
    if type(error).__name__ != "Py4JJavaError" or len(text) < _LONG or not is_on(Switch.SHORT_ERRORS):
        return None
    kept = "\n".join(line for line in text.split("\n") if _CALL.match(line) is None)
    interruption = next((name for name in _INTERRUPTIONS if name in kept), None)
    if interruption is not None:
        return RuntimeError(f"py4j.protocol.Py4JJavaError: {_cut(kept, interruption)}")
    # Spark would find nothing. The small letter keeps it from searching, so the text may have any length.
    whole = f"py4j.protocol.Py4JJavaError: {kept}"
    return RuntimeError(whole.replace(_SEARCHED, _SEARCHED.replace(": An", ": an")))


def _cut(text: str, interruption: str) -> str:
    """Return a text that Spark can search: beginning and end of a long one, and the name that is searched."""
    if len(text) <= _LONG:
        return text
    half = _LONG // 2
    short = f"{text[:half]} ...\n... {text[-half:]}"
    return short if interruption in short else f"{short}\nCaused by: {interruption}"


def _shorten(error: Exception) -> None:
    _log.debug("The full traceback of the error that follows:", exc_info=error)
    if is_spark_process():
        os.environ.setdefault(_HIDE, _BY_US)


def _hide_no_more() -> None:
    """Clear the variable, because an error that needs its traceback may follow (from `stop`, say)."""
    if os.environ.get(_HIDE) == _BY_US:
        del os.environ[_HIDE]


def _is_of_user_code(cause: BaseException | None) -> bool:
    """Return whether code of the user was running, so that the user needs its traceback."""
    seen: set[int] = set()  # an error may be its own cause
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        for frame, _ in walk_tb(cause.__traceback__):
            if str(frame.f_globals.get("__name__", "")).partition(".")[0] not in _WRITTEN_BY_OTHERS:
                return True
        cause = cause.__cause__
    return False
