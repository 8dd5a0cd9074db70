"""why: which error of penstock ended a query or a job, out of what Spark made of it.

Runs in the user's program, on Spark classic and Connect. Spark hands on errors of Python code as text, with
its own text around it. Invariant: asks nothing of Spark beyond `query.exception()`, and never raises for what
it does not know: that is None.
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
        name: of the error's class, e.g. `penstock.errors.PrefixTakenError`.
        message: what happened, what it means for the data, what to do.
        facts: the error's facts (topic, offset ...) where the error itself is at hand; empty where Spark has
            handed on only its text, which is whenever it comes from one of Spark's processes.
    """

    name: str
    message: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def error_class(self) -> type[PenstockError]:
        """The class, for `issubclass`; PenstockError where this version of penstock does not have it."""
        found = getattr(errors, self.name.rpartition(".")[2], None)
        return found if isinstance(found, type) and issubclass(found, PenstockError) else PenstockError

    def __str__(self) -> str:
        return f"{self.name}: {self.message}"


def why(failed: Any) -> Why | None:
    """Say which error of penstock is behind a failed query or a caught exception.

    Args:
        failed: a streaming query, the exception that `query.exception()` returns, or one that was caught
            around a batch job, on Spark classic or Connect. None is allowed.

    Returns:
        The error; None where the query did not fail, or for another reason than an error of penstock.
    """
    error = failed
    if callable(getattr(failed, "exception", None)):
        error = failed.exception()
    if not isinstance(error, BaseException):
        return None
    for each in _chain(error):
        if isinstance(each, PenstockError):
            return Why(f"{type(each).__module__}.{type(each).__qualname__}", each.message, dict(each.facts))
        found = _in_text(str(each))
        if found is not None:
            return found
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what it was raised from, each once."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def _in_text(text: str) -> Why | None:
    """The outermost error of penstock that a text tells of: of a chain of errors Python prints it last."""
    found = None
    position = 0
    while (begin := _BEGIN.search(text, position)) is not None:
        end = _END.search(text, begin.end())
        position = len(text) if end is None else end.start()
        found = Why(begin["name"], text[begin.end() : position])
        if _WRAPPED.match(text, position) is None:
            break
    return found
