"""Upsert tables on real Spark and a real broker: from changes to a table, and the order of each key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.changelog import in_order, normalize
from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.queries import QUERY_TIMEOUT_S, stopped
from tests.spark.test_tables import plain, read, read_stream, write

UPSERT = {
    "connector": "upsert-kafka",
    "primary-key": "id",
    "key.format": "json",
    "value.format": "json",
}
SCHEMA = "id BIGINT, name STRING, row_kind STRING"
ONCE = {"sink.delivery-guarantee": "exactly-once"}


def event(op: str, before: int | None, after: int | None, name: str) -> bytes:
    rows = (None if one is None else {"id": one, "name": name} for one in (before, after))
    return json.dumps(dict(zip(("before", "after"), rows, strict=True)) | {"op": op}).encode()


def test_changes_become_an_upsert_table(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, target = make_topic(), make_topic(2)
    events = [
        event("c", None, 1, "a"),
        event("c", None, 2, "b"),
        event("u", 1, 1, "c"),
        event("d", 2, None, "b"),
    ]
    judge.produce(bootstrap, source, *events, event("u", 1, 1, "c"))
    changes = read_stream(
        spark,
        bootstrap,
        source,
        f"{SCHEMA}, offset BIGINT",
        {"format": "debezium-json", "metadata.columns": "offset; row_kind = row-kind"},
    )
    kept = normalize(changes, ["id"], order_by=["offset"], state=str(tmp_path / "state"), partitions=2)
    options = UPSERT | ONCE | {"sink.transactional-id-prefix": target, "topic": target}
    start = kept.drop("offset").writeStream.format("penstock").options(**options)
    start = start.option("properties.bootstrap.servers", bootstrap).trigger(availableNow=True)
    with stopped(start.option("checkpointLocation", str(tmp_path / "checkpoint")).start()) as query:
        assert query.awaitTermination(QUERY_TIMEOUT_S)
    found = plain(read(spark, bootstrap, target, SCHEMA, UPSERT).collect())
    assert [row for row in found if row["id"] == 1] == [
        {"id": 1, "name": "a", "row_kind": "+U"},
        {"id": 1, "name": "c", "row_kind": "+U"},
    ]
    assert [row for row in found if row["id"] == 2] == [
        {"id": 2, "name": "b", "row_kind": "+U"},
        {"id": 2, "name": None, "row_kind": "-D"},
    ]


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_rows_of_a_key_from_two_tasks_are_an_error_until_they_are_put_in_order(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, guarantee: str
) -> None:
    target = make_topic()
    options = UPSERT | {"sink.delivery-guarantee": guarantee}
    if guarantee == "exactly-once":
        options["sink.transactional-id-prefix"] = target
    rows = spark.range(0, 100, 1, 2).selectExpr("id % 7 AS id", "CAST(id AS STRING) AS name", "id AS at")
    with pytest.raises(PySparkException, match=r"Rows of 7 keys .*came from more than one task"):
        write(rows.drop("at"), bootstrap, target, options)
    if guarantee == "exactly-once":
        assert judge.consume_all(bootstrap, target) == []
    write(in_order(rows, ["id"], order_by=["at"]).drop("at"), bootstrap, target, options)
    last = {one.key: one.value for one in judge.consume_all(bootstrap, target)}
    assert last[b'{"id":6}'] == b'{"id":6,"name":"97"}'
    assert last[b'{"id":1}'] == b'{"id":1,"name":"99"}'
