"""Flink's SQL on real Spark and a real broker."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.errors import OptionError, SqlError
from penstock.sql.run.session import Session
from tests import judge
from tests.fix_broker import MakeTopic
from tests.waiting import Patience, wait_until

WAIT_S = 240


class Script:
    """A session, the lines of its print tables, and the options of its Kafka tables."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.lines: list[str] = []
        self.session = Session(spark, self.lines.append)
        self.session.execute(f"SET 'execution.checkpointing.dir' = '{folder}/checkpoints'")

    def __call__(self, text: str) -> list[Any]:
        return self.session.execute(text)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.session.sql(query).collect()]

    def refusal(self, text: str) -> str:
        with pytest.raises(SqlError) as error:
            self.session.execute(text)
        return str(error.value)


@pytest.fixture
def script(spark: SparkSession, tmp_path: Path) -> Iterator[Script]:
    made = Script(spark, tmp_path)
    yield made
    made.session.stop()


def kafka(bootstrap: str, topic: str, **more: str) -> str:
    """Return WITH of a JSON table that begins at the earliest records."""
    options = {
        "connector": "kafka",
        "topic": topic,
        "properties.bootstrap.servers": bootstrap,
        "scan.startup.mode": "earliest-offset",
        "format": "json",
        **{key.replace("__", "-").replace("_", "."): value for key, value in more.items()},
    }
    pairs = [f"'{key}' = '{value}'" for key, value in options.items()]
    return f"WITH ({', '.join(pairs)})"


BOUNDED = {"scan_bounded_mode": "latest-offset"}


def orders(count: int) -> list[bytes]:
    return [json.dumps({"id": n, "shop": f"s{n % 3}", "amount": n / 4}).encode() for n in range(count)]


ORDERS = (
    "(id BIGINT, shop STRING, amount DECIMAL(10, 2), at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL)"
)


@pytest.mark.promise
def test_a_stream_is_filtered_into_a_topic_and_continues_after_a_stop(
    script: Script, bootstrap: str, make_topic: MakeTopic
) -> None:
    source, target = make_topic(2), make_topic()
    judge.produce(bootstrap, source, *orders(20))
    tables = f"""
        CREATE TABLE orders {ORDERS} {kafka(bootstrap, source)};
        CREATE TABLE large (id BIGINT NOT NULL, text STRING) {kafka(bootstrap, target)};
    """
    insert = "INSERT INTO large SELECT id, UPPER(shop) || '!' FROM orders WHERE id >= 10"
    script(tables)
    wrong = script(insert.replace("orders", "orders /*+ OPTIONS('topic' = 'absent') */"))
    wait_until(lambda: wrong[0].job.status == "FAILED", "the job without its topic")
    job = script(insert)[0].job  # the corrected one: the wrong one has not planned a batch
    job.queries[0].processAllAvailable()
    shown = script("SHOW JOBS")[0].rows
    assert [row[1:3] for row in shown] == [("insert-into_large", "FAILED"), ("insert-into_large", "RUNNING")]
    assert "Topic 'absent' is read by the table 'orders' (CREATE TABLE in line 2)." in shown[0][4]
    [stopped] = script(f"STOP JOB '{job.id}' WITH SAVEPOINT")
    assert stopped.rows[0][0].endswith("/insert-into_large")
    assert script("SHOW JOBS")[0].rows[1][2] == "CANCELED"
    assert len(judge.consume_all(bootstrap, target)) == 10
    judge.produce(bootstrap, source, *orders(30)[20:])
    changed = script.refusal("INSERT INTO large SELECT id, shop FROM orders")
    assert "belongs to another query" in changed
    with ThreadPoolExecutor(1) as pool:  # a thread that did not make the session
        hinted = insert.replace("orders", "orders /*+ OPTIONS('scan.max-records-per-batch' = '7') */")
        job = pool.submit(script, hinted).result()[0].job
    job.queries[0].processAllAvailable()
    job.stop()
    records = judge.consume_all(bootstrap, target)
    written = sorted((json.loads(record.value or b"") for record in records), key=lambda row: row["id"])
    assert written == [{"id": n, "text": f"S{n % 3}!"} for n in range(10, 30)]


