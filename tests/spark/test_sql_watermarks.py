"""Spark has no watermark in a query that waits for none. A row without an event time stops it all the same."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from penstock.types import ROW_KIND
from tests.spark.evictions import at, declare
from tests.spark.test_sql import Script
from tests.spark.test_sql import script as script  # noqa: PLC0414 - a fixture

COLUMNS = "id INT, k INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND"
COMPUTED = "id INT, k INT, at STRING, ts AS TO_TIMESTAMP(at), WATERMARK FOR ts AS ts"
FIRST_S, OLD = 10, "TIMESTAMP '2000-01-01 00:00:00'"
QUERIES = {
    "without the time": "SELECT id FROM a",
    "the time": "SELECT id, ts FROM a",
    "a condition of the time": f"SELECT id FROM a WHERE ts > {OLD}",
    "a condition that leaves out NULL": "SELECT id FROM a WHERE ts IS NOT NULL AND k > 0",
    "a computed time": f"SELECT id FROM computed WHERE ts > {OLD}",
    "a union": "SELECT id FROM a UNION ALL SELECT id FROM computed",
    "a static table": "SELECT a.id FROM a JOIN static FOR SYSTEM_TIME AS OF PROCTIME() AS s ON a.ts = s.ts",
    "a join": f"SELECT x.id, y.k FROM a AS x JOIN b AS y ON x.k = y.k WHERE x.ts > {OLD}",
    "a group": f"SELECT k, COUNT(*) FROM a WHERE ts > {OLD} GROUP BY k",
    "a top": "SELECT id FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY k ORDER BY id DESC) AS n FROM a) WHERE n < 3",
}
WAITING = (
    "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_end"
)
MISSING = "The event time ts is NULL. Its row belongs to no window."


def put(folder: Path, number: int, time: str | None) -> None:
    """Add a row to each table, as a file that is there at once."""
    row = json.dumps({"id": number, "k": 1, "ts": time, "at": time})
    for table in ("a", "b", "computed"):
        made = folder / f"{table}-{number}"
        made.write_text(row)
        made.rename(folder / table / f"{number}.json")


def test_a_row_without_an_event_time_stops_each_query_that_has_no_watermark(
    script: Script, tmp_path: Path
) -> None:
    declare(script.session, tmp_path, {"a": COLUMNS, "b": COLUMNS, "computed": COMPUTED})
    static = tmp_path / "static.json"
    static.write_text(json.dumps({"ts": at(FIRST_S)}))
    script(
        "CREATE TABLE static (ts TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'format' = 'json', "
        f"'path' = '{static}')"
    )
    put(tmp_path, 0, at(FIRST_S))
    queries = {name: started(script, f"q{n}", query) for n, (name, query) in enumerate(QUERIES.items())}
    waiting = started(script, "waiting", WAITING)
    for query in (*queries.values(), waiting):
        query.processAllAvailable()
    marked = [name for name, query in queries.items() if "watermark" in query.lastProgress.eventTime]
    assert marked == []
    assert "watermark" in waiting.lastProgress.eventTime
    put(tmp_path, 1, None)
    for query in (*queries.values(), waiting):
        with contextlib.suppress(Exception):  # it is looked at below
            query.processAllAvailable()
    errors = {name: str(query.exception()) for name, query in {**queries, "waiting": waiting}.items()}
    assert [name for name, error in errors.items() if MISSING not in error] == []


LEAVING_OUT = (
    "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE computed, DESCRIPTOR(ts), INTERVAL '10' SECOND)) "
    "WHERE `at` > '1970-01-02' GROUP BY window_end"
)
ADVICE = "leave such rows out in WHERE by a condition on the column that it is computed from"
EARLY = "The event time ts is not after the beginning of 1970"
LOSING = {
    "a window": WAITING,
    "a join of times": "SELECT x.id FROM a AS x JOIN b AS y ON x.k = y.k AND x.ts = y.ts",
    "a left join of times": "SELECT x.id FROM a AS x LEFT JOIN b AS y ON x.k = y.k AND x.ts BETWEEN y.ts "
    "AND y.ts + INTERVAL '5' SECOND",
}


def test_a_row_before_1970_stops_what_spark_would_drop_it_from(script: Script, tmp_path: Path) -> None:
    declare(script.session, tmp_path, {"a": COLUMNS, "b": COLUMNS, "computed": COMPUTED})
    losing = {name: started(script, f"l{n}", query) for n, (name, query) in enumerate(LOSING.items())}
    plain = started(script, "plain", "SELECT id, ts FROM a")
    left_out = started(script, "left_out", LEAVING_OUT)
    put(tmp_path, 0, "1969-12-31 23:59:50.000")
    plain.processAllAvailable()
    left_out.processAllAvailable()
    for query in losing.values():
        with contextlib.suppress(Exception):  # it is looked at below
            query.processAllAvailable()
    errors = {name: str(query.exception()) for name, query in losing.items()}
    assert [name for name, error in errors.items() if EARLY not in error or ADVICE not in error] == []


def started(script: Script, table: str, query: str) -> Any:
    """Return the query of an INSERT. Its table takes all changes and any columns."""
    columns = ", ".join(
        f"`{each}` {kind}" for each, kind in script.session.sql(query).dtypes if each != ROW_KIND
    )
    script(f"CREATE TABLE {table} ({columns}) WITH ('connector' = 'blackhole')")
    (result,) = script(f"INSERT INTO {table} {query}")
    return result.job.queries[0]
