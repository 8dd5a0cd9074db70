"""Rows that change, in Flink's SQL on real Spark and a real broker.

Each answer is the table after all changes.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.queries import stopped
from tests.spark.test_sql import ORDERS, Script, kafka, orders
from tests.spark.test_sql import script as script  # noqa: PLC0414 - a fixture

LINE = re.compile(r"([+-][IUD])\[(.*)\]")


def upsert(bootstrap: str, topic: str) -> str:
    """Return WITH of an upsert table in JSON."""
    return (
        f"WITH ('connector' = 'upsert-kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}', "
        "'key.format' = 'json', 'value.format' = 'json')"
    )


def run(script: Script, insert: str) -> None:
    """Run an INSERT until all records are read."""
    for job in [each.job for each in script(insert) if each.job is not None]:
        for query in job.queries:
            query.processAllAvailable()
        job.stop()


def table(lines: list[str]) -> list[str]:
    """Return the rows that are there after the changes of a print table."""
    rows: Counter[str] = Counter()
    for line in lines:
        found = LINE.fullmatch(line)
        assert found is not None
        rows[found[2]] += 1 if found[1] in ("+I", "+U") else -1
        assert rows[found[2]] >= 0, f"{line} goes and was not there"
    return sorted(rows.elements())


def written(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    """Return the rows of an upsert table, by its records."""
    last = {record.key: record.value for record in judge.consume_all(bootstrap, topic)}
    return sorted((json.loads(value) for value in last.values() if value is not None), key=str)


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


def event(op: str, before: Any, after: Any) -> bytes:
    rows = [
        None if row is None else dict(zip(("id", "shop", "amount"), row, strict=True))
        for row in (before, after)
    ]
    return json.dumps({"op": op, "before": rows[0], "after": rows[1]}).encode()


EVENTS = [
    event("c", None, (1, "a", 5)),
    event("c", None, (2, "a", 7)),
    event("c", None, (3, "b", 1)),
    event("u", (1, "a", 5), (1, "b", 5)),
    event("u", (2, "a", 7), (2, "a", 8)),
    event("d", (3, "b", 1), None),
]
SALES = "(id INT, shop STRING, amount INT, PRIMARY KEY (id) NOT ENFORCED)"


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


def test_the_first_rows_of_groups(script: Script, bootstrap: str, make_topic: MakeTopic) -> None:
    source, target = make_topic(), make_topic(suffix="t")
    ranks, ends = make_topic(2, suffix="r"), make_topic(suffix="e")
    judge.produce(bootstrap, source, *orders(9))
    script(
        f"""
        CREATE TABLE orders {ORDERS} {kafka(bootstrap, source, scan_max__records__per__batch="4")};
        CREATE TABLE last (shop STRING PRIMARY KEY NOT ENFORCED, id BIGINT) {upsert(bootstrap, target)};
        CREATE TABLE top (shop STRING, id BIGINT, place BIGINT) WITH ('connector' = 'print');
        CREATE TABLE sets (shop STRING, half BIGINT, g BIGINT, n BIGINT) WITH ('connector' = 'print');
        CREATE TABLE newest (id BIGINT) WITH ('connector' = 'print');
        CREATE TABLE later LIKE newest;
        CREATE TABLE middle LIKE newest;
        CREATE TABLE ranks (shop STRING, n BIGINT, id BIGINT, PRIMARY KEY (shop, n) NOT ENFORCED)
            {upsert(bootstrap, ranks)};
        CREATE TABLE ends (shop STRING PRIMARY KEY NOT ENFORCED, a BIGINT, b BIGINT, c BIGINT, d BIGINT)
            {upsert(bootstrap, ends)};
        """
    )
    run(
        script,
        """
        INSERT INTO last SELECT shop, id FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY at DESC) AS n FROM orders
        ) WHERE n = 1;
        INSERT INTO top SELECT * FROM (
            SELECT shop, id, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY id DESC) AS n FROM orders
        ) WHERE n <= 2 AND shop <> 's2';
        INSERT INTO sets SELECT NULLIF(shop, 's2') AS s, id / 5 AS half, GROUPING(NULLIF(shop, 's2')), COUNT(*)
            FROM orders GROUP BY GROUPING SETS ((NULLIF(shop, 's2'), id / 5), (id / 5), ());
        INSERT INTO newest SELECT id FROM orders ORDER BY id DESC LIMIT 2;
        INSERT INTO later SELECT id * 100 AS id FROM orders ORDER BY id DESC LIMIT 2 OFFSET 1;
        INSERT INTO middle SELECT MAX(id) * 1000 AS id FROM orders GROUP BY shop ORDER BY id DESC LIMIT 1 OFFSET 1;
        INSERT INTO ranks SELECT shop, n, id FROM (SELECT shop, id, ROW_NUMBER() OVER (
            PARTITION BY shop ORDER BY NULLIF(id, 6) DESC, id) AS n FROM orders) WHERE n <= 3;
        INSERT INTO ends SELECT shop, FIRST_VALUE(NULLIF(id, 0)), LAST_VALUE(id) FILTER (WHERE id <> 8),
            SUM(DISTINCT id / 6), AVG(DISTINCT id / 6 * 4) FROM orders GROUP BY shop;
        """,
    )
    assert written(bootstrap, target) == [
        {"shop": "s0", "id": 6},
        {"shop": "s1", "id": 7},
        {"shop": "s2", "id": 8},
    ]
    assert table(script.lines) == [
        *("600", "7", "700", "7000", "8"),
        *("null, 0, 0, 1", "null, 0, 1, 5", "null, 1, 0, 2", "null, 1, 1, 4", "null, null, 1, 9"),
        *("s0, 0, 0, 2", "s0, 1, 0, 1", "s0, 3, 2", "s0, 6, 1", "s1, 0, 0, 2", "s1, 1, 0, 1"),
        *("s1, 4, 2", "s1, 7, 1"),
    ]
    assert "-D[s1, 1, 1]" in script.lines, "another row takes the rank"
    assert [(row["shop"], row["n"], row["id"]) for row in written(bootstrap, ranks)] == [
        *(("s0", place, number) for place, number in ((1, 3), (2, 0), (3, 6))),
        *(("s1", place, number) for place, number in ((1, 7), (2, 4), (3, 1))),
        *(("s2", place, number) for place, number in ((1, 8), (2, 5), (3, 2))),
    ]
    assert [tuple(row.values()) for row in written(bootstrap, ends)] == [
        ("s0", 3, 6, 1, 2),
        ("s1", 1, 7, 1, 2),
        ("s2", 2, 5, 1, 2),
    ]


@pytest.mark.promise
def test_joins_of_streams(script: Script, bootstrap: str, make_topic: MakeTopic) -> None:
    sales, shops, target = make_topic(suffix="s"), make_topic(suffix="h"), make_topic(suffix="t")
    judge.produce(bootstrap, sales, *EVENTS)
    judge.produce(
        bootstrap, shops, *(b'{"name": "%s", "city": "c%d"}' % (n, i) for i, n in enumerate((b"a", b"c")))
    )
    script(
        f"""
        CREATE TABLE sales {SALES} {kafka(bootstrap, sales, format="debezium-json", scan_max__records__per__batch="2")};
        CREATE TABLE shops (name STRING, city STRING) {kafka(bootstrap, shops)};
        CREATE VIEW last_shops AS SELECT name, city FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY name ORDER BY city DESC) AS n FROM shops) WHERE n = 1;
        CREATE TABLE joined (id INT PRIMARY KEY NOT ENFORCED, shop STRING, city STRING) {upsert(bootstrap, target)};
        CREATE TABLE full_rows (id INT, city STRING) WITH ('connector' = 'print');
        """
    )
    run(
        script,
        """
        INSERT INTO joined SELECT s.id, s.shop, h.city FROM sales AS s LEFT JOIN last_shops AS h ON s.shop = h.name;
        INSERT INTO full_rows SELECT id, city FROM sales FULL JOIN shops ON shop = name;
        """,
    )
    assert written(bootstrap, target) == [
        {"id": 1, "shop": "b", "city": None},
        {"id": 2, "shop": "a", "city": "c0"},
    ]
    assert table(script.lines) == ["1, null", "2, c0", "null, c1"]


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


QUERIES = """
    SELECT 'in' AS q, id FROM sales WHERE shop IN (SELECT name FROM shops)
    UNION ALL SELECT 'exists', id FROM sales AS s WHERE EXISTS (SELECT 1 FROM shops WHERE name = s.shop AND shops.id > 10)
    UNION ALL SELECT 'not exists', id FROM sales AS s
        WHERE amount > 0 AND NOT EXISTS (SELECT * FROM shops AS h WHERE s.shop = h.name)
    UNION ALL SELECT 'not in', id FROM sales
        WHERE shop NOT IN (SELECT name FROM shops WHERE name IS NOT NULL) AND shop IS NOT NULL
    UNION ALL SELECT 'groups', CAST(COUNT(*) AS INT) FROM sales
        WHERE shop IN (SELECT name FROM shops GROUP BY name HAVING COUNT(*) > 1) GROUP BY shop