@pytest.mark.promise
def test_windows_joins_and_sets_of_statements_over_bounded_streams(
    script: Script, bootstrap: str, make_topic: MakeTopic
) -> None:
    source, shops, target = make_topic(config={"retention.ms": "-1"}), make_topic(), make_topic()
    base_ms = 1_767_323_040_000  # a whole minute
    at = [0, 10, 59, 60, 130, 600]
    records = [
        judge.Record(value=value, timestamp_ms=base_ms + seconds * 1_000)
        for value, seconds in zip(orders(6), at, strict=True)
    ]
    judge.produce(bootstrap, source, *records)
    judge.produce(bootstrap, shops, *(b'{"shop": "s%d", "city": "c%d"}' % (n, n) for n in range(2)))
    script(
        f"""
        CREATE TABLE orders (
            id BIGINT, shop STRING, amount DECIMAL(10, 2),
            ts TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL,
            twice AS amount * 2,
            WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
        ) {kafka(bootstrap, source, **BOUNDED)};
        CREATE TABLE shops (shop STRING, city STRING) {kafka(bootstrap, shops, **BOUNDED)};
        CREATE TABLE sums (b TIMESTAMP(3), e TIMESTAMP(3), n BIGINT, total DECIMAL(38, 2))
            {kafka(bootstrap, target)};
        CREATE TABLE shown (id BIGINT, city STRING, twice DECIMAL(12, 2)) WITH ('connector' = 'print');
        SET 'table.dml-sync' = 'true';
        """
    )
    done = script(
        """
        EXECUTE STATEMENT SET BEGIN
        INSERT INTO sums SELECT window_start, window_end, COUNT(*), SUM(amount)
            FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
        INSERT INTO shown SELECT o.id, s.city, o.twice FROM orders AS o JOIN shops AS s ON o.shop = s.shop
            WHERE o.id < 3;
        END;
        """
    )
    assert not done[0].job.is_active
    # The last window is open: no record has closed it.
    written = [json.loads(record.value or b"") for record in judge.consume_all(bootstrap, target)]
    assert sorted(written, key=lambda row: str(row["b"])) == [
        {"b": "2026-01-02 03:04:00", "e": "2026-01-02 03:05:00", "n": 3, "total": 0.75},
        {"b": "2026-01-02 03:05:00", "e": "2026-01-02 03:06:00", "n": 1, "total": 0.75},
        {"b": "2026-01-02 03:06:00", "e": "2026-01-02 03:07:00", "n": 1, "total": 1.00},
    ]
    assert sorted(script.lines) == ["+I[0, c0, 0.00]", "+I[1, c1, 0.50]"]


def test_what_a_stream_cannot_do_is_refused_before_it_starts(
    script: Script, bootstrap: str, make_topic: MakeTopic
) -> None:
    script(
        f"""
        CREATE TABLE orders {ORDERS} {kafka(bootstrap, "never-read")};
        CREATE TABLE target (shop STRING, n BIGINT) {kafka(bootstrap, "never-written")};
        CREATE TABLE changes (id BIGINT) {kafka(bootstrap, "never-read", format="debezium-json")};
        CREATE TABLE keyed (id BIGINT PRIMARY KEY NOT ENFORCED) {kafka(bootstrap, "never-read")};
        CREATE TABLE shown (id BIGINT) WITH ('connector' = 'print');
        """
    )
    grouped = script.refusal("INSERT INTO target SELECT shop, COUNT(*) FROM orders GROUP BY shop")
    assert "Line 1, column 13: Table sink 'target' doesn't support consuming update changes" in grouped
    lag = script.refusal("SELECT LAG(id) OVER (PARTITION BY shop ORDER BY id) FROM orders")
    assert "OVER in a stream needs one table with a WATERMARK" in lag
    assert "produced by node TableSourceScan" in script.refusal(
        "INSERT INTO target SELECT 'a', id FROM changes"
    )
    assert "a PRIMARY KEY is for tables whose rows change other rows" in script.refusal("SELECT * FROM keyed")
    assert "the table cannot be read" in script.refusal("SELECT * FROM shown")
    assert "the query gives STRING for the column 'n'" in script.refusal(
        "INSERT INTO target SELECT shop, shop FROM orders"
    )
    assert "the query has 1 columns" in script.refusal("INSERT INTO target SELECT shop FROM orders")
    assert "Line 1, column 8: there is no column 'nope'. FROM has id" in script.refusal(
        "SELECT nope FROM orders"
    )
    script("RESET 'execution.checkpointing.dir'")
    no_folder = script.refusal("INSERT INTO target SELECT shop, id FROM orders")
    assert "a stream needs a folder for its checkpoints" in no_folder
    assert not script.session.jobs


