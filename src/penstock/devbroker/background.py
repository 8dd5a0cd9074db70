"""Run a development cluster from `penstock broker start` until `penstock broker stop`.

`start_in_background` and `stop_in_background` run in the command line, `main` in the background process.
Invariant: the background process owns the cluster; when it ends for any reason, the brokers end too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from penstock.devbroker.cluster import DevCluster
from penstock.devbroker.ivy import Progress
from penstock.devbroker.jars import kafka_jars, print_progress
from penstock.devbroker.paths import locked
from penstock.devbroker.state import ClusterState, StateFolder
from penstock.devbroker.training_run import make_archive_beside
from penstock.errors import DevBrokerError

T = TypeVar("T")

_POLL_INTERVAL_S = 0.1
_START_TIMEOUT_S = 120.0
_STOP_TIMEOUT_S = 60.0
_LOCK_TIMEOUT_S = 3.0


@dataclasses.dataclass(frozen=True)
class ClusterRequest:
    """The settings of a background cluster."""

    brokers: int = 1
    properties: dict[str, str] = dataclasses.field(default_factory=dict)
    data_dir: str | None = None
    port: int | None = None

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    def digest(self) -> str:
        """Return a digest that tells requests apart without showing their secrets."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()


def start_in_background(
    request: ClusterRequest, state_folder: StateFolder, progress: Progress = print_progress
) -> tuple[ClusterState, bool]:
    """Start a cluster that keeps running when this process ends.

    Returns:
        Its state, and whether it was started now (False: the same cluster ran already).

    Raises:
        DevBrokerError: It did not start, or another cluster runs under this name.
    """
    running = state_folder.running()
    if running is not None:
        return _same_or_error(running, request, state_folder), False
    kafka_jars(progress)  # here, where progress can be seen
    state_folder.create()
    run_id = secrets.token_hex(16)
    with state_folder.log_file.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "penstock.devbroker.background", state_folder.name, run_id],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    if process.stdin is not None:  # not by the command line, where everyone can read its properties
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(request.to_json().encode())
            process.stdin.close()
    try:
        state = _wait_for(
            lambda: _started(process, state_folder, run_id),
            _START_TIMEOUT_S,
            f"did not start ({state_folder.log_file})",
        )
    except BaseException:  # Ctrl-C too: the user would not know of a cluster that starts later
        process.terminate()
        process.wait(_STOP_TIMEOUT_S)
        raise
    process.returncode = 0  # it keeps running on purpose; Popen would warn of a child without wait()
    return state, True


def stop_in_background(state_folder: StateFolder) -> ClusterState | None:
    """Stop the cluster and return its last state; None when none ran."""
    running = state_folder.running()
    if running is None:
        if not state_folder.is_locked():
            return None
        raise DevBrokerError(
            f"The cluster {state_folder.name!r} is starting or stopping now. Try again in a few seconds.",
            name=state_folder.name,
        )
    state_folder.ask_to_stop(running.run_id)

    def is_gone() -> bool:
        now = state_folder.running()
        return not state_folder.is_locked() or (now is not None and now.run_id != running.run_id)

    _wait_for(
        is_gone,
        _STOP_TIMEOUT_S,
        f"did not stop; its background process is {running.pid}, its log {state_folder.log_file}",
    )
    return running


def _same_or_error(running: ClusterState, request: ClusterRequest, state_folder: StateFolder) -> ClusterState:
    if running.request_digest != request.digest():
        raise DevBrokerError(
            f"A cluster {state_folder.name!r} with other settings runs at {running.bootstrap_servers} (in "
            f"the background, since {state_folder.written_at():%Y-%m-%d %H:%M:%S %z}). Nothing was started. "
            "Use it, or start another one with --name NAME. Stopping it (`penstock broker stop --name "
            f"{state_folder.name}`) deletes its topics, unless it was started with --data-dir.",
            name=state_folder.name,
        )
    return running


def _started(process: subprocess.Popen[bytes], state_folder: StateFolder, run_id: str) -> ClusterState | None:
    state = state_folder.read()
    if state is not None and state.run_id == run_id:
        return state
    if process.poll() is not None:
        said = state_folder.log_file.read_text(errors="replace").strip()
        raise DevBrokerError(said or f"The background process ended with status {process.returncode}.")
    return None


def _wait_for(condition: Callable[[], T | None], timeout_s: float, otherwise: str) -> T:
    deadline_s = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > deadline_s:
            raise DevBrokerError(f"After {timeout_s:.0f} s the cluster {otherwise}.")
        time.sleep(_POLL_INTERVAL_S)
    return value


def _run(state_folder: StateFolder, run_id: str, request: ClusterRequest) -> None:
    """Run the cluster until asked to stop (by the file, or by SIGTERM)."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: stopping.set())
    purpose = f"running the cluster {state_folder.name!r}"
    with locked(state_folder.folder / "lock", timeout_s=_LOCK_TIMEOUT_S, purpose=purpose):
        state_folder.clear()
        try:
            with DevCluster(
                request.brokers, request.properties, data_dir=request.data_dir, port=request.port
            ) as cluster:
                state_folder.write(_state_of(cluster, run_id, request))
                make_archive_beside()
                while not stopping.wait(_POLL_INTERVAL_S) and not state_folder.is_asked_to_stop(run_id):
                    pass
        finally:
            state_folder.clear()


def _state_of(cluster: DevCluster, run_id: str, request: ClusterRequest) -> ClusterState:
    return ClusterState(
        run_id=run_id,
        request_digest=request.digest(),
        pid=os.getpid(),
        bootstrap_servers=cluster.bootstrap_servers,
        folder=str(cluster.folder),
        log_files=tuple(str(cluster.log_file(node_id)) for node_id in cluster.node_ids),
        broker_pids=tuple(pid for node_id in cluster.node_ids if (pid := cluster.pid(node_id)) is not None),
    )


def main(arguments: list[str]) -> int:
    """Run the background process: `name run_id`, and the request as JSON on stdin."""
    name, run_id = arguments
    try:
        _run(StateFolder(name), run_id, ClusterRequest(**json.load(sys.stdin)))
    except DevBrokerError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
