"""Tables: changelogs, states, a database, SQL."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import Any

from pyspark.sql import functions as F

from penstock import changelog
from tests.versions.probe.base import Probe, case, raises


@case("aggregate")
def _aggregate(probe: Probe) -> Any:
    reader = probe.spark.readStream.format("penstock").schema("id BIGINT, name STRING")
    rows = reader.options(**probe.source("json", format="json")).load()
    totals = changelog.aggregate(
        rows.selectExpr("id % 7 AS g", "id"),
        ["g"],
        {"n": "count(*)", "total": "sum(id)"},
        state=str(probe.folder / "aggregate-state"),
        partitions=5,
    )
    writer = totals.writeStream.format("penstock").options(
        **probe.sink("aggregate", exactly_once=True),
        **{"connector": "upsert-kafka", "primary-key": "g", "key.format": "json", "value.format": "json"},
    )
    for _ in range(2):
        probe.run_into(writer.option("checkpointLocation", probe.checkpoint("aggregate")))
    return {}


@case("one task a partition")
def _one_task(probe: Probe) -> Any:
    from penstock.spark.versions import repartition_by_id  # noqa: PLC0415 - what is tested

    for count in (1, 5, 16):
        rows = probe.spark.range(1000).selectExpr(f"CAST(id % {count} AS INT) AS `the number`", "id")
        divided = repartition_by_id(rows, count, "`the number`")
        found = divided.select("the number", F.spark_partition_id()).distinct().collect()
        assert sorted(tuple(row) for row in found) == [(each, each) for each in range(count)], found
        assert divided.columns == ["the number", "id"]
    return {}


def _copy(probe: Probe) -> str:
    return str(probe.folder / "copy.db")


def _customers(probe: Probe) -> list[Any]:
    with contextlib.closing(sqlite3.connect(_copy(probe))) as connection:
        return connection.execute("SELECT id, name FROM customers ORDER BY id").fetchall()


@case("cdc into a table")
def _cdc(probe: Probe) -> Any:
    from penstock.targets import SqlTable  # noqa: PLC0415 - beside its use

    reader = probe.spark.readStream.format("penstock").schema(
        "id BIGINT, name STRING, o BIGINT, p INT, row_kind STRING"
    )
    more = {"format": "debezium-json", "metadata.columns": "o = offset; p = partition"}
    messages = reader.options(**probe.source("cdc", **more)).load()
    changes = changelog.normalize(
        messages, ["id"], order_by=["o"], source="p", state=str(probe.folder / "normalize-state")
    )
    file = _copy(probe)
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)")
        connection.commit()
    target = SqlTable("customers", lambda: sqlite3.connect(file), "sqlite")
    changes = changes.drop("o", "p")
    if probe.is_connect:
        changes = _over_a_topic(probe, changes, target)
    writer = changelog.materialize(changes, ["id"], target, query_id=CONNECT_ID if probe.is_connect else None)
    for _ in range(2):
        probe.run_into(writer.option("checkpointLocation", probe.checkpoint("cdc")))
    found = _customers(probe)
    assert found == [(each, f"second {each}") for each in range(10) if each % 3], found
    return {}


CONNECT_ID = "the-copy"
"""Only Connect has to be told it."""


def _over_a_topic(probe: Probe, changes: Any, target: Any) -> Any:
    """Connect's `foreachBatch` does not tell tasks their batch. So a topic stands before it, and no state."""
    refused = changelog.materialize(changes, ["id"], target, query_id=CONNECT_ID)
    with raises("is given to a query that is not a stream", "Nothing was written"):
        probe.run_into(refused.option("checkpointLocation", probe.checkpoint("cdc-refused")))
    assert _customers(probe) == [], "the refused query has written"
    upsert = {
        "connector": "upsert-kafka",
        "primary-key": "id",
        "key.format": "json",
        "value.format": "json",
    }
    writer = changes.writeStream.format("penstock").options(**probe.sink("cdc-upsert"), **upsert)
    probe.run_into(writer.option("checkpointLocation", probe.checkpoint("cdc-upsert")))
    reader = probe.spark.readStream.format("penstock").schema("id BIGINT, name STRING, row_kind STRING")
    return reader.options(**probe.source("cdc-upsert", **upsert)).load()


