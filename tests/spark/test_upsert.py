"""Upsert tables on real Spark and a real broker: from changes to a table, and the order of each key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.changelog import in_order, normalize
from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.queries import QUERY_TIMEOUT_S, stopped
from tests.spark.test_tables import plain, read, read_stream, to_memory, write
from tests.waiting import wait_until

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


@pytest.mark.promise
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


def test_a_bounded_read_of_a_compacted_topic_gives_its_table(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    settings = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    topic = make_topic(config=settings | {"max.compaction.lag.ms": "200"})
    names = {number % 20: f"name-{number}" for number in range(195)}
    for number in range(195):
        judge.produce(bootstrap, topic, keyed(number % 20, f"name-{number}"))
    for gone in range(0, 20, 3):
        judge.produce(bootstrap, topic, keyed(gone, None))
        del names[gone]

    def is_compacted() -> bool:
        judge.produce(bootstrap, topic, keyed(20, "rolls the segment"))
        return len(judge.consume_all(bootstrap, topic)) < 100

    wait_until(is_compacted, "the log is compacted")
    names[20] = "rolls the segment"
    assert applied(plain(read(spark, bootstrap, topic, SCHEMA, UPSERT).collect())) == names
    end = max(one.offset or 0 for one in judge.consume_all(bootstrap, topic)) + 1
    judge.produce(bootstrap, topic, keyed(21, "after the bound"))
    bound = {
        "scan.bounded.mode": "specific-offsets",
        "scan.bounded.specific-offsets": f"partition:0,offset:{end}",
    }
    stream = read_stream(spark, bootstrap, topic, SCHEMA, UPSERT | bound)
    found = to_memory(stream, "upsert_bounded", tmp_path / "checkpoint").collect()
    assert applied(plain(found)) == names


def keyed(key: int, name: str | None) -> tuple[bytes, bytes | None]:
    return b'{"id":%d}' % key, None if name is None else json.dumps({"id": key, "name": name}).encode()


def applied(changes: list[dict[str, Any]]) -> dict[int, str]:
    """The table that upserts and deletes give."""
    table: dict[int, str] = {}
    for row in changes:
        if row["row_kind"] == "-D":
            table.pop(row["id"], None)
        else:
            table[row["id"]] = row["name"]
    return table


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
