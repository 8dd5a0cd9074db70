"""The programs of the pages about changelogs run as printed, but for addresses, topics and folders.

docs/changelog-functions.md, docs/materialize.md, docs/history-tables.md and docs/table-maintenance.md.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.spark.reused_shuffles import REUSE
from penstock.targets import ParquetTable, SqlTable
from tests import judge
from tests.fix_broker import MakeTopic
from tests.postgresql import running_postgresql, why_not
from tests.printed import Here
from tests.spark.queries import QUERY_TIMEOUT_S, stopped

DOCS = Path(__file__).parents[2] / "docs"
CHANGES = "id INT, shop STRING, amount INT, offset INT, row_kind STRING"
ORDERS = "id INT, shop STRING, currency STRING, amount INT, ordered_at TIMESTAMP"
AMOUNTS = [(1, "a", 5, 0, "+I"), (2, "a", 7, 1, "+I"), (2, "a", 7, 2, "-D"), (3, "b", 1, 3, "+I")]


def programs(page: str) -> dict[str, list[str]]:
    """Return the programs of a page by their headings."""
    found: dict[str, list[str]] = {}
    for section in (DOCS / page).read_text(encoding="utf-8").split("\n## ")[1:]:
        blocks = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
        if blocks:
            found[section.partition("\n")[0]] = blocks
    return found


def at(minute: int, second: int = 0) -> datetime:
    return datetime(2026, 1, 1, 10, minute, second, tzinfo=UTC)


SALES = [(1, "a", "EUR", 5, at(0)), (2, "a", "EUR", 7, at(10)), (3, "b", "USD", 1, at(59))]
INPUTS: dict[str, dict[str, tuple[str, list[Any]]]] = {
    "normalize": {
        "rows": (
            "id INT, amount INT, offset INT, row_kind STRING",
            [(1, 5, 0, "+U"), (1, 5, 0, "+U"), (1, 6, 1, "+U"), (2, 9, 2, "-D")],
        )
    },
    "deduplicate": {"rows": ("id INT, at INT", [(1, 5), (1, 4), (2, 9)])},
    "top_n": {
        "changes": (
            "id INT, shop STRING, amount INT, row_kind STRING",
            [
                *((id_, shop, amount, kind) for id_, shop, amount, _, kind in AMOUNTS),
                *((each, "a", 0, "+I") for each in (4, 5, 6)),
                (7, "a", 9, "+I"),
            ],
        )
    },
    "aggregate": {"changes": (CHANGES, AMOUNTS)},
    "signed_sums": {"changes": (CHANGES, AMOUNTS)},
    "in_order": {"changes": (CHANGES, AMOUNTS)},
    "join": {
        "orders": ("id INT, item STRING", [(1, "tea"), (2, "cup")]),
        "payments": ("order_id INT, paid INT", [(1, 5), (3, 9)]),
    },
    "temporal_join": {
        "orders": (ORDERS, SALES),
        "rates": (
            "currency STRING, rate INT, valid_from TIMESTAMP",
            [("EUR", 10, at(0)), ("EUR", 11, at(5)), ("USD", 20, at(59))],
        ),
    },
    "over": {"orders": (ORDERS, SALES)},
    "sessions": {
        "clicks": (
            "user STRING, at TIMESTAMP",
            [("u", at(0)), ("u", at(20)), ("v", at(59)), ("v", at(59, 1))],
        )
    },
    "sort_by_time": {"orders": (ORDERS, SALES[::-1])},
}
"""The streams that an example names: columns and rows."""
EXPECTED: dict[str, tuple[tuple[str, ...], list[tuple[Any, ...]]]] = {
    "normalize": (
        ("id", "amount", "row_kind"),
        [(1, 5, "+I"), (1, 5, "-U"), (1, 6, "+U")],
    ),
    "deduplicate": (("id", "at", "row_kind"), [(1, 4, "+I"), (2, 9, "+I")]),
    "top_n": (("id", "row_kind"), [(7, "+I"), (1, "+I"), (4, "+I"), (3, "+I")]),
    "aggregate": (
        ("shop", "orders", "total", "largest", "row_kind"),
        [("a", 1, 5, 5, "+I"), ("b", 1, 1, 1, "+I")],
    ),
    "signed_sums": (
        ("shop", "orders", "total", "row_kind"),
        [("a", 1, 5, "+U"), ("b", 1, 1, "+U")],
    ),
    "in_order": (("id", "offset", "row_kind"), [(id_, offset, kind) for id_, _, _, offset, kind in AMOUNTS]),
    "join": (("id", "item", "paid", "row_kind"), [(1, "tea", 5, "+I"), (2, "cup", None, "+I")]),
    "temporal_join": (("id", "rate", "row_kind"), [(1, 10, "+I"), (2, 11, "+I")]),
    "over": (("id", "total", "before", "row_kind"), [(1, 5, None, "+I"), (2, 12, 5, "+I")]),
    "sessions": (
        ("user", "session_start", "session_end"),
        [("u", at(0), at(50))] * 2,
    ),
    "sort_by_time": (("id",), [(1,), (2,)]),
}
"""Some columns of the rows out, and what they hold."""
FUNCTIONS = programs("changelog-functions.md")


def stream(spark: SparkSession, folder: Path, schema: str, rows: list[Any]) -> DataFrame:
    spark.createDataFrame(rows, schema).coalesce(1).write.parquet(str(folder))
    return spark.readStream.schema(schema).parquet(str(folder))


def run_to_memory(writer: Any, name: str) -> DataFrame:
    """Run a query over what is there, and return the rows of its table in memory."""
    with stopped(writer.format("memory").queryName(name).trigger(availableNow=True).start()) as query:
        assert query.awaitTermination(QUERY_TIMEOUT_S)
    return SparkSession.active().table(name)


def test_each_function_has_an_example_that_runs() -> None:
    assert FUNCTIONS.keys() == INPUTS.keys() == EXPECTED.keys()
    public = {name for name in penstock.changelog.__all__ if callable(getattr(penstock.changelog, name))}
    assert public - {"materialize"} == FUNCTIONS.keys()


@pytest.mark.parametrize("function", INPUTS)
def test_the_example_of_a_function(function: str, spark: SparkSession, tmp_path: Path) -> None:
    [code] = FUNCTIONS[function]
    scope: dict[str, Any] = {"penstock": penstock, "folder": str(tmp_path / "state")}
    for name, (schema, rows) in INPUTS[function].items():
        scope[name] = stream(spark, tmp_path / name, schema, rows)
    code = code.replace("/checkpoints", str(tmp_path))
    before = set(scope)
    exec(compile(code, function, "exec"), scope)  # noqa: S102 - running the example is the point
    made = [scope[name] for name in scope if name not in before and name != "__builtins__"]
    writer = next((each for each in made if not isinstance(each, DataFrame)), None)
    if writer is None:
        writer = made[0].writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    columns, expected = EXPECTED[function]
    rows = run_to_memory(writer, f"example_{function}").select(*columns).collect()
    found = [tuple(as_utc(value) for value in row) for row in rows]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def as_utc(value: Any) -> Any:
    """Return a time of Spark, whose session has UTC, with its zone."""
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value


# -- materialize.md


CUSTOMERS = "id INT, name STRING, row_kind STRING"
ROWS = [(1, "Ann", "+I"), (2, "Bob", "+I"), (1, "Ann", "-U"), (1, "Anne", "+U"), (2, "Bob", "-D")]
LEFT = [(1, "Anne")]


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    with running_postgresql() as found:
        yield found


def run_program(code: str, scope: dict[str, Any], places: dict[str, str]) -> None:
    """Run a program as printed but for places, each of which it names."""
    for old, new in places.items():
        assert old in code
        code = code.replace(old, new)
    exec(compile(code, "program", "exec"), scope)  # noqa: S102 - running the example is the point


def keep(writer: Any, checkpoint: Path) -> None:
    with stopped(writer.option("checkpointLocation", str(checkpoint)).start()) as query:
        query.processAllAvailable()


def test_the_program_for_postgresql_and_the_command_that_frees_its_table(
    spark: SparkSession, tmp_path: Path, database: str
) -> None:
    psycopg = pytest.importorskip("psycopg")
    scope: dict[str, Any] = {"changes": stream(spark, tmp_path / "in", CUSTOMERS, ROWS)}
    address = "host=db dbname=copies user=app"
    places = {address: database, "/checkpoints": str(tmp_path)}
    [code] = programs("materialize.md")["materialize"]
    run_program(code, scope, places)
    with stopped(scope["query"]) as query:
        query.processAllAvailable()
    with closing(psycopg.connect(database)) as connection:
        assert connection.execute("SELECT id, name FROM customers").fetchall() == LEFT
        here = Here(tmp_path, places)
        assert "is kept by query" in here.run(
            "table-maintenance.md", "penstock table forget customers --postgresql"
        )
        assert "The marker was deleted" in here.run(
            "table-maintenance.md", "penstock table forget customers --postgresql", "--yes"
        )
        assert connection.execute("SELECT id, name FROM customers").fetchall() == []


def test_the_command_that_frees_a_table_of_sqlite(spark: SparkSession, tmp_path: Path) -> None:
    changes = stream(spark, tmp_path / "in", CUSTOMERS, ROWS)
    file = tmp_path / "copies.db"
    target = SqlTable("customers", lambda: sqlite3.connect(file), "sqlite")
    keep(penstock.changelog.materialize(changes, ["id"], target), tmp_path / "c")
    here = Here(tmp_path, {})
    assert "is kept by query" in here.run("table-maintenance.md", "penstock table forget customers --sqlite")
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT id, name FROM customers").fetchall() == LEFT
        assert "The marker was deleted" in here.run(
            "table-maintenance.md", "penstock table forget customers --sqlite", "--yes"
        )
        assert connection.execute("SELECT id, name FROM customers").fetchall() == []


def test_the_program_that_reads_a_parquet_table(spark: SparkSession, tmp_path: Path) -> None:
    changes = stream(spark, tmp_path / "in", CUSTOMERS, ROWS)
    target = ParquetTable(str(tmp_path / "customers"))
    keep(penstock.changelog.materialize(changes, ["id"], target), tmp_path / "c")
    scope: dict[str, Any] = {"spark": spark}
    [code] = programs("materialize.md")["ParquetTable"]
    run_program(code, scope, {"/tables": str(tmp_path)})
    assert [tuple(row) for row in scope["table"].select("id", "name").collect()] == LEFT


def test_the_programs_for_delta_and_iceberg_and_with_staging(spark: SparkSession, tmp_path: Path) -> None:
    """A catalog in SQLite takes the place of the REST one, which is a service."""
    deltalake: Any = pytest.importorskip("deltalake")
    sql: Any = pytest.importorskip("pyiceberg.catalog.sql")
    found = programs("materialize.md")
    lake, uri = {"s3://lake": str(tmp_path)}, f"sqlite:///{tmp_path}/catalog.db"
    scope: dict[str, Any] = {"penstock": penstock}
    scope["changes"] = stream(spark, tmp_path / "in", CUSTOMERS, ROWS)
    with sql.SqlCatalog("default", uri=uri, warehouse=f"file://{tmp_path}/iceberg") as catalog:
        catalog.create_namespace("shop")
    service = '{"type": "rest", "uri": "https://catalog:8181"}'
    properties = f'{{"type": "sql", "uri": "{uri}", "warehouse": "file://{tmp_path}/iceberg"}}'
    [staged] = found["Large batches by executors"]
    for kind, places in {"DeltaTable": lake, "IcebergTable": {service: properties}}.items():
        [code] = found[kind]
        run_program(code, scope, places)
        run_program(staged, scope, {"s3://lake": f"file://{tmp_path}"})
        keep(scope["writer"], tmp_path / f"checkpoint of {kind}")
    table = deltalake.DeltaTable(str(tmp_path / "customers")).to_pyarrow_table()
    assert [(row["id"], row["name"]) for row in table.to_pylist()] == LEFT
    with sql.SqlCatalog("default", uri=uri) as catalog:
        rows = catalog.load_table("shop.customers").scan().to_arrow().to_pylist()
    assert [(row["id"], row["name"]) for row in rows] == LEFT


# -- spark-operators.md


def test_the_setting_of_the_page_is_that_which_penstock_sets(spark: SparkSession) -> None:
    """tests/spark/test_sql_windows.py shows what it does."""
    [code] = programs("spark-operators.md")["Windows that are read twice"]
    try:
        run_program(code, {"spark": spark}, {})
        assert spark.conf.get(REUSE) == "false"
    finally:
        spark.conf.unset(REUSE)


# -- history-tables.md


TOPIC = "shop.public.customers"


def change(hour: int, minute: int, before: str | None, after: str | None) -> tuple[bytes, bytes]:
    """Return a change of the row 1 as Debezium writes it."""
    op = "c" if before is None else "d" if after is None else "u"
    moment = datetime(2026, 1, 1, hour, minute, tzinfo=UTC)
    row = {name: value and {"id": 1, "name": value} for name, value in (("before", before), ("after", after))}
    message = {"op": op, **row, "source": {"ts_ms": int(moment.timestamp() * 1000)}}
    return b'{"id":1}', json.dumps(message).encode()


def test_the_history_is_that_of_the_table_of_the_page(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """Each row of the page's table is a batch. The second program keeps a log of the same changes."""
    library: Any = pytest.importorskip("deltalake")
    topic, scope = make_topic(), dict[str, Any](spark=spark)
    text = (DOCS / "history-tables.md").read_text(encoding="utf-8")
    history, log = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    places = {"localhost:9092": bootstrap, TOPIC: topic, "s3://lake": str(tmp_path)}
    judge.produce(bootstrap, topic, change(10, 0, None, "a"), change(11, 0, "a", "b"))
    run_program(history, scope, places)

    def versions() -> list[tuple[Any, ...]]:
        query.processAllAvailable()
        rows = library.DeltaTable(str(tmp_path / "customers_history")).to_pyarrow_table().to_pylist()
        names = ("valid_from", "valid_to")
        return sorted(
            (*(row[name] and f"{row[name]:%H:%M}" for name in names), row["name"], row["is_current"])
            for row in rows
        )

    with stopped(scope["query"]) as query:
        assert versions() == [("10:00", "11:00", "a", False), ("11:00", None, "b", True)]
        judge.produce(bootstrap, topic, change(12, 0, "b", None))
        assert versions() == [("10:00", "11:00", "a", False), ("11:00", "12:00", "b", False)]
        judge.produce(bootstrap, topic, change(13, 0, None, "c"))
        assert versions()[2:] == [("13:00", None, "c", True)]
        judge.produce(bootstrap, topic, change(10, 30, "a", "late"))
        last = versions()
        assert last[:2] == [("10:00", "10:30", "a", False), ("10:30", "11:00", "late", False)]
        judge.produce(bootstrap, topic, change(13, 0, None, "c"))
        assert versions() == last, "a change that comes again with its time"

    run_program(log, scope, {"s3://lake": str(tmp_path)})
    with stopped(scope["query"]) as query:
        query.processAllAvailable()
    rows = library.DeltaTable(str(tmp_path / "customers_log")).to_pyarrow_table().to_pylist()
    rows.sort(key=lambda row: (row["change_batch"], row["change_number"]))
    expected = ["+I", "-U", "+U", "-D", "+I", "-U", "+U", "+I"]
    assert [row["row_kind"] for row in rows] == expected
