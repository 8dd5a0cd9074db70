"""The state of a development cluster that runs in the background: one folder per name.

Runs in the command line and in the background process. Invariant: the background process lives if and only if
it holds its lock, which the system frees when the process ends; a state file without that lock is stale and
is ignored. No process id is trusted or signalled: a file with its run_id asks the background process to stop.
"""

from __future__ import annotations

import dataclasses
import json
import re
import tempfile
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from penstock.devbroker.paths import cache_folder, try_lock
from penstock.errors import DevBrokerError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclasses.dataclass(frozen=True)
class ClusterState:
    """A cluster that runs in the background.

    Attributes:
        run_id: Names this one run; a request to stop carries it.
        request_digest: Of the request that started it (a digest, since properties may hold secrets).
        pid: Of the background process, for people; the code does not use it.
        broker_pids: Of the brokers when they were started, by node id; for people too. Empty: an older
            version of penstock started them.
        bootstrap_servers: The addresses for clients.
        folder: Where the brokers keep data and logs.
        log_files: The log of each broker.
    """

    run_id: str
    request_digest: str
    pid: int
    bootstrap_servers: str
    folder: str
    log_files: tuple[str, ...]
    broker_pids: tuple[int, ...] = ()

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> ClusterState:
        """Read the text of a state file; raise ValueError if it is not one of this version."""
        values: Any = json.loads(text)
        names = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(values, dict) or {"broker_pids", *values} != names:
            raise ValueError(f"expected the fields {sorted(names)}")
        lists = {name: tuple(values.get(name, ())) for name in ("log_files", "broker_pids")}
        return cls(**{**values, **lists})


class StateFolder:
    """The files through which the command line and a background process find each other."""

    def __init__(self, name: str = "default", root: Path | None = None) -> None:
        if _NAME.fullmatch(name) is None:
            raise DevBrokerError(
                f"{name!r} cannot name a cluster: use letters, digits, dot, dash, underscore (at most 64).",
                name=name,
            )
        self.name = name
        self.folder = (root or cache_folder() / "clusters") / name
        self.log_file = self.folder / "background.log"
        self._state_file = self.folder / "state.json"

    def create(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def try_lock(self) -> IO[bytes] | None:
        """Take the lock of a running background process; return None when one runs. Close it to free it."""
        return try_lock(self.folder / "lock")

    def running(self) -> ClusterState | None:
        """Return the state of the cluster if its background process lives and is ready, otherwise None.

        A stale state file stays: the next background process replaces it.
        """
        if not self.folder.exists():
            return None
        lock = self.try_lock()
        if lock is not None:
            lock.close()
            return None
        return self.read()

    def is_locked(self) -> bool:
        """Return whether a background process lives (it may still be starting or stopping)."""
        if not self.folder.exists():
            return False
        lock = self.try_lock()
        if lock is not None:
            lock.close()
        return lock is None

    def read(self) -> ClusterState | None:
        """Return the content of the state file, stale or not; None when it cannot be read."""
        try:
            return ClusterState.from_json(self._state_file.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def written_at(self) -> datetime:
        """Return when the cluster was ready: the time of the state file. Raise OSError without one."""
        return datetime.fromtimestamp(self._state_file.stat().st_mtime).astimezone()

    def write(self, state: ClusterState) -> None:
        """Replace the state file, whole or not at all."""
        with tempfile.NamedTemporaryFile(
            "w", dir=self.folder, prefix=".state-", delete=False, encoding="utf-8"
        ) as stream:
            stream.write(state.to_json())
        Path(stream.name).replace(self._state_file)

    def clear(self) -> None:
        """Remove the state file and requests to stop. Only the holder of the lock may call it."""
        self._state_file.unlink(missing_ok=True)
        for request in self.folder.glob("stop-*"):
            request.unlink(missing_ok=True)

    def ask_to_stop(self, run_id: str) -> None:
        self._stop_request(run_id).touch()

    def is_asked_to_stop(self, run_id: str) -> bool:
        return self._stop_request(run_id).exists()

    def _stop_request(self, run_id: str) -> Path:
        return self.folder / f"stop-{run_id}"

    def others_running(self) -> str:
        """Return a sentence that names the other clusters that run here; empty if none runs."""
        names = sorted(each.name for each in self.folder.parent.glob("*") if each.name != self.name)
        states = {name: StateFolder(name, self.folder.parent).running() for name in names}
        found = [f"{name} at {each.bootstrap_servers}" for name, each in states.items() if each is not None]
        return f" Running under another --name: {', '.join(found)}." if found else ""
