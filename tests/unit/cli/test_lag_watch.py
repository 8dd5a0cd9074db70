"""`penstock lag --watch` looks at least twice: rates and FALLING_BEHIND need it."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import pytest

lag: Any = importlib.import_module("penstock.cli.lag")  # `penstock.cli.lag` is the command too


def test_a_slow_first_look_does_not_use_up_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, looks = [100.0], 0

    def pass_by(seconds: float) -> None:
        now_s[0] += seconds

    def look(_: object) -> SimpleNamespace:
        nonlocal looks
        looks += 1
        pass_by(5)  # longer than --watch
        return SimpleNamespace(partitions={}, errors={})

    monkeypatch.setattr(lag, "make_observer", lambda *_: SimpleNamespace(look=look))
    monkeypatch.setattr(lag, "find_reader", lambda *_: lag.Reader({}, {}))
    monkeypatch.setattr(lag, "time", SimpleNamespace(monotonic=lambda: now_s[0], sleep=pass_by))
    rules = lag.health_rules(60, 10, read_uncommitted=False)
    lag._watch(None, None, (None, "group", None), rules, 0.2)
    assert looks == 2
    lag._watch(None, None, (None, "group", None), rules, 0)
    assert looks == 3
