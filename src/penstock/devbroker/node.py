"""One broker of a development cluster: its folder, its files, its process.

Runs where the cluster is started. Invariants: all files of a node are below its folder; this module never
signals a process id: the `supervisor`, whose child the broker is, does that.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.devbroker.properties import LOG4J2, NodeAddress, render_properties
from penstock.devbroker.storage import cluster_id_of, format_storage
from penstock.errors import DevBrokerError

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_ANSWER_TIMEOUT_S = 10.0
_TAIL_LINES = 25
_ERROR_LINES = 12


class BrokerProcess:
    """A running (or ended) broker of ours and its supervisor."""

    def __init__(
        self, command: list[str], *, folder: Path, log_file: Path, is_temporary: bool, grace_s: float = 10.0
    ) -> None:
        settings = {
            "command": command,
            "folder": str(folder),
            "log_file": str(log_file),
            "is_temporary": is_temporary,
            "grace_s": grace_s,
            "owner_pid": os.getpid(),
        }
        self._lock = threading.Lock()
        self._grace_s = grace_s
        # A session of its own, so that Ctrl-C in a terminal reaches the owner only, which stops its brokers.
        self._supervisor = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_SUPERVISOR), json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        self.pid = int(self._read_line())

    @property
    def is_alive(self) -> bool:
        """Return whether the broker's process exists (also while it is paused)."""
        return self._supervisor.poll() is None

    def send_signal(self, signal_number: signal.Signals) -> None:
        """Send a signal to the broker; return when it was sent. Does nothing when it has ended."""
        with self._lock:
            if not self.is_alive or self._supervisor.stdin is None:
                return
            try:
                self._supervisor.stdin.write(f"{int(signal_number)}\n".encode())
                self._read_line()
            except (BrokenPipeError, EOFError):  # it ended just now
                return

    def wait(self, timeout_s: float) -> bool:
        """Wait until the broker has ended; return False if it has not after `timeout_s`."""
        try:
            self._supervisor.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """End the broker as a crash would (SIGKILL), and wait until it is gone."""
        self.send_signal(signal.SIGKILL)
        self._join()

    def stop(self) -> None:
        """End the broker cleanly; kill it if it does not end within its grace time."""
        self.send_signal(signal.SIGTERM)
        self.send_signal(signal.SIGCONT)
        if not self.wait(self._grace_s):
            self.send_signal(signal.SIGKILL)
        self._join()

    def _join(self) -> None:
        if not self.wait(_ANSWER_TIMEOUT_S):
            raise DevBrokerError(
                f"The broker (process {self.pid}) did not end {_ANSWER_TIMEOUT_S:.0f} s after it was killed.",
                pid=self.pid,
            )
        with self._lock:
            for pipe in (self._supervisor.stdin, self._supervisor.stdout):
                if pipe is not None:
                    pipe.close()

    def _read_line(self) -> str:
        stdout = self._supervisor.stdout
        if stdout is None or stdout.closed:
            raise EOFError
        line = b""
        deadline_s = time.monotonic() + _ANSWER_TIMEOUT_S
        while not line.endswith(b"\n"):
            readable, _, _ = select.select([stdout], [], [], max(0.0, deadline_s - time.monotonic()))
            if not readable:
                raise DevBrokerError(
                    f"The supervisor of the broker did not answer within {_ANSWER_TIMEOUT_S:.0f} s."
                )
            data = os.read(stdout.fileno(), 1)
            if not data:
                raise EOFError
            line += data
        return line.decode().strip()


def log_excerpt(log_file: Path) -> str:
    """Return the lines that explain a failure: the first error in a broker's log, and its last lines."""
    try:
        lines = log_file.read_text(errors="replace").splitlines()
    except OSError as error:
        return f"(no log: {error})"
    tail_start = max(0, len(lines) - _TAIL_LINES)
    is_error = (" ERROR " in line or " FATAL " in line or line.startswith("Error") for line in lines)
    first_error = next((index for index, found in enumerate(is_error) if found), tail_start)
    if first_error >= tail_start:
        return "\n".join(lines[tail_start:])
    error_end = min(first_error + _ERROR_LINES, tail_start)
    return "\n".join([*lines[first_error:error_end], "    [...]", *lines[tail_start:]])


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
