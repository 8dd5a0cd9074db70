"""The second signal stops at once, and a third one does not cut that off."""

from __future__ import annotations

import os
import signal

import pytest

from penstock.cli.sql import STOPPING_S, Interrupts, Termination
from penstock.spark.stop_on_signal import SAME_S


def test_the_second_one_counts_and_then_one_in_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 5.0
    monkeypatch.setattr("penstock.cli.sql._clock_s", lambda: now_s)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        Interrupts().install()
        with pytest.raises(Termination):
            os.kill(os.getpid(), signal.SIGTERM)
        now_s += SAME_S / 2  # one Ctrl-C that came by two ways
        os.kill(os.getpid(), signal.SIGINT)
        now_s += SAME_S
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        now_s += STOPPING_S - 1
        os.kill(os.getpid(), signal.SIGINT)
        now_s += 1
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
