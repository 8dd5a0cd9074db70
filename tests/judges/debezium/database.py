"""Replicate a database whose columns change, with kills: `python -m tests.judges.debezium.database`.

Runs by hand where PostgreSQL is installed (on Debian `postgresql`). A real Debezium writes a topic for each
of many tables. One query of `penstock.cdc.replicate` keeps their copies, in PostgreSQL, Delta or Iceberg.
With `--cluster` the query runs on a standalone cluster of two, and executors are killed too.
With `--registry` the messages are Avro, and an Apicurio Registry has their schemas.
Invariant: the exit status is 0 only if each copy was equal to its table after each round, row by row and
column by column.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import closing, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any
from uuid import UUID

import psycopg

from penstock.cdc import SourceTopic
from penstock.devbroker import DevCluster
from tests.chaos.job_process import JobProcess, kill_one
from tests.chaos.spark_cluster import SparkCluster
from tests.judges.debezium.database_job import CATALOG, TARGETS, catalog_of, table_of
from tests.judges.debezium.database_workload import NEWEST, SENTINEL, Database, Table
from tests.judges.debezium.hunt import say
from tests.judges.debezium.registry import Registry, running_registry
from tests.judges.debezium.servers import (
    DEBEZIUM_VERSION,
    PREFIX,
    Connect,
    find_postgresql,
    running_postgresql,
)
from tests.waiting import wait_until

KILLS_IN_ROUND = 5
ARRIVES_S = 900.0
"""Long, because a machine that is full of other runs starts Debezium and Spark slowly."""
CONNECTOR = {
    "table.include.list": r"public\.t.*",
    "publication.autocreate.mode": "all_tables",
    "decimal.handling.mode": "precise",
    "provide.transaction.metadata": "false",
    "skipped.operations": "t",
}
Rows = dict[tuple[Any, ...], dict[str, Any]]


class Hunt:
    """One PostgreSQL, one Debezium, one query, and what was killed."""

    def __init__(
        self,
        bootstrap: str,
        dsn: str,
        folder: Path,
        database: Database,
        target: str,
        cluster: SparkCluster | None = None,
        registry: Registry | None = None,
    ) -> None:
        self.random = random.Random(database.random.getrandbits(64))
        self.killed: Counter[str] = Counter()
        self.rows_checked = 0
        self.database = database
        self._bootstrap, self._folder, self._target = bootstrap, folder, target
        self._cluster, self._registry = cluster, registry
        self._dsn = f"{dsn} dbname=copies options='-c timezone=UTC'"
        self.connect = Connect(
            bootstrap,
            dsn,
            folder,
            has_schema=True,
            connector=CONNECTOR,
            key_schema=True,
            registry=registry,
        )
        database.connection.execute("CREATE DATABASE copies")
        (folder / "iceberg").mkdir()
        self._job: JobProcess | None = None

    def close(self) -> None:
        self._stop_job()
        self.connect.kill()
        self.database.close()

    def start(self) -> None:
        """Make the catalog, and let Debezium read the tables as they are."""
        if self._target == "iceberg":
            from pyiceberg.catalog.sql import SqlCatalog  # noqa: PLC0415 - of an extra

            with SqlCatalog(CATALOG, **catalog_of(str(self._folder))) as catalog:
                catalog.create_namespace(CATALOG)
        self.database.run(40)
        self.connect.start()
        wait_until(
            lambda: "Snapshot completed" in self.connect.log(), "Debezium's snapshot", timeout_s=ARRIVES_S
        )
        wait_until(self.connect.offsets_stored_since(time.time_ns()), "stored offsets", timeout_s=ARRIVES_S)

    def round(self, kills: int) -> None:
        """Change rows and columns while processes are killed. Then compare all tables."""
        job = self._start_job()
        for _ in range(kills):
            self.connect.start()
            for _ in range(self.random.randint(1, 3)):
                self.database.run(self.random.randrange(3, 25))
                say(f"  {self.database.change_columns()}")
            if len(self.database.tables) < self.most_tables and self.random.random() < 0.2:
                say(f"  new table {self.database.create().name}")
            self.database.run(self.random.randrange(3, 25))
            Event().wait(self.random.uniform(0, 4))
            executors = ["executor", "executor"] if self._cluster else []
            kind = self.random.choice(["Debezium", "driver", "driver", "worker", *executors])
            if kind == "Debezium":
                self.connect.kill()
            elif kind == "driver":
                job = self._start_job()
            elif not kill_one(self._victims(kind, job)):
                continue
            self.killed[kind] += 1
        self.connect.start()
        number = self.database.mark()
        self._drain_until(number)
        self.compare()

    most_tables = 20

    def _victims(self, kind: str, job: JobProcess) -> list[int]:
        """Return the processes of a kind that run, in any order."""
        if self._cluster is None:
            found = job.python_workers()
        elif kind == "executor":
            wait_until(self._cluster.executors, "an executor", timeout_s=ARRIVES_S)
            found = self._cluster.executors()
        else:
            found = self._cluster.python_workers()
        self.random.shuffle(found)
        return found

    def _start_job(self, *more: str) -> JobProcess:
        self._stop_job()
        given = {
            "bootstrap": self._bootstrap,
            "folder": self._folder,
            "dsn": self._dsn,
            "prefix": PREFIX,
            "target": self._target,
            **({"master": self._cluster.master} if self._cluster else {}),
            **({"registry": self._registry.url} if self._registry else {}),
        }
        arguments = [*(f"--{name}={value}" for name, value in given.items()), *more]
        self._job = JobProcess("tests.judges.debezium.database_job", arguments, self._folder / "job.log")
        return self._job

    def _stop_job(self) -> None:
        if self._job is not None:
            self._job.kill()
            self._job = None

    def _drain_until(self, number: int) -> None:
        """Read until the sentinel of each table has arrived: Debezium may be behind."""
        end_s = time.monotonic() + ARRIVES_S
        while True:
            self._start_job("--drain").wait_until_done(ARRIVES_S)
            self._stop_job()
            missing = [one.name for one in self.database.tables if self._newest(one) != number]
            if not missing:
                return
            if not self.connect.is_running():
                raise AssertionError(f"Debezium has ended:\n{self.connect.log()[-8_000:]}")
            if time.monotonic() > end_s:
                log = self.connect.log()[-8_000:]
                raise AssertionError(f"the sentinel {number} did not arrive in {missing}. Debezium:\n{log}")

    def _newest(self, table: Table) -> Any:
        found = self._copy(table)
        return next((row[NEWEST] for key, row in found.items() if key[0] == SENTINEL), None)

    def compare(self) -> None:
        """Compare each copy with its table. Fail with the first rows that differ."""
        for table in self.database.tables:
            true, found = self._true(table), self._copy(table)
            names = next(iter(true.values()), {}).keys()
            wrong = [
                f"{key}: is {_of(found.get(key), names)}, wants {true.get(key)}"
                for key in sorted(true.keys() | found.keys())
                if true.get(key) != _of(found.get(key), names)
            ]
            shown = "\n".join(wrong[:5])
            assert not wrong, f"{len(wrong)} of {len(true)} rows of {table.name} are wrong:\n{shown}"
            self.rows_checked += len(true)
        say(
            f"{len(self.database.tables)} tables are equal after {self.database.transactions} transactions; "
            f"columns changed {self.database.changed}; killed {dict(self.killed)}"
        )

    def _true(self, table: Table) -> Rows:
        cursor = self.database.connection.execute(f"SELECT * FROM {table.name}".encode())
        assert cursor.description is not None
        names = [one.name for one in cursor.description]
        return _by_key(table, (dict(zip(names, row, strict=True)) for row in cursor))

    def _copy(self, table: Table) -> Rows:
        if self._target == "postgresql":
            with closing(psycopg.connect(self._dsn)) as connection:
                try:
                    cursor = connection.execute(f"SELECT * FROM {table.name}".encode())
                except psycopg.errors.UndefinedTable:
                    return {}
                assert cursor.description is not None
                names = [one.name for one in cursor.description]
                return _by_key(table, (dict(zip(names, row, strict=True)) for row in cursor))
        return _by_key(table, self._lake_rows(table))

    def _lake_rows(self, table: Table) -> list[dict[str, Any]]:
        target = table_of(self._target, str(self._folder), self._dsn, SourceTopic("", table.name))
        if self._target == "delta":
            import deltalake  # noqa: PLC0415 - of an extra

            if not deltalake.DeltaTable.is_deltatable(target.uri):  # type: ignore[union-attr]  # is a DeltaTable
                return []
            found: list[dict[str, Any]] = (
                deltalake.DeltaTable(target.uri).to_pyarrow_table().to_pylist()  # type: ignore[union-attr]  # as above
            )
            return found
        from pyiceberg.catalog.sql import SqlCatalog  # noqa: PLC0415 - of an extra

        with SqlCatalog(CATALOG, **catalog_of(str(self._folder))) as catalog:
            name = f"{CATALOG}.{table.name}"
            return (
                catalog.load_table(name).scan().to_arrow().to_pylist() if catalog.table_exists(name) else []
            )


def _by_key(table: Table, rows: Iterable[dict[str, Any]]) -> Rows:
    keys = table.key.split(", ")
    found = [{name: _plain(value) for name, value in row.items()} for row in rows]
    return {tuple(row[key] for key in keys): row for row in found}


def _of(row: dict[str, Any] | None, names: Iterable[str]) -> dict[str, Any] | None:
    """Return the columns that the table has. Its copy keeps those that were dropped or renamed."""
    return None if row is None else {name: row.get(name) for name in names}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    if isinstance(value, memoryview):
        return bytes(value)
    return str(value) if isinstance(value, UUID) else value


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tables", type=int, default=20)
    parser.add_argument("--target", choices=TARGETS, default="postgresql")
    parser.add_argument("--cluster", action="store_true", help="kill executors of a standalone cluster too")
    parser.add_argument("--registry", action="store_true", help="messages in Avro, schemas in a registry")
    given = parser.parse_args()
    programs = find_postgresql()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the servers end too
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-database-") as name:
        folder = Path(name)
        with (
            running_postgresql(programs, folder) as dsn,
            DevCluster() as brokers,
            SparkCluster(folder) if given.cluster else nullcontext() as cluster,
            running_registry(folder) if given.registry else nullcontext() as registry,
        ):
            database = Database(
                dsn,
                given.seed,
                max(1, given.tables - 2),
                widens=given.target != "delta",
                has_null_defaults=not given.registry,  # its converter writes the default in place of NULL
            )
            hunt = Hunt(brokers.bootstrap_servers, dsn, folder, database, given.target, cluster, registry)
            hunt.most_tables = given.tables
            with closing(hunt):
                hunt.start()
                while hunt.killed.total() < given.kills:
                    hunt.round(min(KILLS_IN_ROUND, given.kills - hunt.killed.total()))
    say(
        f"Debezium {DEBEZIUM_VERSION} into {given.target}: all is equal, {hunt.rows_checked} rows compared, "
        f"in {(time.monotonic() - began_s) / 60:.0f} minutes"
    )


if __name__ == "__main__":
    main()
