"""Pauses grow, stay within their bounds, and never outlast a deadline."""

from __future__ import annotations

import time

import pytest

from penstock.client.net.backoff import Backoff, left_ms


class Clock:
    """Stands in for waiting; notes how long each wait was."""

    def __init__(self, *, is_closing: bool = False) -> None:
        self.waits_ms: list[float] = []
        self._is_closing = is_closing

    def wait(self, seconds: float) -> bool:
        self.waits_ms.append(seconds * 1000)
        return self._is_closing


def far_away() -> float:
    return time.monotonic() + 3600


def test_pauses_double_up_to_the_maximum() -> None:
    clock = Clock()
    backoff = Backoff(100, 1_000, clock.wait, jitter=0)
    for _ in range(6):
        assert backoff.pause(far_away())
    assert clock.waits_ms == pytest.approx([100, 200, 400, 800, 1_000, 1_000])


def test_jitter_stays_within_its_bounds() -> None:
    clock = Clock()
    backoff = Backoff(100, 100, clock.wait, jitter=0.2)
    for _ in range(200):
        backoff.pause(far_away())
    assert 80 <= min(clock.waits_ms) < max(clock.waits_ms) <= 120


def test_a_pause_ends_at_the_deadline_and_no_attempt_follows() -> None:
    clock = Clock()
    assert not Backoff(10_000, 10_000, clock.wait).pause(time.monotonic() + 0.5)
    assert clock.waits_ms == [pytest.approx(500, abs=100)]


def test_no_pause_after_the_deadline() -> None:
    clock = Clock()
    assert not Backoff(10, 10, clock.wait).pause(time.monotonic() - 1)
    assert clock.waits_ms == []


def test_no_attempt_follows_when_closing() -> None:
    assert not Backoff(10, 10, Clock(is_closing=True).wait).pause(far_away())


def test_milliseconds_left_are_never_none() -> None:
    assert left_ms(time.monotonic() - 5) == 1
    assert left_ms(time.monotonic() + 5) == pytest.approx(5_000, abs=100)
