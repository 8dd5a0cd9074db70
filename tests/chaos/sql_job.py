"""A script of Flink's SQL as a process of its own that a test can kill.

It prints `batch <number>` when a batch of any of its queries is finished. With `--drain` it reads what there
is, prints `done` and ends.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from penstock.sql import Session
from tests.chaos.exactly_once_job import POLL_S, say, spark_session

PER_TRIGGER = "${per-trigger}"
"""In the script: the records of a micro-batch."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("script", type=Path)
    parser.add_argument("--per-trigger", required=True)
    parser.add_argument("--scratch", required=True)
    parser.add_argument("--master", required=True)
    parser.add_argument("--conf", action="append", default=[], help="key=value for Spark")
    parser.add_argument("--drain", action="store_true", help="read what there is, then stop")
    arguments = parser.parse_args()
    spark = spark_session(
        arguments.master, arguments.scratch, dict(each.split("=", 1) for each in arguments.conf)
    )
    session = Session(spark)
    results = session.execute(arguments.script.read_text().replace(PER_TRIGGER, arguments.per_trigger))
    queries = [query for result in results if result.job is not None for query in result.job.queries]
    if arguments.drain:
        for query in queries:
            query.processAllAvailable()
        session.stop()
        say("done")
        spark.stop()
        return
    _follow(queries)


def _follow(queries: list[Any]) -> None:
    """Say each new batch, until a query fails."""
    said = 0
    while True:
        for query in queries:
            query.awaitTermination(POLL_S)
        done = sum(query.lastProgress.batchId + 1 for query in queries if query.lastProgress is not None)
        if done > said:
            said = done
            say(f"batch {done}")


if __name__ == "__main__":
    main()
