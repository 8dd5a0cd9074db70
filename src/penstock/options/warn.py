"""Warnings about options: each said once for a query.

Spark parses the options of one query many times over (schema, planning, every micro-batch of a sink), in
several processes that it uses again. Invariant: a message is logged at most once in each process; where
another process of the query says it, `said_elsewhere` keeps it back.
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
    """Log a warning unless this process has already done so."""
    if message in _said or _is_said_elsewhere.get():
        return
    if len(_said) >= _SAID_MAX:
        _said.clear()
    _said.add(message)
    log.warning(message)


@contextmanager
def said_elsewhere(is_said: bool = True) -> Iterator[None]:
    """Keep warnings back while options are parsed that another process of the query parses too."""
    token = _is_said_elsewhere.set(is_said)
    try:
        yield
    finally:
        _is_said_elsewhere.reset(token)


def forget_warnings() -> None:
    """Let every warning be said again; for tests."""
    _said.clear()
