"""The figures of tasks on their way to the driver, over real sockets and with hostile datagrams."""

from __future__ import annotations

import json
import pickle
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.observe import task_reports
from penstock.observe.task_reports import Receiver, Sender, nothing_yet
from tests.waiting import wait_until


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver("127.0.0.1")
    yield receiver
    receiver.close()


def records(receiver: Receiver) -> int:
    return receiver.snapshot()["numRecordsIn"]


def send(receiver: Receiver, **message: object) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        filled = {"token": receiver.address.token, "task": "a", **message}
        sender.sendto(json.dumps(filled).encode(), (receiver.address.host, receiver.address.port))


def test_the_totals_of_tasks_are_added(receiver: Receiver) -> None:
    address = pickle.loads(pickle.dumps(receiver.address))  # noqa: S301 - as in a split
    for count in (3, 4):
        sender = Sender(address)
        values = {"numRecordsIn": count, "numBytesIn": 10 * count, "currentEmitEventTimeLag": 7}
        sender.report({"numRecordsIn": 1, "numBytesIn": 1})  # younger than a second: not sent
        sender.report(values, is_last=True)
        sender.close()
    wait_until(lambda: records(receiver) == 7, "both tasks")
    assert receiver.snapshot() == {
        **nothing_yet(),
        "numRecordsIn": 7,
        "numBytesIn": 70,
        "currentEmitEventTimeLag": 7,
    }


def test_a_long_task_reports_once_a_second(receiver: Receiver) -> None:
    now_s = [0.0]
    sender = Sender(receiver.address, lambda: now_s[0])
    for count in range(1, 12):
        now_s[0] += 0.25
        sender.report({"numRecordsIn": count, "numBytesIn": 0})
    sender.close()
    wait_until(lambda: records(receiver) == 8, "the report after two seconds")


def test_totals_that_come_late_or_twice_change_nothing(receiver: Receiver) -> None:
    for count in (5, 9, 9, 5):
        send(receiver, numRecordsIn=count, numBytesIn=count)
    send(receiver, task="b", numRecordsIn=1, numBytesIn=1)
    wait_until(lambda: records(receiver) == 10, "the largest totals")


def test_a_datagram_without_the_token_is_ignored(receiver: Receiver) -> None:
    for token in ("", "x", None, 7, "\ud800", "\u00a1"):
        send(receiver, token=token, numRecordsIn=1_000)
    send(receiver, task="b", numRecordsIn=1)
    wait_until(lambda: records(receiver) == 1, "the task with the token")


@given(st.binary(max_size=60) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda of: st.lists(of) | st.dictionaries(st.sampled_from(["token", "task", "numRecordsIn"]), of),
).map(lambda value: json.dumps(value).encode()))  # fmt: skip
def test_no_datagram_is_an_error(datagram: bytes) -> None:
    assert task_reports._read(datagram, "secret") is None


def test_sending_without_a_receiver_is_not_an_error(receiver: Receiver) -> None:
    address = receiver.address
    receiver.close()
    receiver.close = lambda: None  # type: ignore[method-assign]  # closed already
    for host in ("127.0.0.1", "no.such.host.invalid", "::1"):
        sender = Sender(replace(address, host=host))
        for _ in range(3):
            sender.report({"numRecordsIn": 1}, is_last=True)
        sender.close()
        sender.close()


def test_a_task_never_looks_up_a_name(receiver: Receiver) -> None:
    for host, count in (("localhost", 5), ("127.0.0.1", 1)):
        sender = Sender(replace(receiver.address, host=host))
        sender.report({"numRecordsIn": count}, is_last=True)
        sender.close()
    wait_until(lambda: records(receiver) > 0, "the task with a numeric address")
    assert records(receiver) == 1


def test_the_driver_looks_up_its_name_once() -> None:
    receiver = Receiver("localhost")
    try:
        assert receiver.address.host in {"127.0.0.1", "::1"}
        sender = Sender(receiver.address)
        sender.report({"numRecordsIn": 1}, is_last=True)
        sender.close()
        wait_until(lambda: records(receiver) == 1, "the task")
    finally:
        receiver.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "0"])  # noqa: S104 - refused
def test_an_address_that_stands_for_all_cannot_be_sent_to(host: str) -> None:
    with pytest.raises(OSError, match=f"that tasks can send to, got {host}, which stands for all"):
        Receiver(host)


def test_memory_is_bounded_and_forgotten_tasks_stay_in_the_total(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_reports, "_TASKS_KEPT", 3)
    for task in range(10):
        receiver._add(str(task), {"numRecordsIn": 2, "numBytesIn": 3})
    assert len(receiver._tasks) == 3
    assert receiver.snapshot() == {**nothing_yet(), "numRecordsIn": 20, "numBytesIn": 30}


def test_closing_ends_even_if_the_thread_is_not_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    receiver = Receiver("127.0.0.1")

    def no_socket(*_: object) -> None:
        raise OSError("too many open files")

    monkeypatch.setattr(socket, "socket", no_socket)
    closing = threading.Thread(target=receiver.close, daemon=True)
    closing.start()
    closing.join(60)
    assert not closing.is_alive()


def test_closing_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    Receiver("127.0.0.1").close()
    assert set(threading.enumerate()) <= before
    with pytest.raises(OSError, match=r".+"):
        Receiver("192.0.2.1")  # not an address of this machine
