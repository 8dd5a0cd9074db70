"""`penstock broker` for real: start, status, stop, and what happens when its background process is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.devbroker import background
from penstock.devbroker.background import stop_in_background
from penstock.devbroker.paths import cache_folder
from penstock.devbroker.state import StateFolder
from penstock.errors import DevBrokerError
from tests import judge
from tests.kafka.test_devbroker import does_answer
from tests.waiting import wait_until


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cache with the user's jars but without the user's clusters."""
    jars = cache_folder() / "jars"
    own = tmp_path / "cache"
    own.mkdir()
    (own / "jars").symlink_to(jars)
    monkeypatch.setenv("PENSTOCK_CACHE", str(own))
    yield
    stop_in_background(StateFolder())


def run(*arguments: str, exit_code: int = 0) -> Any:
    result = CliRunner().invoke(app, ["broker", *arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == exit_code, result.output
    return json.loads(result.stdout)


@pytest.mark.promise
def test_start_status_stop(topic_name: str) -> None:
    assert run("status", exit_code=3) == {"running": False}
    assert run("stop") == {"stopped": False}
    started = run("start", "--property", "num.io.threads=3")
    server = started["bootstrap_servers"]
    assert started["started"]
    judge.create_topic(server, topic_name)
    judge.produce(server, topic_name, b"x")
    status = run("status")
    assert (status["bootstrap_servers"], status["not_answering"], status["running"]) == (server, [], True)
    command = subprocess.run(
        ["ps", "-o", "command=", "-p", str(status["pid"])], capture_output=True, check=True
    )
    assert b"java -Xm" in command.stdout  # the supervisor is Python
    assert status["pid"] not in {status["supervisor_pid"], os.getpid()}
    again = run("start", "--property", "num.io.threads=3")
    assert (again["bootstrap_servers"], again["started"]) == (server, False)
    with pytest.raises(DevBrokerError, match="other settings"):
        run("start")
    assert run("stop") == {"stopped": True}
    assert not does_answer(server)
    assert not Path(started["folder"]).exists()
    assert run("status", exit_code=3) == {"running": False}


def test_a_killed_background_process_takes_kafka_with_it_and_start_works_again() -> None:
    first = run("start")
    os.kill(first["supervisor_pid"], signal.SIGKILL)
    wait_until(lambda: not does_answer(first["bootstrap_servers"]), "the broker has ended")
    assert run("status", exit_code=3) == {"running": False}
    assert run("stop") == {"stopped": False}
    second = run("start")
    assert second["started"]
    assert does_answer(second["bootstrap_servers"], 10)


def test_a_cluster_under_another_name_is_shown() -> None:
    server = run("start")["bootstrap_servers"]
    other = f"Running under another --name: default at {server}."
    for command in (["broker", "stop"], ["broker", "status"], ["topics", "list"]):
        result = CliRunner().invoke(app, [*command, "--name", "other"])
        assert other in " ".join(result.output.split()) + str(result.exception)
    assert run("status")["running"]


@pytest.mark.parametrize(("command", "exit_code"), [("stop", 0), ("status", 3)])
def test_text_says_which_broker_is_not_running(command: str, exit_code: int) -> None:
    result = CliRunner().invoke(app, ["broker", command, "--name", "other"], catch_exceptions=False)
    assert (result.output, result.exit_code) == ("No broker is running (name: other).\n", exit_code)


def test_a_failed_start_shows_the_log() -> None:
    with pytest.raises(DevBrokerError, match="Invalid value many"):
        run("start", "--property", "num.io.threads=many")
    assert run("status", exit_code=3) == {"running": False}


def test_a_start_that_is_given_up_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **settings: Any) -> None:
            super().__init__(*args, **settings)
            begun.append(self)

    monkeypatch.setattr(subprocess, "Popen", Noted)
    monkeypatch.setattr(background, "_START_TIMEOUT_S", 0.0)
    with pytest.raises(DevBrokerError, match="did not start"):
        run("start")
    assert [process.poll() is None for process in begun] == [False]
    assert not StateFolder().is_locked()


def test_a_property_without_a_value_is_refused() -> None:
    with pytest.raises(DevBrokerError, match="key=value"):
        run("start", "--property", "=secret")
