"""Global state that each unit test leaves unchanged."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from penstock.options.warn import forget_warnings
from penstock.sink.exactly_once._probes import observe


@pytest.fixture(autouse=True)
def _no_observer() -> Iterator[None]:
    """Remove a test's observer of the protocol's steps after the test."""
    yield
    observe(None)


@pytest.fixture(autouse=True)
def _fresh_warnings() -> Iterator[None]:
    """Let each test see the warnings that are given once in a process."""
    forget_warnings()
    yield
    forget_warnings()


@pytest.fixture
def virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let time pass only where the test or the tested code sleeps. For tests without another thread."""
    now_s = [time.monotonic()]

    def sleep(seconds: float) -> None:
        now_s[0] += seconds

    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(time, "sleep", sleep)
