"""One broker of a development cluster: its folder, its files, its process.

Runs where the cluster is started. Invariant: all files of a node are below its folder.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.devbroker.process import BrokerProcess, log_excerpt
from penstock.devbroker.properties import LOG4J2, NodeAddress, render_properties
from penstock.devbroker.storage import cluster_id_of, format_storage
from penstock.errors import DevBrokerError


class BrokerNode:
    """One broker, which can be started again on the same data after it has ended."""

    def __init__(self, node_id: int, folder: Path, *, is_temporary: bool) -> None:
        self.node_id = node_id
        self.folder = folder
        self.log_dir = folder / "data"
        self.log_file = folder / "broker.log"
        self._settings_file = folder / "server.properties"
        self._log4j_file = folder / "log4j2.properties"
        self._is_temporary = is_temporary
        self._process: BrokerProcess | None = None

    @property
    def cluster_id(self) -> str | None:
        """Return the cluster id of its data; None when it has no data yet."""
        return cluster_id_of(self.log_dir)

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.is_alive

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.is_alive else None

    def prepare(self, address: NodeAddress, properties: Mapping[str, str]) -> None:
        """Write its settings, readable only by this user because `properties` may hold secrets."""
        if address.node_id != self.node_id:
            raise DevBrokerError(f"Node {self.node_id} was given the address of node {address.node_id}.")
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._settings_file.touch(mode=0o600)
        self._settings_file.chmod(0o600)
        self._settings_file.write_text(render_properties(properties), encoding="ascii")
        self._log4j_file.write_text(LOG4J2, encoding="ascii")

    def format_data(self, cluster_id: str, bootstrap: bytes) -> None:
        format_storage(self.log_dir, cluster_id=cluster_id, node_id=self.node_id, bootstrap=bootstrap)

    def launch(self, java_command: Sequence[str]) -> None:
        """Start its process; returns before it answers."""
        command = [
            *java_command,
            f"-Dlog4j2.configurationFile={self._log4j_file}",
            "kafka.Kafka",
            str(self._settings_file),
        ]
        self._process = BrokerProcess(
            command, folder=self.folder, log_file=self.log_file, is_temporary=self._is_temporary
        )

    def begin_stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def pause(self) -> None:
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    def wait_until_ended(self, timeout_s: float) -> bool:
        return self._process is None or self._process.wait(timeout_s)

    def log_excerpt(self) -> str:
        return log_excerpt(self.log_file)

    def _running(self) -> BrokerProcess:
        if self._process is None or not self._process.is_alive:
            raise DevBrokerError(
                f"Broker {self.node_id} does not run. Its log: {self.log_file}", node_id=self.node_id
            )
        return self._process
