"""The option of Spark by which one thread plans all shuffles of a batch."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

from penstock.spark.one_thread import ADAPTIVE, plan_in_one_thread


@pytest.mark.parametrize(
    ("before", "switch", "after"),
    [
        ({ADAPTIVE: "true"}, "", {ADAPTIVE: "false"}),
        ({ADAPTIVE: "false"}, "", {ADAPTIVE: "false"}),
        ({}, "", {ADAPTIVE: "false"}),  # the default of Spark 4.3 is true
        ({ADAPTIVE: "true"}, "off", {ADAPTIVE: "true"}),
    ],
)
def test_adaptive_execution_of_streams_is_turned_off(
    monkeypatch: pytest.MonkeyPatch, before: dict[str, str], switch: str, after: dict[str, str]
) -> None:
    monkeypatch.setenv("PENSTOCK_ONE_THREAD", switch)
    conf = dict(before)
    session = MagicMock()
    session.conf.get.side_effect = conf.get
    session.conf.set.side_effect = conf.__setitem__
    plan_in_one_thread(session)
    assert conf == after
