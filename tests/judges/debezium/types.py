"""Record messages of a real Debezium for a table with many types: `python -m tests.judges.debezium.types`.

Runs by hand where PostgreSQL is installed. Invariant: `tests/data/cdc/debezium-postgresql-types.json` has
each message with its schema, and the rows as PostgreSQL shows them.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import psycopg
from confluent_kafka import KafkaException

from penstock.devbroker import DevCluster
from tests import judge
from tests.judges.debezium.servers import (
    DEBEZIUM_VERSION,
    TOPIC,
    Connect,
    find_postgresql,
    running_postgresql,
)
from tests.waiting import wait_until

FILE = Path(__file__).parents[2] / "data" / "cdc" / "debezium-postgresql-types.json"
COLUMNS = {
    "id": "bigint PRIMARY KEY",
    "small": "smallint",
    "whole": "integer",
    "real": "real",
    "double": "double precision",
    "price": "numeric(12,2)",
    "large": "numeric(60,5)",
    "free": "numeric",
    "flag": "boolean",
    "name": "varchar(20)",
    "fixed": "char(4)",
    "raw": "bytea",
    "bits": "bit(9)",
    "day": "date",
    "clock": "time",
    "clock_zone": "timetz",
    "at": "timestamp",
    "at_ms": "timestamp(3)",
    "at_zone": "timestamptz",
    "span": "interval",
    "doc": "jsonb",
    "uid": "uuid",
    "address": "inet",
    "place": "point",
    "numbers": "integer[]",
    "names": "text[]",
    "days": "date[]",
    "prices": "numeric(8,3)[]",
}
_FIRST = [
    "1, 5, -7, 1.5, 1e300, 1234567890.12, 12345678901234567890123456789012345678901234567890.12345",
    "1.2300, true, 'naïve', 'ab', '\\x0102', B'100000001', '2024-02-29', '12:34:56.789012', '12:34:56+02'",
    "'2024-02-29 12:34:56.789012', '2024-02-29 12:34:56.789', '2024-02-29 12:34:56.789012+02'",
    "'1 year 2 months 3 days 04:05:06.7', '{\"a\": [1]}', '8c19773b-93ee-4f08-a627-63d7f625a574'",
    "'10.0.0.1', '(1,2)', '{1,NULL,3}', '{a,NULL,\"b c\"}', '{2024-02-29,1970-01-01}', '{1.500,-2.25}'",
]
_SECOND = [
    "2, -32768, -2147483648, -0.5, 'NaN', -9999999999.99, -0.00001, -123456789012345678901234567890.5",
    "false, '', '', '\\x', B'000000000', '0001-01-01', '24:00:00', '00:00:00Z', '1900-01-01 00:00:00'",
    "'9999-12-31 23:59:59.999', '9999-12-31 23:59:59.999999Z', '-1 day', '1'",
    "'00000000-0000-0000-0000-000000000000', '::1', '(0.5,-1)', '{}', '{}', '{}', '{}'",
]
ROWS = [", ".join(_FIRST), ", ".join(_SECOND)]


def main() -> None:
    """Run PostgreSQL, Kafka and Debezium, and write what comes."""
    programs = find_postgresql()
    with tempfile.TemporaryDirectory(prefix="penstock-types-") as name:
        folder = Path(name)
        with running_postgresql(programs, folder) as dsn, DevCluster() as cluster:
            _record(dsn, cluster.bootstrap_servers, folder)


def _record(dsn: str, bootstrap: str, folder: Path) -> None:
    declared = ", ".join(f'"{name}" {kind}' for name, kind in COLUMNS.items())
    nulls = ", ".join(["3"] + ["NULL"] * (len(COLUMNS) - 1))
    with psycopg.connect(f"{dsn} dbname=postgres", autocommit=True) as database:
        database.execute(f"CREATE TABLE goods ({declared})".encode())
        database.execute("SET timezone = 'UTC'")
        for row in [*ROWS, nulls]:
            database.execute(f"INSERT INTO goods VALUES ({row})".encode())  # noqa: S608 - rows of this file
        connect = Connect(
            bootstrap,
            dsn,
            folder,
            has_schema=True,
            connector={"decimal.handling.mode": "precise", "topic.creation.default.partitions": "1"},
        )
        connect.start()
        try:
            wait_until(lambda: len(_values(bootstrap)) >= len(ROWS) + 1, "the snapshot", timeout_s=120)
            database.execute("UPDATE goods SET small = 6 WHERE id = 1")
            database.execute("DELETE FROM goods WHERE id = 2")
            wait_until(lambda: len(_values(bootstrap)) >= len(ROWS) + 4, "the changes", timeout_s=120)
        finally:
            connect.kill()
        shown = ", ".join(f'"{name}"::text' for name in COLUMNS)
        query = f"SELECT {shown} FROM goods ORDER BY id"  # noqa: S608 - columns of this file
        rows = database.execute(query.encode()).fetchall()
    noted = {
        "recorded": "by python -m tests.judges.debezium.types",
        "versions": {"Debezium": DEBEZIUM_VERSION},
        "columns": COLUMNS,
        "table": [dict(zip(COLUMNS, row, strict=True)) for row in rows],
        "values": _values(bootstrap),
    }
    FILE.write_text(f"{json.dumps(noted, indent=1, ensure_ascii=False)}\n", encoding="utf-8")


def _values(bootstrap: str) -> list[Any]:
    try:
        records = judge.consume_all(bootstrap, TOPIC)
    except KafkaException:  # there is no topic yet
        return []
    return [None if each.value is None else each.value.decode() for each in records]


if __name__ == "__main__":
    main()
