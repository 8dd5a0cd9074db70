"""How results are shown, and the exit status of a failure."""

from __future__ import annotations

import io
from typing import Any

import pytest
from pyspark.errors import PySparkException
from rich.console import Console

from penstock.errors import BrokerUnavailableError, OptionError, SqlError, SqlFailedError
from penstock.sql.shell import Format
from penstock.sql.shell.run import StoppedError, failures
from penstock.sql.shell.select import Output, _FollowedTable


@pytest.mark.parametrize(
    ("format_", "is_terminal", "expected"),
    [
        (Format.AUTO, True, Format.TABLE),
        (Format.AUTO, False, Format.LINES),
        (Format.JSON, True, Format.JSON),
        (Format.TABLE, False, Format.TABLE),
    ],
)
def test_the_format_of_rows(format_: Format, is_terminal: bool, expected: Format) -> None:
    assert Output(print, format_, is_terminal).chosen is expected


class Batch:
    """The rows of a micro-batch."""

    def __init__(self, *rows: tuple[Any, ...]) -> None:
        self._rows = list(rows)

    def collect(self) -> list[tuple[Any, ...]]:
        return self._rows


def test_a_live_table_shows_the_rows_that_changes_leave() -> None:
    table = _FollowedTable(["row_kind", "shop", "n"], 100)
    table.apply(Batch(*(("+I", f"s{number}", 1) for number in range(5))))
    table.apply(Batch(("-U", "s4", 1), ("+U", "s4", 2), ("-D", "s0", 1)))
    screen = io.StringIO()
    Console(file=screen, width=60).print(table.drawn(10))
    text = screen.getvalue()
    assert "These are the last 2 of 4 rows. Ctrl-C stops the query." in " ".join(text.split())
    assert "s3" in text
    assert "s2" not in text
    lines: list[str] = []
    table.emit(lines.append)
    assert lines == ["shop  n", "s1    1", "s2    1", "s3    1", "s4    2"]


def test_rows_that_were_dropped_are_counted() -> None:
    table = _FollowedTable(["a"], 2)
    table.apply(Batch(*((number,) for number in range(5))))
    lines: list[str] = []
    table.emit(lines.append)
    assert lines == ["a", "3", "4", "These are the last 2 of 5 rows."]


@pytest.mark.parametrize(
    ("count", "limit", "height", "told"),
    [
        (0, 9, 20, "0 rows."),
        (1, 9, 20, "1 row."),
        (2, 9, 20, "2 rows."),
        (1_200, 2_000, 10, "These are the last 2 of 1,200 rows."),
        (3, 2, 20, "These are the last 2 of 3 rows."),
        (3, 1, 20, "This is the last of 3 rows."),
    ],
)
def test_a_live_table_tells_only_of_rows_that_it_leaves_out(
    count: int, limit: int, height: int, told: str
) -> None:
    table = _FollowedTable(["a"], limit)
    table.apply(Batch(*((number,) for number in range(count))))
    assert table.drawn(height).caption == f"{told} Ctrl-C stops the query."


class JavaError(Exception):
    """As Py4J gives an error of Java."""

    class java_exception:
        @staticmethod
        def toString() -> str:
            return "java.sql.SQLException: no jdbc:x://u:hunter2@h\n\tat a.b(C.java)"


OF_A_TASK = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/x/read.py", line 3, in read
    raise error
penstock.errors.DecodeError: Offset 7 of orders-0 is not JSON at http://u:hunter2@h. Nothing was written.
Set 'json.ignore-parse-errors'.

SQLSTATE: 38000
\tat org.apache.spark.x(y.scala)
"""


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (SqlError("wrong"), 2, "wrong"),
        (OptionError("no such option"), 2, "no such option"),
        (SqlFailedError("it failed"), 1, "it failed"),
        (BrokerUnavailableError("no broker"), 1, "no broker"),
        (PySparkException("a job\nand its stack"), 1, "A job failed: a job"),
        (
            PySparkException(OF_A_TASK),
            1,
            "A job failed: Offset 7 of orders-0 is not JSON at http://u:*******@h. Nothing was written.\n"
            "Set 'json.ignore-parse-errors'.",
        ),
        (JavaError(), 1, "A job failed: java.sql.SQLException: no jdbc:x://u:*******@h"),
        (KeyboardInterrupt(), 130, "Stopped."),
    ],
)
def test_the_status_of_a_failure(error: BaseException, status: int, message: str) -> None:
    with pytest.raises(StoppedError) as found, failures():
        raise error
    assert (found.value.status, str(found.value)) == (status, message)


def test_another_error_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), failures():
        raise ZeroDivisionError
