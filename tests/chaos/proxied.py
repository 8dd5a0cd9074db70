"""Lead penstock's connections of this process through the proxies of a hunt, and copy records.

Runs in the driver of a test job and in its Python workers, which import it to find `copied`. The environment
variable PENSTOCK_TEST_PROXIES has the ports of the proxies as JSON, by `host:port` of the brokers.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.client.net import _transport as _network

VARIABLE = "PENSTOCK_TEST_PROXIES"
PIDS = "PENSTOCK_TEST_PIDS"
"""The environment variable with a folder in which each process that copies notes its id."""


def copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the records for the target, whose partitions their keys choose."""
    folder = os.environ.get(PIDS)
    if folder:
        Path(folder, str(os.getpid())).touch()
    return batch.drop_columns(["partition"])


def _route() -> None:
    ports: dict[str, int] = json.loads(os.environ.get(VARIABLE, "{}"))
    if not ports:
        return
    manager = _network.ConnectionManager
    original = manager._open_socket

    async def through_proxy(self: Any, host: str, port: int, timeout_at: float | None) -> socket.socket:
        return await original(self, host, ports.get(f"{host}:{port}", port), timeout_at)

    manager._open_socket = through_proxy  # type: ignore[method-assign]


_route()
