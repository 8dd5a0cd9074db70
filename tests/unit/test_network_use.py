"""No telemetry: an import opens no connection, and a read connects to the brokers and to nothing else.

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

from penstock.testing import FakeKafka

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
    host, _, port = fake_kafka.bootstrap_servers.rpartition(":")
    code = "from penstock.cli import main\nmain()\n"
    found = seen_in(code, tmp_path, "cat", "orders", "-b", fake_kafka.bootstrap_servers)
    assert {event for event, _ in found} >= {"socket.connect"}
    assert {tuple(address[:2]) for _, address in found} == {(host, port)}


@pytest.mark.parametrize("host", ["localhost"])
def test_a_connection_elsewhere_is_found(tmp_path: Path, host: str) -> None:
    code = f"import socket\nsocket.getaddrinfo({host!r}, 80)\n"
    assert seen_in(code, tmp_path) == [("socket.getaddrinfo", [host, "80"])]
