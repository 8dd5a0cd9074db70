"""Record Avro messages of a real Debezium: `python -m tests.judges.debezium.recording_avro`.

It writes `tests/data/cdc/debezium-avro.json`, which tests read without Debezium: the messages of a table in
the order of their partition, the schemas that an Apicurio Registry has for them, and the rows of the table.
It needs a PostgreSQL. Invariant: the file has each message up to the last change.
"""

from __future__ import annotations

import base64
import json
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

import psycopg
from confluent_kafka import KafkaException

from penstock.devbroker import DevCluster
from tests import judge
from tests.judges.debezium.registry import REGISTRY_VERSION, Registry, running_registry
from tests.judges.debezium.servers import (
    DEBEZIUM_VERSION,
    PREFIX,
    Connect,
    find_postgresql,
    running_postgresql,
)
from tests.unit.cdc.debezium_messages import row_as_texts
from tests.waiting import wait_until

FILE = Path(__file__).parents[2] / "data" / "cdc" / "debezium-avro.json"
_WAIT_S = 600.0
_TOPIC = f"{PREFIX}.public.t0"
_CREATED = """CREATE TABLE t0 (id bigint PRIMARY KEY, name text NOT NULL DEFAULT 'none', n integer,
    big bigint, exact numeric(10,2), flag boolean, at timestamp, atz timestamptz, day date,
    d double precision, r real, small smallint, raw bytea, u uuid, seven integer DEFAULT 7)"""
_INSERTED = """INSERT INTO t0 VALUES (1, 'ä☃', -5, 10000000000, -1234.50, true,
    timestamp '1969-12-31 23:59:59.999999', timestamptz '2024-03-31 00:59:59.500001+02', date '1969-12-31',
    0.1, 0.125, -300, '\\x00ff'::bytea, '5c1f8ba6-4f0e-4f2b-9c39-0d8f6f6d2a11'::uuid, 8)"""
_BEFORE = (_CREATED, _INSERTED, "INSERT INTO t0 (id, seven) VALUES (2, NULL)")
_AFTER = (
    "INSERT INTO t0 (id, n) VALUES (3, 1)",
    "ALTER TABLE t0 ADD COLUMN more numeric(14,3) DEFAULT 1.5",
    "UPDATE t0 SET n = n WHERE id = 2",  # no message tells that old rows have the default
    "UPDATE t0 SET id = 10 WHERE id = 1",
    "ALTER TABLE t0 DROP COLUMN big",
    "ALTER TABLE t0 ALTER COLUMN n TYPE bigint",
    "INSERT INTO t0 (id, n, more) VALUES (4, 10000000001, 2.25)",
    "DELETE FROM t0 WHERE id = 3",
)
_RECORDS = 2 + 1 + 1 + 3 + 1 + 2
"""Of the snapshot, and of each change. A delete has a tombstone, and a key that changes is a delete too."""


def main() -> None:
    programs = find_postgresql()
    with tempfile.TemporaryDirectory(prefix="penstock-record-") as name:
        folder = Path(name)
        with (
            running_postgresql(programs, folder) as dsn,
            DevCluster() as brokers,
            running_registry(folder) as registry,
            psycopg.connect(f"{dsn} dbname=postgres options='-c timezone=UTC'", autocommit=True) as database,
        ):
            records = _recorded(database, dsn, brokers.bootstrap_servers, folder, registry)
            cursor = database.execute("SELECT * FROM t0 ORDER BY id")
            names = [one.name for one in cursor.description or ()]
            rows = [row_as_texts(dict(zip(names, row, strict=True))) for row in cursor]
            version = database.info.parameter_status("server_version")
            noted = {
                "recorded": "by python -m tests.judges.debezium.recording_avro",
                "versions": {
                    "Debezium": DEBEZIUM_VERSION,
                    "Apicurio Registry": REGISTRY_VERSION,
                    "PostgreSQL": version,
                },
                "table": rows,
                "schemas": {number: _schema(registry, number) for number in sorted(_numbers(records))},
                "records": [[_text(one.key), _text(one.value)] for one in records],
            }
    FILE.write_text(f"{json.dumps(noted, indent=1, ensure_ascii=False)}\n", encoding="utf-8")


def _recorded(
    database: psycopg.Connection[Any], dsn: str, bootstrap: str, folder: Path, registry: Registry
) -> list[judge.Record]:
    """Change the table, and return the messages of Debezium."""
    settings = {
        "table.include.list": "public.t0",
        "decimal.handling.mode": "precise",
        "provide.transaction.metadata": "false",
        "topic.creation.default.partitions": "1",
    }
    connect = Connect(
        bootstrap, dsn, folder, has_schema=True, connector=settings, key_schema=True, registry=registry
    )
    for statement in _BEFORE:
        database.execute(statement.encode())
    connect.start()
    try:
        wait_until(lambda: "Snapshot completed" in connect.log(), "Debezium's snapshot", timeout_s=_WAIT_S)
        for statement in _AFTER:
            database.execute(statement.encode())
        found: list[judge.Record] = []

        def has_all() -> bool:
            try:
                found[:] = judge.consume_all(bootstrap, _TOPIC)
            except KafkaException:  # there is no topic yet
                return False
            return len(found) >= _RECORDS

        wait_until(has_all, "the messages", timeout_s=_WAIT_S)
        return found
    finally:
        connect.kill()


def _numbers(records: list[judge.Record]) -> set[int]:
    """Return the numbers of the schemas that the messages name."""
    given = [one for record in records for one in (record.key, record.value) if one is not None]
    return {int.from_bytes(one[1:5], "big") for one in given}


def _schema(registry: Registry, number: int) -> Any:
    url = f"{registry.url}/schemas/ids/{number}"
    with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - a server of this command
        return json.loads(json.load(answer)["schema"])


def _text(one: bytes | None) -> str | None:
    return None if one is None else base64.b64encode(one).decode()


if __name__ == "__main__":
    main()
