"""Queries over a changelog, in Flink's SQL on real Spark and a real broker: joins, first rows, queries in queries, time to live.

Each answer is the table after all changes.
"""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest
from pyspark.sql import DataFrame

from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.queries import stopped
from tests.spark.sql_changes import EVENTS, SALES, event, run, table, upsert, written
from tests.spark.test_sql import ORDERS, Script, kafka, orders
from tests.spark.test_sql import script as script  # noqa: PLC0414 - a fixture


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
        *(("s0", rank, number) for rank, number in ((1, 3), (2, 0), (3, 6))),
        *(("s1", rank, number) for rank, number in ((1, 7), (2, 4), (3, 1))),
        *(("s2", rank, number) for rank, number in ((1, 8), (2, 5), (3, 2))),
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


def test_a_row_that_a_top_n_would_keep_is_refused_by_its_name(
    script: Script, bootstrap: str, make_topic: MakeTopic
) -> None:
    script(
        f"""
        CREATE TABLE a (id BIGINT, place ROW<city STRING, zip INT>) {kafka(bootstrap, make_topic())};
        CREATE TABLE target (id BIGINT, place ROW<city STRING, zip INT>) WITH ('connector' = 'print');
        """
    )
    message = script.refusal(
        "EXPLAIN INSERT INTO target SELECT id, place FROM (SELECT id, place, "
        "ROW_NUMBER() OVER (PARTITION BY id ORDER BY id) AS n FROM a) WHERE n <= 2"
    )
    assert "The column 'place' of type struct<city: string, zip: int32> cannot be a key" in message
