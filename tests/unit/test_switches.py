"""Environment variables that turn off changes which penstock makes to a process."""

from __future__ import annotations

import gc
import logging
import os
import re
import signal
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

import penstock
from penstock.client.net import _kafka_logs
from penstock.spark.process import begin
from penstock.spark.process.begin import WorkerObjects, show_messages, stop_in_order_on_sigterm
from penstock.switches import Switch, is_on
from tests.waiting import PATIENCE_S

STREAM_PLANNER = "pyspark.sql.streaming.python_streaming_source_runner"
EACH = pytest.mark.parametrize(("text", "done"), [("off", False), ("on", True)])


@pytest.fixture
def spark_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this process look like a worker of PySpark's daemon."""
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec("pyspark.daemon", None))


@pytest.mark.parametrize("switch", Switch)
@pytest.mark.parametrize(
    ("text", "expected"),
    [(None, True), ("", True), ("on", True), (" TRUE ", True), ("1", True), ("yes", True)]
    + [(text, False) for text in ("off", "OFF", "0", "false", "no", " off ")],
)
def test_a_switch_is_on_unless_it_is_turned_off(
    monkeypatch: pytest.MonkeyPatch, switch: Switch, text: str | None, expected: bool
) -> None:
    monkeypatch.delenv(switch.value, raising=False)
    if text is not None:
        monkeypatch.setenv(switch.value, text)
    assert is_on(switch) is expected


def test_a_text_that_is_neither_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PENSTOCK_SIGTERM", "of")
    assert is_on(Switch.SIGTERM)
    assert "PENSTOCK_SIGTERM is 'of'; expected on or off" in caplog.text


@EACH
def test_the_garbage_freeze(
    monkeypatch: pytest.MonkeyPatch, spark_worker: None, text: str, done: bool
) -> None:
    calls: list[str] = []
    monkeypatch.setenv("PENSTOCK_GC_FREEZE", text)
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    monkeypatch.setattr(begin, "_OBJECTS", WorkerObjects())
    monkeypatch.setattr(begin, "show_messages", lambda: None)
    monkeypatch.setattr(begin._CONNECTION, "hurry", lambda: None)
    for _ in range(2):
        begin.begin_task()
    assert bool(calls) is done


@EACH
def test_the_garbage_freeze_of_a_process_that_plans_a_stream(
    monkeypatch: pytest.MonkeyPatch, text: str, done: bool
) -> None:
    calls: list[str] = []
    monkeypatch.setenv("PENSTOCK_GC_FREEZE", text)
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    monkeypatch.setattr(begin, "show_messages", lambda: None)
    begin.begin_planning()
    assert not calls
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec(STREAM_PLANNER, None))
    begin.begin_planning()
    assert bool(calls) is done


@EACH
def test_the_connection_to_the_jvm(
    monkeypatch: pytest.MonkeyPatch, spark_worker: None, text: str, done: bool
) -> None:
    calls: list[str] = []
    monkeypatch.setenv("PENSTOCK_JVM_SOCKET", text)
    monkeypatch.setattr(begin._CONNECTION, "hurry", lambda: calls.append("hurry"))
    monkeypatch.setattr(begin, "_OBJECTS", WorkerObjects())
    monkeypatch.setattr(begin, "show_messages", lambda: None)
    begin.begin_task()
    assert bool(calls) is done


@EACH
def test_the_signal_handler(monkeypatch: pytest.MonkeyPatch, text: str, done: bool) -> None:
    calls: list[object] = []
    monkeypatch.setenv("PENSTOCK_SIGTERM", text)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec(STREAM_PLANNER, None))
    monkeypatch.setattr(signal, "signal", lambda *given: calls.append(given))
    stop_in_order_on_sigterm()
    assert bool(calls) is done


@EACH
def test_the_log_handler(monkeypatch: pytest.MonkeyPatch, spark_worker: None, text: str, done: bool) -> None:
    monkeypatch.setenv("PENSTOCK_LOG_HANDLER", text)
    logger = logging.getLogger("penstock")
    monkeypatch.setattr(logger, "handlers", [])
    show_messages()
    assert bool(logger.handlers) is done


@EACH
def test_the_filter_on_kafka_pythons_logs(monkeypatch: pytest.MonkeyPatch, text: str, done: bool) -> None:
    monkeypatch.setenv("PENSTOCK_KAFKA_LOGS", text)
    logger = logging.getLogger(_kafka_logs._MOVED[0])
    monkeypatch.setattr(logger, "filters", [])
    for name in _kafka_logs._MOVED[1:]:
        monkeypatch.setattr(logging.getLogger(name), "filters", [])
    _kafka_logs.move_kafka_python_logs()
    assert bool(logger.filters) is done


@EACH
def test_the_hook_at_exit(text: str, done: bool) -> None:
    program = """
import atexit
registered = []
atexit.register = lambda function, *a, **k: registered.append(function)
from penstock.client.net import connection
print(connection.close_shared_connections in registered)
"""
    found = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PENSTOCK_EXIT_HOOK": text},
        timeout=PATIENCE_S,
    )
    assert found.stdout.strip() == str(done)


def test_each_switch_is_in_the_table() -> None:
    table = (Path(__file__).parents[2] / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = [line for line in table.splitlines() if line.startswith("|")]
    for switch in Switch:
        assert any(f"`{switch.value}`" in row for row in rows), switch.value


def test_only_the_rooms_in_the_table_touch_the_process() -> None:
    """A new hook needs a row in ARCHITECTURE.md, and a switch."""
    package = Path(penstock.__file__).parent
    touching = re.compile(
        r"\bgc\.(?:freeze|disable|callbacks|set_threshold)|\bsignal\.signal\(|\batexit\.register\("
        r"|\bregister_at_fork\(|\.addHandler\(|\.addFilter\(|\bos\.environ(?:\[|\.setdefault)"
    )
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if touching.search(path.read_text(encoding="utf-8"))
    }
    of_their_own = {each for each in found if each.startswith(("devbroker/", "demo/", "cli/"))}
    assert found - of_their_own == {
        "client/net/_kafka_logs.py",
        "client/net/connection.py",
        "client/produce/pool.py",
        "lineage.py",
        "spark/process/_jvm_socket.py",
        "spark/process/begin.py",
        "spark/process/short_errors.py",
        "spark/continuous.py",
        "spark/stop_on_signal.py",
    }
