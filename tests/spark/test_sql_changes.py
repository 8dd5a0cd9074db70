"""Tables that change, in Flink's SQL on real Spark and a real broker: upsert tables and change data.

Each answer is the table after all changes.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from penstock.errors import SqlFailedError
from tests import judge
from tests.fix_broker import MakeTopic
from tests.fix_spark import settings
from tests.spark.sql_changes import EVENTS, SALES, event, run, table, upsert, written
from tests.spark.test_sql import ORDERS, Script, kafka, orders
from tests.spark.test_sql import script as script  # noqa: PLC0414 - a fixture

SIX_TASKS = {"spark.sql.shuffle.partitions": "6"}


@pytest.mark.promise
def test_a_group_by_becomes_an_upsert_table_and_continues_after_a_stop(
    script: Script, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, target, counts = make_topic(2), make_topic(2, suffix="t"), make_topic(suffix="c")
    script(
        f"""
        CREATE TABLE orders {ORDERS} {kafka(bootstrap, source)};
        CREATE TABLE totals (shop STRING PRIMARY KEY NOT ENFORCED, n BIGINT, total DECIMAL(38, 2))
            {upsert(bootstrap, target)};
        CREATE TABLE few (shop STRING PRIMARY KEY NOT ENFORCED, n BIGINT)
            WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{tmp_path}/few.db', 'table-name' = 'few');
        CREATE TABLE counts (n BIGINT, shops BIGINT, PRIMARY KEY (n) NOT ENFORCED) {upsert(bootstrap, counts)};
        """
    )
    inserts = """
        INSERT INTO few SELECT shop, COUNT(*) FROM orders GROUP BY shop HAVING COUNT(*) < 7;
        INSERT INTO totals SELECT shop, COUNT(*), SUM(amount) FROM orders GROUP BY shop;
        INSERT INTO counts SELECT n, COUNT(*) FROM (
            SELECT shop, COUNT(*) AS n FROM orders WHERE id > 0 GROUP BY shop HAVING COUNT(*) < 7
        ) GROUP BY n;
    """
    explained = "\n".join(row[0] for row in script(f"EXPLAIN STATEMENT SET BEGIN {inserts} END")[0].rows)
    for line in (
        "INSERT INTO totals: connector upsert-kafka, at-least-once",
        "The last record of each key is right.",
        "aggregate, because Spark streams GROUP BY",
        "[I] becomes [I,UB,UA].",
        "[I,UB,UA,D] becomes [I,UB,UA,D].",
        "orders gives [I] append",
        "the query gives [I,UB,UA,D] upsert by (shop)",
        "totals takes inserts, updates and deletes by its PRIMARY KEY (shop)",
        "one entry for each group",
        "few takes inserts, updates and deletes by its PRIMARY KEY (shop)",
        "one transaction has its rows and its marker",
    ):
        assert line in explained, explained
    assert explained.count(": aggregate, because") == 4
    for part in (orders(10), orders(20)[10:]):
        judge.produce(bootstrap, source, *part)
        run(script, inserts)
    assert written(bootstrap, target) == [
        {"shop": "s0", "n": 7, "total": 15.75},
        {"shop": "s1", "n": 7, "total": 17.5},
        {"shop": "s2", "n": 6, "total": 14.25},
    ]
    assert written(bootstrap, counts) == [{"n": 6, "shops": 2}]
    with closing(sqlite3.connect(tmp_path / "few.db")) as connection:
        assert connection.execute("SELECT * FROM few").fetchall() == [("s2", 6)]
    script("SET 'execution.runtime-mode' = 'batch'")
    assert script.rows("SELECT shop, n FROM totals WHERE n > 6 ORDER BY shop") == [("s0", 7), ("s1", 7)]


def test_change_data_is_aggregated_filtered_and_written(
    script: Script, bootstrap: str, make_topic: MakeTopic
) -> None:
    source, target = make_topic(), make_topic(suffix="t")
    judge.produce(bootstrap, source, *EVENTS)
    script(
        f"""
        CREATE TABLE sales {SALES} {kafka(bootstrap, source, format="debezium-json", scan_max__records__per__batch="2")};
        CREATE TABLE large {SALES} {upsert(bootstrap, target)};
        CREATE TABLE shown (shop STRING, n BIGINT, least INT, total INT, texts STRING) WITH ('connector' = 'print');
        CREATE TABLE kinds (shop STRING, n BIGINT) {kafka(bootstrap, target, format="debezium-json")};
        CREATE TABLE plain (shop STRING, n BIGINT) {kafka(bootstrap, target)};
        """
    )
    run(
        script,
        """
        INSERT INTO shown SELECT shop, COUNT(*), MIN(amount), SUM(amount), LISTAGG(CAST(amount AS STRING), '+')
            FROM sales GROUP BY shop;
        INSERT INTO large SELECT * FROM sales WHERE amount < 8;
        """,
    )
    assert table(script.lines) == ["a, 1, 8, 8, 8", "b, 1, 5, 5, 5"]
    assert any(line.startswith("-U") for line in script.lines)
    assert written(bootstrap, target) == [{"id": 1, "shop": "b", "amount": 5}]
    refused = script.refusal("INSERT INTO plain SELECT shop, COUNT(*) FROM sales GROUP BY shop")
    assert "Table sink 'plain' doesn't support consuming update changes which is produced by node" in refused
    assert "produced by node TableSourceScan" in script.refusal(
        "INSERT INTO plain SELECT shop, id FROM sales"
    )
    assert "they differ by (id)" in script.refusal(
        f"CREATE TABLE other (id INT, shop STRING PRIMARY KEY NOT ENFORCED) {upsert(bootstrap, target)};"
        "INSERT INTO other SELECT id, shop FROM sales"
    )
    script("SET 'execution.runtime-mode' = 'batch'")
    assert script.rows("SELECT * FROM sales ORDER BY id") == [(1, "b", 5), (2, "a", 8)]


@pytest.mark.parametrize("per_batch", [1, 100])
def test_a_row_that_is_displaced_when_its_window_is_over_leaves_it(
    script: Script, bootstrap: str, make_topic: MakeTopic, per_batch: int
) -> None:
    """The watermark is minutes behind the windows that change. The script stops once and continues."""
    source, target, plain = make_topic(), make_topic(2, suffix="t"), make_topic(suffix="p")
    columns = "b TIMESTAMP(3), e TIMESTAMP(3), n BIGINT, total INT"
    script(
        f"""
        SET 'table.local-time-zone' = 'UTC';
        CREATE TABLE moves (id INT, qty INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
            {kafka(bootstrap, source, scan_max__records__per__batch=str(per_batch))};
        CREATE VIEW newest AS SELECT id, qty, ts FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY ts DESC) AS place FROM moves
        ) WHERE place = 1;
        CREATE TABLE windows ({columns}, PRIMARY KEY (b, e) NOT ENFORCED) {upsert(bootstrap, target)};
        CREATE TABLE plain ({columns}) {kafka(bootstrap, plain)};
        """
    )
    query = (
        "SELECT window_start, window_end, COUNT(*), SUM(qty) "
        "FROM TABLE(TUMBLE(TABLE newest, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end"
    )
    refused = script.refusal(f"INSERT INTO plain {query}")
    assert "produced by node WindowAggregate. Its windows are over rows that change" in refused
    [explained] = ["\n".join(row[0] for row in script(f"EXPLAIN INSERT INTO windows {query}")[0].rows)]
    assert "aggregate, because a row of a window may change when the window is over" in explained
    assert "the query gives [I,UB,UA,D] upsert by (" in explained
    assert "one entry for each group" in explained
    rows = [
        (1, 1, "00:00:10"),
        (2, 2, "00:00:20"),
        (3, 4, "00:05:00"),
        (1, 8, "00:05:30"),
        (2, 16, "00:09:00"),
    ]
    records = [
        json.dumps({"id": number, "qty": qty, "ts": f"2026-01-01 {time}"}).encode()
        for number, qty, time in rows
    ]
    for part in (records[:3], records[3:]):
        judge.produce(bootstrap, source, *part)
        run(script, f"INSERT INTO windows {query}")
    found = [(row["b"][11:16], row["n"], row["total"]) for row in written(bootstrap, target)]
    assert sorted(found) == [("00:05", 2, 12), ("00:09", 1, 16)]


def test_rows_are_copied_between_upsert_tables(script: Script, bootstrap: str, make_topic: MakeTopic) -> None:
    source, first, second = make_topic(), make_topic(2, suffix="a"), make_topic(suffix="b")
    rows = [{"id": n % 3, "shop": f"x{n}", "amount": 1} for n in range(7)]
    judge.produce(bootstrap, source, *(json.dumps(row).encode() for row in rows))
    script(
        f"""
        CREATE TABLE orders (id INT, shop STRING, amount INT, at BIGINT METADATA FROM 'offset' VIRTUAL)
            {kafka(bootstrap, source)};
        CREATE TABLE one {SALES} {upsert(bootstrap, first)};
        CREATE TABLE two (id INT PRIMARY KEY NOT ENFORCED, text STRING) {upsert(bootstrap, second)};
        """
    )
    run(script, "INSERT INTO one SELECT id, shop, amount FROM orders WHERE at >= 0")
    assert [row["shop"] for row in written(bootstrap, first)] == ["x6", "x4", "x5"]
    copy = "INSERT INTO two SELECT id, UPPER(shop) FROM one WHERE shop <> 'x4'"
    run(script, copy)
    assert written(bootstrap, second) == [{"id": 0, "text": "X6"}, {"id": 2, "text": "X5"}]
    key = json.dumps({"id": 2}, separators=(",", ":")).encode()
    judge.produce(
        bootstrap, first, judge.Record(key=key, value=None, partition=partition_of(bootstrap, first, key))
    )
    run(script, copy)
    assert written(bootstrap, second) == [{"id": 0, "text": "X6"}]


def partition_of(bootstrap: str, topic: str, key: bytes) -> int | None:
    return next(one.partition for one in judge.consume_all(bootstrap, topic) if one.key == key)


def test_a_copy_of_change_data_needs_the_key_of_a_delete_only(
    script: Script, bootstrap: str, make_topic: MakeTopic
) -> None:
    source, target = make_topic(), make_topic(suffix="t")
    kept = event("c", None, (2, "b", 1))
    judge.produce(bootstrap, source, event("c", None, (1, "a", 5)), event("d", (1, None, None), None), kept)
    copy = "INSERT INTO copied SELECT id, UPPER(shop), amount FROM seen"
    tables = f"""
        CREATE TABLE sales {SALES} {kafka(bootstrap, source, format="debezium-json")};
        CREATE TABLE copied {SALES} {upsert(bootstrap, target)};
        CREATE VIEW seen AS SELECT id, shop, amount FROM sales;
    """
    script(tables)
    run(script, copy)
    assert written(bootstrap, target) == [{"id": 2, "shop": "B", "amount": 1}]
    script("DROP VIEW seen; CREATE VIEW seen AS SELECT id, shop, amount + 1 AS amount FROM sales")
    assert "'default_database.seen' has another definition now" in script.refusal(copy)


def test_a_sum_stops_at_a_delete_with_the_key_only(
    script: Script, bootstrap: str, make_topic: MakeTopic
) -> None:
    """The sum would keep what was deleted."""
    source, stopped, target = make_topic(), make_topic(suffix="s"), make_topic(suffix="t")
    judge.produce(bootstrap, source, *EVENTS[:2], event("d", (1, None, None), None))
    columns = "(place INT PRIMARY KEY NOT ENFORCED, n BIGINT, total INT)"
    script(f"""
        CREATE TABLE sales {SALES} {kafka(bootstrap, source, format="debezium-json")};
        CREATE TABLE stopped {columns} {upsert(bootstrap, stopped)};
        CREATE TABLE totals {columns} {upsert(bootstrap, target)};
    """)
    insert = "INSERT INTO {} SELECT 1, COUNT(*), SUM(amount) FROM sales"
    with pytest.raises(StreamingQueryException, match="came without the values of its row"):
        run(script, insert.format("stopped"))
    assert written(bootstrap, stopped) == []
    script("SET 'table.exec.source.cdc-events-duplicate' = 'true'")
    run(script, insert.format("totals"))
    assert written(bootstrap, target) == [{"place": 1, "n": 1, "total": 7}]


def test_a_version_ends_if_an_update_changes_its_key(
    script: Script, bootstrap: str, make_topic: MakeTopic
) -> None:
    orders_topic, rates, target = make_topic(), make_topic(suffix="r"), make_topic(suffix="t")
    columns = (
        f"(id INT, code STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) {kafka(bootstrap, orders_topic)}"
    )
    script(f"""
        CREATE TABLE orders {columns};
        CREATE TABLE rates (code STRING, rate INT, ts TIMESTAMP(3), PRIMARY KEY (code) NOT ENFORCED,
          WATERMARK FOR ts AS ts) {kafka(bootstrap, rates, format="maxwell-json")};
        CREATE TABLE priced (id INT, rate INT) {kafka(bootstrap, target)};
    """)
    insert = """INSERT INTO priced SELECT o.id, r.rate FROM orders AS o
        LEFT JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.code = r.code"""

    def rate(code: str, minute: int, before: str | None = None) -> bytes:
        data = {"code": code, "rate": 5, "ts": f"2026-01-01 00:{minute:02}:00"}
        if before is None:
            return json.dumps({"type": "insert", "data": data}).encode()
        return json.dumps({"type": "update", "data": data, "old": {"code": before}}).encode()

    def bought(number: int, code: str, minute: int) -> bytes:
        return json.dumps({"id": number, "code": code, "ts": f"2026-01-01 00:{minute:02}:00"}).encode()

    judge.produce(bootstrap, rates, rate("DM", 1))
    judge.produce(bootstrap, orders_topic, bought(1, "DM", 2), bought(2, "DM", 3))
    run(script, insert)
    judge.produce(bootstrap, rates, rate("EUR", 5, "DM"), rate("USD", 30))
    late = [bought(3, "DM", 6), bought(4, "EUR", 6), bought(5, "USD", 30)]
    judge.produce(bootstrap, orders_topic, *late)
    run(script, insert)
    priced = [json.loads(record.value or b"") for record in judge.consume_all(bootstrap, target)]
    found = {one["id"]: one["rate"] for one in priced}
    assert found == {1: 5, 2: 5, 3: None, 4: 5}


def test_rows_that_met_a_query_come_into_a_database_in_a_known_order_or_not_at_all(
    script: Script, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """A row that waited for its partner would replace a newer one. In a batch Spark shuffles rows by the partner."""
    first, second, wanted = make_topic(), make_topic(suffix="s"), make_topic(suffix="w")
    judge.produce(bootstrap, first, *(b'{"k": %d, "v": %d}' % (n % 9, 97 * n % 100) for n in range(100)))
    judge.produce(bootstrap, wanted, *(b'{"v": %d}' % n for n in range(100)))
    script(
        f"""
        CREATE TABLE a (k INT, v INT) {kafka(bootstrap, f"{first};{second}")};
        CREATE TABLE wanted (v INT) {kafka(bootstrap, wanted)};
        CREATE TABLE latest (k INT PRIMARY KEY NOT ENFORCED, v INT)
            WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{tmp_path}/latest.db', 'table-name' = 'latest');
        """
    )
    rows = "SELECT k, v FROM a WHERE v IN (SELECT v FROM wanted)"
    assert "would come in any order, because the query joins" in script.refusal(f"INSERT INTO latest {rows}")
    script("SET 'execution.runtime-mode' = 'batch'")
    with pytest.raises(SqlFailedError, match="two rows for one PRIMARY KEY of the table latest"):
        script(f"INSERT INTO latest {rows}")
    script(f"INSERT INTO latest SELECT k, MAX(v) FROM ({rows}) WHERE k > 0 GROUP BY k")
    script("INSERT INTO latest SELECT k, v FROM a WHERE k = 0")  # in the order of the read
    with closing(sqlite3.connect(tmp_path / "latest.db")) as connection:
        found = dict(connection.execute("SELECT k, v FROM latest").fetchall())
    assert found == {k: max(97 * n % 100 for n in range(k, 100, 9)) for k in range(1, 9)} | {0: 97 * 99 % 100}


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_rows_of_one_key_in_two_topics_or_files_come_into_a_database_in_a_known_order_or_not_at_all(
    script: Script, bootstrap: str, make_topic: MakeTopic, tmp_path: Path, mode: str
) -> None:
    """A task reads several topic partitions or files. Their order in it is another one than that of the rows."""
    first, second, folder = make_topic(2), make_topic(2, suffix="s"), tmp_path / "files"
    database = f"'connector' = 'jdbc', 'url' = 'jdbc:sqlite:{tmp_path}/latest.db'"
    monitor = ", 'source.monitor-interval' = '1 s'" if mode == "streaming" else ""
    script(
        f"""
        SET 'execution.runtime-mode' = '{mode}';
        CREATE TABLE topics (k INT, v INT) {kafka(bootstrap, f"{first};{second}")};
        CREATE TABLE files (v INT, d STRING, k INT) PARTITIONED BY (d)
            WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{folder}'{monitor});
        CREATE TABLE of_topics (k INT PRIMARY KEY NOT ENFORCED, v INT) WITH ({database}, 'table-name' = 't');
        CREATE TABLE of_files (k INT PRIMARY KEY NOT ENFORCED, v INT) WITH ({database}, 'table-name' = 'f');
        """
    )

    def copy(name: str) -> list[tuple[int, int]]:
        run(script, f"INSERT INTO of_{name} SELECT k, v FROM {name} WHERE v > 0")
        with closing(sqlite3.connect(tmp_path / "latest.db")) as connection:
            return connection.execute(f"SELECT k, v FROM {name[0]} ORDER BY k").fetchall()

    topics = ((first, 0), (first, 1), (second, 0), (second, 1))
    for number, (topic, partition) in enumerate(topics):
        values = (b'{"k": %d, "v": %d}' % (number, n) for n in range(5))
        judge.produce(bootstrap, topic, *(judge.Record(value=each, partition=partition) for each in values))
    for number in range(8):
        (folder / f"d={number}").mkdir(parents=True)
        rows = (f'{{"k": {number}, "v": {n}}}' for n in range(5 + number))
        (folder / f"d={number}" / "0.json").write_text("\n".join(rows))
    assert copy("topics") == [(number, 4) for number in range(4)]
    assert copy("files") == [(number, 4 + number) for number in range(8)]
    for topic, value in ((second, 6), (first, 7)):
        judge.produce(bootstrap, topic, *(b'{"k": %d, "v": %d}' % (n, value) for n in range(9)))
    for number in range(8):
        (folder / f"d={number}" / "1.json").write_text(f'{{"k": {number // 2}, "v": {number}}}')
    for name in ("topics", "files"):
        with pytest.raises(
            (SqlFailedError, StreamingQueryException),
            match=r"two topic partitions or files|came from more than one task",
        ):
            copy(name)


@pytest.mark.parametrize("is_static", [False, True])
def test_messages_of_a_join_are_in_an_order_in_which_another_job_can_copy_them(
    spark: SparkSession,
    script: Script,
    bootstrap: str,
    make_topic: MakeTopic,
    tmp_path: Path,
    is_static: bool,
) -> None:
    """A row moves from one task of the join to another: its old row is not written behind its new one."""
    source, shops, joined, copied = (make_topic(suffix=each) for each in ("a", "b", "j", "c"))
    columns = "id INT, shop STRING, city STRING, PRIMARY KEY (id) NOT ENFORCED"
    script(
        f"""
        CREATE TABLE sales {SALES} {kafka(bootstrap, source, format="debezium-json")};
        CREATE TABLE shops (name STRING, city STRING) {kafka(bootstrap, shops)};
        CREATE TABLE stored (name STRING, city STRING)
            WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{tmp_path}/stored');
        CREATE TABLE joined ({columns}) {kafka(bootstrap, joined, format="debezium-json")};
        CREATE TABLE copied ({columns}) {upsert(bootstrap, copied)};
        """
    )
    cities = [b'{"name": "s%d", "city": "c%d"}' % (n, n) for n in range(9)]
    judge.produce(bootstrap, shops, *cities)
    (tmp_path / "stored").mkdir()
    (tmp_path / "stored" / "0.json").write_bytes(b"\n".join(cities))
    right = "stored FOR SYSTEM_TIME AS OF PROCTIME() AS o" if is_static else "shops AS o"
    rows: dict[int, tuple[int, str, int]] = {}
    with settings(spark, {**SIX_TASKS, "spark.sql.autoBroadcastJoinThreshold": "-1"}):
        for turn in range(2):
            new = {n: (n, f"s{(n + 5 * turn) % 12}", turn) for n in range(150)}
            judge.produce(bootstrap, source, *(event("u" if turn else "c", rows.get(n), new[n]) for n in new))
            rows = new
            run(
                script,
                f"INSERT INTO joined SELECT s.id, s.shop, o.city FROM sales AS s LEFT JOIN {right} ON s.shop = o.name",
            )
        run(script, "INSERT INTO copied SELECT id, shop, city FROM joined")
    expected = [
        {"id": n, "shop": shop, "city": f"c{shop[1:]}" if int(shop[1:]) < 9 else None}
        for n, shop, _ in rows.values()
    ]
    assert written(bootstrap, copied) == sorted(expected, key=str)


@pytest.mark.parametrize(
    ("key", "query"),
    [
        (
            ", PRIMARY KEY (id) NOT ENFORCED",
            "SELECT *, 'a' FROM sales WHERE amount < 50 UNION ALL SELECT *, 'b' FROM sales WHERE amount >= 50",
        ),
        ("", "SELECT *, CAST(CURRENT_TIMESTAMP AS STRING) FROM sales"),
    ],
    ids=["a union", "kept times"],
)
def test_messages_of_rows_that_a_query_divides_are_in_an_order_in_which_another_job_can_copy_them(
    spark: SparkSession, script: Script, bootstrap: str, make_topic: MakeTopic, key: str, query: str
) -> None:
    """A row moves from one side of a UNION to the other one, or from one task of the kept times to another."""
    source, divided, copied = (make_topic(suffix=each) for each in ("a", "d", "c"))
    columns = "id INT, shop STRING, amount INT"
    more = f"{columns}, text STRING, PRIMARY KEY (id) NOT ENFORCED"
    script(
        f"""
        CREATE TABLE sales ({columns}{key}) {kafka(bootstrap, source, format="debezium-json")};
        CREATE TABLE divided ({more}) {kafka(bootstrap, divided, format="debezium-json")};
        CREATE TABLE copied ({more}) {upsert(bootstrap, copied)};
        """
    )
    rows: dict[int, tuple[int, str, int]] = {}
    with settings(spark, SIX_TASKS):
        for turn in range(3):
            new = {n: (n, f"s{n}", (n * 7 + turn * 50) % 100) for n in range(150)}
            judge.produce(bootstrap, source, *(event("u" if turn else "c", rows.get(n), new[n]) for n in new))
            rows = new
            run(script, f"INSERT INTO divided {query}")
        run(script, "INSERT INTO copied SELECT * FROM divided")
    found = [(row["id"], row["shop"], row["amount"]) for row in written(bootstrap, copied)]
    assert sorted(found) == [*rows.values()]


def test_messages_of_rows_that_take_the_key_of_others_are_in_an_order_in_which_another_job_can_copy_them(
    spark: SparkSession, script: Script, bootstrap: str, make_topic: MakeTopic
) -> None:
    """Each row moves to the next shop, which another row has left before. A task has the rows of an id."""
    source, moved, copied = (make_topic(suffix=each) for each in ("a", "m", "c"))
    columns = "(shop STRING PRIMARY KEY NOT ENFORCED, id INT, amount INT)"
    script(
        f"""
        CREATE TABLE sales {SALES} {upsert(bootstrap, source)};
        CREATE TABLE moved {columns} {kafka(bootstrap, moved, format="debezium-json")};
        CREATE TABLE copied {columns} {upsert(bootstrap, copied)};
        """
    )
    with settings(spark, SIX_TASKS):
        for turn in range(3):
            rows = [{"id": n, "shop": f"s{n + turn}", "amount": turn} for n in reversed(range(100))]
            records = [(json.dumps({"id": row["id"]}).encode(), json.dumps(row).encode()) for row in rows]
            judge.produce(bootstrap, source, *(judge.Record(key=key, value=row) for key, row in records))
            run(script, "INSERT INTO moved SELECT shop, id, amount FROM sales")
        run(script, "INSERT INTO copied SELECT * FROM moved")
    assert {row["shop"]: row["id"] for row in written(bootstrap, copied)} == {
        f"s{n + 2}": n for n in range(100)
    }


def test_messages_of_a_topic_partition_that_several_tasks_read_are_in_an_order_in_which_another_job_can_copy_them(
    script: Script, bootstrap: str, make_topic: MakeTopic
) -> None:
    source, divided, copied = (make_topic(suffix=each) for each in ("a", "d", "c"))
    given = kafka(bootstrap, source, format="debezium-json", scan_max__records__per__split="20")
    script(
        f"""
        CREATE TABLE sales {SALES} {given};
        CREATE TABLE divided {SALES} {kafka(bootstrap, divided, format="debezium-json")};
        CREATE TABLE copied {SALES} {upsert(bootstrap, copied)};
        """
    )
    rows = [(number % 20, "s", number) for number in range(900)]
    judge.produce(bootstrap, source, *(event("c", None, row) for row in rows[:20]))
    judge.produce(bootstrap, source, *(event("u", *each) for each in zip(rows, rows[20:], strict=False)))
    run(script, "INSERT INTO divided SELECT * FROM sales")
    run(script, "INSERT INTO copied SELECT * FROM divided")
    assert sorted(tuple(row.values()) for row in written(bootstrap, copied)) == rows[-20:]


def test_a_select_shows_the_kind_of_each_row(
    script: Script, bootstrap: str, make_topic: MakeTopic, spark: SparkSession, tmp_path: Path
) -> None:
    source = make_topic()
    judge.produce(bootstrap, source, *orders(3))
    script(f"CREATE TABLE orders {ORDERS} {kafka(bootstrap, source)}")
    found = script("SELECT DISTINCT id / 2 AS half FROM orders UNION SELECT id FROM orders")[0]
    assert (found.is_changing, found.columns) == (False, ("half",))
    frame = script.session.sql("SELECT shop, MAX(id) AS most FROM orders GROUP BY shop")
    assert frame.columns == ["shop", "most", "row_kind"]
    query = frame.writeStream.format("memory").queryName("kinds").start()
    try:
        query.processAllAvailable()
        rows = sorted(map(tuple, spark.table("kinds").collect()))
    finally:
        query.stop()
    assert rows == [("s0", 0, "+I"), ("s1", 1, "+I"), ("s2", 2, "+I")]
    plan = script("EXPLAIN SELECT shop, COUNT(*) FROM orders GROUP BY shop")[0].rows
    assert any("__row_kind" in row[0] for row in plan)
