"""The text of an error that reaches Spark's JVM. Each test runs in a process that looks like Spark's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import traceback

import pytest

from penstock.spark.process.short_errors import short_errors_of_batches
from tests.waiting import PATIENCE_S

# PySpark's workers end like this: handle_worker_exception sends the error to the JVM.
PROGRAM = """
import io, sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pyspark.util import handle_worker_exception
from penstock.errors import OptionError
from penstock.spark.process.short_errors import short_errors, short_errors_of_rows

sys.modules["__main__"].__spec__ = ModuleSpec({main!r}, None)

def deeper():
    {failing}

@short_errors
def method():
    deeper()

@short_errors_of_rows
def rows():
    try:
        yield 1
        deeper()
    finally:
        {closing}

@short_errors
def stop():
    {stopping}

sent = io.BytesIO()
try:
    try:
        {calling}
    finally:
        stop()
except BaseException as error:
    handle_worker_exception(error, sent)
print(sent.getvalue()[8:].decode())
"""
RAISE = "raise OptionError('a sentence') from KeyError('inner')"
SENTENCE = "penstock.errors.OptionError: a sentence"


def sent(
    *,
    failing: str = RAISE,
    calling: str = "method()",
    stopping: str = "pass",
    closing: str = "pass",
    main: str = "pyspark.daemon",
    variables: dict[str, str] | None = None,
    stderr: list[str] | None = None,
) -> str:
    """Return the text that the JVM gets."""
    program = PROGRAM.format(main=main, failing=failing, calling=calling, stopping=stopping, closing=closing)
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **(variables or {})},
        timeout=PATIENCE_S,
    )
    if stderr is not None:
        stderr.append(done.stderr)
    return done.stdout.strip()


@pytest.mark.parametrize("main", ["pyspark.daemon", "pyspark.sql.streaming.python_streaming_source_runner"])
@pytest.mark.parametrize("calling", ["method()", "list(rows())"])
def test_an_error_of_penstock_is_its_sentence(main: str, calling: str) -> None:
    assert sent(main=main, calling=calling) == SENTENCE


def test_stopping_in_order_behind_it_changes_nothing() -> None:
    assert sent(stopping="return None") == SENTENCE


@pytest.mark.parametrize(
    "changes",
    [
        {"failing": "raise TypeError('a defect')"},
        {"stopping": "raise TypeError('a defect behind the sentence')"},
        {"variables": {"PENSTOCK_SHORT_ERRORS": "off"}},
        {"main": "my.program"},
    ],
    ids=["defect", "defect in stop", "switched off", "not Spark's process"],
)
def test_any_other_error_keeps_its_traceback(changes: dict[str, object]) -> None:
    text = sent(**changes)  # type: ignore[arg-type]  # one of the parameters above
    assert text.count("Traceback (most recent call last):") >= 1
    assert 'File "<string>"' in text


def test_a_failure_in_the_users_code_keeps_its_traceback() -> None:
    failing = """
    try:
        of_the_user()
    except ZeroDivisionError as error:
        raise OptionError('the partitioner failed') from error

def of_the_user():
    return 1 / 0
"""
    text = sent(failing=failing.strip())
    assert "in of_the_user" in text
    assert "penstock.errors.OptionError: the partitioner failed" in text


def test_the_log_has_the_traceback() -> None:
    said: list[str] = []
    show = "import logging; logging.basicConfig(level=logging.DEBUG); method()"
    assert sent(calling=show, stderr=said) == SENTENCE
    assert "in deeper" in said[0]
    assert "KeyError: 'inner'" in said[0]


def test_rows_that_spark_leaves_are_closed_at_once() -> None:
    said: list[str] = []
    calling = "each = rows(); next(each); each.close(); print('left', file=sys.stderr)"
    assert (
        sent(failing="pass", calling=calling, closing="print('closed', file=sys.stderr)", stderr=said) == ""
    )
    assert said == ["closed\nleft\n"]


DRIVERS_PROGRAM = """
import traceback
from pyspark.errors import PySparkException
from penstock.errors import MaterializeError, StateError
from penstock.spark.process.short_errors import short_errors_of_batches

