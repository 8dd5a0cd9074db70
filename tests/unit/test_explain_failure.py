"""`penstock.explain_failure` finds the error of penstock in Spark's exception."""

from __future__ import annotations

import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock
from penstock.errors import Failure, OptionError, PenstockError, PrefixTakenError, ProduceError
from penstock.spark.explain_failure import explain_failure

SENTENCE = "Prefix 'p' was taken. Nothing was lost: see below. Expected 1, got 2"
NAME = "penstock.errors.PrefixTakenError"
OURS = f"{NAME}: {SENTENCE}"
QUERY = "\n=== Streaming Query ===\nIdentifier: [id = 1]\nCurrent Committed Offsets: {}\n"
TRACEBACK = (
    'Traceback (most recent call last):\n  File "/x/penstock/spark/a.py", line 4, in read\n    raise x\n'
)


class SparkError(Exception):
    """Replaces any exception of Spark's."""


class Query:
    """Replaces a StreamingQuery."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error

    def exception(self) -> BaseException | None:
        """Return the exception that ended the query."""
        return self.error


@pytest.mark.parametrize(
    "text",
    [
        OURS,
        f"[PYTHON_DATA_SOURCE_ERROR] Failed to create Python data source instance: {OURS}\n SQLSTATE: 38000",
        f"[PYTHON_DATA_SOURCE_ERROR] Fail: {TRACEBACK}{OURS}\n SQLSTATE: 38\n\nJVM stacktrace:\na.B\n\tat c",
        f"[STREAM_FAILED] Query [id = 1] terminated with exception: {OURS}\n SQLSTATE: 38000{QUERY}",
        f"An exception was thrown from the Python worker:\n{TRACEBACK}{OURS}\n",
        f"Job aborted: (TID 7): {OURS}\n\n\tat org.apache.Any$.run(Any.scala:7)\n\nDriver stacktrace:\n",
        f"a.B: {OURS}\n\n\tat a.b(C.scala:1)\nCaused by: x: {OURS}\n\tat a.b(C.scala:1)\n\t... 2 more\n",
    ],
    ids=["bare", "batch", "connect", "stream", "task", "job", "java"],
)
def test_the_sentence_is_found_in_what_spark_makes_of_it(text: str) -> None:
    assert explain_failure(SparkError(text)) == Failure(NAME, SENTENCE)
    assert explain_failure(Query(SparkError(text))) == Failure(NAME, SENTENCE)


def test_the_outermost_error_of_a_printed_chain_is_the_one() -> None:
    def fail() -> None:
        try:
            raise ProduceError("the inner one")
        except ProduceError as error:
            raise PrefixTakenError(SENTENCE) from error

    with pytest.raises(PrefixTakenError) as caught:
        fail()
    text = "".join(traceback.format_exception(caught.value))
    assert text.index("the inner one") < text.index(SENTENCE)
    assert explain_failure(SparkError(f"Failed: {text} SQLSTATE: 38000")) == Failure(NAME, f"{SENTENCE}")


def test_a_sentence_of_several_lines_stays_whole() -> None:
    several = "first line\n  second: line\n\nlast line"
    text = f"Failed: {NAME}: {several}\n SQLSTATE: 38000"
    assert explain_failure(SparkError(text)) == Failure(NAME, several)


def test_the_facts_are_there_where_the_error_itself_is() -> None:
    error = OptionError("Option 'x' is not known.", option="x")
    found = explain_failure(error)
    assert found is not None
    assert (found.error_class, found.message, found.facts) == (OptionError, error.message, {"option": "x"})
    around = SparkError("around it")
    around.__cause__ = error
    assert explain_failure(around) == found


def test_the_class_can_be_asked_for() -> None:
    found = explain_failure(SparkError(OURS))
    assert found is not None
    assert found.error_class is PrefixTakenError
    assert str(found) == OURS
    assert Failure("penstock.errors.OfAnotherVersionError", "x").error_class is PenstockError
    assert Failure("penstock.errors.Any", "x").error_class is PenstockError


@pytest.mark.parametrize(
    "other",
    [
        None,
        "penstock.errors.OptionError: a text is not an error",
        SparkError(""),
        SparkError("org.apache.spark.SparkException: a.b.OtherError: no\n SQLSTATE: 38000"),
        SparkError("my.penstock.errors.OptionError: not ours"),
        Query(None),
        Query(SparkError("the disk is full")),
        ValueError("x"),
    ],
)
def test_what_is_not_ours_gives_none(other: object) -> None:
    assert explain_failure(other) is None


@given(st.text(), st.text(), st.sampled_from(["", "\n SQLSTATE: 38000", QUERY, "\n\tat a.b(c)\n"]))
def test_any_text_around_it_is_no_error(before: str, sentence: str, after: str) -> None:
    found = explain_failure(SparkError(f"{before} {NAME}: {sentence}{after}"))
    assert found is not None
    assert found.name.startswith("penstock.")


def test_it_is_public() -> None:
    assert penstock.explain_failure is explain_failure
