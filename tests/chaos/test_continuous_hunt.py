"""A few faults of the hunt at continuous queries, its proxy, and what its judge finds.

`python -m tests.chaos.continuous_hunt` does more.
"""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, ClassVar

import pytest

from penstock.devbroker import DevCluster
from tests import judge
from tests.chaos import continuous_hunt
from tests.chaos.answer_proxy import (
    APIS,
    DOUBLED_REQUEST,
    HELD_REQUEST,
    LATE_ANSWER,
    LATE_REQUEST,
    LOST_ANSWER,
    LOST_REQUEST,
    AnswerProxies,
    Strike,
)
from tests.chaos.continuous_hunt import How, hunt, table, until_told
from tests.chaos.copied_once import check_copy
from tests.chaos.spark_cluster import SparkCluster
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.xdist_group("spark-cluster")

PRODUCE, END = (APIS[name].to_bytes(2, "big") for name in ("Produce", "EndTxn"))


@pytest.mark.long
def test_each_record_once_whatever_is_disturbed(broker: DevCluster, tmp_path: Path) -> None:
    with SparkCluster(tmp_path, cores=2) as cluster, AnswerProxies(broker.bootstrap_servers) as proxies:
        faults = hunt(How(broker, cluster, proxies, tmp_path, lanes=2), 7, 4, in_round=4)
    assert faults.total() >= 4


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ((0, 1, 2, 3), None),
        ((0, 1, 3), "1 of 4 records are lost, the first: \\[2\\]"),
        ((0, 1, 2, 3, 2), "1 of 4 records are doubled, the first: \\[2\\]"),
        ((0, 2, 1, 3), "out of order"),
    ],
)
def test_the_judge_finds_what_is_wrong(
    broker: DevCluster, topic_name: str, values: tuple[int, ...], words: str | None
) -> None:
    source, target = f"{topic_name}-source", f"{topic_name}-target"
    for topic, written in ((source, range(4)), (target, values)):
        judge.create_topic(broker.bootstrap_servers, topic)
        judge.produce(broker.bootstrap_servers, topic, *((b"key", b"%d" % each) for each in written))
    expected = nullcontext() if words is None else pytest.raises(AssertionError, match=words)
    with expected:
        check_copy(broker.bootstrap_servers, source, target, 4, timeout_s=PATIENCE_S)


def test_the_table_has_each_fault() -> None:
    said = table(Counter(worker=2, executor=1), 1_234, 5)
    assert said.splitlines() == [
        "| fault (seed 5) | times |", "|---|---|", "| executor | 1 |", "| worker | 2 |",
        "| all, with 1,234 records | 3 |", "not judged: 0 faults",
    ]  # fmt: skip


class Planned:
    """A round that has three faults, or is interrupted after them."""

    ends: ClassVar[list[BaseException | None]] = []

    def __init__(self, *_: object) -> None:
        self.faults, self.record_count = Counter(worker=3), 10

    def run(self, *_: object) -> None:
        if (end := self.ends.pop(0)) is not None:
            raise end

    def close(self) -> None:
        pass


