"""Clusters in the background: only the lock says that one runs, only the run_id stops it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.devbroker import background
from penstock.devbroker.background import ClusterRequest, start_in_background, stop_in_background
from penstock.devbroker.state import ClusterState, StateFolder
from penstock.errors import DevBrokerError


@pytest.fixture
def state_folder(tmp_path: Path) -> StateFolder:
    folder = StateFolder(root=tmp_path)
    folder.create()
    return folder


@pytest.fixture
def foreign() -> Iterator[subprocess.Popen[bytes]]:
    """A process of another program; a stale state file may hold its process id."""
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    ) as process:
        yield process
        if process.stdin is not None:
            process.stdin.close()
    assert process.returncode == 0  # ended by end of file, never by a signal


def a_state(pid: int = 1, run_id: str = "abc", request: ClusterRequest | None = None) -> ClusterState:
    digest = (request or ClusterRequest()).digest()
    return ClusterState(run_id, digest, pid, "127.0.0.1:1", "/folder", ("/folder/broker.log",))


def test_state_survives_its_file(state_folder: StateFolder) -> None:
    state_folder.write(a_state())
    assert state_folder.read() == a_state()
    state_folder.clear()
    assert state_folder.read() is None


def test_a_state_that_an_older_version_wrote_is_read(state_folder: StateFolder) -> None:
    without = {key: value for key, value in json.loads(a_state().to_json()).items() if key != "broker_pids"}
    (state_folder.folder / "state.json").write_text(json.dumps(without))
    assert state_folder.read() == a_state()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"run_id": "x"}', "null"])
def test_a_broken_state_file_is_as_none(state_folder: StateFolder, text: str) -> None:
    (state_folder.folder / "state.json").write_text(text)
    assert state_folder.read() is None
    with pytest.raises(ValueError, match=r".+"):
        ClusterState.from_json(text)


def test_a_state_without_its_lock_is_stale(state_folder: StateFolder) -> None:
    state_folder.write(a_state(os.getpid()))
    assert state_folder.running() is None
    lock = state_folder.try_lock()
    assert lock is not None
    with lock:
        assert state_folder.running() == a_state(os.getpid())
        assert state_folder.is_locked()
    assert not state_folder.is_locked()
    assert StateFolder("never-used", state_folder.folder).running() is None


def test_stop_leaves_a_foreign_process_of_a_stale_file_alone(
    state_folder: StateFolder, foreign: subprocess.Popen[bytes]
) -> None:
    state_folder.write(a_state(foreign.pid))
    assert stop_in_background(state_folder) is None
    assert foreign.poll() is None


def test_stop_asks_by_run_id_and_signals_nobody(
    state_folder: StateFolder, foreign: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "_STOP_TIMEOUT_S", 0.2)
    state_folder.write(a_state(foreign.pid, run_id="right"))
    lock = state_folder.try_lock()
    assert lock is not None
    with lock, pytest.raises(DevBrokerError, match="did not stop"):
        stop_in_background(state_folder)
    assert state_folder.is_asked_to_stop("right")
    assert not state_folder.is_asked_to_stop("wrong")
    assert foreign.poll() is None


def test_stop_while_starting_says_so(state_folder: StateFolder) -> None:
    lock = state_folder.try_lock()
    assert lock is not None
    with lock, pytest.raises(DevBrokerError, match="starting or stopping"):
        stop_in_background(state_folder)


def test_start_returns_the_same_that_runs_and_refuses_another(state_folder: StateFolder) -> None:
    request = ClusterRequest(properties={"password": "hunter2"})
    state_folder.write(a_state(request=request))
    lock = state_folder.try_lock()
    assert lock is not None
    with lock:
        assert start_in_background(request, state_folder) == (a_state(request=request), False)
        # "Stop it" alone would let people delete the topics of a cluster that somebody uses.
        told = r"runs at 127.0.0.1:1 \(in the background, since 2.*Use it.*--name NAME.*deletes its topics"
        with pytest.raises(DevBrokerError, match=told):
            start_in_background(ClusterRequest(brokers=3), state_folder)
    assert "hunter2" not in (state_folder.folder / "state.json").read_text()


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "x" * 65])
def test_names_stay_inside_the_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(DevBrokerError, match="cannot name a cluster"):
        StateFolder(name, tmp_path)
