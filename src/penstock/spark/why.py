"""why: find the error of penstock in the error that Spark raises for a query or a job.

Runs in the user's program, on Spark classic and Connect. Spark passes errors of Python code on as text, with
its own text around them. Invariant: asks Spark only for `query.exception()`; returns None for an unknown
error instead of raising.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock import errors
from penstock.errors import PenstockError

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


@dataclass(frozen=True)
class Why:
    """The error of penstock that ended a query or a job.

    Attributes:
        name: of the error's class, e.g. `penstock.errors.PrefixTakenError`. message: what happened, what it
        means for the data, what to do. facts: the error's facts (topic, offset ...) if the error itself is
        available. Empty if Spark has passed
            on only its text, which it does for every error of its Python processes.
    """

    name: str
    message: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def error_class(self) -> type[PenstockError]:
        """Return the class, for `issubclass`; PenstockError if this version does not have it."""
        found = getattr(errors, self.name.rpartition(".")[2], None)
        return found if isinstance(found, type) and issubclass(found, PenstockError) else PenstockError

    def __str__(self) -> str:
        return f"{self.name}: {self.message}"


def why(failed: Any) -> Why | None:
    """Return the error of penstock that caused a failed query or a caught exception.

    Args:
        failed: a streaming query, the exception that `query.exception()` returns, or an exception that a
        batch
            job raised, on Spark classic or Connect. None is allowed.

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
            return Why(f"{type(each).__module__}.{type(each).__qualname__}", each.message, dict(each.facts))
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


def _in_text(text: str) -> Why | None:
    """Return the outermost error of penstock in a text: Python prints it last in a chain of errors."""
    found = None
    position = 0
    while (begin := _BEGIN.search(text, position)) is not None:
        end = _END.search(text, begin.end())
        position = len(text) if end is None else end.start()
        found = Why(begin["name"], text[begin.end() : position])
        if _WRAPPED.match(text, position) is None:
            break
    return found
