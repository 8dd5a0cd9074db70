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
from tests.chaos.job_process import ROOT
from tests.chaos.proxied import PIDS, VARIABLE, copied


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("master", "bootstrap", "source", "target", "scratch"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--tasks", type=int, default=2)
    parser.add_argument("--lanes", type=int, default=2)
    parser.add_argument("--discovery", help="the pause between looks for new topic partitions")
    parser.add_argument("--interval", default="20 ms", help="the age at which a transaction is ended")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    source = {
        "topic": arguments.source,
        "properties.bootstrap.servers": arguments.bootstrap,
        "properties.group.id": arguments.source,
        "scan.startup.mode": "earliest-offset",
    }
    if arguments.discovery:
        source["scan.topic-partition-discovery.interval"] = arguments.discovery
    function = copied if VARIABLE in os.environ else None
    sink = {"topic": arguments.target}
    query = penstock.continuous(
        _session(arguments),
        source,
        function,
        sink,
        tasks=arguments.tasks,
        lanes=arguments.lanes,
        commit_interval=arguments.interval,
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
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        **{f"spark.executorEnv.{name}": os.environ[name] for name in (VARIABLE, PIDS) if name in os.environ},
    }
    os.environ["PYSPARK_PYTHON"] = quick_python()
    builder = SparkSession.builder.appName("penstock-chaos").master(arguments.master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


if __name__ == "__main__":
    main()
