"""Planning thousands of topic partitions is a few requests; benchmarks/planning.py measures the time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from penstock.devbroker import DevCluster
from penstock.source import kafka_lookup as kafka_admin
from penstock.spark.datasource import PenstockDataSource
from penstock.spark.schema import source_schema
from tests import judge
from tests.fix_broker import NEVER_FENCED, MakeTopic
from tests.judge import Record

PARTITION_COUNT = 2_000


def test_thousands_of_topic_partitions_are_a_few_requests_a_batch(
    make_cluster: Callable[..., DevCluster],
    make_topic: MakeTopic,
    requests: Counter[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A slow machine takes its time to make 2,000 logs and to answer for them; what counts is the requests.
    monkeypatch.setattr(kafka_admin, "STRAGGLERS_TIMEOUT_MS", 60_000)
    cluster = make_cluster(properties=NEVER_FENCED)
    bootstrap = cluster.bootstrap_servers
    topic = make_topic(PARTITION_COUNT, cluster=cluster)
    judge.produce(bootstrap, topic, *(Record(b"x", partition=n) for n in range(PARTITION_COUNT)))
    options = {
        "properties.bootstrap.servers": bootstrap,
        "topic": topic,
        "scan.max-records-per-batch": str(PARTITION_COUNT // 2),
        "scan.pack-small-ranges": "false",
        "scan.topic-partition-discovery.interval": "1 ms",
    }
    reader = PenstockDataSource(options).streamReader(source_schema(include_headers=False))
    try:
        start = reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        assert len(reader.partitions(start, end)) == PARTITION_COUNT, "one record each, so that none starves"
        at_first = Counter(requests)
        assert reader.latestOffset(end, reader.getDefaultReadLimit()) is end
        when_idle = requests - at_first
        judge.produce(bootstrap, topic, *(Record(b"x", partition=n) for n in range(PARTITION_COUNT)))
        before = Counter(requests)
        assert len(reader.partitions(end, reader.latestOffset(end, reader.getDefaultReadLimit()))) == 2_000
        of_a_batch = requests - before
    finally:
        reader.stop()
    # Where it starts, where the logs end, and whether the start is still there.
    assert at_first["ListOffsetsRequest"] == 3
    assert at_first["MetadataRequest"] <= 3
    for later in (when_idle, of_a_batch):
        assert later == {"ListOffsetsRequest": 1, "MetadataRequest": 1}
    assert sum(requests.values()) <= 14, dict(requests)
