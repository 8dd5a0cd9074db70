"""A time that passes only when code under test waits for it, so that a wait of a minute takes no time.

Runs in tests only. It is the clock of the fake Kafka and, in `client_waits_in_virtual_time`, that of the
client: a pause of the client lets the same time pass for the cluster.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock.testing import Clock

_ROOMS = ("penstock.client.", "penstock.sink.")
_BEGAN_MS = 1_750_000_000_000


class VirtualTime(Clock):
    """A clock that stands still until somebody waits. It stands in for the module `time`, too."""

    def now_ms(self) -> int:
        """Return the milliseconds since 1970."""
        return _BEGAN_MS + self._shift_ms

    def wait(self, condition: threading.Condition, until_ms: int) -> None:
        """Let the time pass at once. The caller holds the condition."""
        self._shift_ms += max(0, until_ms - self.now_ms())

    # ----- what the client uses of the module `time`

    def monotonic(self) -> float:
        """Return the seconds since 1970."""
        return self.now_ms() / 1000

    def time(self) -> float:
        """Return the seconds since 1970."""
        return self.now_ms() / 1000

    def time_ns(self) -> int:
        """Return the nanoseconds since 1970."""
        return self.now_ms() * 1_000_000

    def sleep(self, seconds: float) -> None:
        """Let the time pass at once: at least a millisecond, so that each wait has an end."""
        self._shift_ms += max(1, round(seconds * 1000))


VIRTUAL = VirtualTime()


@contextmanager
def client_waits_in_virtual_time() -> Iterator[None]:
    """Let all code of the client and the sink wait in virtual time."""
    with pytest.MonkeyPatch.context() as patch:
        for name, module in list(sys.modules.items()):
            if name.startswith(_ROOMS) and getattr(module, "time", None) is time:
                patch.setattr(module, "time", VIRTUAL)
        yield
