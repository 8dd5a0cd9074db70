"""Errors that come because the Java process of Spark has ended, made by Py4J itself."""

from __future__ import annotations

import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from py4j.clientserver import ClientServer, JavaParameters, PythonParameters  # type: ignore[import-untyped]  # it has no types
from py4j.protocol import Py4JJavaError, Py4JNetworkError  # type: ignore[import-untyped]  # it has no types
from pyspark import SparkContext

from penstock.spark.java_process import connect_again, is_of_ended_java, java_gone, mute_end_of_java


@pytest.fixture
def ended() -> subprocess.Popen[bytes]:
    """A process that has ended, as Java."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process


@pytest.fixture
def running() -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs until the test is over."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        yield process
    finally:
        process.communicate(b"\n")


def java_is(monkeypatch: pytest.MonkeyPatch, process: subprocess.Popen[bytes] | None) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
    monkeypatch.setattr("penstock.spark.java_process._ENDS_S", 0.05)


def refused() -> BaseException:
    """What Py4J raises for a call when nothing listens at Java's port."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return _error_of_a_call(taken.getsockname()[1])


def broken_off() -> BaseException:
    """What Py4J raises for a call during which Java ends."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for _ in range(2):  # Py4J tries it once more
                connection, _address = server.accept()
                with connection:
                    connection.recv(1)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        return _error_of_a_call(server.getsockname()[1])


def _error_of_a_call(port: int) -> BaseException:
    gateway = ClientServer(JavaParameters(port=port), PythonParameters(port=0))
    try:
        gateway.jvm.java.lang.System.currentTimeMillis()
    except Exception as error:  # noqa: BLE001 - the tests ask what it is
        return error
    finally:
        gateway.shutdown()
    raise AssertionError("the call has not failed")


@pytest.mark.parametrize("made", [refused, broken_off])
def test_a_call_of_java_that_has_ended_is_recognised(
    monkeypatch: pytest.MonkeyPatch,
    ended: subprocess.Popen[bytes],
    running: subprocess.Popen[bytes],
    made: Callable[[], BaseException],
) -> None:
    error = made()
    java_is(monkeypatch, ended)
    assert is_of_ended_java(error)
    later = ValueError("while it was cleared up")
    later.__context__ = error
    assert is_of_ended_java(later)
    java_is(monkeypatch, running)
    assert not is_of_ended_java(error)
    java_is(monkeypatch, None)
    assert not is_of_ended_java(error)


@pytest.mark.parametrize(
    ("status", "told"),
    [(-9, "SIGKILL"), (-15, "SIGTERM"), (52, "exit status 52"), (None, "its exit status is unknown")],
)
def test_the_message_says_how_java_ended(
    monkeypatch: pytest.MonkeyPatch, status: int | None, told: str
) -> None:
    java_is(monkeypatch, MagicMock(returncode=status))
    assert java_gone().startswith(f"The Java process of Spark has gone ({told}): it was killed, or ")


def test_an_error_that_is_not_of_java_is_not_recognised(
    monkeypatch: pytest.MonkeyPatch, ended: subprocess.Popen[bytes]
) -> None:
    java_is(monkeypatch, ended)
    assert not is_of_ended_java(ValueError("x"))
    assert not is_of_ended_java(EOFError())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError) as found:
            socket.create_connection(taken.getsockname()).close()
    assert not is_of_ended_java(found.value)  # of another connection, e.g. to a broker


def test_an_error_that_java_has_answered_is_not_recognised(
    monkeypatch: pytest.MonkeyPatch, ended: subprocess.Popen[bytes]
) -> None:
    java_is(monkeypatch, ended)
    answered = MagicMock(_gateway_client=MagicMock(deque=[]))
    assert not is_of_ended_java(Py4JJavaError("An error occurred", answered))


@pytest.mark.parametrize(
    ("error", "is_told"), [(EOFError, False), (ConnectionResetError, False), (ValueError, True)]
)
def test_the_server_of_accumulators_says_nothing_of_the_end_of_java(
    error: type[Exception], *, is_told: bool
) -> None:
    told: list[Any] = []
    server = MagicMock(spec=socketserver.TCPServer, handle_error=lambda *of: told.append(of))
    mute_end_of_java(SimpleNamespace(_accumulatorServer=server))
    try:
        raise error
    except error:
        server.handle_error("request", "address")
    assert bool(told) is is_told
    mute_end_of_java(SimpleNamespace())


def context_of(*answers: BaseException | int) -> Any:
    """A SparkContext whose calls of Java answer so, one after the other."""
    context = MagicMock()
    context._jvm.java.lang.System.nanoTime.side_effect = answers
    return context


@pytest.mark.parametrize("failed", [0, 1, 2])
def test_calls_work_again_after_java_has_closed_connections(failed: int) -> None:
    context = context_of(*[Py4JNetworkError("Answer from Java side is empty")] * failed, 1, 2)
    connect_again(context)
    assert context._jvm.java.lang.System.nanoTime.call_count == failed + 1


def test_without_java_the_next_call_tells_it() -> None:
    connect_again(context_of(*[refused() for _ in range(5)]))


def test_another_error_of_the_call_is_raised() -> None:
    with pytest.raises(ValueError, match="another"):
        connect_again(context_of(ValueError("another")))
