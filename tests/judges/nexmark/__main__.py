"""Compare Nexmark's q4, q5, q7, q8 and q9 in 1, 4 and 40 micro-batches: `python -m tests.judges.nexmark`.

Exit status 1 if a table differs from the oracle.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.devbroker import DevCluster
from tests import judge
from tests.fix_spark import spark_settings
from tests.judges.nexmark.events import events
from tests.judges.nexmark.oracle import ORACLES
from tests.judges.nexmark.running import tables_of

_TOPIC, _TIMEOUT_S = "nexmark", 1_800.0


def main(arguments: list[str]) -> int:
    """Run the queries, print how each table compares, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.judges.nexmark")
    parser.add_argument("names", nargs="*", default=list(ORACLES), help="of queries")
    parser.add_argument("--events", type=int, default=6_000)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4, 40])
    given = parser.parse_intermixed_args(arguments)
    made, status = events(given.events), 0
    with tempfile.TemporaryDirectory(prefix="penstock-nexmark-") as folder, DevCluster() as cluster:
        spark = _spark(Path(folder))
        judge.create_topic(cluster.bootstrap_servers, _TOPIC)
        judge.produce(cluster.bootstrap_servers, _TOPIC, *made.records)
        for batches in given.batches:
            began = time.monotonic()
            per_batch = math.ceil(len(made.records) / batches)
            found = tables_of(
                spark,
                cluster.bootstrap_servers,
                _TOPIC,
                given.names,
                per_batch,
                Path(folder) / str(batches),
                timeout_s=_TIMEOUT_S,
            )
            sys.stdout.write(f"{batches} micro-batches, {time.monotonic() - began:.0f} s:\n")
            for name, rows in found.items():
                wanted = ORACLES[name](made)
                status |= rows != wanted
                missing, more = (wanted - rows).total(), (rows - wanted).total()
                sys.stdout.write(f"  {name}: {wanted.total()} rows, {missing} missing, {more} too many\n")
            sys.stdout.flush()
        spark.stop()
    return status


def _spark(folder: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder
    for key, value in spark_settings(folder).items():
        builder = builder.config(key, value)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
