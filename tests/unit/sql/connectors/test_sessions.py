"""Errors of Spark in one line."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from penstock.sql.connectors.sessions import first_line, reason

OF_A_BATCH = """[FOREACH_BATCH_USER_FUNCTION_ERROR] Message: Traceback (most recent call last):
  File "job.py", line 7, in show
    batch.collect()
pyspark.errors.exceptions.captured.ArithmeticException: [DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012
== SQL (line 1, position 8) ==
\tat py4j.Protocol.getReturnValue(Protocol.java:476)
"""


def test_the_first_line_is_what_was_said() -> None:
    assert first_line(PySparkException("[A] it failed\nJVM stacktrace")) == "[A] it failed"
    assert first_line(PySparkException(OF_A_BATCH)) == "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012"
    without_an_error = "Traceback (most recent call last):\n  File"
    assert first_line(PySparkException(without_an_error)) == "Traceback (most recent call last):"
    assert first_line(ValueError("mine")) is None


@pytest.mark.parametrize(
    "advice",
    [
        ' If necessary set "spark.sql.ansi.enabled" to "false" to bypass this error, and return NULL instead.',
        " Use `try_divide` to tolerate divisor being 0 and return NULL instead. If necessary set "
        '"spark.sql.ansi.enabled" to "false" to bypass this error.',
    ],
)
def test_advice_of_spark_that_sql_refuses_is_left_out(advice: str) -> None:
    error = PySparkException(f"[A] 10.50 is too large.{advice} SQLSTATE: 22003")
    assert first_line(error) == "[A] 10.50 is too large. SQLSTATE: 22003"


def test_a_password_is_not_shown() -> None:
    told = first_line(PySparkException("cannot reach jdbc:postgresql://me:hunter2@host/db"))
    assert told is not None
    assert "hunter2" not in told


@pytest.mark.parametrize(
    "said",
    [
        "[STREAM_FAILED] Query [id = a, runId = b] terminated with exception: Python worker failed to connect back.",
        "org.apache.spark.SparkException: Job aborted due to stage failure: Lost task 0.0 in stage 1.0: "
        "org.apache.spark.SparkException: Python worker failed to connect back.",
        """[CANNOT_OPEN_SOCKET] Can not open socket: ["tried to connect to ('127.0.0.1', 44303), but an error """
        'occurred: timed out"].',
    ],
)
def test_a_python_that_could_not_start_is_explained(said: str) -> None:
    told = reason(PySparkException(f"{said}\n\nJVM stacktrace:\n\tat x.y"))
    assert told is not None
    assert told.startswith(f"{said} It means: Spark could not start its Python in time")
    assert "fewer INSERTs at a time or more cores" in told
    assert "\n" not in told
    assert reason(PySparkException("[A] it failed")) == "[A] it failed"
