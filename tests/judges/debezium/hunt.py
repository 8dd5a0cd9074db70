"""The hunt: random transactions, and random kills of Debezium and of Spark's driver and workers.

Invariant: after each round the copy has to be equal to the table of PostgreSQL, row by row and column by
column. Kills, and where they hit, depend on the machine. The statements depend on the seed only.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import psycopg
from confluent_kafka import KafkaException

from tests import judge
from tests.chaos.job_process import JobProcess, kill_one
from tests.judges.debezium.job import COPY
from tests.judges.debezium.servers import TABLE, TOPIC, Connect
from tests.judges.debezium.workload import SENTINELS, Workload
from tests.waiting import wait_until

START_S = 300.0
HISTORY = Path(tempfile.gettempdir()) / "penstock-debezium-history.json"
"""The records of a hunt that failed."""
_SAME = "id, name, price, flag, atz, day, raw, big, x::text, size"
Table = dict[int, tuple[Any, ...]]


class Hunt:
    """One PostgreSQL, one Debezium, one query, and what was killed."""

    def __init__(
        self, bootstrap: str, dsn: str, folder: Path, workload: Workload, *, has_schema: bool = False
    ) -> None:
        self.random = random.Random(workload.random.getrandbits(64))
        self.killed: Counter[str] = Counter()
        self.rows_checked = 0
        self._bootstrap, self._folder = bootstrap, folder
        self._has_schema = has_schema
        self._dsn = f"{dsn} dbname=copies options='-c timezone=UTC'"
        self.connect = Connect(bootstrap, dsn, folder, has_schema=has_schema)
        self.workload = workload
        self.workload.admin.execute("CREATE DATABASE copies")
        self.workload.admin.execute("SET timezone = 'UTC'")
        self._job: JobProcess | None = None

    def close(self) -> None:
        self._stop_job()
        self.connect.kill()
        self.workload.close()

    # processes

    def _arguments(self, *more: str) -> list[str]:
        options = {"bootstrap": self._bootstrap, "topic": TOPIC, "folder": self._folder, "dsn": self._dsn}
        schema = ["--has-schema"] if self._has_schema else []
        return [*(f"--{name}={value}" for name, value in options.items()), *schema, *more]

    def _start_job(self, *more: str) -> JobProcess:
        self._stop_job()
        arguments, log = self._arguments(*more), self._folder / "job.log"
        self._job = JobProcess("tests.judges.debezium.job", arguments, log)
        return self._job

    def _stop_job(self) -> None:
        if self._job is not None:
            self._job.kill()
            self._job = None

    def first_snapshot(self, transactions: int = 40) -> None:
        """Start Debezium while transactions run, so that one ends after the snapshot that began before it."""
        table = self.workload
        table.run(transactions)
        key = min(table.live)
        before, beside, late = table.one, table.other, psycopg.connect(table.admin.info.dsn)
        before.execute("INSERT INTO elsewhere VALUES (1)")
        self.connect.start()
        wait_until(lambda: table.slot_waits_for(before), "the slot to wait", timeout_s=START_S)
        beside.execute("INSERT INTO elsewhere VALUES (2)")
        before.commit()
        wait_until(lambda: table.slot_waits_for(beside), "the slot to wait again")
        late.execute("UPDATE goods SET name = 'written before the snapshot' WHERE id = %s", [key])
        beside.commit()
        wait_until(table.slot_is_ready, "the slot to be ready")
        wait_until(self._has_messages, "the snapshot")
        late.commit()
        late.close()
        self.wait_for_debezium()
        # Without a stored offset a new Debezium begins with a snapshot again, and does not tell of rows that
        # were deleted in the meantime (docs/debezium.md).
        wait_until(self.connect.offsets_stored_since(time.time_ns()), "stored offsets", timeout_s=START_S)

    def records(self) -> list[judge.Record]:
        """Return all records of the topic."""
        return judge.consume_all(self._bootstrap, TOPIC)

    def _has_messages(self) -> bool:
        try:
            return bool(self.records())
        except KafkaException:
            return False

    # rounds

    def round(self, kills: int) -> None:
        """Change the table while processes are killed. Then compare."""
        job = self._start_job()
        for number in range(kills):
            self.connect.start()
            if number == kills // 2:
                self.workload.snapshot()
                if self.workload.has_schema_changes():
                    self.workload.change_schema()
            self._change_until_sent()
            Event().wait(self.random.uniform(0, 3))
            kind = self.random.choice(["Debezium", "Debezium", "driver", "worker"])
            if kind == "Debezium":
                self.connect.kill()
            elif kind == "driver":
                job = self._start_job()
            elif not kill_one(job.python_workers()):
                continue
            self.killed[kind] += 1
        self.connect.start()
        self.workload.run(20)
        self.wait_for_debezium()
        self._start_job("--drain").wait_until_done()
        self._stop_job()
        self.compare()

    def _change_until_sent(self) -> None:
        """Change the table, and wait until Debezium has begun to send it."""
        count = len(self.records())
        self.workload.run(self.random.randrange(5, 60))
        wait_until(lambda: len(self.records()) > count, "new messages", timeout_s=START_S)

    def wait_for_debezium(self) -> None:
        """Wait until Debezium has sent all changes."""
        name = self.workload.mark()
        try:
            wait_until(lambda: self._has_arrived(name), "Debezium to send all", timeout_s=START_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.connect.log()[-20_000:]}") from None

    def _has_arrived(self, name: str) -> bool:
        assert self.connect.is_running(), "Debezium has ended"
        seen = set()
        for record in self.records():
            after = (self.payload(record) or {}).get("after")
            if after and after["id"] < 0 and after["name"] == name:
                seen.add(after["id"])
        return seen == set(SENTINELS)

    def payload(self, record: judge.Record) -> dict[str, Any] | None:
        message = None if record.value is None else json.loads(record.value)
        return message["payload"] if message and self._has_schema else message

    def compare(self) -> None:
        """Compare the copy with the table. Fail with the first rows that differ."""
        extra = ", extra" if "extra" in self._columns() else ""
        true = _rows(self.workload.admin, f"{_SAME}, at AT TIME ZONE 'UTC', doc::text{extra}", TABLE)
        with closing(psycopg.connect(self._dsn)) as connection:
            found = _rows(connection, f"{_SAME}, at, doc{extra}", COPY)
        wrong = [key for key in sorted(true.keys() | found.keys()) if true.get(key) != found.get(key)]
        shown = "\n".join(f"{key} is {found.get(key)}, wants {true.get(key)}" for key in wrong[:5])
        if wrong:
            self._write_history()
        assert not wrong, f"{len(wrong)} of {len(true)} rows are wrong. {HISTORY} has the records:\n{shown}"
        self.rows_checked += len(true)
        changes = self.workload.transactions
        say(f"{len(true)} rows are equal after {changes} transactions; killed {dict(self.killed)}")

    def _write_history(self) -> None:
        """Write all records into a file that outlives the hunt."""
        with HISTORY.open("w", encoding="utf-8") as file:
            for record in self.records():
                values = (self.payload(record), record.key and record.key.decode())
                file.write(f"{json.dumps([record.partition, record.offset, *values])}\n")

    def _columns(self) -> set[str]:
        named = "SELECT column_name FROM information_schema.columns WHERE table_name = 'goods'"
        return {name for (name,) in self.workload.admin.execute(named)}

    def truncate(self) -> None:
        """Truncate the table, and wait for the message."""
        self.workload.admin.execute("TRUNCATE goods")
        wait_until(self._is_truncated, "the message of the truncate", timeout_s=START_S)

    def stop_at_truncate(self) -> None:
        """Wait until the query stops. It has to, because the message of a truncate does not name the rows."""
        self._start_job("--drain").wait_for_failure("has emptied the table")
        self._stop_job()

    def _is_truncated(self) -> bool:
        records = self.records()
        return any((self.payload(each) or {}).get("op") == "t" for each in records)

    def repeated(self) -> tuple[int, int]:
        """Return how many changes the topic has, and how many of them came before."""
        seen: Counter[str] = Counter()
        for record in self.records():
            message = self.payload(record)
            if message and message["source"]["snapshot"] == "false":
                source = message["source"]
                seen[f"{source['lsn']} {record.key!r}"] += 1
        return seen.total(), seen.total() - len(seen)


def _rows(connection: psycopg.Connection[Any], columns: str, table: str) -> Table:
    query = f"SELECT {columns} FROM {table}"  # noqa: S608 - of this module
    return {row[0]: row for row in connection.execute(query.encode())}


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
