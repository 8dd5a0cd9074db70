"""Compare Nexmark's queries in 1, 4 and 40 micro-batches and as batches: `python -m tests.judges.nexmark`.

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

from penstock.cli.quick_start.python import quick_python
from penstock.devbroker import DevCluster
from tests import judge
from tests.fix_spark import spark_settings
from tests.judges.nexmark.events import Events, events
from tests.judges.nexmark.oracle import ORACLES, Rows, decided
from tests.judges.nexmark.running import FILES, Nexmark
from tests.judges.nexmark.scripts import query_of

_TOPIC, _TIMEOUT_S = "nexmark", 1_800.0
_MAY_BE_REFUSED = ("q12",)
"""The query of windows of processing time."""


def main(arguments: list[str]) -> int:
    """Run the queries, print how each table compares, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.judges.nexmark")
    parser.add_argument("names", nargs="*", default=[*ORACLES, FILES], help="of queries")
    parser.add_argument("--events", type=int, default=6_000)
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 4, 40], help="numbers of micro-batches")
    parser.add_argument("--streams-only", action="store_true")
    parser.add_argument("--at-once", type=int, default=4, help="so many streams")
    given = parser.parse_intermixed_args(arguments)
    made, status = events(given.events), 0
    with tempfile.TemporaryDirectory(prefix="penstock-nexmark-") as folder, DevCluster() as cluster:
        spark = _spark(Path(folder))
        judge.create_topic(cluster.bootstrap_servers, _TOPIC)
        judge.produce(cluster.bootstrap_servers, _TOPIC, *made.records)
        runs = Nexmark(spark, cluster.bootstrap_servers, _TOPIC, Path(folder), _TIMEOUT_S)
        for batches in given.batches:
            per_batch = math.ceil(len(made.records) / batches)
            names = _served(runs, given.names, is_batch=False)
            began = time.monotonic()
            for first in range(0, len(names), given.at_once):
                found = runs.stream(names[first : first + given.at_once], per_batch)
                status |= _compared(f"{batches} micro-batches", made, found, is_batch=False)
            _say(f"{batches} micro-batches took {time.monotonic() - began:.0f} s")
        if not given.streams_only:
            began = time.monotonic()
            found = runs.batch(_served(runs, given.names, is_batch=True))
            status |= _compared("batch", made.of_batch, found, is_batch=True)
            _say(f"batches took {time.monotonic() - began:.0f} s")
        spark.stop()
    return status


def _served(runs: Nexmark, names: list[str], *, is_batch: bool) -> list[str]:
    """Return the queries that are served, and tell which ones are refused."""
    found = []
    for name in names:
        message = ""
        if name in _MAY_BE_REFUSED:
            message, _ = runs.refusal(query_of(name, runs.folder), is_batch=is_batch)
        if message:
            _say(
                f"{name} is refused as a {'batch' if is_batch else 'stream'}: {message.partition(chr(10))[0]}"
            )
        else:
            found.append(name)
    return found


def _compared(run: str, made: Events, tables: dict[str, Rows], *, is_batch: bool) -> int:
    status = 0
    for name, rows in tables.items():
        query = "q10" if name == FILES else name
        wanted = decided(query, ORACLES[query](made), is_batch=is_batch)
        found = decided(query, rows, is_batch=is_batch)
        status |= found != wanted
        missing, more = (wanted - found).total(), (found - wanted).total()
        _say(f"{run}, {name}: {wanted.total()} rows, {missing} missing, {more} too many")
        if missing or more:
            _say(f"  missing {[*(wanted - found)][:2]}\n  too many {[*(found - wanted)][:2]}")
    return int(status)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _spark(folder: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = quick_python()
    builder = SparkSession.builder
    for key, value in spark_settings(folder).items():
        builder = builder.config(key, value)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
