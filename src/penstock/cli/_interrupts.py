"""Ctrl-C of a command that stops queries.

Runs on the driver's machine. Invariant: a Ctrl-C that comes while the first one still stops queries does not
cut that off, because Spark would end below them.
"""

from __future__ import annotations

import signal
from time import monotonic as _clock_s
from types import FrameType

STOPPING_S = 10.0
"""After so long another Ctrl-C counts again."""


class Interrupts:
    """A handler of SIGINT that raises KeyboardInterrupt, once in `STOPPING_S`."""

    def __init__(self) -> None:
        self._came_s = -STOPPING_S

    def install(self) -> None:
        """Make this the handler of the process."""
        signal.signal(signal.SIGINT, self)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Raise KeyboardInterrupt, unless it was raised just now."""
        now_s = _clock_s()
        if now_s - self._came_s >= STOPPING_S:
            self._came_s = now_s
            raise KeyboardInterrupt
