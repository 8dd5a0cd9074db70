"""Bring what only Spark knows of a query to the process that plans its stream, and keep it there.

`QueryBoard` runs in the planning process, `report_query` where a StreamingQueryListener runs: the user's
program, on the same machine. Invariants: a report never waits and never fails anything; memory is bounded,
whatever arrives.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from penstock.observe.sink_reports import send_to

_WARNINGS_MAX = 10
_TEXT_MAX = 300


class QueryBoard:
    """What the listener has reported of one query. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._warnings: tuple[str, ...] = ()

    def warnings(self) -> tuple[str, ...]:
        """Return what weakens the query, as of its last progress report."""
        with self._lock:
            return self._warnings

    def take(self, message: Mapping[str, Any]) -> None:
        """Take a report. A message that is not of a listener is ignored."""
        found = message.get("warnings")
        if not isinstance(found, list):
            return
        texts = tuple(each[:_TEXT_MAX] for each in found if isinstance(each, str))
        with self._lock:
            self._warnings = texts[:_WARNINGS_MAX]


def report_query(port: int, warnings: Sequence[str]) -> None:
    """Send what weakens a query to the source whose HTTP end has this port. Raise nothing, and do not wait.

    Args:
        port: of the HTTP end.
        warnings: sentences; an empty list takes back those of before.
    """
    with suppress(OSError, ValueError, KeyError, TypeError):
        send_to(port, {"warnings": [each[:_TEXT_MAX] for each in warnings[:_WARNINGS_MAX]]})
