"""Queries that share one prefix by mistake, and restart at once whenever they are stopped; then the judge.

    python -m tests.chaos.prefix_fight [--seconds 45] [--queries 3] [--tasks 2]

No Spark: each query drives the sink's own driver and task halves, and keeps the number of its next batch as a
checkpoint would. After the fight each one runs alone, so that what was under way is finished. Ends with 0
when every record is in the target once, no transaction is open, and each stop was an ExactlyOnceError, which
tells its user what happened; a bare ProducerFencedError, for instance, would not.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pyarrow as pa

from penstock.client.net.connection import KafkaConnections, close_shared_connections
from penstock.client.settings import ConnectionSettings
from penstock.devbroker import DevCluster
from penstock.errors import ExactlyOnceError, PenstockError
from penstock.options.parse import parse_write
from penstock.sink.exactly_once.driver_side import DriverSide
from penstock.sink.exactly_once.kafka import KafkaSinkTransactions
from penstock.sink.exactly_once.log_topic import DecisionTopic
from penstock.sink.exactly_once.names import TransactionNames
from penstock.sink.exactly_once.task_writer import TaskAttempt, write_in_transaction
from tests import judge

ROWS_PER_TASK = 4
PARTITION_COUNT = 3
_LAST_RUNS = 5
"""Alone, a query needs two: one may have to fail, to be replayed."""


class Query:
    """One query: its checkpoint outlives its drivers."""

    def __init__(self, fight: Fight, number: int) -> None:
        self._fight = fight
        self._query_id = f"query-{number}"
        self._number = number
        self.batch_id = 0
        self.stops: list[PenstockError] = []

    def run(self, is_over: Callable[[], bool]) -> None:
        """Write batches and restart after each error, until it is over."""
        while not is_over():
            self.start(is_over)

    def start(self, is_over: Callable[[], bool]) -> bool:
        """Run one driver until it is over, or until an error stops it; returns whether it was not stopped."""
        try:
            with self._fight.driver() as driver:
                while not is_over():
                    self._run_batch(driver)
        except PenstockError as error:
            self.stops.append(error)
            return False
        return True

    def run_alone(self) -> None:
        """Write the batch that was under way, and one more."""
        wanted = self.batch_id + 2
        for _ in range(_LAST_RUNS):
            if self.start(lambda: self.batch_id >= wanted):
                return
        raise self.stops[-1]

    def _run_batch(self, driver: DriverSide) -> None:
        mandate = driver.recover()
        reports = []
        try:
            for at in range(self._fight.task_count):
                task = TaskAttempt(self._query_id, self.batch_id, at, attempt=0)
                reports.append(write_in_transaction(self._fight.config, mandate, task, [self._rows(at)]))
            driver.commit(reports)
        except PenstockError:
            with contextlib.suppress(
                PenstockError
            ):  # as Spark calls it, which tells of the first error alone
                driver.abort(reports)
            raise
        self.batch_id += 1

    def _rows(self, at: int) -> pa.RecordBatch:
        return pa.record_batch({"value": pa.array(self._values(self.batch_id, at))})

    def _values(self, batch_id: int, at: int) -> list[bytes]:
        return [b"%d/%d/%d/%d" % (self._number, batch_id, at, row) for row in range(ROWS_PER_TASK)]

    def written(self) -> list[bytes]:
        """All that it has written."""
        return [
            value
            for batch_id in range(self.batch_id)
            for at in range(self._fight.task_count)
            for value in self._values(batch_id, at)
        ]


class Fight:
    """Queries with one prefix, over one target topic."""

    def __init__(self, bootstrap: str, topic: str, *, query_count: int = 3, task_count: int = 2) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self.task_count = task_count
        self.config = parse_write(
            {
                "kafka.bootstrap.servers": bootstrap,
                "topic": topic,
                "sink.delivery-guarantee": "exactly-once",
                "sink.transactional-id-prefix": topic,
            }
        ).sink
        self.queries = [Query(self, number) for number in range(query_count)]

    @property
    def stops(self) -> list[PenstockError]:
        """All that stopped a query."""
        return [error for query in self.queries for error in query.stops]

    @contextlib.contextmanager
    def _connections(self) -> Iterator[KafkaConnections]:
        settings = ConnectionSettings(tuple(self._bootstrap.split(",")), "prefix-fight")
        with contextlib.closing(KafkaConnections(settings)) as connections:
            yield connections

    @contextlib.contextmanager
    def driver(self) -> Iterator[DriverSide]:
        """A driver that knows nothing of those before it."""
        names = TransactionNames(self._topic)
        with self._connections() as connections:
            log = DecisionTopic(connections, names.default_log_topic)
            yield DriverSide(names, KafkaSinkTransactions(connections), log)

    def run(self, is_over: Callable[[], bool]) -> None:
        """Let them fight until it is over, finish alone, and judge."""
        failed: list[BaseException] = []

        def run(query: Query) -> None:
            try:
                query.run(is_over)
            except BaseException as error:  # noqa: BLE001 - raised below, in the main thread
                failed.append(error)

        threads = [threading.Thread(target=run, args=(query,)) for query in self.queries]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for error in failed:
                raise error
            for query in self.queries:
                query.run_alone()
        finally:
            close_shared_connections()
        self.check()

    def check(self) -> None:
        """Every record once, in the order of batches; nothing open; no stop is bare."""
        records = judge.consume_all(self._bootstrap, self._topic)
        found = Counter(record.value or b"" for record in records)
        wanted = Counter(value for query in self.queries for value in query.written())
        lost, doubled = wanted - found, found - wanted
        assert not lost, f"lost {lost.total()}: {sorted(lost)[:5]}"
        assert not doubled, f"doubled {doubled.total()}: {sorted(doubled)[:5]}"
        with self._connections() as connections:
            opened = KafkaSinkTransactions(connections).list_open(TransactionNames(self._topic).claims)
        assert not opened, opened
        unnamed = [error for error in self.stops if not isinstance(error, ExactlyOnceError)]
        assert not unnamed, f"{len(unnamed)} stops do not say what happened, the first {unnamed[0]!r}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=45.0)
    parser.add_argument("--queries", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=2)
    arguments = parser.parse_args()
    logging.getLogger("penstock").setLevel(logging.CRITICAL)  # each stop is logged, too
    with DevCluster() as cluster:
        topic = "prefix-fight"
        judge.create_topic(cluster.bootstrap_servers, topic, partitions=PARTITION_COUNT)
        fight = Fight(
            cluster.bootstrap_servers, topic, query_count=arguments.queries, task_count=arguments.tasks
        )
        ends_at_s = time.monotonic() + arguments.seconds
        try:
            fight.run(lambda: time.monotonic() >= ends_at_s)
        finally:
            stops = collections.Counter(type(error).__name__ for error in fight.stops)
            batch_count = sum(query.batch_id for query in fight.queries)
            sys.stdout.write(f"{batch_count} batches, {stops.total()} stops: {dict(stops)}\n")
    sys.stdout.write(
        f"{sum(len(query.written()) for query in fight.queries)} records once, no transaction open\n"
    )


if __name__ == "__main__":
    main()