def deeper():
    {failing}

class Writer:
    @short_errors_of_batches
    def __call__(self, rows, batch_id):
        deeper()

try:
    Writer()(None, 0)  # as Spark calls it, through Py4J
except Exception as error:
    shown = traceback.format_exc()
    print(shown)
    print("type:", type(error).__name__, "facts:", getattr(error, "facts", None))
"""
OF_A_TASK = (
    "raise PySparkException('Aborted: penstock.errors.StateError: a sentence.\\n\\tat org.apache.X(Y.java)')"
)


def of_driver(failing: str, **variables: str) -> str:
    """Return the text of the traceback that Py4J sends to the JVM."""
    done = subprocess.run(
        [sys.executable, "-c", DRIVERS_PROGRAM.format(failing=failing)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
        timeout=PATIENCE_S,
    )
    return done.stdout


def test_an_error_in_foreach_batch_has_one_frame_of_penstock() -> None:
    text = of_driver("raise MaterializeError('a sentence', table='t') from KeyError('inner')")
    assert text.count("Traceback") == 1
    assert text.count("short_errors.py") == 1
    assert "deeper" not in text
    assert "inner" not in text
    assert "\npenstock.errors.MaterializeError: a sentence\n" in text
    assert "type: MaterializeError facts: {'table': 't'}" in text


OWN_CAUSE = """
from penstock.errors import MaterializeError
from penstock.spark.process.short_errors import short_errors_of_batches

@short_errors_of_batches
def write():
    error = MaterializeError("a sentence")
    raise error from error

try:
    write()
except MaterializeError as error:
    print("ended with", error)
"""


def test_an_error_that_is_its_own_cause_ends() -> None:
    """No function of a user is in its traceback, so nothing else ends the search for one."""
    program = f"exec({OWN_CAUSE!r}, {{'__name__': 'penstock.writer'}})"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.stdout == "ended with a sentence\n"


def test_an_error_of_a_task_in_foreach_batch_is_that_of_penstock() -> None:
    text = of_driver(OF_A_TASK)
    assert "\npenstock.errors.StateError: a sentence.\n" in text
    assert "org.apache" not in text
    assert "type: StateError" in text


@pytest.mark.parametrize(
    "failing",
    [
        "raise PySparkException('Traceback (most recent call last): ... penstock.errors.RowError: x')",
        "raise PySparkException('a table does not exist')",
        "raise TypeError('a defect')",
    ],
    ids=["with a traceback", "of Spark", "defect"],
)
def test_another_error_in_foreach_batch_keeps_its_traceback(failing: str) -> None:
    text = of_driver(failing)
    assert "in deeper" in text
    assert failing.partition("(")[2][1:8] in text


def test_a_switch_brings_the_tracebacks_in_foreach_batch_back() -> None:
    assert "in deeper" in of_driver("raise MaterializeError('a sentence')", PENSTOCK_SHORT_ERRORS="off")


def test_the_attributes_of_an_object_for_foreach_batch_stay_its_own() -> None:
    writer = WriterWithPassword("hush")
    shortened = short_errors_of_batches(writer)
    assert shortened(1, 2) == (1, 2, "hush")
    assert set(vars(shortened)) == {"__wrapped__"}


class WriterWithPassword:
    def __init__(self, password: str) -> None:
        self.password = password

    def __call__(self, rows: int, batch_id: int) -> tuple[int, int, str]:
        return rows, batch_id, self.password


class Py4JJavaError(Exception):
    """An error of Java as Py4J raises it: the calls of Java are in its text."""


CALLS = "\n".join(f"\tat org.apache.spark.Some.call{n}(Some.scala:{n})" for n in range(100))
CANCELLED = "org.apache.spark.SparkException: Job 3 cancelled part of cancelled job group 1"
CAUSE = "Caused by: java.lang.InterruptedException"


@pytest.mark.parametrize(
    ("text", "is_cut"),
    [
        (f"An error occurred while calling o60.count.\n: {CANCELLED}\n{CALLS}\n{CAUSE}\n{CALLS}", True),
        (f"An error occurred while calling o60.count.\n: {CANCELLED}\n\tat a.b(c)", False),
    ],
)
def test_a_long_error_of_java_keeps_what_spark_searches_for(text: str, is_cut: bool) -> None:
    """Spark's regular expression overflows the stack of its thread for a long text."""

    def fail() -> None:
        raise Py4JJavaError(text)

    with pytest.raises(RuntimeError if is_cut else Py4JJavaError) as raised:
        short_errors_of_batches(fail)()
    shown = "".join(traceback.format_exception(raised.value))
    assert "Py4JJavaError: An error occurred while calling o60.count" in shown
    assert CANCELLED in shown
    if is_cut:
        assert "py4j.protocol.Py4JJavaError: An error" in shown
        assert CAUSE in shown
        assert len(str(raised.value)) < 700
        assert "Some.scala" not in shown


