"""Copy a topic exactly once while tokens and sessions end again and again, then let the judge compare.

    python -m tests.chaos.relogins --seconds 60 --token-seconds 20 --session-ms 15000

The stream makes Spark's calls without Spark: a streaming reader, and tasks of the exactly-once sink. The
broker ends each session (`connections.max.reauth.ms`), the token endpoint is away for a moment now and then,
and input arrives all the time. The program ends with 0 if every record is in the target once and in order.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from penstock.client.net.connection import close_shared_connections
from penstock.client.settings import connection_settings
from penstock.devbroker import DevCluster
from penstock.options.parse import parse_write
from penstock.sink.exactly_once.driver_side import DriverSide, ExactlyOnceSettings, driver_side
from penstock.sink.exactly_once.task_writer import TaskAttempt, write_in_transaction
from penstock.spark.datasource import PenstockDataSource
from penstock.spark.schema import source_schema
from tests import judge
from tests.guarded_broker import TRUST, guarded_broker, properties_for, token_login
from tests.token_server import TokenServer, running_token_server

QUERY = "6f7a2c1e"
RECORDS_AT_ONCE = 20
INPUT_PAUSE_S = 0.1
IDLE_S = 0.02
FAILURES = 2
"""So often the token endpoint fails when it was asked for every third token."""


class Relogins:
    """One copy from topic to topic over SASL_SSL with tokens of a server."""

    def __init__(self, cluster: DevCluster, server: TokenServer, source: str, target: str) -> None:
        self.bootstrap = cluster.bootstrap_servers
        self.server = server
        self.source, self.target = source, target
        given = properties_for(cluster, "BOTH", TRUST | token_login(server.url))
        self.options = {f"properties.{name}": text for name, text in given.items()}
        once = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": target}
        self.sink = parse_write({**self.options, "topic": target, **once}).sink
        self.written = 0
        self.batch_count = 0
        self._is_over = threading.Event()

    def run(self, seconds: float) -> None:
        """Copy for so long, and compare."""
        reader = PenstockDataSource(
            {**self.options, "topic": self.source, "scan.startup.mode": "earliest-offset"}
        ).streamReader(source_schema(include_headers=False))
        try:
            with self._input(seconds):
                self._copy(reader)
        finally:
            reader.stop()
            close_shared_connections()
        wanted = [b"%d" % number for number in range(self.written)]
        judge.consume_until(self.bootstrap, self.target, len(wanted))
        found = [record.value for record in judge.consume_all(self.bootstrap, self.target)]
        assert found == wanted, f"{len(wanted)} records were written, {len(found)} were copied"

    @contextmanager
    def _input(self, seconds: float) -> Iterator[None]:
        thread = threading.Thread(target=self._write_until, args=(time.monotonic() + seconds,))
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()

    def _write_until(self, ends_at_s: float) -> None:
        try:
            self._write_input(ends_at_s)
        finally:
            self._is_over.set()

    def _write_input(self, ends_at_s: float) -> None:
        tokens_at_failure = 0
        while not self._is_over.wait(INPUT_PAUSE_S) and time.monotonic() < ends_at_s:
            values = [b"%d" % number for number in range(self.written, self.written + RECORDS_AT_ONCE)]
            judge.produce(self.bootstrap, self.source, *values)
            self.written += len(values)
            if len(self.server.tokens) >= tokens_at_failure + 3:
                tokens_at_failure = len(self.server.tokens)
                self.server.failures_to_come = FAILURES

    def _copy(self, reader: Any) -> None:
        start = _as_in_a_checkpoint(reader.initialOffset())
        while True:
            is_last = self._is_over.is_set()
            end = _as_in_a_checkpoint(reader.latestOffset(start, reader.getDefaultReadLimit()))
            if end != start:
                self._write(reader, start, end)
                start = end
            elif is_last:
                return
            else:
                self._is_over.wait(IDLE_S)

    def _write(self, reader: Any, start: dict[str, Any], end: dict[str, Any]) -> None:
        mandate = self._driver_side.recover()
        reports = []
        for at, split in enumerate(reader.partitions(start, end)):
            rows = (batch.select(["value"]) for batch in reader.read(split))
            task = TaskAttempt(QUERY, self.batch_count, at, 0)
            reports.append(write_in_transaction(self.sink, mandate, task, rows))
        self._driver_side.commit(reports)
        self.batch_count += 1

    @property
    def _driver_side(self) -> DriverSide:
        connection = connection_settings(self.sink.properties, client_id="relogins")
        return driver_side(ExactlyOnceSettings(connection, self.sink.transactional_id_prefix or ""))


def _as_in_a_checkpoint(offset: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(json.dumps(offset))
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--token-seconds", type=float, default=20.0)
    parser.add_argument("--session-ms", type=int, default=15_000)
    arguments = parser.parse_args()
    with (
        guarded_broker(arguments.session_ms) as cluster,
        running_token_server(lifetime_s=arguments.token_seconds) as server,
    ):
        for topic in ("input", "copy"):
            judge.create_topic(cluster.bootstrap_servers, topic)
        copy = Relogins(cluster, server, "input", "copy")
        copy.run(arguments.seconds)
        sys.stdout.write(
            f"{copy.written} records in {copy.batch_count} batches, {len(server.tokens)} tokens: "
            "every record once and in order\n"
        )


if __name__ == "__main__":
    main()
