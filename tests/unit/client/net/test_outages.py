from __future__ import annotations

import logging

import pytest

from penstock.client.net import _outages as outages
from penstock.client.net._outages import Outages
from penstock.client.net.broker_errors import error_from_exception


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Clock:
    monkeypatch.setattr(outages, "_said_at_s", {})
    caplog.set_level(logging.WARNING)
    return Clock()


def try_for(seconds: int, watched: Outages, clock: Clock, timeout_s: float = 60) -> None:
    deadline_s = clock.now_s + timeout_s
    for _ in range(seconds * 2):
        watched.failed("b:1", "111 ECONNREFUSED")
        watched.failed("b:1", "")  # as kafka-python says of the attempts between
        watched.trying_until(deadline_s)
        clock.now_s += 0.5


def test_it_is_said_after_two_seconds_and_then_every_thirty(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    watched = Outages(clock)
    try_for(2, watched, clock)
    assert caplog.messages == []
    try_for(58, watched, clock)
    assert caplog.messages == [
        "Cannot reach b:1 (111 ECONNREFUSED); trying for another 60 s.",
        "Cannot reach b:1 (111 ECONNREFUSED); trying for another 30 s.",
    ]


def test_a_restart_is_not_worth_a_line(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    watched = Outages(clock)
    for _ in range(10):
        try_for(1, watched, clock)
        watched.answered("b:1")
    assert caplog.messages == []


def test_its_end_is_said_where_its_beginning_was(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    watched = Outages(clock)
    try_for(10, watched, clock)
    watched.answered("b:1")
    watched.answered("b:1")
    assert caplog.messages[1:] == ["b:1 answers again, after 10 s."]


def test_one_broker_that_answers_does_not_hide_another(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    watched = Outages(clock)
    for _ in range(10):
        try_for(1, watched, clock)
        watched.answered("other:1")
    assert len(caplog.messages) == 1


def test_many_connections_of_a_process_do_not_make_a_flood(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    every = [Outages(clock) for _ in range(20)]
    for _ in range(12):
        for watched in every:
            watched.failed("b:1", "reset")
            watched.silent("FetchRequest to b:1", "b:1", 5, 55)
            watched.trying_until(clock.now_s + 9)
        clock.now_s += 1
    assert caplog.messages == ["FetchRequest to b:1: no answer for 5 s; waiting for another 55 s."]


def test_a_question_ends_a_sentence() -> None:
    error = error_from_exception(ConnectionError("is this port a TLS listener?"), "Asking")
    assert error.message == "Asking failed: ConnectionError: is this port a TLS listener?"
