"""A continuous query as a process of its own that a test can kill. It prints `runs` when it has started.

SIGTERM ends the program in order, which stops the query.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys

from pyspark.sql import SparkSession

import penstock
from penstock.cli.quick_start.python import quick_python
from tests import quick_jvm


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("master", "bootstrap", "source", "target", "scratch"):
        parser.add_argument(f"--{name}", required=True)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    source = {
        "subscribe": arguments.source,
        "kafka.bootstrap.servers": arguments.bootstrap,
        "kafka.group.id": arguments.source,
        "startingOffsets": "earliest",
    }
    query = penstock.continuous(
        _session(arguments), source, None, {"topic": arguments.target}, tasks=2, lanes=2
    )
    print("runs", flush=True)  # noqa: T201 - for the test
    query.awaitTermination()


def _session(arguments: argparse.Namespace) -> SparkSession:
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": quick_jvm.OPTIONS,
        "spark.driver.extraJavaOptions": quick_jvm.OPTIONS,
        "spark.sql.warehouse.dir": f"{arguments.scratch}/warehouse",
        "spark.local.dir": arguments.scratch,
        "spark.log.level": "ERROR",
    }
    os.environ["PYSPARK_PYTHON"] = quick_python()
    builder = SparkSession.builder.appName("penstock-chaos").master(arguments.master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


if __name__ == "__main__":
    main()
