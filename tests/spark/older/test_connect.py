"""The older API on Spark Connect: event time from the rows, whole records written exactly once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import Row

from penstock.devbroker import DevCluster
from penstock.flink import SimpleStringSchema
from penstock.flink.legacy import (
    BoundedOutOfOrdernessTimestampExtractor,
    FlinkKafkaConsumer,
    FlinkKafkaProducer,
    KafkaSerializationSchema,
    ProducerRecord,
    Semantic,
)
from tests import judge
from tests.fix_broker import MakeTopic

TIMES_MS = [1_700_000_000_000 + 1_000 * n for n in range(6)]


class TimeOfText(BoundedOutOfOrdernessTimestampExtractor):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value)


class Copied(KafkaSerializationSchema):
    def __init__(self, topic: str) -> None:
        self.topic = topic

    def serialize(self, element: Row, timestamp: int | None) -> ProducerRecord:
        return ProducerRecord(self.topic, element.value.encode(), timestamp=timestamp)


def test_a_stream_on_connect(
    connect_spark: Any,
    broker: DevCluster,
    make_topic: MakeTopic,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)  # as where there is no classic session
    source, target = make_topic(2), make_topic(2, config={"retention.ms": "-1"}, suffix="-copy")
    bootstrap = broker.bootstrap_servers
    records = [judge.Record(b"%d" % time_ms, partition=n % 2) for n, time_ms in enumerate(TIMES_MS)]
    judge.produce(bootstrap, source, *records)
    consumer = FlinkKafkaConsumer(source, SimpleStringSchema(), {"bootstrap.servers": bootstrap})
    consumer.set_start_from_earliest().assign_timestamps_and_watermarks(TimeOfText("5 s"))
    producer = FlinkKafkaProducer(
        target, Copied(target), {"bootstrap.servers": bootstrap}, Semantic.EXACTLY_ONCE
    ).set_transactional_id_prefix(f"older-{target[-12:]}")
    query = producer.write_stream(
        consumer.load(connect_spark), str(tmp_path / "checkpoint"), trigger={"availableNow": True}
    )
    try:
        assert query.awaitTermination(180)
    finally:
        query.stop()
    found = judge.consume_all(bootstrap, target)
    assert sorted(record.timestamp_ms or 0 for record in found) == TIMES_MS
    assert all(record.value == b"%d" % (record.timestamp_ms or 0) for record in found)
