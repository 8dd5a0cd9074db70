"""Warnings about options: each said once in a process.

Spark parses the options of one query many times over (schema, planning, every micro-batch of a sink),
in processes that it uses again. Invariant: a message is logged at most once in each.
"""

from __future__ import annotations

import logging

_said: set[str] = set()
_SAID_MAX = 10_000


def warn_once(log: logging.Logger, message: str) -> None:
    """Log a warning unless this process has already done so."""
    if message in _said:
        return
    if len(_said) >= _SAID_MAX:
        _said.clear()
    _said.add(message)
    log.warning(message)


def forget_warnings() -> None:
    """Let every warning be said again; for tests."""
    _said.clear()
