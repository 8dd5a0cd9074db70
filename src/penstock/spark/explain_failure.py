"""Find the error of penstock in the error that Spark raises for a query or a job.

Runs in the user's program, on Spark classic and Connect. Spark passes errors of Python code on as text, with
its own text around them. Invariant: asks Spark only for `query.exception()`; returns None for an unknown
error instead of raising.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from penstock.errors import Failure, PenstockError

_BEGIN = re.compile(r"(?<![\w.])(?P<name>penstock(?:\.\w+)*\.(?P<short>\w+Error)): ")
_END = re.compile(
    r"""
    \s*\n\s*(?:
        SQLSTATE:                           # Spark's, of its own error around ours
      | ===\ Streaming\ Query\ ===
      | JVM\ stacktrace: | Driver\ stacktrace: | at\ [\w.$/]+\( | Caused\ by:\ | \.\.\.\ \d+\ more
      | Traceback\ \(most\ recent | The\ above\ exception\ was | During\ handling\ of\ the
    )
    | \s*\Z
    """,
    re.VERBOSE,
)
_WRAPPED = re.compile(
    r"\s*(?:The above exception was the direct cause|During handling of the above exception)"
)


def explain_failure(failed: Any) -> Failure | None:
    """Return the error of penstock that caused a failed query or a caught exception.

    Args:
        failed: a streaming query, the exception that `query.exception()` returns, or an exception that a
            batch job raised, on Spark classic or Connect. None is allowed.

    Returns:
        The error; None if the query did not fail, or if the cause is not an error of penstock.
    """
    error = failed
    if callable(getattr(failed, "exception", None)):
        error = failed.exception()
    if not isinstance(error, BaseException):
        return None
    for each in chain(error):
        if isinstance(each, PenstockError):
            name = f"{type(each).__module__}.{type(each).__qualname__}"
            return Failure(name, each.message, dict(each.facts))
        found = _in_text(str(each))
        if found is not None:
            return found
    return None


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes, each once."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def _in_text(text: str) -> Failure | None:
    """Return the outermost error of penstock in a text: Python prints it last in a chain of errors."""
    found = None
    position = 0
    while (begin := _BEGIN.search(text, position)) is not None:
        end = _END.search(text, begin.end())
        position = len(text) if end is None else end.start()
        found = Failure(begin["name"], text[begin.end() : position])
        if _WRAPPED.match(text, position) is None:
            break
    return found
