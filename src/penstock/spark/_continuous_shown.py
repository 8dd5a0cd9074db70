"""Serve what a continuous query shows: the page, `/metrics`, `/lag`, health.

Runs in the user's program, if `metrics.http.port` is set; nothing of it is imported otherwise. Invariant:
what cannot be served is a warning, and the query goes on.
"""

from __future__ import annotations

from penstock.client.net.connection import KafkaConnections
from penstock.observe.serve.start import KnownHere, SourceExposure
from penstock.observe.sink_reports import SinkState
from penstock.relay.figures import QueryFigures
from penstock.relay.settings import QuerySettings


class Shown:
    """Everything that shows one query, until `close`. It has connections of its own.

    So a slow look delays no heartbeat of the query.
    """

    def __init__(self, settings: QuerySettings, figures: QueryFigures) -> None:
        def sinks() -> dict[str, SinkState]:
            guarantee = settings.guarantee.value
            return {settings.prefix: SinkState(guarantee, figures.written(), has_batches=False)}

        self._connections = KafkaConnections(settings.connection)
        try:
            known = KnownHere(sinks, figures.warnings)
            self._exposure = SourceExposure(settings.source, self._connections, figures, known)
        except BaseException:
            self._connections.close()
            raise

    @property
    def port(self) -> int | None:
        """Return the port of the HTTP end; None if it could not start."""
        return self._exposure.port

    def close(self) -> None:
        """Stop serving."""
        self._exposure.close()
        self._connections.close()
