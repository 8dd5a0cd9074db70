"""Joins of streams on times, in short micro-batches: the table is that of a batch over the same rows."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.spark.queries import stopped
from tests.spark.test_sql import Script
from tests.spark.test_sql import script as script  # noqa: PLC0414 - a fixture
from tests.spark.test_sql_windows import reuse as reuse  # noqa: PLC0414 - a fixture
from tests.spark.test_sql_windows import start

BATCHES, STEP_S, OPEN_S, LATE = 6, 10, 40, 99
END = {"id": -1, "price": 0, "ts": "2026-01-01 23:00:00", "until": "2026-01-01 23:00:00"}
WITHIN = "b.ts BETWEEN a.ts AND a.ts + INTERVAL '40' SECOND"
SAME = "a.id = b.id"
PAIR = "SELECT a.id, b.price, a.ts, b.ts AS at FROM"
REGULAR = {
    "until": f"{PAIR} a JOIN b ON {SAME} AND b.ts BETWEEN a.ts AND a.until",
    "without the times": f"SELECT b.price FROM a, b WHERE {SAME} AND a.until >= b.ts AND a.ts <= b.ts",
    "one bound": f"{PAIR} a JOIN b ON {SAME} AND b.ts < a.ts + INTERVAL '30' SECOND",
    "equal to another time": f"{PAIR} a JOIN b ON {SAME} AND b.ts = a.until",
    "equal and shifted": f"{PAIR} a JOIN b ON {SAME} AND b.ts - INTERVAL '20' SECOND = a.ts",
    "three": f"{PAIR} a JOIN b ON {SAME} JOIN b AS c ON c.id = b.id AND c.price = b.price AND c.ts >= a.until",
}
"""Joins that keep all rows, also those that are late."""
INTERVAL = {
    "within": f"{PAIR} a JOIN b ON {SAME} AND {WITHIN} AND b.price <> {LATE}",
    "left": f"SELECT * FROM ({PAIR} a LEFT JOIN b ON {SAME} AND {WITHIN} AND b.price > 3 AND b.price <> {LATE}) "
    "WHERE id >= 0",
    "times of three": f"SELECT c.price, a.ts, b.ts AS at FROM a JOIN b ON {SAME} AND {WITHIN} JOIN b AS c ON c.id = b.id "
    f"AND c.ts BETWEEN b.ts AND b.ts + INTERVAL '15' SECOND AND b.price <> {LATE} AND c.price <> {LATE}",
    "three of which two": f"SELECT c.price, a.ts FROM a JOIN b ON {SAME} AND {WITHIN} JOIN b AS c ON c.id = b.id "
    f"AND c.ts BETWEEN b.ts AND a.until AND b.price <> {LATE}",
}


def at(seconds: int) -> str:
    return f"2026-01-01 00:{seconds // 60:02d}:{seconds % 60:02d}"


def rows_of(number: int) -> dict[str, list[dict[str, Any]]]:
    """Return an auction that is open for 40 s, and a bid for each of the last six. The last batch has a late bid."""
    now = number * STEP_S
    bids = [{"id": each, "price": number, "ts": at(now)} for each in range(max(0, number - 5), number + 1)]
    if number == BATCHES - 1:
        bids.append({"id": 1, "price": LATE, "ts": at(20)})
    return {"a": [{"id": number, "ts": at(now), "until": at(now + OPEN_S)}], "b": bids}


def write(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    waiting = folder / f".{name}"
    waiting.write_text("\n".join(map(json.dumps, rows)))
    waiting.rename(folder / name)


def declare(script: Script, folder: Path) -> None:
    for name, columns in (("a", "until TIMESTAMP(3)"), ("b", "price INT")):
        (folder / name).mkdir()
        script(
            f"CREATE TABLE {name} (id INT, {columns}, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) "
            f"WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{folder / name}', "
            "'source.monitor-interval' = '1 s')"
        )


@pytest.mark.long
@pytest.mark.usefixtures("reuse")
def test_the_pairs_of_a_join_do_not_depend_on_the_micro_batches(script: Script, tmp_path: Path) -> None:
    declare(script, tmp_path)
    queries = {**REGULAR, **INTERVAL}
    found: dict[str, list[tuple[Any, ...]]] = {name: [] for name in queries}
    with contextlib.ExitStack() as running:
        jobs = [
            running.enter_context(stopped(start(script.session.sql(queries[name]), rows)))
            for name, rows in found.items()
        ]
        for number in range(BATCHES + 1):
            made = rows_of(number) if number < BATCHES else {"a": [END], "b": [{**END, "id": -2}]}
            for name, rows in made.items():
                write(tmp_path / name, f"{number}.json", rows)
            for job in jobs:
                job.processAllAvailable()
    script(
        f"""
        CREATE VIEW v AS SELECT a.until, b.ts AS at FROM a JOIN b ON {SAME} AND {WITHIN};
        CREATE VIEW computed AS SELECT a.until + INTERVAL '0' SECOND AS until, b.ts AS at FROM a JOIN b ON {SAME} AND {WITHIN}
        """
    )
    # Spark would make the condition a part of its join, and forget rows by `until`.
    assert "it grows without an end" in str(script("EXPLAIN SELECT * FROM v WHERE until = at")[0].rows)
    refused = script.refusal("SELECT * FROM computed WHERE until = at")
    assert "Write `x <= y AND x >= y` instead of `x = y`" in refused
    explained = {
        name: "\n".join(row[0] for row in script(f"EXPLAIN {query}")[0].rows)
        for name, query in queries.items()
    }
    script("SET 'execution.runtime-mode' = 'batch'")
    for name, query in queries.items():
        wanted = script.rows(query)
        assert wanted
        assert Counter(map(str, found[name])) == Counter(map(str, wanted)), name
    for name, text in explained.items():
        assert ("a join keeps the rows of both sides: it grows without an end" in text) is (
            name in (*REGULAR, "three of which two")
        ), name
        assert ("a join keeps all rows of both sides" in text) is ("state grows without an end" in text)