MANY_DIGITS = Decimal("1234567890123456789012345678901234567.8")
PLAIN = "(VALUES (1, 'a', 2.5), (2, 'a', 1.5), (3, 'b', CAST(NULL AS DECIMAL(2, 1)))) AS t (i, s, d)"
BATCHES = [
    (f"SELECT s, SUM(i), AVG(i), COUNT(d) FROM {PLAIN} GROUP BY s ORDER BY s", [("a", 3, 1, 2), ("b", 3, 3, 0)]),
    (f"SELECT COUNT(DISTINCT s), MAX(i) FILTER (WHERE s = 'a') FROM {PLAIN}", [(2, 2)]),
    (f"SELECT s, i FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY s ORDER BY i DESC) AS n FROM {PLAIN}) WHERE n = 1 ORDER BY s", [("a", 2), ("b", 3)]),
    (f"SELECT i, SUM(i) OVER (ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM {PLAIN} ORDER BY i", [(1, 1), (2, 3), (3, 5)]),
    (f"SELECT i, NTILE(2) OVER (ORDER BY i) FROM {PLAIN} ORDER BY i", [(1, 1), (2, 1), (3, 2)]),
    (f"SELECT s FROM {PLAIN} GROUP BY s HAVING SUM(i) > 2 ORDER BY s DESC LIMIT 1", [("b",)]),
    (f"WITH x AS (SELECT s, MIN(i) AS m FROM {PLAIN} GROUP BY s) SELECT m / 2 FROM x ORDER BY s", [(0,), (1,)]),
    ("WITH x AS (SELECT 1 AS i) SELECT a.i, x.i / 2 FROM (WITH x AS (SELECT 7 AS i) SELECT i / 2 AS i FROM x) AS a, x", [(3, 0)]),
    ("SELECT x FROM (VALUES (1)) AS t (i) CROSS JOIN UNNEST(ARRAY[3, 4]) AS e (x) ORDER BY x", [(3,), (4,)]),
    ("SELECT * FROM (VALUES (1, 'a'), (2, 'z'), (3, CAST(NULL AS STRING))) AS a (k, x) LEFT JOIN LATERAL "
     f"(SELECT i AS m, d FROM {PLAIN} WHERE t.s = a.x ORDER BY m DESC LIMIT 1) AS b ON TRUE ORDER BY k",
     [(1, "a", 2, 1.5), (2, "z", None, None), (3, None, None, None)]),
    ("SELECT k, v FROM (VALUES (1)) AS t (i) LEFT JOIN UNNEST(MAP['a', 1]) AS e (k, v) ON TRUE", [("a", 1)]),
    ("SELECT x, n FROM (VALUES (1)) AS t (i) CROSS JOIN UNNEST(ARRAY[3, 4]) WITH ORDINALITY AS e (x, n) ORDER BY n", [(3, 1), (4, 2)]),
    ("SELECT y, x, n FROM (VALUES (1)) AS t (i) CROSS JOIN UNNEST(ARRAY[ROW(3, 'a'), ROW(4, 'b')]) WITH ORDINALITY AS e (x, y, n) "
     "ORDER BY n DESC", [("b", 4, 2), ("a", 3, 1)]),
    ("SELECT k, v, n FROM (VALUES (1)) AS t (i) CROSS JOIN UNNEST(MAP['a', 1]) WITH ORDINALITY AS e (k, v, n)", [("a", 1, 1)]),
    ("SELECT x FROM (VALUES (3), (1), (2)) AS t (x) ORDER BY x LIMIT 1 OFFSET 1", [(2,)]),
    ("WITH w AS (SELECT x FROM (VALUES (3), (1)) AS t (x)) SELECT x FROM w WHERE x > 2 UNION ALL SELECT x FROM w ORDER BY x", [(1,), (3,), (3,)]),
    ("SELECT s, GROUPING(s) AS g FROM (VALUES ('a')) AS t (s) GROUP BY CUBE (s) ORDER BY g", [("a", 0), (None, 1)]),
    ("SELECT CEIL(CAST(9.5 AS DECIMAL(2, 1))) AS x", [(Decimal(10),)]),
    # Spark's own `-` and `abs` round a DECIMAL to 34 digits.
    ("SELECT -x, - -x, ABS(x), ABS(-x) FROM (VALUES (CAST('1234567890123456789012345678901234567.8' AS DECIMAL(38, 1)))) AS t (x)",
     [(MANY_DIGITS.copy_negate(), MANY_DIGITS, MANY_DIGITS, MANY_DIGITS)]),
    ("SELECT 1 EXCEPT SELECT 2", [(1,)]),
    ("SELECT 1 WHERE 1 IN (SELECT i FROM (VALUES (1), (2)) AS t (i))", [(1,)]),
    ("SELECT 1 WHERE 1 NOT IN (SELECT i FROM (VALUES (1)) AS t (i) WHERE i > 5)", [(1,)]),
    ("SELECT s, GROUPING_COUNT FROM (SELECT s, COUNT(*) AS GROUPING_COUNT FROM (VALUES ('a'), ('b')) AS t (s) GROUP BY GROUPING SETS ((s), ())) ORDER BY s", [(None, 2), ("a", 1), ("b", 1)]),
    (
        "SELECT window_start, window_time, COUNT(*) FROM TABLE(HOP(TABLE times, DESCRIPTOR(ts), INTERVAL '30' MINUTE, INTERVAL '1' HOUR)) "
        "GROUP BY window_start, window_end, window_time ORDER BY window_start",
        [
            (datetime(2026, 1, 1, 0, 0), datetime(2026, 1, 1, 0, 59, 59, 999000), 1),
            (datetime(2026, 1, 1, 0, 30), datetime(2026, 1, 1, 1, 29, 59, 999000), 2),
            (datetime(2026, 1, 1, 1, 0), datetime(2026, 1, 1, 1, 59, 59, 999000), 1),
        ],
    ),
    (
        "SELECT k, SESSION_START(ts, INTERVAL '20' MINUTE), COUNT(*) FROM times GROUP BY k, SESSION(ts, INTERVAL '20' MINUTE)",
        [("a", datetime(2026, 1, 1, 0, 50), 2)],
    ),
]  # fmt: skip


