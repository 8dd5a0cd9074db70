"""Ctrl-C and SIGTERM of a command that stops queries.

Runs on the driver's machine. The first signal asks the command to stop after the batch, the second one to
stop at once. Invariant: a signal that comes while queries are stopped at once does not cut that off, because
Spark would end below them.
"""

from __future__ import annotations

import signal
from time import monotonic as _clock_s
from types import FrameType

from penstock.spark.stop_on_signal import SAME_S

STOPPING_S = 10.0
"""After so long another signal counts again."""


class Terminated(KeyboardInterrupt):
    """A supervisor has asked the command to end (SIGTERM)."""


class Interrupts:
    """A handler of SIGINT and SIGTERM that raises KeyboardInterrupt or Terminated."""

    def __init__(self) -> None:
        self._times_s: list[float] = []

    def install(self) -> None:
        """Make this the handler of the process."""
        signal.signal(signal.SIGINT, self)
        signal.signal(signal.SIGTERM, self)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Raise the first and the second time, and then once in `STOPPING_S`."""
        now_s = _clock_s()
        if self._times_s and now_s - self._times_s[-1] < (SAME_S if len(self._times_s) == 1 else STOPPING_S):
            return
        self._times_s.append(now_s)
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt
