"""No telemetry: an import opens no connection. Reads and writes connect to the brokers and the registry only.

Python reports each connection and each look-up of a name to the hook of a child process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.testing import FakeKafka, assert_each_once
from tests.kafka.sink_by_options import VALUES
from tests.registry_server import running_registry

CHILD = """
import json, os, sys

def hook(event, arguments):
    names = ("connect", "sendto", "bind", "getaddrinfo", "gethostbyname")
    if event in ["socket." + each for each in names]:
        address = arguments[:2] if "host" in event or "addrinfo" in event else arguments[1]
        with open(os.environ["SEEN"], "a") as file:
            file.write(json.dumps([event, [str(each) for each in address]]) + "\\n")

sys.addaudithook(hook)
"""
ALL = (
    "import penstock, penstock.changelog, penstock.flink, penstock.metrics, penstock.sql, penstock.targets, "
    "penstock.errors, penstock.testing, penstock.devbroker, penstock.cli.app, pyspark_penstock\n"
    "for name in penstock.__all__: getattr(penstock, name)\n"
)

HALVES = """
import os, sys
import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType
from penstock.spark.datasource import PenstockDataSource

ROWS = [{"id": number, "name": f"name {number}"} for number in range(5)]
COLUMNS = StructType([StructField("id", LongType()), StructField("name", StringType())])
options = dict(each.split("=", 1) for each in sys.argv[1:])

def write():
    writer = PenstockDataSource(options).writer(COLUMNS, overwrite=False)
    writer.commit([writer.write(iter([pa.RecordBatch.from_pylist(ROWS)]))])

def read():
    reader = PenstockDataSource(options).reader(COLUMNS)
    return [row for split in reader.partitions() for batch in reader.read(split) for row in batch.to_pylist()]
"""
"""What Spark calls on the driver and in a task, without its JVM."""
EXACTLY_ONCE = """
import sys
from tests.kafka.sink_by_options import driver_of, sink_of, write_task

sink = sink_of(dict(each.split("=", 1) for each in sys.argv[1:]))
mandate = driver_of(sink).recover()
driver_of(sink).commit([write_task(sink, mandate)])
"""
"""The same halves of an exactly-once write, which the adapter runs in a task of Spark only."""


def seen_in(code: str, folder: Path, *arguments: str) -> list[tuple[str, list[str]]]:
    """Return the events of a child that runs the code."""
    file = folder / "seen"
    file.touch()
    # A user's folder without files, and no variable that turns something off.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK")}
    environment = {**kept, "SEEN": str(file), "HOME": str(folder)}
    command = [sys.executable, "-c", CHILD + code, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    events: list[Any] = [json.loads(line) for line in file.read_text().splitlines()]
    return [(event, address) for event, address in events]


def test_an_import_opens_no_connection(tmp_path: Path) -> None:
    assert seen_in(ALL, tmp_path) == []


def test_a_read_connects_to_the_brokers_only(tmp_path: Path, fake_kafka: FakeKafka) -> None:
    fake_kafka.create_topic("orders")
    code = "from penstock.cli import main\nmain()\n"
    found = seen_in(code, tmp_path, "cat", "orders", "-b", fake_kafka.bootstrap_servers)
    assert {event for event, _ in found} >= {"socket.connect"}
    assert places(found) == {place_of(fake_kafka.bootstrap_servers)}


def places(events: list[tuple[str, list[str]]]) -> set[tuple[str, ...]]:
    """Return host and port of each event. A connection to an address of IPv6 has more parts."""
    return {tuple(address[:2]) for _, address in events}


def place_of(address: str) -> tuple[str, ...]:
    host, _, port = address.rpartition(":")
    return host, port


def options_of(fake_kafka: FakeKafka, **more: str) -> list[str]:
    options = {"properties.bootstrap.servers": fake_kafka.bootstrap_servers, "topic": "orders", **more}
    return [f"{name}={value}" for name, value in options.items()]


def test_a_write_connects_to_the_brokers_only(tmp_path: Path, fake_kafka: FakeKafka) -> None:
    fake_kafka.create_topic("orders")
    found = seen_in(f"{HALVES}\nwrite()\n", tmp_path, *options_of(fake_kafka, format="json"))
    assert "socket.connect" in {event for event, _ in found}
    assert places(found) == {place_of(fake_kafka.bootstrap_servers)}
    assert_each_once(
        fake_kafka, "orders", [b'{"id":%d,"name":"name %d"}' % (each, each) for each in range(5)]
    )


def test_an_exactly_once_write_connects_to_the_brokers_only(tmp_path: Path, fake_kafka: FakeKafka) -> None:
    fake_kafka.create_topic("orders")
    found = seen_in(EXACTLY_ONCE, tmp_path, *options_of(fake_kafka))
    assert "socket.connect" in {event for event, _ in found}
    assert places(found) == {place_of(fake_kafka.bootstrap_servers)}
    assert_each_once(fake_kafka, "orders", VALUES)


def test_formats_with_a_registry_connect_to_the_brokers_and_the_registry_only(
    tmp_path: Path, fake_kafka: FakeKafka
) -> None:
    fake_kafka.create_topic("orders")
    with running_registry() as registry:
        more = {"format": "avro-confluent", "avro-confluent.url": registry.url}
        both = {place_of(fake_kafka.bootstrap_servers), place_of(registry.url.split("/")[2])}
        for code in ("write()", "assert read() == ROWS"):
            registry.requests.clear()
            folder = tmp_path / code.partition(" ")[0]
            folder.mkdir()
            found = seen_in(f"{HALVES}\n{code}\n", folder, *options_of(fake_kafka, **more))
            assert registry.requests
            assert places(found) == both


@pytest.mark.parametrize("host", ["localhost"])
def test_a_connection_elsewhere_is_found(tmp_path: Path, host: str) -> None:
    code = f"import socket\nsocket.getaddrinfo({host!r}, 80)\n"
    assert seen_in(code, tmp_path) == [("socket.getaddrinfo", [host, "80"])]
