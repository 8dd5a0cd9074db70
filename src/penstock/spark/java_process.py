"""java_process: whether an error came because the Java process of Spark has ended.

Runs on the driver, for Spark classic whose Java PySpark has started. Without Java each call fails, and Py4J
says so in many ways: its own error, a connection that is refused, an end of a stream. Invariant: an error
counts only if it came from PySpark's connection, and if the process itself has ended.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any

from penstock.spark.explain_failure import chain

_TRIES = 5
_ENDS_S = 5.0
"""Java's connections are closed a moment before the system says that the process has ended."""


def java_gone() -> str:
    """Return a message for users: how the Java process of Spark ended, what it means, and what to do."""
    return (
        f"The Java process of Spark has gone ({_how_it_ended()}): it was killed, or had no memory left. The "
        "log of the system or of the container says whether its memory was the reason ('OOM killer', "
        "'OOMKilled'). The option of Spark spark.driver.memory sets how much it may take. Nothing is lost: "
        "start `penstock sql` again. A stream continues from its checkpoint and repeats the batch that was "
        "cut off: a table with exactly-once holds its rows once, another one may hold them twice. An INSERT "
        "in batch mode writes all of its rows again."
    )


def is_of_ended_java(error: BaseException) -> bool:
    """Return whether an error, or one that caused it, came because the Java process of Spark has ended."""
    return _is_without_answer(error) and _has_ended()


def connect_again(context: Any) -> None:
    """Make sure that calls of Java work again after a signal has cut one off.

    Without Java this returns too: the next call says that it has gone.
    """
    try:
        until_answered(context._jvm.java.lang.System.nanoTime)  # noqa: SLF001 - any call that changes nothing
    except Exception as error:
        if not _is_without_answer(error):
            raise


def until_answered(call: Callable[[], object]) -> None:
    """Call Java until it answers, at most `_TRIES` times, because a signal may have cut off a call before.

    Py4J then closes connections, and Java may close the next ones before it answers (seen on Spark 4.3, once
    in some hundred runs).

    Args:
        call: has to be one that may run twice.

    Raises:
        Exception: what Java answered; or of the last try, that Java did not answer.
    """
    for _ in range(_TRIES - 1):
        try:
            call()
        except Exception as error:
            if not _is_without_answer(error):
                raise
        else:
            return
    call()


def _is_without_answer(error: BaseException) -> bool:
    return any(_is_of_connection(each) for each in chain(error))


def _is_of_connection(error: BaseException) -> bool:
    if type(error).__module__ == "py4j.protocol":
        return not hasattr(error, "java_exception")  # with it, Java has answered
    if not isinstance(error, ConnectionError | EOFError):
        return False
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(frame.f_globals.get("__name__", "").startswith(("py4j.", "pyspark.")) for frame in frames)


def _has_ended() -> bool:
    process = _process()
    if process is None:
        return False
    try:
        process.wait(_ENDS_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _how_it_ended() -> str:
    """Return the signal or the exit status. Spark ends with 52 if a task found no memory."""
    process = _process()
    status = None if process is None else process.returncode
    if status is None:
        return "its exit status is unknown"
    names = {each.value: each.name for each in signal.Signals}
    return names.get(-status, f"exit status {status}")


def _process() -> subprocess.Popen[bytes] | None:
    from pyspark import SparkContext  # noqa: PLC0415 - the module loads without PySpark

    process: subprocess.Popen[bytes] | None
    process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 - there is no public way
    return process


def mute_end_of_java(context: Any) -> None:
    """Keep PySpark's server of accumulators from printing a traceback when Java, its client, has ended."""
    server = getattr(context, "_accumulatorServer", None)
    if server is None:
        return
    tell = server.handle_error

    def handle_error(request: Any, address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError | EOFError):
            tell(request, address)

    server.handle_error = handle_error
