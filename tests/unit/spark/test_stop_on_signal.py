"""What the first and the second signal do, and what Spark Connect is told. Without Spark."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any
from unittest.mock import MagicMock

import pytest

import penstock
from penstock.errors import PenstockError
from penstock.spark import stop_on_signal as module

WAIT_S = 30


def test_the_second_signal_stops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    query, stopped = MagicMock(), threading.Event()
    query.stop.side_effect = stopped.set
    asked: list[Any] = []

    def stop_all(queries: Any, timeout_ms: int) -> bool:
        asked.append((queries, timeout_ms))
        return stopped.wait(WAIT_S)

    monkeypatch.setattr(module, "stop_all_after_batch", stop_all)
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with penstock.stop_on_signal(query, timeout_ms=7):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)  # so soon that it counts as the same one
        assert not stopped.is_set()
        monkeypatch.setattr(module, "SAME_S", 0.0)
        os.kill(os.getpid(), signal.SIGINT)
    assert asked == [((query,), 7)]
    query.stop.assert_called_once_with()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.parametrize("is_early", [True, False])
def test_a_signal_within_the_first_handler_counts_as_the_same_one(*, is_early: bool) -> None:
    begun: list[str] = []

    class Interrupted(module._StopHandler):
        def _start(self, target: Any) -> None:
            begun.append(target.__name__)
            if is_early and len(begun) == 1:
                self(signal.SIGINT, None)
            self._threads.append(MagicMock())
            if not is_early:
                self(signal.SIGINT, None)

    Interrupted([], 1)(signal.SIGINT, None)
    assert begun == ["_stop_after_batch"]


@pytest.mark.parametrize(
    ("outcome", "said"),
    [(False, "did not end within 5 ms, so it is cut off"), (PenstockError("Connect"), "failed: Connect")],
)
def test_a_batch_that_does_not_end_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, outcome: Any, said: str
) -> None:
    queries = [MagicMock(), MagicMock()]
    queries[0].stop.side_effect = RuntimeError("gone\nlong")
    monkeypatch.setattr(module, "stop_all_after_batch", MagicMock(side_effect=[outcome]))
    with penstock.stop_on_signal(*queries, timeout_ms=5):
        os.kill(os.getpid(), signal.SIGINT)
    queries[1].stop.assert_called_once_with()
    assert said in caplog.text
    assert "A query could not be stopped: gone" in caplog.text


def test_without_a_signal_nothing_is_stopped() -> None:
    query = MagicMock()
    with penstock.stop_on_signal(query):
        pass
    assert query.mock_calls == []


def test_spark_connect_is_refused() -> None:
    query = type("StreamingQuery", (), {"__module__": "pyspark.sql.connect.streaming.query"})()
    with pytest.raises(PenstockError, match="Spark Connect cannot stop a query between two batches"):
        penstock.stop_after_batch(query)


def test_a_query_without_batches_is_refused() -> None:
    query = MagicMock()
    query._jsq.streamingQuery().getClass().getSimpleName.return_value = "ContinuousExecution"
    query._jsq.streamingQuery().queryExecutionThread().isAlive.return_value = True
    with pytest.raises(PenstockError, match="trigger 'continuous' has no batches"):
        penstock.stop_after_batch(query, timeout_ms=0)
    query.stop.assert_not_called()
