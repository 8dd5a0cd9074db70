"""Tasks of a real Spark copy the rows of a large batch into a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from penstock.spark.materialize import Materializer
from penstock.targets import SqlTable
from penstock.targets.batch import LastRows
from tests.postgresql import running_postgresql, why_not

psycopg = pytest.importorskip("psycopg", reason="no driver for PostgreSQL: pip install 'psycopg[binary]'")

pytestmark = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")
COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string())])
COUNT = 20_000


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running_postgresql() as found:
        yield found


def asked(server: str, statement: str) -> list[Any]:
    with closing(psycopg.connect(server)) as connection:
        found: list[Any] = connection.execute(statement).fetchall()
        return found


def test_tasks_copy_the_rows_and_the_batch_is_applied_once(
    spark: SparkSession, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(SqlTable, "apply")  # the way of the driver
    target = SqlTable("copied", lambda: psycopg.connect(server), executors_copy=True)
    apply = Materializer(target, LastRows(("id",), COLUMNS), (), "query-1", str(tmp_path / "staging"))
    kinds = {0: "'+I'", 1: "CASE WHEN id % 3 = 0 THEN '-D' ELSE '+U' END"}
    for number, kind in kinds.items():
        name = f"concat(repeat('{number}', 400), id)"
        rows = spark.range(COUNT).selectExpr("id", f"{name} AS name", f"{kind} AS row_kind")
        for _ in range(2):  # the second time Spark repeats it
            apply(rows.repartition(3, "id"), number)
    statement = "SELECT id FROM copied WHERE name = repeat('1', 400) || id ORDER BY id"
    assert [key for (key,) in asked(server, statement)] == [one for one in range(COUNT) if one % 3]
    assert asked(server, "SELECT count(*) FROM copied") == [(len([one for one in range(COUNT) if one % 3]),)]
    assert asked(server, "SELECT 1 FROM pg_class WHERE relname LIKE 'penstock_rows%'") == []
    assert list((tmp_path / "staging").rglob("*.ipc")) == []
