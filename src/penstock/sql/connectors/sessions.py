"""Spark classic and Connect: which of them a session is, whether it has ended, and errors in one line.

Runs on the driver. Invariant: a password in an address is not shown.
"""

from __future__ import annotations

import re
from typing import Any

from penstock.spark.connect import is_connect
from penstock.spark.explain_failure import explain_failure
from penstock.sql.language.source import without_secrets

_RAISED = re.compile(r"^[\w.]+(?:Exception|Error): (?P<said>.+)$", re.MULTILINE)
"""The last line of a traceback of Python, which Spark puts into the message of its own error."""

_NOT_CONNECTED = re.compile(r"Python worker failed to connect back|CANNOT_OPEN_SOCKET.*timed out", re.DOTALL)
"""Spark's limit as its JVM says it, and as its Python does."""
_NO_PYTHON = (
    "It means: Spark could not start its Python in time, usually because the machine is too busy. Nothing is "
    "lost: start the script again, with fewer INSERTs at a time or more cores. A stream continues from its "
    "checkpoint, and an INSERT in batch mode writes all of its rows again. If it fails each time, also on a "
    "quiet machine, look at spark.pyspark.python: Spark may have another Python."
)
_ADVICE = re.compile(r" (?:Use `?try_\w+`? [^.]*\. )?If necessary set [^.]*\"spark\.[^\"]*\" to [^.]*\.")
"""What Spark says of functions and options that SQL does not have."""


def first_line(error: BaseException) -> str | None:
    """Return the first line of an error of Spark or Java; None for another error.

    PySpark leaves some errors of Java as they are, so they have no class of PySpark. Of an error that Python
    raised within a query it is what Python said.
    """
    java = getattr(error, "java_exception", None)
    if java is None and not type(error).__module__.startswith("pyspark.errors"):
        return None
    text = str(java.toString()) if java is not None else str(error)
    line, _, rest = text.strip().partition("\n")
    if line.endswith("Traceback (most recent call last):") and (raised := _RAISED.search(rest)) is not None:
        line = raised["said"]
    return without_secrets(_ADVICE.sub("", line))


def reason(error: BaseException) -> str | None:
    """Return why a job failed: the whole message of penstock's error, else what `first_line` returns.

    An error of Spark that does not say what to do is explained in the same line.
    """
    first = first_line(error)
    if first is None:
        return None
    found = explain_failure(error)
    if found is not None:
        return without_secrets(found.message)
    return f"{first} {_NO_PYTHON}" if _NOT_CONNECTED.search(first) else first


def is_stopped(session: Any) -> bool:
    """Return whether the user has stopped Spark, so that nothing of a session is left to undo."""
    if is_connect(session):
        return bool(session.is_stopped)
    return getattr(session.sparkContext, "_jsc", session) is None  # what PySpark's own SparkSession asks


def make_active(session: Any) -> None:
    """Let Spark find Python data sources from this thread.

    A thread that did not make the session has no active one, and Spark finds no target of a stream there.
    """
    if is_connect(session):
        return
    from pyspark.sql import SparkSession  # noqa: PLC0415 - lazy

    sessions = SparkSession._get_j_spark_session_class(session._jvm)  # noqa: SLF001 - PySpark does the same
    sessions.setActiveSession(session._jsparkSession)  # noqa: SLF001 - there is no public way
