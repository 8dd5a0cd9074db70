"""A running query seen from outside: its HTTP end, and the listener on Spark's progress."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.devbroker.ports import free_ports
from penstock.metrics import Listener
from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.queries import read_stream, stopped
from tests.waiting import wait_until


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

    listener = Listener()
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


def _behind(listener: Listener, query_id: str) -> str | None:
    figures = listener.latest().get(query_id)
    return figures["sources"][0]["metrics"]["maxOffsetsBehindLatest"] if figures else None
