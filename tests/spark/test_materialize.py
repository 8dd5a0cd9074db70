"""A table of SQLite is kept equal to an upsert table in Kafka, on real Spark, also if a batch is repeated."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from penstock.changelog import materialize
from penstock.errors import OptionError
from penstock.targets import DeltaTable, IcebergTable, ParquetTable, SqlTable
from penstock.targets.batch import Batch
from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.queries import QUERY_TIMEOUT_S, stopped
from tests.spark.test_tables import read_stream
from tests.spark.test_upsert import SCHEMA, UPSERT


class Counted:
    """A target that notes for each batch whether it was new."""

    def __init__(self, inner: SqlTable | IcebergTable | ParquetTable | DeltaTable) -> None:
        self._inner = inner
        self.applied: list[tuple[int, bool]] = []

    def check(self, columns: pa.Schema, keys: Sequence[str]) -> None:
        self._inner.check(columns, keys)

    def apply(self, batch: Batch) -> bool:
        is_new = self._inner.apply(batch)
        self.applied.append((batch.batch_id, is_new))
        return is_new


def run(changes: Any, target: Counted, checkpoint: Path) -> None:
    writer = materialize(changes, ["id"], target).option("checkpointLocation", str(checkpoint))
    with stopped(writer.trigger(availableNow=True).start()) as query:
        assert query.awaitTermination(QUERY_TIMEOUT_S)


def rows_of(file: Path) -> list[Any]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute("SELECT id, name FROM customers ORDER BY id").fetchall()


@pytest.mark.promise
def test_a_table_follows_an_upsert_table(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, file, checkpoint = make_topic(), tmp_path / "shop.db", tmp_path / "checkpoint"
    one, two = (b'{"id":1}', b'{"id":1,"name":"a"}'), (b'{"id":2}', b'{"id":2,"name":"b"}')
    judge.produce(bootstrap, topic, one, two, (b'{"id":1}', b'{"id":1,"name":"c"}'))
    options = UPSERT | {"scan.max-records-per-batch": "2"}
    changes = read_stream(spark, bootstrap, topic, SCHEMA, options)
    target = Counted(SqlTable("customers", lambda: sqlite3.connect(file), "sqlite"))
    run(changes, target, checkpoint)
    assert rows_of(file) == [(1, "c"), (2, "b")]
    assert target.applied == [(0, True), (1, True)]

    (checkpoint / "commits" / "1").unlink()
    (checkpoint / "commits" / ".1.crc").unlink()
    judge.produce(bootstrap, topic, (b'{"id":2}', None))
    run(changes, target, checkpoint)
    assert rows_of(file) == [(1, "c")]
    assert target.applied[2:] == [(1, False), (2, True)]

    with pytest.raises(StreamingQueryException, match="is kept by query"):
        run(changes, target, tmp_path / "another checkpoint")
    with pytest.raises(OptionError, match="needs a streaming DataFrame"):
        materialize(spark.range(1), ["id"], target)


def test_an_iceberg_table_follows_an_upsert_table(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    topic, checkpoint = make_topic(), tmp_path / "checkpoint"
    one, two = (b'{"id":1}', b'{"id":1,"name":"a"}'), (b'{"id":2}', b'{"id":2,"name":"b"}')
    judge.produce(bootstrap, topic, one, two, (b'{"id":1}', b'{"id":1,"name":"c"}'), (b'{"id":2}', None))
    options = UPSERT | {"scan.max-records-per-batch": "2"}
    changes = read_stream(spark, bootstrap, topic, SCHEMA, options)
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/tables",
    }
    with sql.SqlCatalog("shop", **properties) as catalog:
        catalog.create_namespace("shop")
    target = Counted(IcebergTable("shop.customers", "shop", properties))
    run(changes, target, checkpoint)
    (checkpoint / "commits" / "1").unlink()
    (checkpoint / "commits" / ".1.crc").unlink()
    run(changes, target, checkpoint)
    assert target.applied == [(0, True), (1, True), (1, False)]
    with sql.SqlCatalog("shop", **properties) as catalog:
        rows = catalog.load_table("shop.customers").scan().to_arrow().to_pylist()
    assert [(row["id"], row["name"]) for row in rows] == [(1, "c")]


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_variant_becomes_a_struct_of_its_two_parts(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    source, folder = str(tmp_path / "source"), str(tmp_path / "table")
    spark.range(2).selectExpr("id", "concat('{\"a\":', id, '}') AS text").write.parquet(source)
    texts = spark.readStream.schema("id BIGINT, text STRING").parquet(source)
    target = ParquetTable(folder) if kind == "parquet" else DeltaTable(folder)
    run(texts.selectExpr("id", "parse_json(text) AS v"), Counted(target), tmp_path / "checkpoint")
    if isinstance(target, ParquetTable):
        found = spark.read.parquet(*target.paths()).toArrow().to_pylist()
    else:
        deltalake = pytest.importorskip("deltalake")
        found = deltalake.DeltaTable(folder).to_pyarrow_table().to_pylist()
    parts = {row["id"]: row["v"] for row in found}
    metadata = b"\x01\x01\x00\x01a"  # one key, "a"
    assert parts == {
        number: {"value": bytes((2, 1, 0, 0, 2, 12, number)), "metadata": metadata} for number in range(2)
    }