"""
SETS = """
    SELECT 'intersect' AS q, x FROM (SELECT shop AS x FROM sales INTERSECT SELECT name FROM shops)
    UNION ALL SELECT 'intersect all', x FROM (SELECT shop AS x FROM sales INTERSECT ALL SELECT name FROM shops)
    UNION ALL SELECT 'except', x FROM (SELECT shop AS x FROM sales EXCEPT SELECT name FROM shops)
    UNION ALL SELECT 'except all', x FROM (SELECT shop AS x FROM sales EXCEPT ALL SELECT name FROM shops)
"""
VALUES = """
    SELECT 'value' AS q, id, CAST(amount - (SELECT MIN(amount) FROM sales) AS INT) AS x FROM sales
    UNION ALL SELECT 'compared', id, 0 FROM sales
        WHERE amount > 0 AND amount >= (SELECT AVG(amount) FROM sales) AND shop IN (SELECT name FROM shops)
    UNION ALL SELECT 'count', id, CAST((SELECT COUNT(*) FROM shops WHERE name = s.shop) * 2 AS INT) FROM sales AS s
    UNION ALL SELECT 'row', id, (SELECT h.id FROM shops AS h WHERE h.name = s.shop AND h.id > 12 AND h.id < 17) FROM sales AS s
    UNION ALL SELECT 'of none', id, (SELECT MAX(id) FROM shops WHERE id > 100) FROM sales
    UNION ALL SELECT 'total', CAST(COUNT(*) AS INT), CAST(SUM(amount - (SELECT MAX(id) FROM shops)) AS INT) FROM sales
    UNION ALL SELECT 'first', h.id, t.id
        FROM shops AS h, LATERAL (SELECT id FROM sales WHERE shop = h.name ORDER BY amount DESC, id LIMIT 2) AS t
    UNION ALL SELECT 'left', h.id, t.id
        FROM shops AS h LEFT JOIN LATERAL (SELECT * FROM sales WHERE shop = h.name ORDER BY amount DESC LIMIT 1) AS t ON TRUE
    UNION ALL SELECT 'rows', h.id, t.i FROM shops AS h, LATERAL (SELECT id FROM sales WHERE shop = h.name) AS t (i)
    UNION ALL SELECT 'groups', h.id, CAST(t.n AS INT)
        FROM shops AS h LEFT JOIN LATERAL (SELECT COUNT(*) AS n FROM sales WHERE shop = h.name) AS t ON TRUE
