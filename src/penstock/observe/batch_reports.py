"""Tell the user's program how much the batch reads have planned, in datagrams beside those of their tasks.

`tell_plan` runs on the driver, in the process that plans a batch read; `PlanBoard` in the user's program.
Invariant: a datagram that is lost makes a bar wrong, and nothing else.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from penstock.observe.task_reports import ReportAddress, datagrams_to


class PlanBoard:
    """How many offsets were planned, over all reads. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._planned = 0

    def planned(self) -> int:
        """Return the offsets of all plans."""
        with self._lock:
            return self._planned

    def take(self, message: Mapping[str, Any]) -> None:
        """Take the message of a plan. Another one is ignored."""
        offsets = message.get("planned")
        if type(offsets) is int and offsets > 0:
            with self._lock:
                self._planned += offsets


def tell_plan(address: ReportAddress, offsets: int) -> None:
    """Send how many offsets a read will pass. Raise nothing, and do not wait.

    Args:
        address: of the program that watches.
        offsets: of all splits.
    """
    message = json.dumps({"token": address.token, "planned": offsets}).encode()
    with suppress(OSError):
        sender, to = datagrams_to(address)
        with sender:
            sender.sendto(message, to)