@pytest.mark.promise
def test_batches_give_the_rows_of_flink(script: Script) -> None:
    script(
        """
        SET 'execution.runtime-mode' = 'batch';
        CREATE VIEW times (k, ts) AS VALUES ('a', TIMESTAMP '2026-01-01 00:50:00'), ('a', TIMESTAMP '2026-01-01 01:00:00')
        """
    )
    for query, expected in BATCHES:
        assert script.rows(query) == expected, query


def test_only_the_fields_that_a_query_takes_are_decoded(
    script: Script, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    values = [
        {"id": 1, "bid": {"price": 5, "by": {"name": "Ada", "age": "old"}, "extra": "no number"}},
        {"id": 2, "bid": None},
        {"id": 3},
        {"id": 4, "bid": {"extra": 4}},
    ]
    judge.produce(bootstrap, topic, *(json.dumps(each).encode() for each in values))
    columns = (
        "id INT, bid ROW<price INT, `by` ROW<name STRING, age INT>, extra INT>, cents AS bid.price * 100"
    )
    script(f"CREATE TABLE bids ({columns}) {kafka(bootstrap, topic)}; SET 'execution.runtime-mode' = 'batch'")
    rows = [(1, 5, "Ada", 500), (2, None, None, None), (3, None, None, None), (4, None, None, None)]
    assert sorted(script.rows("SELECT id, b.bid.price, b.bid.`by`.name, cents FROM bids b")) == rows
    assert script.rows(
        "SELECT id FROM bids WHERE id > 3 UNION ALL SELECT bid.price FROM bids WHERE id = 1"
    ) == [
        (4,),
        (5,),
    ]
    for query in ("SELECT bid FROM bids", "SELECT bid.extra FROM bids", "SELECT b.bid.`by`.age FROM bids b"):
        with pytest.raises(PySparkException, match=r"(extra|age)"):
            script.rows(query)


def test_a_batch_reads_only_the_records_that_its_conditions_on_metadata_keep(
    script: Script, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=2)
    start_ms = 1_000 * int(time.time())
    at = [datetime.fromtimestamp(start_ms / 1_000 + each, UTC).replace(tzinfo=None) for each in (5.5, 8)]
    values = [b"{" if number == 3 else json.dumps({"id": number}).encode() for number in range(12)]
    records = [
        judge.Record(value=value, partition=number % 2, timestamp_ms=start_ms + 1_000 * number)
        for number, value in enumerate(values)
    ]
    judge.produce(bootstrap, topic, *records)
    columns = "id INT, o BIGINT METADATA FROM 'offset', `partition` INT METADATA, at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'"
    script(
        f"CREATE TABLE logged ({columns}) {kafka(bootstrap, topic)}; SET 'execution.runtime-mode' = 'batch'"
    )
    for condition, expected in (
        ("o > 2 AND o <= 4", {6, 7, 8, 9}),
        ("`partition` = 0 AND id < 5", {0, 2, 4}),
        (f"at >= TO_TIMESTAMP_LTZ({start_ms + 4_000}, 3) AND 4 > o", {4, 5, 6, 7}),
        (
            f"at BETWEEN TIMESTAMP '{at[0]}' AND TIMESTAMP '{at[1]}' AND o IN (3, 4)",
            {6, 7, 8},
        ),
    ):
        # None of these has the record with offset 1 of partition 1, which is not JSON.
        assert {row[0] for row in script.rows(f"SELECT id FROM logged WHERE {condition}")} == expected, (
            condition
        )
    with pytest.raises(PySparkException, match="cannot be decoded"):
        script.rows("SELECT id FROM logged WHERE o > 2 OR id = 0")
    both = "SELECT a.id FROM logged AS a JOIN logged AS b ON a.id = b.id WHERE {} AND b.o > 3"
    assert "where" not in "\n".join(row[0] for row in script("EXPLAIN " + both.format("a.o > 2"))[0].rows)


def test_names_and_settings_of_a_session(script: Script, spark: SparkSession) -> None:
    script(
        """
        CREATE TABLE a (i INT NOT NULL COMMENT 'c', j AS i + 1, PRIMARY KEY (i) NOT ENFORCED) WITH ('connector' = 'kafka');
        CREATE TABLE b WITH ('topic' = 'x') LIKE a (EXCLUDING CONSTRAINTS);
        CREATE DATABASE d; USE d; CREATE TABLE c (i INT) WITH ('connector' = 'blackhole'); USE default_database;
        ALTER TABLE b ADD (k STRING); ALTER TABLE b RENAME k TO l; ALTER TABLE b SET ('topic' = 'y');
        """
    )
    shown = script("SHOW TABLES; SHOW TABLES FROM d; DESCRIBE a; SHOW CREATE TABLE b; SHOW CURRENT DATABASE")
    assert shown[0].rows == (("a",), ("b",))
    assert shown[1].rows == (("c",),)
    assert shown[2].rows[0] == ("i", "INT", "FALSE", "PRI(i)", "", "")
    assert shown[2].rows[1] == ("j", "", "TRUE", "", "AS i + 1", "")
    assert "`l` STRING" in shown[3].rows[0][0]
    assert "'topic' = 'y'" in shown[3].rows[0][0]
    assert "there is a table or view 'a' already" in script.refusal("CREATE TABLE a (i INT)")
    assert "Did you mean 'execution.runtime-mode'?" in script.refusal(
        "SET 'execution.runtime.mode' = 'batch'"
    )
    assert "the column 't': TIME is not served" in script.refusal("CREATE TABLE t (t TIME(3))")
    script("CREATE TEMPORARY FUNCTION shout AS 'tests.spark.sql_functions.shout' LANGUAGE PYTHON")
    assert script.rows("SELECT shout('a')") == [("A!",)]
    script("DROP TABLE a; DROP TABLE IF EXISTS a")
    assert script("SHOW TABLES")[0].rows == (("b",),)
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises(OptionError, match="overflows and wrong casts would become NULL"):
            Session(spark)
    finally:
        spark.conf.set("spark.sql.ansi.enabled", "true")


@pytest.mark.promise
def test_the_command_line(bootstrap: str, make_topic: MakeTopic, spark: SparkSession, tmp_path: Path) -> None:
    source, target = make_topic(), make_topic()
    judge.produce(bootstrap, source, *orders(3))
    good, bad = tmp_path / "job.sql", tmp_path / "bad.sql"
    good.write_text(
        f"""
        SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';
        CREATE TABLE orders {ORDERS} {kafka(bootstrap, source, **BOUNDED)};
        CREATE TABLE target (id BIGINT) {kafka(bootstrap, target)};
        INSERT INTO target SELECT id FROM orders;
        SELECT id, shop FROM orders WHERE id = 2;
        """
    )
    runner = CliRunner()
    explained = runner.invoke(app, ["sql", "--explain", str(good)])
    assert explained.exit_code == 0, explained.output
    assert "INSERT INTO target: connector kafka, at-least-once" in explained.output
    assert "Guarantee:" in explained.output
    assert "Plan of Spark:" not in explained.output
    bad.write_text(
        f"{good.read_text().partition('INSERT')[0]} EXPLAIN INSERT INTO target SELECT id FROM orders;"
    )
    explained = runner.invoke(app, ["sql", str(bad)])
    assert "StreamingRelation penstock" in explained.output.partition("Plan of Spark:")[2]
    bad.write_text("SELECT 1;\nSELCT 2;\n")
    assert judge.consume_all(bootstrap, target) == []
    done = runner.invoke(app, ["sql", str(good)])
    assert done.exit_code == 0, done.output
    assert "+I[2, s2]" in done.output
    assert len(judge.consume_all(bootstrap, target)) == 3
    wrong = runner.invoke(app, ["sql", str(good), str(bad)])
    assert wrong.exit_code == 2
    assert "Line 2, column 1" in wrong.output
    assert "Did you mean 'SELECT'?" in wrong.output


def test_a_job_stops_as_a_whole_when_one_query_fails(
    script: Script, bootstrap: str, make_topic: MakeTopic
) -> None:
    source, target = make_topic(), make_topic()
    judge.produce(bootstrap, source, *orders(3))
    script(
        f"""
        CREATE TABLE orders {ORDERS} {kafka(bootstrap, source)};
        CREATE TABLE target (id BIGINT NOT NULL) {kafka(bootstrap, target)};
        CREATE TABLE nothing (id BIGINT) WITH ('connector' = 'blackhole');
        """
    )
    job = script(
        "EXECUTE STATEMENT SET BEGIN INSERT INTO nothing SELECT id FROM orders; "
        "INSERT INTO target SELECT NULLIF(id, 1) FROM orders; END"
    )[0].job
    with pytest.raises(Exception, match="The column id is NOT NULL"):
        job.wait(WAIT_S)
    assert not job.is_active
    patience = Patience("all queries have ended", WAIT_S)
    while any(query.isActive for query in job.queries):
        patience.check()
    assert judge.consume_all(bootstrap, target) == []
