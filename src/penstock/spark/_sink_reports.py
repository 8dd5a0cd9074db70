"""Report a sink's batches to the source that shows them.

Runs on the driver, in the processes of writers. Invariant: nothing happens without `metrics.http.port`, and
an error here never reaches a batch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from penstock.client.produce.figures import NO_FIGURES, ProduceFigures
from penstock.options.config import SinkConfig

if TYPE_CHECKING:  # the driver's half
    from penstock.sink.exactly_once.committable import TaskReport

_log = logging.getLogger(__name__)


class SinkReporter:
    """Reports the batches of one sink."""

    def __init__(self, config: SinkConfig) -> None:
        self._config = config

    def begun(self, unfinished: int) -> None:
        """Report that the tasks of a batch may begin. `unfinished`: decided batches that are not finished."""
        self._send("begun", unfinished_batches=unfinished)

    def prepared(self, reports: Sequence[TaskReport]) -> None:
        """Report that all tasks have written, and that their transactions are open."""
        opened = [each.opened_at_ms for each in reports if each.opened_at_ms is not None]
        self._send("prepared", open_transactions=len(opened), oldest_opened_at_ms=min(opened, default=0))

    def committed(self, reports: Sequence[TaskReport], commit_ms: int, unfinished: int) -> None:
        """Report that an exactly-once batch is written."""
        self._send(
            "written",
            **_values(sum((each.figures for each in reports), NO_FIGURES)),
            commit_ms=commit_ms,
            unfinished_batches=unfinished,
            tasks=len(reports),
            replays=sum(each.drained.record_count > 0 for each in reports),
        )

    def written(self, figures: ProduceFigures, tasks: int) -> None:
        """Report that a batch is written at least once."""
        self._send("written", **_values(figures), tasks=tasks)

    def failed(self) -> None:
        """Report that Spark gave a batch up."""
        self._send("failed")

    def _send(self, event: str, **values: int) -> None:
        config = self._config
        if config.metrics_port is None:
            return
        from penstock.observe.sink_reports import SinkEvent, report  # noqa: PLC0415 - only with metrics

        name = config.transactional_id_prefix or config.topic or "topics of the rows"
        try:
            report(config.metrics_port, name, config.delivery_guarantee.value, SinkEvent(event), values)
        except Exception:  # noqa: BLE001 - figures are for watching: a batch must not fail because of them
            _log.debug("Cannot report a batch of the sink", exc_info=True)


def _values(figures: ProduceFigures) -> dict[str, int]:
    """Return the figures, with the mean time of a request if there was one."""
    values = asdict(figures)
    return {**values, "send_ms": figures.request_ms // figures.requests} if figures.requests else values


def now_ms() -> int:
    """Return the time of a clock that only goes forward."""
    return time.monotonic_ns() // 1_000_000
