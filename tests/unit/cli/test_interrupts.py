"""A second Ctrl-C does not cut off the stopping of queries."""

from __future__ import annotations

import os
import signal

import pytest

from penstock.cli._interrupts import STOPPING_S, Interrupts


def test_a_second_ctrl_c_waits_for_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 5.0
    monkeypatch.setattr("penstock.cli._interrupts._clock_s", lambda: now_s)
    before = signal.getsignal(signal.SIGINT)
    try:
        Interrupts().install()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        now_s += STOPPING_S - 1
        os.kill(os.getpid(), signal.SIGINT)
        now_s += 1
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
