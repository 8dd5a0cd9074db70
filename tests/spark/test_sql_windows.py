"""Windows over streams of files on real Spark: each window comes once, when the watermark has passed its end.

The same queries over the same rows in a batch are the reference. The batch is compared with Flink's answers in
test_sql_flink.py.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.reused_shuffles import REUSE
from tests.spark.queries import stopped
from tests.spark.test_sql import Script
from tests.spark.test_sql import script as script  # noqa: PLC0414 - a fixture

COLUMNS = "id BIGINT, shop STRING, amount INT, ts TIMESTAMP(3)"
WATERMARK = "WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE"
ZONE, DAY = "Europe/Berlin", "2026-03-29"
"""The day and zone in which the hour from 02:00 does not exist."""
ROWS: list[list[tuple[Any, ...]]] = [
    [(1, "a", 5, "02:00:00"), (2, "a", 7, "02:04:59.999"), (3, "b", 1, "02:05:00"), (4, None, 9, "02:13:00")],
    [(5, "b", 2, "02:12:30"), (6, "a", 5, "02:16:00"), (7, "c", 5, "02:29:00")],
    [(8, "a", None, "02:28:30"), (9, "b", 3, "02:44:00"), (10, "b", 3, "02:46:30")],
]
LATE: tuple[Any, ...]
LAST: tuple[Any, ...]
LATE, LAST = (98, "a", 1000, "02:01:00"), (99, "z", 0, "23:00:00")


def write(folder: Path, name: str, rows: list[tuple[Any, ...]]) -> None:
    lines = [
        json.dumps(dict(zip(("id", "shop", "amount", "ts"), (*row[:3], f"{DAY} {row[3]}"), strict=True)))
        for row in rows
    ]
    waiting = folder.parent / f"{name}.part"
    waiting.write_text("\n".join(lines))
    folder.mkdir(exist_ok=True)
    waiting.rename(folder / name)


def tables(script: Script, orders: Path, closed: Path) -> None:
    """Create `orders`, which is a stream, and `all_orders`, which has the same rows but LATE and LAST."""
    connector = "'connector' = 'filesystem', 'format' = 'json'"
    monitored = f"{connector}, 'source.monitor-interval' = '1 s'"
    script(
        f"""
        CREATE FUNCTION words AS 'tests.spark.sql_table_functions.words' LANGUAGE PYTHON;
        CREATE TABLE orders ({COLUMNS}, {WATERMARK}) WITH ({monitored}, 'path' = '{orders}');
        CREATE TABLE all_orders ({COLUMNS}, {WATERMARK}) WITH ({connector}, 'path' = '{closed}');
        """
    )


class Files:
    """The rows of both tables, in files."""

    def __init__(self, folder: Path) -> None:
        self.orders, self.closed = folder / "orders", folder / "closed"
        self.orders.mkdir()
        for number, rows in enumerate(ROWS):
            write(self.closed, f"{number}.json", rows)


WINDOW = "TABLE orders, DESCRIPTOR(ts), INTERVAL"
CUMULATE = f"TABLE(CUMULATE({WINDOW} '5' MINUTE, INTERVAL '15' MINUTE, INTERVAL '-2' MINUTE))"
TUMBLE = f"TABLE(TUMBLE({WINDOW} '15' MINUTE))"
COUNTS = f"SELECT shop, COUNT(*) AS n, window_start AS s, window_end AS e FROM {TUMBLE} GROUP BY shop, window_start, window_end"
IN_ORDER = "in_order"
QUERIES = {
    "cumulate": f"SELECT window_start, window_end, window_time, shop, COUNT(*), SUM(amount) FROM {CUMULATE} "
    "GROUP BY window_start, window_end, window_time, shop",
    "sets": f"SELECT window_end, shop, COUNT(*), MAX(amount) FROM {CUMULATE} "
    "GROUP BY window_start, window_end, GROUPING SETS ((shop), ())",
    "top": "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY s DESC, shop) AS place "
    f"FROM (SELECT window_start, window_end, shop, SUM(amount) AS s FROM {TUMBLE} GROUP BY window_start, window_end, shop)) "
    "WHERE place <= 2",
    "newest": "SELECT window_end, shop, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, shop "
    f"ORDER BY ts DESC) AS place FROM {TUMBLE}) WHERE place = 1",
    "sessions": f"SELECT window_start, window_end, COUNT(*), SUM(amount) FROM TABLE(SESSION({WINDOW} '10' MINUTE)) "
    "GROUP BY window_start, window_end",
    "group_sessions": "SELECT SESSION_START(ts, INTERVAL '12' MINUTE), COUNT(*) FROM orders "
    "GROUP BY SESSION(ts, INTERVAL '12' MINUTE)",
    "words": "SELECT id, w, n FROM orders, LATERAL TABLE(words(COALESCE(shop, 'x y'))) AS f (w, n) WHERE id < 90",
    "many_hops": f"SELECT window_start, window_end, COUNT(*) FROM TABLE(HOP({WINDOW} '20' SECOND, INTERVAL '15' MINUTE, "
    "INTERVAL '7' SECOND)) GROUP BY window_start, window_end",
    "groups": "SELECT window_end, COUNT(*), MAX(s) FROM (SELECT window_start, window_end, shop, SUM(amount) AS s "
    f"FROM {TUMBLE} GROUP BY window_start, window_end, shop) GROUP BY window_start, window_end",
    "cascade": "WITH w AS (SELECT window_time AS t, shop, COUNT(*) AS n FROM TABLE(TUMBLE("
    f"{WINDOW} '5' MINUTE)) GROUP BY window_start, window_end, window_time, shop) "
    "SELECT window_start, window_end, SUM(n) FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(t), INTERVAL '15' MINUTE)) "
    "GROUP BY window_start, window_end",
    "cascade_of_ends": "WITH w AS (SELECT window_end AS e, window_time AS t, shop, COUNT(*) AS n FROM TABLE(TUMBLE("
    f"{WINDOW} '5' MINUTE)) GROUP BY window_start, window_end, window_time, shop), x AS (SELECT window_time AS t, "
    "MAX(e) AS e, SUM(n) AS n FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(t), INTERVAL '10' MINUTE)) "
    "GROUP BY window_start, window_end, window_time) SELECT window_start, window_end, MAX(e), SUM(n) "
    "FROM TABLE(TUMBLE(TABLE x, DESCRIPTOR(t), INTERVAL '30' MINUTE)) GROUP BY window_start, window_end",
    "join": f"SELECT a.id, b.id AS other, COALESCE(a.window_end, b.window_end) AS e FROM (SELECT * FROM {TUMBLE}) AS a "
    f"FULL JOIN (SELECT * FROM {TUMBLE} WHERE amount < 5) AS b "
    "ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.amount + 2 = b.amount + 4",
    "most": f"SELECT a.shop, a.n, a.e FROM ({COUNTS}) AS a JOIN (SELECT MAX(n) AS most, e, s FROM ({COUNTS}) AS c "
    "GROUP BY s, e) AS b ON a.s = b.s AND a.e = b.e AND a.n >= b.most",
    "over_range": "SELECT id, shop, COUNT(*) OVER w1, SUM(amount) OVER w1, AVG(amount) OVER w1, MIN(amount) OVER w1 "
    "FROM orders",
    "over_running": "SELECT id, amount - LAG(amount) OVER w2, SUM(amount) OVER w2, ROW_NUMBER() OVER w2, FIRST_VALUE(id) OVER w2 "
    "FROM orders WHERE id <> 6",
    IN_ORDER: "SELECT shop, id FROM orders WHERE id <> 7 ORDER BY ts, amount + 1 DESC",
}


FRAMES = {
    "w1": "(PARTITION BY shop ORDER BY ts RANGE BETWEEN INTERVAL '15' MINUTE PRECEDING AND CURRENT ROW)",
    "w2": "(PARTITION BY shop ORDER BY ts)",
}


def query_of(name: str) -> str:
    query = QUERIES[name]
    for window, text in FRAMES.items():
        query = query.replace(f"OVER {window}", f"OVER {text}")
    return query


@pytest.fixture
def reuse(spark: SparkSession) -> Iterator[None]:
    """Give the option back that a query with two watermarks turns off."""
    before = spark.conf.get(REUSE)
    yield
    spark.conf.set(REUSE, str(before))


@pytest.mark.long
@pytest.mark.usefixtures("reuse")
def test_windows_and_over_come_once_when_the_watermark_has_passed(script: Script, tmp_path: Path) -> None:
    """Windows over TIMESTAMP do not depend on the zone of the session: the batch is in UTC."""
    script(f"SET 'table.local-time-zone' = '{ZONE}'")
    files = Files(tmp_path)
    tables(script, files.orders, files.closed)
    found: dict[str, list[tuple[Any, ...]]] = {name: [] for name in QUERIES}
    with contextlib.ExitStack() as running:
        jobs = [
            running.enter_context(stopped(start(script.session.sql(query_of(name)), rows)))
            for name, rows in found.items()
        ]
        for number, rows in enumerate([*ROWS, [LATE, LAST]]):
            write(files.orders, f"{number}.json", rows)
            for job in jobs:
                job.processAllAvailable()
    assert script.session.spark.conf.get("spark.sql.session.timeZone") == ZONE
    script("SET 'execution.runtime-mode' = 'batch'; SET 'table.local-time-zone' = 'UTC'")
    for name, rows in found.items():
        query = (
            query_of(name)
            .replace("TABLE orders", "TABLE all_orders")
            .replace("FROM orders", "FROM all_orders")
        )
        shown, wanted = list(map(str, rows)), list(map(str, script.rows(query)))
        assert (shown, name) == (wanted, name) if name == IN_ORDER else sorted(shown) == sorted(wanted), name


BOTH = {
    "first": [[(1, "a", 5, "02:01:00")], [(2, "a", 7, "02:21:00")], [(3, "b", 1, "02:41:00")], [LAST]],
    "second": [[(4, "a", 1, "02:00:00")], [(5, "b", 2, "02:08:00")], [(6, "a", 3, "02:14:30")], [LAST]],
}
"""The rows of two tables, by micro-batches. The second one is behind: by the watermark of the first one its
rows would be late."""


@pytest.mark.parametrize("batches", [1, 4])
def test_a_union_of_two_watermarks_waits_for_the_slower_one(
    script: Script, tmp_path: Path, batches: int
) -> None:
    options = "'connector' = 'filesystem', 'format' = 'json', 'source.monitor-interval' = '1 s'"
    for name in BOTH:
        (tmp_path / name).mkdir()
        script(
            f"CREATE TABLE `{name}` ({COLUMNS}, {WATERMARK}) WITH ({options}, 'path' = '{tmp_path / name}')"
        )
    union = "CREATE VIEW {} AS SELECT id, shop, amount, ts FROM `first` UNION ALL SELECT id, shop, amount, {} FROM `second`"
    script(f"{union.format('both', 'ts')}; {union.format('one', 'CAST(ts AS TIMESTAMP(3))')}")
    query = (
        "SELECT window_start, shop, COUNT(*), SUM(amount) FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), "
        "INTERVAL '15' MINUTE)) GROUP BY window_start, window_end, shop"
    )
    refused = query.format("one")
    assert script.refusal(refused).startswith(
        f"Line 1, column {refused.index('(ts)') + 2}: a window of a stream needs the column of a WATERMARK"
    )
    found: list[tuple[Any, ...]] = []
    with stopped(start(script.session.sql(query.format("both")), found)) as job:
        for number in range(batches):
            for name, parts in BOTH.items():
                rows = parts[number] if batches > 1 else [row for part in parts for row in part]
                write(tmp_path / name, f"{number}.json", rows)
            job.processAllAvailable()
    windows = [(str(row[0])[11:16], *row[1:]) for row in found]
    assert sorted(windows) == [
        *(("02:00", "a", 3, 9), ("02:00", "b", 1, 2), ("02:15", "a", 1, 7)),
        *(("02:30", "b", 1, 1),),
    ]


NO_TIME = {
    "TABLE(TUMBLE(TABLE plain, DESCRIPTOR({}), INTERVAL '1' HOUR)) GROUP BY window_start, window_end": ("ts", "p", "late"),
    "TABLE(HOP(TABLE plain, DESCRIPTOR({}), INTERVAL '1' MINUTE, INTERVAL '1' HOUR)) GROUP BY window_start, window_end": ("ts", "p"),
    "TABLE(CUMULATE(TABLE plain, DESCRIPTOR({}), INTERVAL '1' MINUTE, INTERVAL '1' HOUR)) GROUP BY window_start, window_end": ("ts", "p"),
    "TABLE(SESSION(TABLE plain, DESCRIPTOR({}), INTERVAL '1' HOUR)) GROUP BY window_start, window_end": ("ts", "p"),
    "plain GROUP BY TUMBLE({}, INTERVAL '1' HOUR)": ("ts", "p", "PROCTIME()"),
    "plain GROUP BY SESSION({}, INTERVAL '1' HOUR)": ("ts", "p"),
    "TABLE(TUMBLE(TABLE seen, DESCRIPTOR({}), INTERVAL '1' HOUR)) GROUP BY window_start, window_end": ("at",),
}  # fmt: skip
"""What windows are over, and columns of it that have no watermark."""


def test_a_window_without_a_watermark_is_refused_at_its_column(script: Script, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    options = f"'connector' = 'filesystem', 'format' = 'json', 'source.monitor-interval' = '1 s', 'path' = '{folder}'"
    script(
        f"""
        CREATE TABLE plain ({COLUMNS}, p AS PROCTIME(), late AS ts + INTERVAL '1' SECOND) WITH ({options});
        CREATE VIEW seen AS SELECT id, PROCTIME() AS at FROM plain;
        CREATE TABLE counts (n BIGINT) WITH ('connector' = 'blackhole')
        """
    )
    for source, columns in NO_TIME.items():
        for column in columns:
            query = f"SELECT COUNT(*) FROM {source.format(column)}"
            for text in (
                query,
                f"EXPLAIN {query}",
                f"INSERT INTO counts {query}",
                f"EXPLAIN INSERT INTO counts {query}",
            ):
                found = script.refusal(text)
                start = text.index(column if column == "PROCTIME()" else f"({column}") + (
                    column != "PROCTIME()"
                )
                assert found.startswith(f"Line 1, column {start + 1}: "), found
                wanted = (
                    "a window of a stream needs the column of a WATERMARK"
                    if column in ("ts", "late")
                    else "windows over PROCTIME() are not served"
                )
                assert wanted in found
    script("SET 'execution.runtime-mode' = 'batch'")
    assert script.rows("SELECT COUNT(*) FROM plain GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)") == []


def start(frame: DataFrame, rows: list[tuple[Any, ...]]) -> StreamingQuery:
    """Start a query that adds its rows to a list."""
    writer = frame.writeStream.outputMode("append")
    return writer.foreachBatch(lambda batch, _: rows.extend(map(tuple, batch.collect()))).start()
