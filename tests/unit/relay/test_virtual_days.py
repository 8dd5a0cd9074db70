"""Hours of virtual time: each way takes its turn, and a broken rule is found and named by its seed."""

from __future__ import annotations

import pytest

from penstock.relay.loop import Loop
from tests.soak import virtual

_MINUTE_MS = 60_000


def test_each_way_has_its_hours() -> None:
    found = virtual.run(2 * len(virtual.WAYS), seed=1, duration_ms=_MINUTE_MS)
    assert [one["hours"] for one in found.values()] == [2] * len(virtual.WAYS)
    total = {name: sum(one[name] for one in found.values()) for name in ("records", "kills", "plans")}
    assert min(total.values()) > 10


def test_an_hour_that_goes_wrong_ends_the_run_with_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    forget = Loop._forget

    def broken(loop: Loop) -> None:
        waits = list(loop._read)
        forget(loop)
        loop._read.extend(waits)

    monkeypatch.setattr(Loop, "_forget", broken)
    with pytest.raises(AssertionError, match=r"^seed \d+, protocol V., \d lanes: "):
        virtual.run(200, seed=1, duration_ms=_MINUTE_MS)
