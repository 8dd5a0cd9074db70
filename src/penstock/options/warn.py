"""Log each warning about options once for a query.

Spark parses the options of a query many times (schema, planning, every micro-batch of a sink), in several
processes that it uses again. Invariant: a process logs a message at most once. `said_elsewhere` suppresses it
where another process of the query logs it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_said: set[str] = set()
_is_said_elsewhere: ContextVar[bool] = ContextVar("penstock_warnings_said_elsewhere", default=False)
_SAID_MAX = 10_000


def warn_once(log: logging.Logger, message: str) -> None:
    """Log a warning, unless this process has already logged it."""
    if message in _said or _is_said_elsewhere.get():
        return
    if len(_said) >= _SAID_MAX:
        _said.clear()
    _said.add(message)
    log.warning(message)


@contextmanager
def said_elsewhere(is_said: bool = True) -> Iterator[None]:
    """Suppress warnings while options are parsed that another process of the query parses too."""
    token = _is_said_elsewhere.set(is_said)
    try:
        yield
    finally:
        _is_said_elsewhere.reset(token)


def forget_warnings() -> None:
    """Forget which warnings were logged; for tests."""
    _said.clear()
