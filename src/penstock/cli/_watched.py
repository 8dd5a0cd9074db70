"""The readers that `penstock top` watches: by a checkpoint, by a group, by the HTTP end of a query.

Runs on the machine of the command. Invariant: a reader that cannot be looked at now is shown with its error.
"""

from __future__ import annotations

import http.client
import json
import time
from typing import TYPE_CHECKING, Any, Protocol

from penstock.cli.lag import find_reader
from penstock.errors import ClientError, OptionError, PenstockError

if TYPE_CHECKING:
    from penstock.cli.top_shown import ReaderStatus
    from penstock.client.net.connection import KafkaConnections
    from penstock.observe.health import HealthRules
    from penstock.observe.look import Observer
    from penstock.observe.monitor import Monitor, Report

_URL_TIMEOUT_MS = 10_000
_OK = 200
_PHASES = ("latest_offset_ms", "partitions_ms", "rest_ms")


class StatusSource(Protocol):
    """One reader on the screen."""

    def look(self) -> ReaderStatus:
        """Look once. An error becomes what is shown."""


class WatchedReader:
    """A reader whose position is known and whose cluster is asked here."""

    def __init__(
        self,
        checkpoint: str | None,
        group: str | None,
        connections: KafkaConnections,
        observer: Observer,
        rules: HealthRules,
    ) -> None:
        self._checkpoint = checkpoint
        self._group = group
        self._connections = connections
        self._observer = observer
        self._rules = rules
        self._monitor: Monitor | None = None

    def look(self) -> ReaderStatus:
        """Look once. An error becomes what is shown."""
        from penstock.cli.top_shown import ReaderStatus  # noqa: PLC0415 - lazy
        from penstock.observe.monitor import Monitor  # noqa: PLC0415 - lazy
        from penstock.security.location import without_secrets  # noqa: PLC0415 - lazy

        name = without_secrets(self._checkpoint) if self._checkpoint is not None else str(self._group)
        try:
            reader = find_reader(self._connections, self._checkpoint, self._group, None)
        except PenstockError as error:
            return ReaderStatus(name, None, None, error.message)
        if self._monitor is None:
            self._monitor = Monitor(self._rules, reader.history)
        found = self._observer.look(reader.positions)
        report = self._monitor.add(found.partitions, found.errors)
        named = reader.named
        return ReaderStatus(name, named.get("batch_id"), report, None, batch_ms=named.get("batch_ms"))


class WatchedUrl:
    """A running query that is asked itself. Its own options decide the rules of the health.

    Args:
        url: of its HTTP end, `http://host:port`; `/lag` may follow.

    Raises:
        OptionError: the text is not such a URL, or it has a user, a password or a query.
    """

    def __init__(self, url: str) -> None:
        shown = url.rpartition("@")[2].partition("?")[0]  # a password must not be in a message
        if not url.startswith(("http://", "https://")) or shown != url:
            raise OptionError(
                "Expected --url http://host:port (host and metrics.http.port of a query), without user, "
                f"password and query, got {'' if shown == url else '...@'}{shown!r}.",
                option="--url",
                value=shown,
            )
        self._name = url.removeprefix("http://")  # short, for a terminal of 80 columns
        self._url = url.rstrip("/").removesuffix("/lag") + "/lag"

    def look(self) -> ReaderStatus:
        """Ask once. An error becomes what is shown."""
        from penstock.cli.top_shown import ReaderStatus  # noqa: PLC0415 - lazy

        try:
            report, sinks, batch_ms = self._ask()
        except PenstockError as error:
            return ReaderStatus(self._name, None, None, error.message)
        return ReaderStatus(self._name, None, report, None, sinks, batch_ms)

    def _ask(self) -> tuple[Report, tuple[str, ...], int | None]:
        """Return the report, a sentence about each sink, and how long the last batch took."""
        from penstock.observe.report_reader import report_from_json  # noqa: PLC0415 - lazy
        from penstock.security.http import http_request  # noqa: PLC0415 - lazy

        try:
            status, body = http_request("GET", self._url, headers={}, timeout_ms=_URL_TIMEOUT_MS)
            if status != _OK:
                raise ClientError(f"{self._url} answered with status {status}. {_error_in(body)}".rstrip())
            data = json.loads(body)
            report = report_from_json(data, time.time_ns() // 1_000_000)
            sinks = tuple(_sentence(each) for each in data.get("sinks", ()))
            last = data.get("last_batch")
            return report, sinks, None if last is None else sum(int(last[phase]) for phase in _PHASES)
        except (OSError, http.client.HTTPException) as error:
            raise ClientError(f"Cannot reach {self._url}: {error}. The query may have ended.") from error
        except (ValueError, KeyError, TypeError) as error:
            raise ClientError(
                f"{self._url} is not the HTTP end of a query of penstock: {error}. Give the port that its "
                "option metrics.http.port names."
            ) from error


def _error_in(body: bytes) -> str:
    """Return the error that a query's JSON holds; nothing of another text, e.g. a proxy's page."""
    try:
        data = json.loads(body)
    except ValueError:
        return ""
    return str(data.get("error", "")) if isinstance(data, dict) else ""


def _open_transactions(count: int, oldest_ms: int) -> str:
    if count:
        many = f"{count} transaction{'' if count == 1 else 's'} open"
        return f"{many}, the oldest for {oldest_ms / 1000:.0f} s" if oldest_ms else many
    # Tasks tell about their transactions at their end.
    return f"tasks have been writing for {oldest_ms / 1000:.0f} s" if oldest_ms else "no transaction open"


def _sentence(sink: Any) -> str:
    """Return what a sink has open, and its last batch."""
    gauges, totals = sink["gauges"], sink["totals"]
    parts = [f"sink {sink['name']} ({sink['guarantee']}): {totals['records']:,} records"]
    if "transactions" in totals:  # of a continuous query, whose transactions last some milliseconds
        parts.append(f"{totals['transactions']:,} transactions")
    elif sink["guarantee"] == "exactly-once":
        parts.append(_open_transactions(gauges.get("open_transactions", 0), sink["oldest_transaction_ms"]))
        if gauges.get("unfinished_batches"):
            parts.append(f"{gauges['unfinished_batches']} decided batches unfinished")
    if sink["failed"]:
        parts.append(f"{sink['failed']} batches given up")
    return ", ".join(parts)
