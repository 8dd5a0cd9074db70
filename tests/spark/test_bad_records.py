"""A wrong schema does not drain a topic into the dead-letter topic."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession

from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.queries import QUERY_TIMEOUT_S, stopped

ISO = {"json.timestamp-format.standard": "ISO-8601"}


def test_a_wrong_type_stops_before_the_topic_is_drained_and_nothing_is_lost(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, dead = make_topic(), make_topic(suffix="-dead")
    judge.produce(bootstrap, topic, *[b'{"id":%d,"ts":"2026-05-01T12:00:%02d"}' % (n, n) for n in range(40)])
    judge.produce(bootstrap, topic, b'{"id":"oops"}')
    seen: list[Row] = []
    letters = {"scan.on-decode-error": "dead-letter", "scan.dead-letter.topic": dead}

    def take(batch: DataFrame, _: int) -> None:
        seen.extend(batch.collect())

    def run(schema: str, options: dict[str, str]) -> None:
        reader = spark.readStream.format("penstock").schema(schema).options(**letters, **options)
        reader = reader.option("properties.bootstrap.servers", bootstrap).option("topic", topic)
        start = reader.option("format", "json").load().writeStream.foreachBatch(take)
        start = start.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        with stopped(start.start()) as query:
            assert query.awaitTermination(QUERY_TIMEOUT_S)

    with pytest.raises(StreamingQueryException) as caught:
        run("id BIGINT, ts TIMESTAMP", {})
    message = str(caught.value)
    assert "41 of the 41 records that this task has read cannot be decoded" in message
    assert f"40 times: topic {topic}, partition 0, offset 0: value: " in message
    assert "This looks like a wrong schema" in message
    assert judge.consume_all(bootstrap, dead) == []

    run("id BIGINT, ts TIMESTAMP_NTZ", ISO)
    assert sorted(row.id for row in seen) == list(range(40))
    assert [letter.value for letter in judge.consume_all(bootstrap, dead)] == [b'{"id":"oops"}']
