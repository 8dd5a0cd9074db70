"""Scrape a source of 10,000 real topic partitions: `python -m benchmarks.scrape_real`.

It starts a broker of its own, makes 10 topics of 1,000 partitions, writes records into each topic partition,
and plans a stream of all of them with `metrics.http.port`. Then it scrapes `/metrics` as Prometheus does, and
asks `penstock lag` about a checkpoint of the same positions. The goal: a scrape takes less than 2 s, and has
no more series than `metrics.topic-partitions.max` allows. Invariant: each answer has the right total lag, or
the run ends.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from prometheus_client.parser import text_string_to_metric_families

from penstock.client.cluster.topics import NewTopic, create_topics
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import connection_settings
from penstock.devbroker import DevCluster
from penstock.devbroker.cluster import free_ports
from penstock.observe.serve.view import REFRESH_S
from penstock.options.parse import parse_write
from penstock.security.http import http_request
from penstock.sink.writer import write_rows
from penstock.spark.datasource import PenstockDataSource
from penstock.spark.schema import source_schema

GOAL_S = 2.0
_SLOW_MACHINE = {"broker.session.timeout.ms": "600000", "broker.heartbeat.interval.ms": "2000"}
"""While it makes the logs of 10,000 topic partitions, a broker may be late with its heartbeats."""
RECORDS_OF_EACH = 3
SETTINGS = {
    "1,000 shown": {"metrics.topic-partitions.max": "1000"},
    "1,000 shown, both aliases": {"metrics.aliases": "flink,kafka-lag-exporter"},
    "10 shown": {"metrics.topic-partitions.max": "10"},
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scrape_real", description=__doc__)
    parser.add_argument("--topics", type=int, default=10)
    parser.add_argument("--partitions", type=int, default=1_000, help="of each topic")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with DevCluster(properties=_SLOW_MACHINE) as cluster:
        began_s = time.monotonic()
        names = fill(cluster.bootstrap_servers, arguments.topics, arguments.partitions)
        say(f"{arguments.topics} topics of {arguments.partitions}: {time.monotonic() - began_s:.0f} s")
        lag = RECORDS_OF_EACH * arguments.topics * arguments.partitions
        slow = [
            name
            for name, more in SETTINGS.items()
            if scrape(cluster.bootstrap_servers, names, name, more, lag, arguments.rounds) >= GOAL_S
        ]
        command_s = checkpoint(cluster.bootstrap_servers, names, arguments.partitions, lag)
        say(f"penstock lag --checkpoint: {command_s:.2f} s with its start")
    if slow:
        sys.exit(f"slower than {GOAL_S} s: {', '.join(slow)}")


def fill(bootstrap: str, topics: int, partitions: int) -> list[str]:
    """Create the topics, with records in each partition. Return their names."""
    names = [f"bench-scrape-{number}" for number in range(topics)]
    for name in names:
        options = {"kafka.bootstrap.servers": bootstrap, "kafka.delivery.timeout.ms": "300000"}
        config = parse_write({**options, "topic": name}).sink
        connections = KafkaConnections(connection_settings(config.properties, client_id="bench"))
        create_topics(connections, {name: NewTopic(partitions)}, timeout_ms=300_000)
        connections.close()
        wanted = pa.array([n % partitions for n in range(RECORDS_OF_EACH * partitions)], pa.int32())
        values = pa.array([b"x" * 100] * len(wanted))
        write_rows(config, [pa.RecordBatch.from_arrays([values, wanted], names=["value", "partition"])])
    return names


def scrape(bootstrap: str, names: list[str], name: str, more: dict[str, str], lag: int, rounds: int) -> float:
    """Return the median seconds of a scrape that looks at the cluster."""
    took_s: list[float] = []
    cpu_s: list[float] = []
    with served(bootstrap, names, more) as url:
        for _ in range(rounds):
            began_s, began_cpu_s = time.perf_counter(), time.process_time()
            status, body = http_request("GET", url, headers={}, timeout_ms=60_000)
            took_s.append(time.perf_counter() - began_s)
            cpu_s.append(time.process_time() - began_cpu_s)
            assert status == 200, status
            time.sleep(REFRESH_S)  # so that the next one looks again
    found = Counter(
        sample.name for family in text_string_to_metric_families(body.decode()) for sample in family.samples
    )
    assert f"penstock_source_lag_records {lag}.0".encode() in body
    shown = found["penstock_source_topic_partition_lag_records"]
    median_s = statistics.median(took_s)
    size = f"{sum(found.values())} series, {shown} topic partitions one by one, {len(body) / 1e6:.2f} MB"
    cpu = f"{statistics.median(cpu_s):.2f} s of processor time, without the broker's"
    say(f"{name}: median {median_s:.2f} s, slowest {max(took_s):.2f} s, {cpu}; {size}")
    return median_s


@contextmanager
def served(bootstrap: str, names: list[str], more: dict[str, str]) -> Iterator[str]:
    """Plan a batch of a stream that has read nothing yet, and give the address of its metrics."""
    (port,) = free_ports(1)
    options = {
        "properties.bootstrap.servers": bootstrap,
        "topic": ";".join(names),
        "scan.startup.mode": "earliest-offset",
        "metrics.http.port": str(port),
        **more,
    }
    reader: Any = PenstockDataSource(options).streamReader(source_schema(include_headers=False))
    try:
        reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
        yield f"http://127.0.0.1:{port}/metrics"
    finally:
        reader.stop()


def checkpoint(bootstrap: str, names: list[str], partitions: int, lag: int) -> float:
    """Return the seconds of `penstock lag` about a checkpoint that holds the start of everything."""
    positions = json.dumps({name: {str(number): 0 for number in range(partitions)} for name in names})
    with tempfile.TemporaryDirectory() as folder:
        for log, text in (("offsets", f"v1\n{{}}\n{positions}"), ("commits", "v1\n{}")):
            (Path(folder) / log).mkdir()
            (Path(folder) / log / "0").write_text(text)
        tool = str(Path(sys.executable).with_name("penstock"))
        command = [tool, "lag", "-b", bootstrap, "--checkpoint", folder, "--json"]
        began_s = time.perf_counter()
        done = subprocess.run(command, capture_output=True, check=True, timeout=120)
        took_s = time.perf_counter() - began_s
    found = json.loads(done.stdout)
    assert (found["lag_records"], found["errors"]) == (lag, {}), found["errors"]
    return took_s


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
