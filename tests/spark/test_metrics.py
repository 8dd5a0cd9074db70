"""A running query seen from outside: its HTTP end, and the listener on Spark's progress."""

from __future__ import annotations

import io
import json
import urllib.request
import uuid
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console

import penstock
import penstock.lineage
from penstock.devbroker.cluster import free_ports
from penstock.metrics import MetricsListener
from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.queries import QUERY_TIMEOUT_S, read_batch, read_stream, stopped
from tests.waiting import wait_until


@pytest.mark.promise
def test_a_running_query_shows_its_lag_and_what_its_tasks_read(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, target, (port,) = make_topic(2), make_topic(1, suffix="-target"), free_ports(1)
    judge.produce(bootstrap, topic, *(judge.Record(b"v", partition=number % 2) for number in range(10)))
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "4",
        "metrics.http.port": str(port),
    }

    def read(path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            text: str = answer.read().decode()
        return text

    listener = MetricsListener()
    spark.streams.addListener(listener)
    try:
        sink = {
            "kafka.bootstrap.servers": bootstrap,
            "topic": target,
            "sink.delivery-guarantee": "exactly-once",
            "sink.transactional-id-prefix": target,
            "metrics.http.port": str(port),
        }
        rows = read_stream(spark, "penstock", options).select("key", "value")
        start = rows.writeStream.format("penstock").options(**sink)
        with stopped(start.option("checkpointLocation", str(tmp_path / "checkpoint")).start()) as query:
            query.processAllAvailable()
            wait_until(
                lambda: "penstock_source_records_total 10.0" in read("/metrics"), "the reports of tasks"
            )
            of_sink = f'{{sink="{target}"}}'
            wait_until(
                lambda: f"penstock_sink_records_total{of_sink} 10.0" in read("/metrics"), "the sink's reports"
            )
            shown = read("/metrics")
            assert f"penstock_sink_unfinished_batches{of_sink} 0.0" in shown
            assert f"penstock_sink_open_transactions{of_sink} 0.0" in shown
            assert 'penstock_source_batch_seconds{phase="rest"}' in shown
            lag = json.loads(read("/lag"))
            assert (lag["lag_records"], len(lag["topic_partitions"]), lag["health"]) == (0, 2, "OK")
            wait_until(lambda: _behind(listener, str(query.id)) == "0", "the report of the last batch")
            (source,) = listener.latest()[str(query.id)]["sources"]
            assert source["number"] == 0
            assert [row["position"] for row in source["topic_partitions"]] == [5, 5]
        wait_until(lambda: not listener.latest(), "the end of the query")
    finally:
        spark.streams.removeListener(listener)


def _behind(listener: MetricsListener, query_id: str) -> str | None:
    figures = listener.latest().get(query_id)
    return figures["sources"][0]["metrics"]["maxOffsetsBehindLatest"] if figures else None


def test_the_page_warns_of_an_aggregation_without_a_watermark(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, (port,) = make_topic(), free_ports(1)
    judge.produce(bootstrap, topic, b"a", b"b")
    name = f"q{port}"
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "metrics.http.port": str(port),
    }

    def warned() -> bool:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/page.json", timeout=60) as answer:
            return any("an aggregation and no watermark" in each for each in json.load(answer)["warnings"])

    listener = MetricsListener(pages={name: port})
    spark.streams.addListener(listener)
    try:
        counts = read_stream(spark, "penstock", options).groupBy("value").count()
        start = counts.writeStream.format("noop").outputMode("complete").queryName(name)
        with stopped(start.option("checkpointLocation", str(tmp_path / "checkpoint")).start()) as query:
            query.processAllAvailable()
            wait_until(warned, "the warning on the page")
    finally:
        spark.streams.removeListener(listener)


def test_a_row_that_spark_drops_as_late_is_counted_and_named(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, reports = make_topic(), list[dict[str, Any]]()
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
    }
    listener = MetricsListener(reports.append)
    spark.streams.addListener(listener)
    try:
        rows = read_stream(spark, "penstock", options).selectExpr("timestamp_seconds(int(string(value))) ts")
        counts = rows.withWatermark("ts", "1 second").groupBy(F.window("ts", "10 seconds")).count()
        start = counts.writeStream.format("noop").outputMode("append")
        with stopped(start.option("checkpointLocation", str(tmp_path / "checkpoint")).start()) as query:
            for seconds in (b"100", b"200", b"50"):
                judge.produce(bootstrap, topic, seconds)
                query.processAllAvailable()
            wait_until(lambda: sum(each["late_rows"] for each in reports) == 1, "the late row")
    finally:
        spark.streams.removeListener(listener)
    (warning,) = (each for report in reports for each in report["warnings"])
    assert warning.startswith("Spark has dropped late rows in an aggregation: 1 or more, because")


def test_a_batch_read_shows_how_far_it_is(spark: SparkSession, bootstrap: str, make_topic: MakeTopic) -> None:
    topic, output = make_topic(2), io.StringIO()
    judge.produce(bootstrap, topic, *(judge.Record(b"v", partition=number % 2) for number in range(10)))
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    with penstock.batch_progress(console=Console(file=output, width=200, force_terminal=True)) as watched:
        rows = read_batch(spark, "penstock", {**options, **watched})
        assert rows.count() == 10
        rows.write.format("noop").mode("overwrite").save()
    assert "20 of 20 records" in output.getvalue()


class Sent:
    """An OpenLineage client that keeps the events."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def emit(self, event: Any) -> None:
        self.events.append(event)

    def states(self) -> list[str]:
        return [each.eventType.value for each in self.events]

    def close(self, timeout_s: float) -> None:
        pass


def check_listeners(session: Any, bootstrap: str, topic: str, checkpoint: Path) -> None:
    """A query of any kind of Spark is seen by both listeners, from its start to its end."""
    judge.produce(bootstrap, topic, b"1", b"2", b"3")
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    reports: list[dict[str, Any]] = []
    client, name = Sent(), f"q{uuid.uuid4().hex}"
    metrics = MetricsListener(reports.append)
    lineage = penstock.lineage.LineageListener("tests", client=client, running_every_s=0)
    rows = read_stream(session, "penstock", options)
    lineage.describe(name, [penstock.lineage.Input(options, rows.schema)])
    for each in (metrics, lineage):
        session.streams.addListener(each)
    try:
        start = rows.writeStream.format("noop").queryName(name).trigger(availableNow=True)
        query = start.option("checkpointLocation", str(checkpoint)).start()
        with stopped(query):
            assert query.awaitTermination(QUERY_TIMEOUT_S)
        wait_until(lambda: "COMPLETE" in client.states(), "the end of the run")
    finally:
        for each in (metrics, lineage):
            session.streams.removeListener(each)
        lineage.close()
    assert client.states()[0] == "START"
    assert {each.run.runId for each in client.events} == {str(query.runId)}
    (dataset,) = client.events[-1].inputs
    assert (dataset.name, dataset.namespace) == (topic, f"kafka://{bootstrap.split(',', maxsplit=1)[0]}")
    facets = dataset.inputFacets
    assert facets["inputStatistics"].rowCount == 3
    assert facets["penstock_kafkaOffsets"].partitions == [{"partition": 0, "startOffset": 0, "endOffset": 3}]
    assert [each.name for each in dataset.facets["schema"].fields][:2] == ["key", "value"]
    (figures,) = [each for each in reports if each["input_rows"]]
    assert figures["sources"][0]["metrics"]["maxOffsetsBehindLatest"] == "0"
    assert figures["sources"][0]["topic_partitions"][0]["position"] == 3


def test_listeners_see_a_query(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    check_listeners(spark, bootstrap, make_topic(), tmp_path / "checkpoint")


def test_listeners_see_a_query_of_connect(
    connect_spark: Any, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    check_listeners(connect_spark, bootstrap, make_topic(), tmp_path / "checkpoint")
