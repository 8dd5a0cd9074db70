"""A query in a process of its own that a test kills. It makes batch after batch and writes a commit log.

    python -m tests.kafka.committer_job <bootstrap> <topic> <commit log> <batch count>

Prints each step of the protocol, so that the test that kills it knows where it is.
"""

from __future__ import annotations

import sys
from pathlib import Path

from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.errors import PenstockError
from penstock.sink.exactly_once._probes import observe
from penstock.sink.exactly_once.committable import TaskReport
from penstock.sink.exactly_once.driver_side import DriverSide
from tests.kafka.sink_driver import SinkUnderTest


def main(bootstrap: str, topic: str, commit_log: Path, batch_count: int) -> None:
    settings = ConnectionSettings(tuple(bootstrap.split(",")), "committer-job")
    sink = SinkUnderTest(settings, KafkaConnections(settings), topic, prefix=topic)
    observe(lambda step: say(step.name))
    with sink.driver() as recovering, sink.driver() as committing:
        for batch_id in range(committed_count(commit_log), batch_count):
            run_batch(sink, recovering, committing, batch_id)
            # Like Spark's commit log: the file appears complete, after the sink's commit.
            written = commit_log.with_suffix(".new")
            written.write_text(str(batch_id + 1))
            written.rename(commit_log)
            say("LOGGED")
    sink.connections.close()


def run_batch(sink: SinkUnderTest, recovering: DriverSide, committing: DriverSide, batch_id: int) -> None:
    reports: list[TaskReport] = []
    try:
        mandate = recovering.recover()
        if batch_id % 2:
            sink.task(mandate, batch_id, 0, attempt=3)  # an attempt that loses
        for spark_partition_id in range(3):
            reports.append(sink.task(mandate, batch_id, spark_partition_id))
            say("WRITTEN")
        committing.commit(reports)
    except PenstockError:
        committing.abort(reports)
        raise


def committed_count(commit_log: Path) -> int:
    return int(commit_log.read_text()) if commit_log.exists() else 0


def say(what: str) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
