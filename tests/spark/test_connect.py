"""The same through Spark Connect: batch and streaming, read and write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.queries import QUERY_TIMEOUT_S, positions, stopped


@pytest.mark.promise
def test_batch_read_and_write(connect_spark: Any, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    rows = connect_spark.range(100).selectExpr("CAST(id AS STRING) AS key", "CAST(id * 2 AS STRING) AS value")
    writer = rows.write.format("penstock").option("kafka.bootstrap.servers", bootstrap)
    writer.option("topic", topic).mode("append").save()
    written = {(record.key, record.value) for record in judge.consume_all(bootstrap, topic)}
    assert written == {(b"%d" % number, b"%d" % (2 * number)) for number in range(100)}
    read = connect_spark.read.format("penstock").option("kafka.bootstrap.servers", bootstrap)
    found = read.option("subscribe", topic).load().collect()
    assert {(bytes(row.key), bytes(row.value)) for row in found} == written
    assert len(set(positions(found))) == 100


@pytest.mark.promise
def test_streaming_read_and_write(
    connect_spark: Any, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, target = make_topic(2, suffix=".source"), make_topic(suffix=".target")
    reader = connect_spark.readStream.format("penstock").option("kafka.bootstrap.servers", bootstrap)
    rows = reader.option("subscribe", source).option("startingOffsets", "earliest").load()
    start = rows.select("key", "value").writeStream.format("penstock")
    start = start.option("kafka.bootstrap.servers", bootstrap).option("topic", target)
    start = start.option("checkpointLocation", str(tmp_path))
    for turn in range(2):
        judge.produce(bootstrap, source, *(b"%d-%d" % (turn, number) for number in range(10)))
        with stopped(start.trigger(availableNow=True).start()) as query:
            assert query.awaitTermination(QUERY_TIMEOUT_S)
    copied = sorted(record.value or b"" for record in judge.consume_all(bootstrap, target))
    assert copied == sorted(b"%d-%d" % (turn, number) for turn in range(2) for number in range(10))
