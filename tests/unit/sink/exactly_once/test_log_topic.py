"""The end of a decision log's topic, while a driver of another prefix has a decision open in it."""

from __future__ import annotations

import pytest

from penstock.client.transactions.append import ProducerSession
from penstock.errors import DecisionLogError, RequestTimeoutError
from penstock.sink.exactly_once._recovery import COMMITTER_TIMEOUT_MS
from tests.unit.sink_cluster import SinkCluster

BROKER_LOOKS_EVERY_MS = 10_000
"""Kafka's default of transaction.abort.timed.out.transaction.cleanup.interval.ms."""


def cluster_with_dead_driver(open_for_ms: int) -> SinkCluster:
    """Return one where a driver of another prefix has died within its decision."""
    cluster = SinkCluster()
    cluster.log_store.create()
    cluster.log_store.append_plainly(b"before", None)
    session = ProducerSession(cluster.take("other-committer", open_for_ms))
    with cluster.lose_answers("Produce", "other-committer"), pytest.raises(RequestTimeoutError):
        cluster.log_store.append(session, (b"decision", None))
    return cluster


def test_a_driver_that_died_within_a_decision_does_not_stop_the_others_of_a_shared_log() -> None:
    cluster = cluster_with_dead_driver(COMMITTER_TIMEOUT_MS + BROKER_LOOKS_EVERY_MS + 5_000)
    assert cluster.log_store.stable_end(waits=False) == 1
    # Once it is aborted, the end is behind its record; the marker comes after the end that was asked for.
    assert cluster.log_store.stable_end(waits=True) > 1
    assert cluster.client.timed_out == ["other-committer"]


def test_a_transaction_that_does_not_end_is_told() -> None:
    cluster = cluster_with_dead_driver(900_000)
    with pytest.raises(DecisionLogError, match=r"at offset 1 .* within 90000 ms"):
        cluster.log_store.stable_end(waits=True)