def _with(probe: Probe, name: str, **more: str) -> str:
    options = {
        "connector": "kafka",
        **probe.source(name, format="json"),
        "scan.startup.mode": "earliest-offset",
        **{key.replace("__", "-").replace("_", "."): value for key, value in more.items()},
    }
    if options["connector"] == "upsert-kafka":
        options = {key: text for key, text in options.items() if not key.startswith(("scan", "format"))}
        options |= {"key.format": "json", "value.format": "json"}
    return "WITH (" + ", ".join(f"'{key}' = '{text}'" for key, text in options.items()) + ")"


@case("sql batch")
def _sql_batch(probe: Probe) -> Any:
    from penstock.sql import Session  # noqa: PLC0415 - an extra

    session = Session(probe.spark, print)
    session.execute(
        "SET 'execution.runtime-mode' = 'batch';"
        f"CREATE TABLE items (id BIGINT, name STRING) {_with(probe, 'json')}"
    )
    rows = session.sql("SELECT id % 3 AS g, COUNT(*), SUM(id) FROM items GROUP BY id % 3").collect()
    assert sorted(tuple(row) for row in rows) == [(0, 34, 1683), (1, 33, 1617), (2, 33, 1650)], rows
    session.stop()
    return {}


def wait_for(job: Any) -> None:
    job.wait()


@case("sql without micro-batches")
def _sql_continuous(probe: Probe) -> Any:
    from penstock.sql import Session  # noqa: PLC0415 - an extra

    session = Session(probe.spark, print)
    group = {"properties_group_id": f"{probe.prefix}-sql-continuous"}
    columns = "(id BIGINT, name STRING, price DECIMAL(10, 2))"
    session.execute(
        f"CREATE TABLE items {columns} {_with(probe, 'json', **group)};"
        f"CREATE TABLE dear (id BIGINT, name STRING) {_with(probe, 'sql-continuous')};"
        "SET 'penstock.continuous' = 'true'; SET 'parallelism.default' = '1'"
    )
    insert = "INSERT INTO dear SELECT id, COALESCE(name, '') || '!' FROM items WHERE price >= 20.00"
    job: Any = session.execute(insert)[-1].job
    [query] = job.queries
    probe.until(query, lambda: query.lastProgress is not None and _read(query) == 100)
    job.stop()
    session.stop()
    return {}


def _read(query: Any) -> int:
    return sum(sum(each.values()) for each in query.lastProgress["endOffset"].values())


@case("sql stream")
def _sql_stream(probe: Probe) -> Any:
    from penstock.sql import Session  # noqa: PLC0415 - an extra

    session = Session(probe.spark, print)
    limits = {"scan_max__records__per__batch": "30", "scan_trigger": "processing-time"}
    session.execute(f"SET 'execution.checkpointing.dir' = '{probe.folder}/sql'")
    items = _with(probe, "json", scan_bounded_mode="latest-offset", **limits)
    session.execute(f"CREATE TABLE items (id BIGINT, name STRING) {items}")
    columns = "(g BIGINT NOT NULL, n BIGINT, total BIGINT, PRIMARY KEY (g) NOT ENFORCED)"
    session.execute(f"CREATE TABLE totals {columns} {_with(probe, 'sql', connector='upsert-kafka')}")
    query = "SELECT id % 3 AS g, COUNT(*), SUM(id) FROM items GROUP BY id % 3"
    results = session.execute(f"INSERT INTO totals {query}")
    wait_for(results[-1].job)
    session.execute(
        "CREATE TABLE made (id BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '50',"
        " 'rows-per-second' = '100', 'fields.id.kind' = 'sequence', 'fields.id.start' = '0',"
        " 'fields.id.end' = '49');"
        f"CREATE TABLE made_out (id BIGINT) {_with(probe, 'made')}"
    )
    made = session.execute("INSERT INTO made_out SELECT id FROM made")
    wait_for(made[-1].job)
    session.stop()
    return {}
