"""How long a problem may last before it is an error.

Runs on driver and executor. Invariant: a missing topic is an error after a short grace, because each broker
takes a moment to learn of a new topic; a temporary problem is waited out until the deadline.
"""

from __future__ import annotations

import time
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.client.net.connection import KafkaConnections

UNKNOWN_TOPIC_GRACE_MS = 5_000
"""How long a topic may be unknown before that is an error."""

_NEVER = float("-inf")


class ProblemKind(IntEnum):
    """How long a problem may last before it is an error, the worst first."""

    FINAL = 0
    UNKNOWN = 1
    PASSING = 2


class Problem(NamedTuple):
    """The reason why a question has no answer yet."""

    kind: ProblemKind
    error: PenstockError


class Patience(NamedTuple):
    """The deadline of each kind of problem, on the clock of `time.monotonic()`."""

    deadline: float
    grace_ends: float

    @classmethod
    def from_now(cls, connections: KafkaConnections, timeout_ms: int | None) -> Patience:
        """Return a patience of `timeout_ms` (default `default_api_timeout_ms`), less for unknown topics."""
        if timeout_ms is None:
            timeout_ms = connections.settings.default_api_timeout_ms
        now = time.monotonic()
        return cls(now + timeout_ms / 1000, now + min(timeout_ms, UNKNOWN_TOPIC_GRACE_MS) / 1000)

    def ends_for(self, problem: Problem) -> float:
        if problem.kind is ProblemKind.FINAL:
            return _NEVER
        return self.grace_ends if problem.kind is ProblemKind.UNKNOWN else self.deadline
