"""Reads: batches and streams, limits, the older API, the consumer group, errors."""

from __future__ import annotations

import collections
from typing import Any

import pyspark

import penstock
from tests.versions.probe.base import WAIT_S, Probe, case, raises


@case("batch read")
def _batch_read(probe: Probe) -> Any:
    raw = probe.read("in", **{"scan.include-headers": "true"})
    assert raw.count() == 300, raw.count()
    row = raw.where("CAST(value AS STRING) = 'v7'").collect()[0]
    assert (row.key, row.headers[0].key, row.headers[0].value) == (b"7", "n", b"7"), row
    filtered = probe.read("in", **{"scan.filter": "partition = 1"})
    assert filtered.select("partition").distinct().collect() == [(1,)]
    return {}


@case("json batch")
def _json_batch(probe: Probe) -> Any:
    reader = probe.spark.read.format("penstock").schema(
        "id BIGINT, name STRING, price DECIMAL(10, 2), tags ARRAY<STRING>, at TIMESTAMP, o BIGINT"
    )
    more = {"format": "json", "metadata.columns": "o = offset"}
    rows = reader.options(**probe.source("json", **more)).load().orderBy("id").collect()
    assert len(rows) == 100, len(rows)
    assert (rows[5].id, rows[5].name, str(rows[5].price), rows[5].tags) == (5, "n5", "1.25", ["a", "b"])
    assert rows[5].o is not None
    assert rows[5]["at"].year == 2026
    return {}


@case("stream, availableNow")
def _available_now(probe: Probe) -> Any:
    counts = []
    for first in (300, 350, None):
        rows = probe.collect(probe.stream("in"), "available-now")
        probe.run_into(rows.writer)
        counts.append(rows.count)
        if first is not None:
            probe.append("in", first, 50)
    assert counts == [300, 50, 50], counts
    rows = probe.collect(probe.stream("in"), "available-now")
    probe.run_into(rows.writer)
    assert rows.count == 0
    return {}


@case("limit with availableNow")
def _limit(probe: Probe) -> Any:
    from pyspark.sql.datasource import DataSourceStreamReader  # noqa: PLC0415 - Spark 3.5 has none

    has_limits = hasattr(DataSourceStreamReader, "getDefaultReadLimit")
    rows = probe.collect(probe.stream("fixed", **{"scan.max-records-per-batch": 100}), "limit")
    if has_limits:
        probe.run_into(rows.writer)
        assert rows.count == 300, rows.count
        return {"batches": len(rows.batches)}
    with raises("scan.max-records-per-batch", "scan.trigger", "Nothing was read", pyspark.__version__):
        probe.run_into(rows.writer)
    assert rows.count == 0
    sparks = {"kafka.bootstrap.servers": probe.servers, "subscribe": probe.topic("fixed")}
    sparks |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "10"}
    frame = probe.spark.readStream.format("penstock").options(**sparks).load()
    with raises("'maxOffsetsPerTrigger'", "scan.trigger"):
        probe.run_into(probe.collect(frame, "limit-spark").writer)
    return {"batches": "refused"}


@case("limit with processingTime")
def _limit_processing(probe: Probe) -> Any:
    more = {"scan.max-records-per-batch": 100, "scan.trigger": "processing-time"}
    rows = probe.collect(probe.stream("fixed", **more), "limit-processing")
    query = rows.writer.start()
    probe.until(query, lambda: rows.count >= 300)
    query.stop()
    sizes = [len(batch) for batch in rows.batches if batch]
    assert (sum(sizes), max(sizes) <= 101, len(sizes) >= 3) == (300, True, True), sizes
    bounded = more | {"scan.bounded.mode": "latest-offset"}
    again = probe.collect(probe.stream("fixed", **bounded), "limit-bounded")
    assert penstock.run_until_bounded(again.writer.start(), timeout=WAIT_S)
    assert again.count == 300
    return {"batches": len(sizes)}


@case("stream, two waves")
def _waves(probe: Probe) -> Any:
    rows = probe.collect(probe.stream("waves"), "waves")
    query = rows.writer.start()
    for wave in range(2):
        probe.append("waves", wave * 50, 50)
        probe.until(query, lambda wanted=50 * wave + 50: rows.count >= wanted)  # type: ignore[misc]
    query.stop()
    found = collections.Counter(bytes(row.value) for batch in rows.batches for row in batch)
    assert found == collections.Counter(f"v{number}".encode() for number in range(100)), found
    return {}


@case("json stream")
def _json_stream(probe: Probe) -> Any:
    reader = probe.spark.readStream.format("penstock").schema("id BIGINT, name STRING")
    rows = probe.collect(reader.options(**probe.source("json", format="json")).load(), "json")
    probe.run_into(rows.writer)
    assert sorted(row.id for batch in rows.batches for row in batch) == list(range(100))
    return {}


@case("older API")
def _older_api(probe: Probe) -> Any:
    from penstock.flink import SimpleStringSchema  # noqa: PLC0415 - beside its use
    from penstock.flink.legacy import FlinkKafkaConsumer  # noqa: PLC0415 - the same

    consumer = FlinkKafkaConsumer(
        probe.topic("fixed"),
        SimpleStringSchema(),
        {"bootstrap.servers": probe.servers, "group.id": probe.topic("old")},
    )
    consumer.set_start_from_earliest()
    rows = probe.collect(consumer.load(probe.spark), "older-api")
    probe.run_into(rows.writer)
    assert rows.count == 300, rows.count
    return {}


@case("group offsets")
def _group(probe: Probe) -> Any:
    """The runner asks the group afterwards: it has the ends of batches that are in the commit log."""
    options = {
        "properties.group.id": probe.topic("committed"),
        "scan.topic-partition-discovery.interval": "0",
    }
    rows = probe.collect(probe.stream("group", **options), "group")
    query = rows.writer.start()
    for wave in range(3):
        probe.append("group", 10 * wave, 10)
        probe.until(query, lambda wanted=10 * wave + 10: rows.count >= wanted)  # type: ignore[misc]
    query.processAllAvailable()
    query.stop()
    return {}


@case("missing topic")
def _missing(probe: Probe) -> Any:
    with raises("Not on the Kafka cluster", "absent", "Nothing was read"):
        probe.read("absent").count()
    with raises("Not on the Kafka cluster", "absent", "Nothing was read"):
        probe.run_into(probe.collect(probe.stream("absent"), "missing").writer)
    return {}


@case("bad option in a stream")
def _bad_option(probe: Probe) -> Any:
    reader = probe.spark.readStream.format("penstock").schema("key BINARY")
    frame = reader.options(**probe.source("in", **{"scan.startup.mode": "soon"})).load()
    with raises("scan.startup.mode", "soon"):
        probe.run_into(probe.collect(frame, "bad-option").writer)
    return {}
