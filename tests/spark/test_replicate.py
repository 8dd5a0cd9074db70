"""Many tables follow the topics of a database in one query, on real Spark and a real broker."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from penstock import cdc
from penstock.cdc import SourceTopic
from penstock.cdc.commits import Target
from penstock.errors import OptionError
from penstock.targets import DeltaTable, SqlTable, _delta_staged
from penstock.targets.staged import Staged
from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.queries import QUERY_TIMEOUT_S, stopped

PAGE = Path(__file__).parents[2] / "docs" / "database-to-lake.md"
INT, TEXT = "int64", "string"


def _struct(columns: dict[str, str]) -> list[dict[str, Any]]:
    return [{"type": type_, "optional": name != "id", "field": name} for name, type_ in columns.items()]


def message(table: str, op: str, row: dict[str, Any], columns: dict[str, str]) -> tuple[bytes, bytes]:
    """Return a record as Debezium writes it with the schemas of key and value."""
    fields = _struct(columns)
    schema = {
        "type": "struct",
        "fields": [
            {"type": "struct", "optional": True, "field": "before", "fields": fields},
            {"type": "struct", "optional": True, "field": "after", "fields": fields},
            {"type": "string", "optional": False, "field": "op"},
        ],
        "optional": False,
        "name": f"shop.public.{table}.Envelope",
    }
    payload = {"before": row if op == "d" else None, "after": None if op == "d" else row, "op": op}
    key_schema = {"type": "struct", "fields": _struct({"id": INT}), "optional": False}
    key = {"schema": key_schema, "payload": {"id": row["id"]}}
    return json.dumps(key).encode(), json.dumps({"schema": schema, "payload": payload}).encode()


GOODS = {"id": INT, "name": TEXT}


def options(bootstrap: str, prefix: str) -> dict[str, str]:
    return {
        "properties.bootstrap.servers": bootstrap,
        "topic-pattern": f".*[.]{prefix}[.].*",
        "scan.topic-partition-discovery.interval": "100 ms",
        "format": "debezium-json",
        "debezium-json.schema-include": "true",
    }


class Copies:
    """The copies in a file of SQLite, and the query that keeps them."""

    def __init__(self, spark: SparkSession, bootstrap: str, prefix: str, folder: Path) -> None:
        self.spark, self.folder, self.file = spark, folder, folder / "copies.db"
        self.prefix, self.options = prefix, options(bootstrap, prefix)

    def table(self, source: SourceTopic) -> SqlTable:
        return SqlTable(source.table, lambda: sqlite3.connect(self.file), "sqlite")

    def run(self, tables: Callable[[SourceTopic], Target] | None = None, **more: Any) -> None:
        writer = cdc.replicate(
            self.spark, self.options, tables or self.table, state=str(self.folder / "state"), **more
        )
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        with stopped(writer.trigger(availableNow=True).start()) as query:
            assert query.awaitTermination(QUERY_TIMEOUT_S)

    def forget_commit(self, batch_id: int) -> None:
        """Let Spark repeat the batch."""
        commits = self.folder / "checkpoint" / "commits"
        for name in (str(batch_id), f".{batch_id}.crc"):
            (commits / name).unlink()

    def rows(self, table: str) -> list[Any]:
        with closing(sqlite3.connect(self.file)) as connection:
            return connection.execute(f"SELECT * FROM {table} ORDER BY id").fetchall()  # noqa: S608 - of this module


@pytest.fixture
def copies(spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path) -> Copies:
    prefix = make_topic()
    return Copies(spark, bootstrap, prefix, tmp_path)


@pytest.mark.promise
def test_tables_follow_their_topics_and_a_new_topic_is_a_new_table(
    copies: Copies, bootstrap: str, make_topic: MakeTopic
) -> None:
    prefix = copies.prefix
    goods, people = (make_topic(2, suffix=f".{prefix}.{name}") for name in ("goods", "people"))
    judge.produce(bootstrap, goods, message("goods", "c", {"id": 1, "name": "a"}, GOODS))
    judge.produce(bootstrap, people, message("people", "c", {"id": 1, "name": "x"}, GOODS))
    copies.run()
    assert (copies.rows("goods"), copies.rows("people")) == ([(1, "a")], [(1, "x")])

    wider = GOODS | {"price": INT}
    orders = make_topic(suffix=f".{prefix}.orders")
    judge.produce(bootstrap, goods, message("goods", "c", {"id": 2, "name": "b", "price": 5}, wider))
    judge.produce(bootstrap, goods, message("goods", "d", {"id": 1, "name": "a"}, GOODS))
    judge.produce(bootstrap, orders, message("orders", "c", {"id": 7, "name": "o"}, GOODS))
    copies.run()
    expected = ([(2, "b", 5)], [(1, "x")], [(7, "o")])
    assert tuple(map(copies.rows, ("goods", "people", "orders"))) == expected

    copies.forget_commit(1)
    copies.run()
    assert tuple(map(copies.rows, ("goods", "people", "orders"))) == expected

    (copies.folder / "checkpoint").rename(copies.folder / "old checkpoint")
    with pytest.raises(StreamingQueryException, match="is of query"):
        copies.run()


def test_the_program_of_the_guide_runs(copies: Copies, bootstrap: str, make_topic: MakeTopic) -> None:
    """The first program, and the second one, with `staging`, continues its checkpoint."""
    library = pytest.importorskip("deltalake")
    programs = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(programs) == 3
    topic = make_topic(suffix=f".{copies.prefix}.goods")
    places = {
        "localhost:9092": bootstrap,
        "shop[.]public[.].*": copies.options["topic-pattern"],
        "s3://lake": str(copies.folder),
    }
    assert all(old in programs[0] for old in places)
    scope: dict[str, Any] = {"spark": copies.spark}
    for number, code in enumerate(programs[:2]):
        judge.produce(bootstrap, topic, message("goods", "c", {"id": number, "name": "a"}, GOODS))
        for old, new in places.items():
            code = code.replace(old, new)  # noqa: PLW2901 - the places of the test
        exec(compile(code, PAGE.name, "exec"), scope)  # noqa: S102 - running the example is the point
        checkpoint = f"{copies.folder}/checkpoints/shop"
        query = scope.pop("query", None) or scope["writer"].option("checkpointLocation", checkpoint).start()
        with stopped(query):
            query.processAllAvailable()
        table = library.DeltaTable(str(copies.folder / "public" / "goods"))
        rows = table.to_pyarrow_table().to_pylist()
        assert sorted(row["id"] for row in rows) == list(range(number + 1))


def plain(row: dict[str, Any], op: str = "u") -> tuple[bytes, bytes]:
    """Return a record as Debezium writes it without schemas, from a table with REPLICA IDENTITY DEFAULT."""
    before, after = ({"id": row["id"]}, None) if op == "d" else (None, row)
    value = {"before": before, "after": after, "op": op}
    return json.dumps({"id": row["id"]}).encode(), json.dumps(value).encode()


@pytest.mark.promise
def test_the_program_of_the_guide_gives_fields_that_are_not_declared_one_column(
    copies: Copies, bootstrap: str, make_topic: MakeTopic
) -> None:
    library = pytest.importorskip("deltalake")
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[2]
    topic = make_topic(2, suffix=f".{copies.prefix}.goods")
    places = {
        "localhost:9092": bootstrap,
        "shop[.]public[.].*": copies.options["topic-pattern"],
        "shop.public.goods": topic,
        "s3://lake": str(copies.folder),
    }
    assert all(old in code for old in places)
    for old, new in places.items():
        code = code.replace(old, new)

    def run(columns: str = "id BIGINT, name STRING") -> list[dict[str, Any]]:
        scope: dict[str, Any] = {"spark": copies.spark}
        changed = code.replace("id BIGINT, name STRING", columns)
        exec(compile(changed, PAGE.name, "exec"), scope)  # noqa: S102 - running the example is the point
        with stopped(scope["query"]):
            scope["query"].processAllAvailable()
        table = library.DeltaTable(str(copies.folder / copies.prefix / "goods"))
        return sorted(table.to_pyarrow_table().to_pylist(), key=lambda row: int(row["id"]))

    first: list[dict[str, Any]] = [
        {"id": 1, "name": "pen", "price": 1.5, "tags": ["new"]},
        {"id": 2, "name": "ink"},
        {"id": 3, "name": "map", "price": 7},
    ]
    judge.produce(bootstrap, topic, *map(plain, first), plain({"id": 3}, "d"))
    pen = {"id": 1, "name": "pen", "rest": '{"price":1.5,"tags":["new"]}'}
    ink = {"id": 2, "name": "ink", "rest": None}
    rows = run()
    assert rows == [pen, ink]
    read = copies.spark.createDataFrame(rows, "id BIGINT, name STRING, rest STRING").orderBy("id")
    price = read.selectExpr("variant_get(parse_json(rest), '$.price', 'string') AS price")
    assert [row.price for row in price.collect()] == ["1.5", None]

    judge.produce(bootstrap, topic, plain({"id": 2, "name": "ink", "price": 4, "tags": []}))
    assert run("id BIGINT, name STRING, price DECIMAL(10, 2)") == [
        pen | {"price": None},
        {"id": 2, "name": "ink", "rest": '{"tags":[]}', "price": Decimal("4.00")},
    ]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, "needs messages that hold their schema.*declare the columns"),
        ({"columns": {}}, "declare the columns"),
        ({"columns": {"t": "id BIGINT"}}, "nothing says where they go"),
        ({"columns": {"t": "id"}, "rest": "rest"}, "Expected columns such as .* for topic t, got 'id'"),
        ({"columns": {"t": "BIGINT"}, "rest": "rest"}, "got 'BIGINT'. It is a type without a name"),
        ({"columns": {"t": "id BIGINT, x VARIANT"}, "rest": "rest"}, "'x' of topic t is declared as VARIANT"),
    ],
)
def test_messages_without_schemas_need_declared_columns(
    copies: Copies, more: dict[str, Any], expected: str
) -> None:
    del copies.options["debezium-json.schema-include"]
    with pytest.raises(OptionError, match=expected):
        copies.run(**more)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"evolve": "all"}, "Expected one of exception, ignore, lenient for `evolve`, got 'all'"),
        ({"on_table_error": "skip"}, "Expected one of stop, leave-out for `on_table_error`, got 'skip'"),
        ({"threads": 0}, "Expected `threads` of 1 or more, got 0"),
    ],
)
def test_a_bad_argument_is_refused(copies: Copies, more: dict[str, Any], expected: str) -> None:
    with pytest.raises(OptionError, match=expected):
        copies.run(**more)


LENGTH = 4000
"""Of a text, so that a task has more rows than it would give to the driver."""


def test_executors_write_the_files_of_a_large_batch(
    copies: Copies, bootstrap: str, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = pytest.importorskip("deltalake")
    monkeypatch.setattr(_delta_staged, "DRIVER_BYTES", 0)
    applied, apply = list[tuple[str, int]](), DeltaTable.apply_staged

    def noted(target: DeltaTable, batch: Staged, run: Any) -> bool:
        applied.append((target.uri.rpartition("/")[2], len(batch.paths)))
        return apply(target, batch, run)

    monkeypatch.setattr(DeltaTable, "apply_staged", noted)
    goods, people = (make_topic(suffix=f".{copies.prefix}.{name}") for name in ("goods", "people"))
    lake, staging = copies.folder / "lake", copies.folder / "staging"

    def run(**more: Any) -> None:
        copies.run(lambda source: DeltaTable(str(lake / source.table)), **more)

    def rows(name: str) -> list[dict[str, Any]]:
        found = library.DeltaTable(str(lake / name)).to_pyarrow_table()
        return sorted(found.to_pylist(), key=lambda row: int(row["id"]))

    copies.options["scan.max-records-per-split"] = "600"  # several tasks read one topic partition
    large: list[dict[str, Any]] = [
        {"id": number % 700, "name": f"{number:0{LENGTH}}"} for number in range(2100)
    ]
    judge.produce(bootstrap, goods, *(message("goods", "c", row, GOODS) for row in large))
    judge.produce(bootstrap, people, message("people", "c", {"id": 1, "name": "x"}, GOODS))
    run(staging=f"file://{staging}")
    newest = {row["id"]: row for row in large}
    assert (rows("goods"), rows("people")) == (list(newest.values()), [{"id": 1, "name": "x"}])
    assert [name for name, _ in applied] == ["goods"]

    wider = GOODS | {"price": INT}
    changed: list[dict[str, Any]] = [
        {"id": number, "name": "y" * LENGTH, "price": number} for number in range(300, 1000)
    ]
    judge.produce(bootstrap, goods, *(message("goods", "u", row, wider) for row in changed))
    run(staging=f"file://{staging}")
    newest = {key: row | {"price": None} for key, row in newest.items()} | {row["id"]: row for row in changed}
    expected = [newest[key] for key in sorted(newest)]
    assert rows("goods") == expected
    assert [name for name, _ in applied] == ["goods", "goods"]
    assert [path for path in staging.rglob("*") if path.is_file()] == [], "files of batches that are done"

    version = library.DeltaTable(str(lake / "goods")).version()
    for more in ({"staging": f"file://{staging}"}, {}):
        copies.forget_commit(1)
        run(**more)
        assert library.DeltaTable(str(lake / "goods")).version() == version, (
            "the driver gives the same digest"
        )
    assert rows("goods") == expected