"""


def test_queries_in_where_and_sets_of_a_stream_are_those_of_a_batch(
    script: Script, bootstrap: str, make_topic: MakeTopic
) -> None:
    sales, shops = make_topic(suffix="s"), make_topic(suffix="h")
    rows = [
        (1, "a", 5),
        (2, "a", 7),
        (3, None, 1),
        (4, "b", 2),
        (5, "c", 3),
        (6, "d", 4),
        (7, None, 1),
        (8, "d", 1),
    ]
    events = [event("c", None, row) for row in rows]
    events += [event("u", rows[1], (2, "b", 7)), event("d", rows[3], None), event("u", rows[5], (6, "a", 4))]
    judge.produce(bootstrap, sales, *events)
    names = [(10, "a"), (11, "a"), (12, None), (13, "c"), (14, "z"), (15, None), (16, "b")]
    gone = [(11, "a"), (13, "c"), (12, None)]
    judge.produce(
        bootstrap,
        shops,
        *(name_event("c", row) for row in names),
        *(name_event("d", row) for row in gone),
        name_event("c", (17, "b")),
    )
    script(
        f"""
        CREATE TABLE sales {SALES} {kafka(bootstrap, sales, format="debezium-json", scan_max__records__per__batch="4")};
        CREATE TABLE shops (id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED)
            {kafka(bootstrap, shops, format="debezium-json", scan_max__records__per__batch="3")};
        CREATE TABLE kept (q STRING, id INT) WITH ('connector' = 'print');
        CREATE TABLE counted (q STRING, x STRING) WITH ('connector' = 'print');
        CREATE TABLE valued (q STRING, id INT, x INT) WITH ('connector' = 'print');
        """
    )
    run(script, f"INSERT INTO kept {QUERIES}; INSERT INTO counted {SETS}; INSERT INTO valued {VALUES};")
    found = table(script.lines)
    script("SET 'execution.runtime-mode' = 'batch'")
    wanted = [row for query in (QUERIES, SETS, VALUES) for row in script.rows(query)]
    assert found == sorted(", ".join("null" if each is None else str(each) for each in row) for row in wanted)
    assert {row[0] for row in wanted} == set(re.findall(r"SELECT '([a-z ]+)'", QUERIES + SETS + VALUES))


def name_event(op: str, row: tuple[int, str | None]) -> bytes:
    given = dict(zip(("id", "name"), row, strict=True))
    return json.dumps(
        {"op": op, "before": given if op == "d" else None, "after": given if op == "c" else None}
    ).encode()


def test_versions_of_a_table(script: Script, bootstrap: str, make_topic: MakeTopic) -> None:
    source, rates = (
        make_topic(config={"retention.ms": "-1"}),
        make_topic(suffix="r", config={"retention.ms": "-1"}),
    )
    base_ms = 1_767_323_040_000
    given = [("EUR", 110, 0), ("EUR", 120, 30), ("USD", 100, 0), ("GBP", 1, 100)]
    judge.produce(
        bootstrap,
        rates,
        *(
            judge.Record(
                key=json.dumps({"currency": currency}).encode(),
                value=json.dumps({"currency": currency, "rate": rate}).encode(),
                timestamp_ms=base_ms + at * 1_000,
            )
            for currency, rate, at in given
        ),
    )
    rows = [(1, "EUR", 10), (2, "EUR", 40), (3, "JPY", 41), (4, "USD", 99)]
    judge.produce(
        bootstrap,
        source,
        *(
            judge.Record(
                value=json.dumps({"id": key, "currency": currency}).encode(),
                timestamp_ms=base_ms + at * 1_000,
            )
            for key, currency, at in rows
        ),
    )
    time = "at TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL, WATERMARK FOR at AS at - INTERVAL '5' SECOND"
    script(
        f"""
        CREATE TABLE orders (id INT, currency STRING, {time}) {kafka(bootstrap, source)};
        CREATE TABLE rates (currency STRING, rate INT, {time}, PRIMARY KEY (currency) NOT ENFORCED)
            {upsert(bootstrap, rates)};
        CREATE TABLE priced (id INT, rate INT) WITH ('connector' = 'print');
        """
    )
    run(
        script,
        """
        INSERT INTO priced SELECT o.id, r.rate FROM orders AS o
            LEFT JOIN rates FOR SYSTEM_TIME AS OF o.at AS r ON o.currency = r.currency;
        """,
    )
    assert sorted(script.lines) == ["+I[1, 110]", "+I[2, 120]", "+I[3, null]"]


def test_a_select_shows_the_kind_of_each_row(
    script: Script, bootstrap: str, make_topic: MakeTopic, spark: SparkSession, tmp_path: Path
) -> None:
    source = make_topic()
    judge.produce(bootstrap, source, *orders(3))
    script(f"CREATE TABLE orders {ORDERS} {kafka(bootstrap, source)}")
    found = script("SELECT DISTINCT id / 2 AS half FROM orders UNION SELECT 7")[0]
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


def test_states_forget_what_was_not_written_for_their_time_to_live(
    script: Script, bootstrap: str, make_topic: MakeTopic
) -> None:
    """Of the runs of two jobs each reads ten rows. The second one is later than a millisecond."""
    source, topics = make_topic(), {name: make_topic(suffix=name) for name in ("n", "k", "t", "p", "q")}
    group = "(shop STRING PRIMARY KEY NOT ENFORCED, n BIGINT) {0}"
    script(
        f"""
        CREATE TABLE orders {ORDERS} {kafka(bootstrap, source)};
        CREATE TABLE forgotten {group.format(upsert(bootstrap, topics["n"]))};
        CREATE TABLE kept {group.format(upsert(bootstrap, topics["k"]))};
        CREATE TABLE top {group.format(upsert(bootstrap, topics["t"]))};
        CREATE TABLE pairs (one BIGINT, other BIGINT) {kafka(bootstrap, topics["p"])};
        CREATE TABLE none (one BIGINT, other BIGINT) {kafka(bootstrap, topics["q"])};
        SET 'table.exec.state.ttl' = '1 ms';
        """
    )
    pairs = "a.id, b.id FROM orders AS a JOIN orders AS b ON a.shop = b.shop AND a.id = b.id + 12"
    inserts = f"""
        INSERT INTO forgotten SELECT shop, COUNT(*) FROM orders GROUP BY shop;
        INSERT INTO kept SELECT /*+ STATE_TTL('orders' = '1 d') */ shop, COUNT(*) FROM orders GROUP BY shop;
        INSERT INTO top SELECT shop, least FROM (
            SELECT shop, least, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY least DESC) AS n FROM (
                SELECT /*+ STATE_TTL('orders' = '0 s') */ shop, MIN(id) AS least FROM orders GROUP BY shop
            )
        ) WHERE n = 1;
        INSERT INTO pairs SELECT /*+ STATE_TTL('b' = '1 d') */ {pairs};
        INSERT INTO none SELECT {pairs};
    """
    explained = "\n".join(row[0] for row in script(f"EXPLAIN STATEMENT SET BEGIN {inserts} END")[0].rows)
    assert "that have rows, until it was not written for 1 d" in explained
    assert "[I] and [I] becomes [I]." in explained
    assert "until it was not written (left for 1 ms, right for 1 d)" in explained
    for part in (orders(10), orders(20)[10:]):
        judge.produce(bootstrap, source, *part)
        run(script, inserts)
    found = {name: [tuple(row.values()) for row in written(bootstrap, topics[name])] for name in "nkt"}
    assert found == {
        "n": [("s0", 3), ("s1", 4), ("s2", 3)],
        "k": [("s0", 7), ("s1", 7), ("s2", 6)],
        "t": [("s0", 0), ("s1", 1), ("s2", 2)],
    }
    both = {
        name: [json.loads(each.value or b"{}") for each in judge.consume_all(bootstrap, topics[name])]
        for name in "pq"
    }
    assert sorted(each["one"] for each in both["p"]) == list(range(12, 20))
    assert both["q"] == []


def test_not_in_follows_rows_and_nulls_that_come_and_go(
    script: Script, bootstrap: str, make_topic: MakeTopic
) -> None:
    source, other = make_topic(), make_topic(suffix="o")
    script(
        f"""
        CREATE TABLE sales {SALES} {kafka(bootstrap, source, format="debezium-json")};
        CREATE TABLE barred {SALES} {kafka(bootstrap, other, format="debezium-json")};
        """
    )
    steps: list[tuple[str, list[bytes], list[int]]] = [
        (source, [event("c", None, (1, "a", 0)), event("c", None, (2, "b", 0)), event("c", None, (3, None, 0))], [1, 2, 3]),
        (other, [event("c", None, (9, "a", 0))], [2]),
        (other, [event("c", None, (8, None, 0))], []),
        (source, [event("c", None, (4, "c", 0))], []),
        (other, [event("u", (8, None, 0), (8, "b", 0))], [4]),
        (source, [event("u", (2, "b", 0), (2, "z", 0))], [2, 4]),
        (other, [event("d", (9, "a", 0), None), event("d", (8, "b", 0), None)], [1, 2, 3, 4]),
    ]  # fmt: skip
    there: Counter[int] = Counter()

    def apply(batch: DataFrame, _: int) -> None:
        for row in batch.collect():
            there[row.id] += 1 if row.row_kind in ("+I", "+U") else -1

    frame = script.session.sql("SELECT id FROM sales WHERE shop NOT IN (SELECT shop FROM barred)")
    with stopped(frame.writeStream.foreachBatch(apply).start()) as query:
        for topic, events, wanted in steps:
            judge.produce(bootstrap, topic, *events)
            query.processAllAvailable()
            assert there == Counter(wanted)


def test_a_clock_over_rows_that_change_is_refused_or_does_no_harm(
    script: Script, bootstrap: str, make_topic: MakeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    source, target, counts = make_topic(), make_topic(suffix="t"), make_topic(suffix="c")
    judge.produce(bootstrap, source, *EVENTS)
    script(
        f"""
        CREATE TABLE sales (id INT, shop STRING, amount INT, p AS PROCTIME(), PRIMARY KEY (id) NOT ENFORCED)
            {kafka(bootstrap, source, format="debezium-json", scan_max__records__per__batch="2")};
        CREATE TABLE seen (id INT PRIMARY KEY NOT ENFORCED, shop STRING, at TIMESTAMP_LTZ(3), p TIMESTAMP_LTZ(3))
            {upsert(bootstrap, target)};
        CREATE TABLE counts (shop STRING PRIMARY KEY NOT ENFORCED, n BIGINT, at TIMESTAMP_LTZ(3))
            {upsert(bootstrap, counts)};
        CREATE TABLE shown (shop STRING, x DOUBLE) WITH ('connector' = 'print');
        CREATE FUNCTION shout AS 'tests.spark.sql_functions.shout' LANGUAGE PYTHON;
        CREATE FUNCTION loud AS 'tests.spark.sql_functions.shout' LANGUAGE PYTHON DETERMINISTIC;
        CREATE FUNCTION words AS 'tests.spark.sql_table_functions.words' LANGUAGE PYTHON;
        CREATE FUNCTION pure_words AS 'tests.spark.sql_table_functions.pure_words' LANGUAGE PYTHON;
        """
    )
    for query, part in (
        ("INSERT INTO seen SELECT id, shop, NOW(), p FROM sales WHERE NOW() > DATE '2026-01-01'", "NOW"),
        ("EXPLAIN INSERT INTO shown SELECT shop, RAND() FROM sales", "RAND"),
        ("INSERT INTO shown SELECT shout(shop), 1 FROM sales", "shout"),
        ("CREATE VIEW v AS SELECT id, CURRENT_TIMESTAMP AS c FROM sales", "CURRENT"),
        ("SELECT * FROM sales", "*"),
        ("SELECT id, UNIX_TIMESTAMP(CAST(p AS STRING)) FROM sales", "p AS"),
        ("SELECT word FROM sales, LATERAL TABLE(words(shop)) AS w (word, place)", "words"),
    ):
        place = query.rindex(part) + 1
        assert re.match(rf"Line 1, column {place}: .* over rows that change", script.refusal(query)), query
    assert "asNondeterministic() in Python" in script.refusal(
        "CREATE FUNCTION g AS 'tests.spark.sql_functions.guess' LANGUAGE PYTHON DETERMINISTIC"
    )
    run(
        script,
        """
        INSERT INTO seen SELECT id, loud(shop), CURRENT_TIMESTAMP, p FROM sales;
        INSERT INTO counts SELECT word, COUNT(*), NOW()
            FROM sales, LATERAL TABLE(pure_words(shop)) AS w (word, place) GROUP BY word;
        """,
    )
    assert [(row["id"], row["shop"]) for row in written(bootstrap, target)] == [(1, "B!"), (2, "A!")]
    assert [(row["shop"], row["n"]) for row in written(bootstrap, counts)] == [("a", 1), ("b", 1)]
    assert script.lines == []

    script("SET 'table.optimizer.non-deterministic-update.strategy' = 'IGNORE'")
    accepted = "INSERT INTO shown SELECT shop, RAND() FROM sales WHERE NOW() > DATE '2026-01-01'"
    warned = [
        f"column {accepted.index(name) + 1}: {name} over rows that change may" for name in ("NOW", "RAND")
    ]
    explained = "\n".join(row[0] for row in script(f"EXPLAIN {accepted}")[0].rows)
    assert "NOW over rows that change may give another value when a row is taken back." in explained
    caplog.clear()
    run(script, accepted)
    warnings = [each.getMessage() for each in caplog.records if "over rows that change" in each.getMessage()]
    assert len(warnings) == 1
    assert all(each in warnings[0] for each in warned)
    assert len(script.lines) == 8
    script(
        "SET 'execution.runtime-mode' = 'batch'; RESET 'table.optimizer.non-deterministic-update.strategy'"
    )
    assert script.rows(
        "SELECT id, p < NOW() + INTERVAL '1' DAY, shout(shop) FROM sales WHERE RAND() >= 0 ORDER BY id"
    ) == [
        (1, True, "B!"),
        (2, True, "A!"),
    ]


def test_metadata_of_change_data_is_of_the_record_that_changes_the_row(
    script: Script, bootstrap: str, make_topic: MakeTopic
) -> None:
    source, target = make_topic(), make_topic(suffix="t")
    judge.produce(bootstrap, source, *EVENTS)
    script(
        f"""
        CREATE TABLE sales (id INT, shop STRING, o BIGINT METADATA FROM 'offset', twice AS o + o, e BIGINT,
            PRIMARY KEY (id) NOT ENFORCED) {kafka(bootstrap, source, format="debezium-json")};
        CREATE TABLE copy (id INT PRIMARY KEY NOT ENFORCED, shop STRING, o BIGINT) {upsert(bootstrap, target)};
        CREATE TABLE shown (shop STRING, o BIGINT) WITH ('connector' = 'print');
        """
    )
    summed = "INSERT INTO shown SELECT shop, SUM(o) FROM sales GROUP BY shop"
    for query, name in (
        (summed, "o"),
        ("INSERT INTO copy SELECT id, shop, o FROM sales WHERE id > 0", "o"),
        ("CREATE VIEW v AS SELECT id, twice FROM sales; SELECT * FROM v", "twice"),
        ("INSERT INTO copy SELECT id, shop, twice FROM sales WHERE id > 0", "twice"),
    ):
        assert f"the column '{name}' (METADATA FROM 'offset') over rows that change" in script.refusal(query)
    run(script, "INSERT INTO copy SELECT id, shop, o + 0 FROM sales")
    assert [tuple(row.values()) for row in written(bootstrap, target)] == [(1, "b", 3), (2, "a", 4)]
    script("SET 'table.exec.source.cdc-events-duplicate' = 'true'")
    run(script, summed)
    assert table(script.lines) == ["a, 4", "b, 3"]
