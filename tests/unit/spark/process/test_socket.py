"""How a worker's connection to the JVM is found and hurried."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from penstock.spark.process import _jvm_socket as jvm_socket
from penstock.spark.process._jvm_socket import JvmConnection, connected_socket


@pytest.fixture
def only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for /dev/fd: this process has more open than the test means."""
    monkeypatch.setattr(jvm_socket, "_OPEN_FILES", tmp_path)
    return tmp_path


@pytest.fixture
def connection() -> Iterator[tuple[socket.socket, socket.socket, socket.socket]]:
    """A listening socket, and both ends of a connection to it."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        ours = stack.enter_context(socket.create_connection(listening.getsockname()))
        theirs = stack.enter_context(listening.accept()[0])
        yield listening, ours, theirs


@pytest.fixture
def hurried() -> Iterator[JvmConnection]:
    """One that is forgotten afterwards."""
    made = JvmConnection()
    yield made
    if made.after_collection in gc.callbacks:
        gc.callbacks.remove(made.after_collection)
    if made._socket is not None:
        made._socket.close()


def test_the_connected_tcp_socket_is_found_among_everything_else(
    only: Path, connection: tuple[socket.socket, socket.socket, socket.socket]
) -> None:
    listening, ours, _ = connection
    reading, writing = os.pipe()
    one, other = socket.socketpair()  # Unix sockets
    with one, other, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        others = [reading, writing, one.fileno(), other.fileno(), datagrams.fileno(), listening.fileno()]
        for number in (*others, 1_000_000):
            (only / str(number)).touch()
        assert connected_socket() is None
        (only / str(ours.fileno())).touch()
        found = connected_socket()
        assert found is not None
        with found:
            assert found.getpeername() == listening.getsockname()
            assert found.fileno() not in (*others, ours.fileno())
        assert os.get_blocking(ours.fileno())
    os.close(reading)
    os.close(writing)


def test_without_a_list_of_open_files_nothing_is_found(only: Path) -> None:
    only.rmdir()
    assert connected_socket() is None


def test_a_connection_is_left_alone_where_a_handle_would_change_it(
    only: Path,
    connection: tuple[socket.socket, socket.socket, socket.socket],
) -> None:
    _, ours, _ = connection
    (only / str(ours.fileno())).touch()
    socket.setdefaulttimeout(5)
    try:
        assert connected_socket() is None
    finally:
        socket.setdefaulttimeout(None)
    assert os.get_blocking(ours.fileno())


def test_a_connection_sends_at_once_and_acknowledges_at_once_after_each_task(
    only: Path, connection: tuple[socket.socket, socket.socket, socket.socket], hurried: JvmConnection
) -> None:
    _, ours, theirs = connection
    ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
    (only / str(ours.fileno())).touch()
    hurried.hurry()
    hurried.hurry()
    assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    if not hasattr(socket, "TCP_QUICKACK"):
        assert hurried.after_collection not in gc.callbacks
        return
    assert gc.callbacks.count(hurried.after_collection) == 1
    ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
    assert not ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)
    gc.collect(0)
    assert not ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)
    gc.collect()
    assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)
    theirs.sendall(b"still a connection")
    assert ours.recv(100) == b"still a connection"


def test_a_connection_that_is_gone_is_no_error(
    only: Path, connection: tuple[socket.socket, socket.socket, socket.socket], hurried: JvmConnection
) -> None:
    _, ours, _ = connection
    (only / str(ours.fileno())).touch()
    hurried.hurry()
    assert hurried._socket is not None
    hurried._socket.close()
    hurried.after_collection("stop", {"generation": 2})


def test_without_a_connection_nothing_is_watched(only: Path, hurried: JvmConnection) -> None:
    assert not list(only.iterdir())
    hurried.hurry()
    assert hurried.after_collection not in gc.callbacks
