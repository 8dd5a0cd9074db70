"""The tests of the exactly-once sink wait in virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.sink.exactly_once import log_topic
from tests.unit.virtual_time import client_waits_in_virtual_time


@pytest.fixture(autouse=True)
def _virtual_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # A wait for the end of a dead driver's transaction is long, and asks the broker at each pause.
    monkeypatch.setattr(log_topic, "_LONGEST_PAUSE_MS", 10_000)
    with client_waits_in_virtual_time():
        yield
