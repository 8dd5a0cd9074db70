"""Describe the machine and the versions of a run."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

import confluent_kafka
from tests.jars import connector

from benchmarks.flink import CONNECTOR_VERSION, FLINK_VERSION
from penstock.devbroker.jars import KAFKA_VERSION
from penstock.devbroker.java import find_java


def describe(*, with_flink: bool) -> dict[str, str]:
    """Return machine and versions."""
    packages = ("pyspark-penstock", "pyspark", "pyarrow", "kafka-python")
    found = {
        "commit": _output("git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"),
        "processor": f"{os.cpu_count()} cores of {_line('/proc/cpuinfo', 'model name')}",
        "memory": f"{int(_line('/proc/meminfo', 'MemTotal').split()[0] or 0) / 2**20:.0f} GiB",
        "system": platform.platform(),
        "Python": platform.python_version(),
        "Java": _output(str(find_java()), "-version").partition("\n")[0],
        "Kafka": f"{KAFKA_VERSION}, one broker on this machine",
        **{name: version(name) for name in packages},
        "Spark's own connector": connector().title.rpartition(" ")[2],
        "confluent-kafka": f"{version('confluent-kafka')}, librdkafka {confluent_kafka.libversion()[0]}",
    }
    if with_flink:
        found["Flink"] = f"{FLINK_VERSION}, Kafka connector {CONNECTOR_VERSION}"
    return found


def _line(file: str, name: str) -> str:
    try:
        found = re.search(rf"^{name}\s*:\s*(.*)$", Path(file).read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else "0"


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except OSError:
        return "unknown"
    return (done.stdout or done.stderr).strip()
