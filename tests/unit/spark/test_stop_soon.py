"""Clearing up after a statement set that did not start: its queries are always stopped. Without Spark."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from penstock.spark import stop_after_batch as module


@pytest.mark.parametrize(
    ("outcome", "is_cut_off"), [(True, False), (False, True), (RuntimeError("failed"), False)]
)
def test_queries_are_stopped_and_a_batch_that_is_cut_off_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, outcome: Any, is_cut_off: bool
) -> None:
    queries = [MagicMock(), MagicMock()]
    queries[0].stop.side_effect = RuntimeError("gone")
    monkeypatch.setattr(module, "stop_all_after_batch", MagicMock(side_effect=[outcome]))
    module.stop_soon(queries, 5)
    queries[1].stop.assert_called_once_with()
    assert ("did not end within 5 ms, so it is cut off" in caplog.text) is is_cut_off


def test_ctrl_c_while_it_waits_stops_the_queries_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    query = MagicMock()
    monkeypatch.setattr(module, "stop_all_after_batch", MagicMock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        module.stop_soon([query], 5)
    query.stop.assert_called_once_with()
