"""Make the connection settings of a source, the same on the driver and on the executors.

Runs on driver and executor. Invariant: equal configs give equal settings, so the tasks of one process share
their connections.
"""

from __future__ import annotations

from penstock.client.settings import ConnectionSettings, connection_settings
from penstock.options.config import SourceConfig

_CLIENT_ID = "penstock-source"


def source_connection_settings(config: SourceConfig) -> ConnectionSettings:
    """Return the settings of all connections of one source."""
    return connection_settings(config.properties, client_id=_CLIENT_ID)