def test_faults_of_a_round_that_was_not_judged_do_not_count(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(continuous_hunt, "Round", Planned)
    how: Any = None
    Planned.ends = [None, None, KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        hunt(how, 5, 100, in_round=3)
    said = capsys.readouterr().out
    assert "round 2 of seed 5 was interrupted, and is not judged, after {'worker': 3}" in said
    assert said.endswith("| all, with 20 records | 6 |\nnot judged: 3 faults\n")


def test_a_signal_ends_the_faults_and_a_second_one_the_hunt() -> None:
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        is_over = until_told(float("inf"))
        assert not is_over()
        signal.raise_signal(signal.SIGTERM)
        assert is_over()
        with pytest.raises(SystemExit):
            signal.raise_signal(signal.SIGINT)
        assert until_told(0.0)()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# ----- the proxy


class Answering:
    """A server of frames that keeps what it gets, and answers each frame with itself."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            while frame := _read(connection):
                self.got.append(frame)
                try:
                    connection.sendall(len(frame).to_bytes(4, "big") + frame)
                except OSError:
                    return

    def close(self) -> None:
        self._listener.close()


def _read(connection: socket.socket) -> bytes:
    """Return the next frame; empty at the end of the connection."""
    try:
        length = connection.recv(4, socket.MSG_WAITALL)
        return connection.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL) if len(length) == 4 else b""
    except ConnectionError:
        return b""


@contextmanager
def through_proxy() -> Iterator[tuple[Answering, AnswerProxies, socket.socket]]:
    server = Answering()
    with AnswerProxies(server.address) as proxies:
        port = proxies._ports[server.address]
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as client:
            yield server, proxies, client
    server.close()


def send(client: socket.socket, *frames: bytes) -> None:
    client.sendall(b"".join(len(each).to_bytes(4, "big") + each for each in frames))


def test_an_answer_is_lost_after_the_request_took_effect() -> None:
    with through_proxy() as (server, proxies, client):
        proxies.arm(Strike("EndTxn", LOST_ANSWER, skipped=1))
        frames = [PRODUCE + b"1", END + b"2", END + b"3"]
        send(client, *frames)
        assert [_read(client) for _ in range(3)] == [*frames[:2], b""]
        assert server.got == frames
        assert proxies.disarm()


def test_a_request_is_lost_before_it_took_effect() -> None:
    with through_proxy() as (server, proxies, client):
        proxies.arm(Strike("EndTxn", LOST_REQUEST))
        send(client, PRODUCE + b"1")
        assert _read(client) == PRODUCE + b"1"
        assert not proxies.has_struck
        send(client, END + b"2")
        assert _read(client) == b""
        assert server.got == [PRODUCE + b"1"]
        assert proxies.has_struck


def test_a_request_takes_effect_after_its_client_has_gone_on() -> None:
    with through_proxy() as (server, proxies, client):
        proxies.arm(Strike("EndTxn", LATE_REQUEST, seconds=0.2))
        send(client, END + b"1")
        assert _read(client) == b""
        assert server.got == []
        wait_until(lambda: server.got == [END + b"1"], "the late request comes")


def test_a_request_comes_twice_and_its_client_gets_one_answer() -> None:
    with through_proxy() as (server, proxies, client):
        proxies.arm(Strike("EndTxn", DOUBLED_REQUEST))
        send(client, END + b"1", PRODUCE + b"2")
        assert [_read(client), _read(client)] == [END + b"1", PRODUCE + b"2"]
        assert server.got == [END + b"1", END + b"1", PRODUCE + b"2"]
        assert proxies.disarm()


def test_a_request_is_held_until_it_is_released() -> None:
    with through_proxy() as (server, proxies, client):
        proxies.arm(Strike("EndTxn", HELD_REQUEST))
        send(client, END + b"1")
        assert _read(client) == b""
        assert server.got == []
        proxies.release()
        assert server.got == [END + b"1"]
        proxies.release()
        assert server.got == [END + b"1"]


def test_an_answer_is_late_and_those_behind_it_too() -> None:
    with through_proxy() as (_, proxies, client):
        proxies.arm(Strike("EndTxn", LATE_ANSWER, seconds=0.2))
        began_s = time.monotonic()
        send(client, END + b"1", PRODUCE + b"2")
        assert [_read(client), _read(client)] == [END + b"1", PRODUCE + b"2"]
        assert time.monotonic() - began_s >= 0.2
        assert proxies.disarm()


def test_all_connections_are_cut() -> None:
    with through_proxy() as (_, proxies, client):
        send(client, PRODUCE + b"1")
        assert _read(client) == PRODUCE + b"1"
        assert proxies.cut()
        assert _read(client) == b""
