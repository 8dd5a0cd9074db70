"""The job of examples/compose copies its topic, and serves what its Prometheus asks for."""

from __future__ import annotations

import runpy
from pathlib import Path
from urllib.request import urlopen

from pyspark.sql import SparkSession

from penstock.devbroker import DevCluster
from penstock.devbroker.cluster import free_ports
from tests import judge
from tests.judges import compose
from tests.spark.queries import stopped
from tests.waiting import PATIENCE_S, wait_until


def test_the_job_copies_and_shows_its_metrics(
    spark: SparkSession, own_broker: DevCluster, tmp_path: Path
) -> None:
    bootstrap = own_broker.bootstrap_servers  # the job names its topics and its prefix itself
    for name in ("orders", "orders-copy"):
        judge.create_topic(bootstrap, name, partitions=3)
    judge.produce(bootstrap, "orders", b"a", b"b", b"c")
    [port] = free_ports(1)
    start = runpy.run_path(str(compose.FOLDER / "job.py"))["start"]

    def metrics() -> str:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
            return str(answer.read().decode())

    with stopped(start(spark, bootstrap, str(tmp_path), port)) as query:
        query.processAllAvailable()
        wait_until(lambda: "\npenstock_sink_records_total{" in metrics(), "the figures of the sink")
        wait_until(lambda: "\npenstock_source_lag_records " in metrics(), "the lag of the source")
    copied = judge.consume_all(bootstrap, "orders-copy")
    assert sorted(record.value or b"" for record in copied) == [b"a", b"b", b"c"]