OVERFLOWS_FROM = 1_000
"""Characters for which Java's default stack surely suffices, also for code that is not compiled."""
SEARCHED = re.compile(r"py4j.protocol.Py4JJavaError: An error occurred while calling(.*)", re.DOTALL)
WORKER = "org.apache.spark.SparkException: Job aborted: Task 0 in stage 3.0 failed 1 times"
CRASHED = """Fatal Python error: Segmentation fault

Current thread 0x00007f (most recent call first):
  File "/home/me/job.py", line 12 in my_udf"""
FRAMES = "\n".join(f'  File "/spark/worker.py", line {n}, in process' for n in range(60))
RAISED = (
    f"Traceback (most recent call last):\n{FRAMES}\nValueError: at last the reason\n  at (a line of ours)"
)
REMOTE = "An error occurred while calling o60.count.\n"


def of_java(text: str) -> str:
    """Return the text that Spark gets for an error of Java in a function for `foreachBatch`."""

    def fail() -> None:
        raise Py4JJavaError(text)

    with pytest.raises(RuntimeError) as raised:
        short_errors_of_batches(fail)()
    return "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize(
    "reason", [CRASHED, RAISED, f"{RAISED}\n{CRASHED}\npy4j.protocol.Py4JJavaError: {REMOTE}"]
)
def test_a_long_error_of_java_loses_nothing_but_the_calls_of_java(reason: str) -> None:
    """Spark does not search a text without an interruption: its regular expression does not begin."""
    shown = of_java(f"{REMOTE}: {WORKER}: {reason}\n{CALLS}\n\t... 7 more\nCaused by: {WORKER}\n{CALLS}")
    said = shown.replace("an error occurred", "An error occurred")
    assert f"py4j.protocol.Py4JJavaError: {REMOTE}: {WORKER}: {reason}\nCaused by: {WORKER}\n" in said
    assert SEARCHED.search(shown) is None


@pytest.mark.parametrize(
    "behind", ["", f"\nCaused by: {WORKER}: {RAISED}"], ids=["at the end", "in the middle"]
)
def test_a_cut_of_an_interrupted_error_is_marked(behind: str) -> None:
    shown = of_java(f"{REMOTE}: {WORKER}: {RAISED}\n{CALLS}\n{CAUSE}{behind}\n{CALLS}")
    found = SEARCHED.search(shown)
    assert found is not None
    assert len(found[1]) < OVERFLOWS_FROM
    assert WORKER in found[1]
    assert " ...\n" in found[1]
    assert "ValueError: at last the reason" in found[1]
    assert "java.lang.InterruptedException" in found[1]
