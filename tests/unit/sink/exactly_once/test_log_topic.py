"""The end of a decision log's topic, while a driver of another prefix has a decision open in it."""

from __future__ import annotations

import time

import pytest

from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.errors import DecisionLogError
from penstock.options.config import IsolationLevel
from penstock.sink.exactly_once import log_topic
from penstock.sink.exactly_once._recovery import COMMITTER_TIMEOUT_MS
from penstock.sink.exactly_once.log_topic import DecisionTopic
from penstock.types import TopicPartition

LOG_END, OPEN_AT = 10, 5
BROKER_LOOKS_EVERY_MS = 10_000
"""Kafka's default of transaction.abort.timed.out.transaction.cleanup.interval.ms."""


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def end_of_log(monkeypatch: pytest.MonkeyPatch, *, ended_after_ms: float) -> int:
    """Ask for the stable end; the other driver's transaction ends after so long."""
    clock, partition = Clock(), TopicPartition("decisions", 0)

    def list_offsets(
        connections: object,
        wanted: object,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        *,
        timeout_ms: int,
    ) -> dict[TopicPartition, int]:
        is_open = clock.now_s < 1_000.0 + ended_after_ms / 1000
        is_held = is_open and isolation_level is IsolationLevel.READ_COMMITTED
        return {partition: OPEN_AT if is_held else LOG_END}

    monkeypatch.setattr(log_topic, "list_offsets", list_offsets)
    monkeypatch.setattr(time, "monotonic", lambda: clock.now_s)
    monkeypatch.setattr(time, "sleep", clock.sleep)
    connections = KafkaConnections(ConnectionSettings(("unused:1",), "test-log-topic"))
    try:
        return DecisionTopic(connections, partition.topic).stable_end(waits=True)
    finally:
        connections.close()


def test_a_driver_that_died_within_a_decision_does_not_stop_the_others_of_a_shared_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    aborted_by_then_ms = COMMITTER_TIMEOUT_MS + BROKER_LOOKS_EVERY_MS + 5_000
    assert end_of_log(monkeypatch, ended_after_ms=aborted_by_then_ms) == LOG_END


def test_a_transaction_that_does_not_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DecisionLogError, match=r"at offset 5 .* within 90000 ms"):
        end_of_log(monkeypatch, ended_after_ms=float("inf"))
