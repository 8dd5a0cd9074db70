"""A snapshot that the decision log's topic would refuse holds no start up."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection
from unittest.mock import Mock

import pytest

from penstock.sink.exactly_once import log as decision_log
from penstock.sink.exactly_once import log_topic
from penstock.sink.exactly_once._log_records import NO_QUERY, decode_snapshot, key_of
from penstock.sink.exactly_once.log_topic import DecisionTopic
from tests.unit.fake_driver import PREFIX, driver, expected, run_tasks
from tests.unit.sink_cluster import SinkCluster

KEY = key_of(PREFIX, NO_QUERY)


def snapshot_count(cluster: SinkCluster) -> int:
    return sum(each.key == KEY and decode_snapshot(each.value) is not None for each in cluster.log)


def test_start_goes_on_without_a_snapshot_that_is_too_big_and_writes_it_once_it_fits(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = SinkCluster()
    monkeypatch.setattr(decision_log, "SNAPSHOT_EVERY_OFFSETS", 3)
    monkeypatch.setattr(DecisionTopic, "fits", lambda _, key, __: key != KEY)
    for batch_id in range(4):
        driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), batch_id))
    assert snapshot_count(cluster) == 0
    assert "too large for one record, so none was written. Nothing is lost" in caplog.text
    monkeypatch.undo()
    monkeypatch.setattr(decision_log, "SNAPSHOT_EVERY_OFFSETS", 3)
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 4))
    assert snapshot_count(cluster) == 1
    assert Counter(cluster.committed) == expected(range(5))


@pytest.mark.parametrize(
    ("config", "repeated_fits", "short_fits"),
    [
        ({"cleanup.policy": "compact", "max.message.bytes": "1000"}, True, True),
        ({"cleanup.policy": "compact", "max.message.bytes": "1000", "compression.type": "zstd"}, True, True),
        ({"cleanup.policy": "compact", "max.message.bytes": "1000", "compression.type": "gzip"}, False, True),
        ({"cleanup.policy": "compact", "max.message.bytes": "50"}, False, False),
        (None, True, True),
    ],
)
def test_topics_limit_counts_what_the_broker_counts(
    monkeypatch: pytest.MonkeyPatch,
    config: dict[str, str] | None,
    repeated_fits: bool,
    short_fits: bool,
) -> None:
    asked: list[Collection[str]] = []

    def topic_config(_: object, __: object, names: Collection[str], **___: object) -> dict[str, str] | None:
        asked.append(names)
        return config

    monkeypatch.setattr(log_topic, "topic_config", topic_config)
    monkeypatch.setattr(DecisionTopic, "_metadata", lambda *_, **__: _OnePartition())
    topic = DecisionTopic(Mock(), "decisions")
    topic.check_settings()
    assert topic.fits(b"key", b"x" * 50_000) == repeated_fits
    assert topic.fits(b"key", b"short") == short_fits
    assert not topic.fits(b"key", random.Random(1).randbytes(1_000_000))
    assert asked


class _OnePartition:
    partitions = (0,)
