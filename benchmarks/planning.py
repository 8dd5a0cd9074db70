"""Measure planning alone, on a real broker: `python -m benchmarks.planning [--partitions 2000] [--rounds 5]`.

It measures the driver's part of a micro-batch with a record in each topic partition, in seconds: where the
batch ends (discovery and the ends of the logs), and its splits. The goal is less than 2 s for 2,000 on two
cores.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import pyarrow as pa
from rich.console import Console

from penstock.client.cluster.topics import NewTopic, create_topics
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import connection_settings
from penstock.devbroker import DevCluster
from penstock.options.parse import parse_write
from penstock.sink.writer import write_rows
from penstock.spark.datasource import PenstockDataSource
from penstock.spark.schema import source_schema

TOPIC = "bench-planning"


LIMITS: dict[str, dict[str, str]] = {
    "all": {},
    "max-records": {"scan.max-records-per-batch": "{partitions}"},
    "max-bytes": {"scan.max-bytes-per-batch": "1 mb"},
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planning", description=__doc__)
    parser.add_argument("--partitions", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    console = Console()
    with DevCluster() as cluster:
        found = measure(cluster.bootstrap_servers, arguments.partitions, arguments.rounds)
    for name, seconds in found.items():
        console.print(f"{name}: {arguments.partitions} topic partitions in {seconds:.2f} s")
        assert seconds < 2.0 * arguments.partitions / 2_000, "planning is too slow"


def measure(bootstrap_servers: str, partition_count: int, rounds: int) -> dict[str, float]:
    """Measure planning one batch, without a limit and with each: median seconds, without the first round."""
    fill(bootstrap_servers, partition_count)
    found = {}
    for name, options in LIMITS.items():
        given = {key: value.format(partitions=partition_count) for key, value in options.items()}
        found[name] = statistics.median([plan(bootstrap_servers, given) for _ in range(rounds + 1)][1:])
    return found


def fill(bootstrap_servers: str, partition_count: int) -> None:
    """Create the topic, with a few records in each partition."""
    config = parse_write({"kafka.bootstrap.servers": bootstrap_servers, "topic": TOPIC}).sink
    connections = KafkaConnections(connection_settings(config.properties, client_id="bench"))
    create_topics(connections, {TOPIC: NewTopic(partition_count)})
    connections.close()
    partitions = pa.array([n % partition_count for n in range(3 * partition_count)], pa.int32())
    values = pa.array([b"x"] * len(partitions))
    write_rows(config, [pa.RecordBatch.from_arrays([values, partitions], names=["value", "partition"])])


def plan(bootstrap_servers: str, option: dict[str, str]) -> float:
    """Measure planning one batch with discovery, in seconds."""
    options = {
        "properties.bootstrap.servers": bootstrap_servers,
        "topic": TOPIC,
        "scan.topic-partition-discovery.interval": "1 ms",
        **option,
    }
    reader: Any = PenstockDataSource(options).streamReader(source_schema(include_headers=False))
    try:
        start = reader.initialOffset()
        began = time.perf_counter()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        splits = reader.partitions(start, end)
        took = time.perf_counter() - began
        assert splits
        return took
    finally:
        reader.stop()


if __name__ == "__main__":
    main()
