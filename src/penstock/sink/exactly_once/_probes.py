"""Test hooks: the points of the protocol at which a process may die, by name.

Runs on the driver and in tasks. In production no function is set. Tests set one that kills, fails or watches.
Invariant: a step is announced when everything before it has happened and nothing after it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum


class Step(str, Enum):
    """A point of the protocol: what was just done, or what comes next."""

    TAKEN_PREFIX = "recovery: older committers are fenced"
    BEFORE_FINISHING_OLD = "recovery: a decided batch is about to be finished"
    FINISHED_OLD = "recovery: it is finished, and not yet marked so"
    RECOVERED = "recovery: done"
    BEFORE_DECISION = "commit: the decision is about to be written"
    DECIDED = "commit: the decision is written, no transaction is committed"
    FINISHED = "commit: all transactions are committed, and not yet marked so"
    MARKED = "commit: done"
    TASK_BEFORE_FLUSH = "task: its rows are given to the producer, and not all acknowledged"
    TASK_WRITTEN = "task: all its rows are acknowledged, and not yet reported"


Observer = Callable[[Step], None]

_observer: Observer | None = None


def observe(observer: Observer | None) -> None:
    """Call `observer` at each step of this process from now on; None: call nothing."""
    global _observer  # noqa: PLW0603  # one process, one protocol; set by tests only
    _observer = observer


def reached(step: Step) -> None:
    if _observer is not None:
        _observer(step)
