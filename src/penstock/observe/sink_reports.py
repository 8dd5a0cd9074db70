"""Bring what other processes know of a query to the process that plans its stream, and keep it there.

`announce`, `SinkBoard`, `QueryBoard` run in the planning process, `report` where the sink's driver half runs,
and `report_query` where a StreamingQueryListener runs: other processes of the same user on the same machine.
They meet by a file that is named after the port of the HTTP end, in a folder that only this user can read.
Invariants: a report never waits and never fails a batch; memory is bounded, whatever arrives.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from penstock.observe.task_reports import ReportAddress, datagrams_to

_SINKS_KEPT = 50
_NAME_MAX = 300


class SinkEvent(str, Enum):
    """The moment of a batch that a report is about."""

    BEGUN = "begun"
    """The mandate for the tasks is made (exactly-once only)."""
    PREPARED = "prepared"
    """All tasks have written; their transactions are open (exactly-once only)."""
    WRITTEN = "written"
    """The batch is written."""
    FAILED = "failed"
    """Spark gave the batch up; it will come again."""


TOTALS = ("records", "batch_bytes", "plain_bytes", "requests", "request_ms", "resends", "replays")
"""What the reports of batches add to. `replays`: tasks that read a batch again which was written already."""
GAUGES = ("open_transactions", "oldest_opened_at_ms", "unfinished_batches", "commit_ms", "send_ms", "tasks")
"""What each report replaces."""


@dataclass
class SinkState:
    """What is known of one sink.

    Attributes:
        guarantee: the value of `sink.delivery-guarantee`.
        totals: by `TOTALS`, over the batches since the source was started. A continuous query knows only
            `records`, `batch_bytes` and `transactions`.
        gauges: by `GAUGES`; a missing one is unknown.
        batches: how many were written.
        failed: how many Spark gave up.
        begun_at_ms: when the batch that is under way began; None between batches, or if unknown.
        has_batches: whether it writes micro-batches. A continuous query does not.
    """

    guarantee: str
    totals: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TOTALS, 0))
    gauges: dict[str, int] = field(default_factory=dict)
    batches: int = 0
    failed: int = 0
    begun_at_ms: int | None = None
    has_batches: bool = True

    def copy(self) -> SinkState:
        """Return a copy that does not change."""
        return replace(self, totals=dict(self.totals), gauges=dict(self.gauges))

    @property
    def compression_ratio(self) -> float | None:
        """Return bytes before compression divided by bytes after it; None if one of them is unknown."""
        before, after = self.totals.get("plain_bytes"), self.totals.get("batch_bytes")
        return before / after if before is not None and after else None

    def oldest_transaction_ms(self, now_ms: int) -> int:
        """Return the age of the oldest open transaction, at most: 0 if none is open.

        While tasks write, the begin of the batch stands for the begin of its oldest transaction.
        """
        opened_at_ms = self.gauges.get("oldest_opened_at_ms") or self.begun_at_ms
        return 0 if opened_at_ms is None else max(0, now_ms - opened_at_ms)


class SinkBoard:
    """The states of the sinks of one query, by name. Thread-safe."""

    def __init__(self, clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._clock_ms = clock_ms
        self._lock = threading.Lock()
        self._sinks: dict[str, SinkState] = {}

    def states(self) -> dict[str, SinkState]:
        with self._lock:
            return {name: state.copy() for name, state in self._sinks.items()}

    def take(self, message: Mapping[str, Any]) -> None:
        """Take a report. One that is not of the right shape is ignored."""
        name, event, guarantee = (message.get(key) for key in ("sink", "event", "guarantee"))
        values = message.get("values")
        is_text = isinstance(name, str) and isinstance(event, str) and isinstance(guarantee, str)
        if not is_text or event not in _EVENTS or not isinstance(values, dict):
            return
        numbers = {key: value for key, value in values.items() if type(value) is int}
        with self._lock:
            if len(self._sinks) >= _SINKS_KEPT and name not in self._sinks:
                return
            state = self._sinks.setdefault(str(name)[:_NAME_MAX], SinkState(str(guarantee)))
            state.guarantee = str(guarantee)
            self._add(state, SinkEvent(event), numbers)

    def _add(self, state: SinkState, event: SinkEvent, numbers: dict[str, int]) -> None:
        if event is SinkEvent.BEGUN:
            state.begun_at_ms = self._clock_ms()
        elif event in (SinkEvent.WRITTEN, SinkEvent.FAILED):
            state.begun_at_ms = None
            state.batches += event is SinkEvent.WRITTEN
            state.failed += event is SinkEvent.FAILED
            state.gauges |= {"open_transactions": 0, "oldest_opened_at_ms": 0}
        for key in TOTALS:
            state.totals[key] += numbers.get(key, 0)
        state.gauges |= {key: numbers[key] for key in GAUGES if key in numbers}


_EVENTS = frozenset(SinkEvent)


def report(port: int, name: str, guarantee: str, event: SinkEvent, values: Mapping[str, int]) -> None:
    """Send a report to the source whose HTTP end has this port. Raise nothing, and do not wait.

    Args:
        port: of the HTTP end.
        name: of the sink: its prefix of transactional ids, or its topic.
        guarantee: the value of `sink.delivery-guarantee`.
        event: the moment.
        values: numbers under the names of `TOTALS` and `GAUGES`.
    """
    with suppress(OSError, ValueError, KeyError, TypeError):
        message = {"sink": name, "guarantee": guarantee, "event": event.value, "values": dict(values)}
        send_to(port, message)


def send_to(port: int, message: Mapping[str, Any]) -> None:
    """Send a message to the source whose HTTP end has this port. Do not wait.

    Raises:
        OSError: no such source runs on this machine, or it cannot be reached now.
        ValueError: the file of the source is damaged.
    """
    address = _find(port)
    sender, to = datagrams_to(address)
    with sender:
        sender.sendto(json.dumps({"token": address.token, **message}).encode(), to)


def announce(port: int, address: ReportAddress) -> Path | None:
    """Write down where sinks send their reports. Return the file; None if it cannot be written."""
    try:
        _FOLDER.mkdir(mode=0o700, exist_ok=True)
        _check_is_ours(_FOLDER)
        path = _FOLDER / f"{port}.json"
        beside = path.with_suffix(f".{os.getpid()}")
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(astuple(address), file)
        beside.replace(path)
    except OSError:
        return None
    return path


def _find(port: int) -> ReportAddress:
    _check_is_ours(_FOLDER)
    host, udp_port, token = json.loads((_FOLDER / f"{port}.json").read_text())
    return ReportAddress(str(host), int(udp_port), str(token))


def _check_is_ours(folder: Path) -> None:
    """Raise OSError if somebody else could have written the folder."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} can be written by others")


_FOLDER = Path(tempfile.gettempdir()) / f"penstock-metrics-{os.getuid()}"


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
