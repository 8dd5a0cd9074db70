"""Windows that overlap, by slices, on real Spark: each row counts in the windows that were open, as without slices.

The reference is plain Python that puts each row into each of its windows and leaves out those windows that the
watermark of the micro-batch has passed.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.spark.queries import stopped
from tests.spark.test_sql import Script
from tests.spark.test_sql import script as script  # noqa: PLC0414 - a fixture

DELAY = 60
LAST: tuple[int, str | None, int | None] = (1_000_000, "z", 0)
Row = tuple[int, str | None, int | None]
BATCHES: list[list[Row]] = [
    [(0, "a", 5), (59, "a", None), (61, "b", 1), (299, None, 9)],
    [
        (240, "a", 7),
        (30, "a", 8),
        (420, "b", 3),
        (421, "b", 4),
    ],  # at 30 s: late for its slice, in open windows
    [(301, "b", -2), (360, "a", 6), (359, "a", 5), (10, "b", 100)],  # at 10 s: late for all of its windows
    [(5_000, "a", 1), (5_001, "a", 1)],  # after a gap
    [(4_939, "a", 2), (4_941, None, None), (5_070, "b", 2)],
    [],
    [(5_500, "a", 3), (5_320, "a", 4)],
    [LAST],
]
"""Seconds, shop and amount of rows, by micro-batches."""
QUERY = """
SELECT window_start, window_end, shop, COUNT(*), COUNT(amount), SUM(amount), AVG(amount), MIN(amount),
  MAX(CAST(amount AS STRING)), COUNT(*) FILTER (WHERE amount > 4), SUM(CAST(amount AS DECIMAL(10, 2)))
FROM TABLE({}(TABLE orders, DESCRIPTOR(ts), INTERVAL '60' SECOND, INTERVAL '5' MINUTE, INTERVAL '10' SECOND))
WHERE amount IS NULL OR amount <> 100 GROUP BY window_start, window_end, shop
"""
START = dt.datetime(2026, 3, 1)


def windows_of(kind: str, second: int) -> list[tuple[int, int]]:
    if kind == "HOP":
        first = second - (second - 10) % 60
        return [(first - 60 * back, first - 60 * back + 300) for back in range(5)]
    start = second - (second - 10) % 300
    return [(start, start + length) for length in range(60, 301, 60) if second < start + length]


def wanted(kind: str, batches: list[list[Row]]) -> list[tuple[Any, ...]]:
    """Return the windows of the rows, but those that are late."""
    groups: dict[tuple[int, int, str | None], list[int | None]] = defaultdict(list)
    newest = -(10**9)
    for rows in batches:
        watermark = newest - DELAY
        for second, shop, amount in rows:
            for start, end in windows_of(kind, second):
                if end > watermark and amount != 100:
                    groups[start, end, shop].append(amount)
        newest = max([newest, *(second for second, _, amount in rows if amount != 100)])
    at = START + dt.timedelta(0)
    return sorted(
        (
            (
                str(at + dt.timedelta(seconds=start)),
                str(at + dt.timedelta(seconds=end)),
                shop,
                *aggregates(each),
            )
            for (start, end, shop), each in groups.items()
            if shop != LAST[1]
        ),
        key=str,
    )


def aggregates(amounts: list[int | None]) -> tuple[Any, ...]:
    known = [each for each in amounts if each is not None]
    if not known:
        return (len(amounts), 0, None, None, None, None, 0, None)
    total = sum(known)
    average = int(total / len(known))
    texts = max(map(str, known))
    many = sum(each > 4 for each in known)
    return (len(amounts), len(known), total, average, min(known), texts, many, f"{total}.00")


def write(folder: Path, number: int, rows: list[Row]) -> None:
    lines = [
        json.dumps({"shop": shop, "amount": amount, "ts": str(START + dt.timedelta(seconds=second))})
        for second, shop, amount in rows
    ]
    part = folder.parent / f"{number}.part"
    part.write_text("\n".join(lines))
    part.rename(folder / f"{number}.json")


@pytest.mark.parametrize("kind", ["HOP", "CUMULATE"])
@pytest.mark.parametrize(("is_cut", "restarts"), [(False, False), (True, False), (True, True)])
def test_a_window_by_slices_has_the_rows_that_come_before_it_is_over(
    script: Script, tmp_path: Path, kind: str, is_cut: bool, restarts: bool
) -> None:
    folder, found = tmp_path / "orders", list[tuple[Any, ...]]()
    folder.mkdir()
    script(
        "SET 'table.local-time-zone' = 'UTC'; CREATE TABLE orders (shop STRING, amount INT, ts TIMESTAMP(3), WATERMARK FOR ts AS "
        f"ts - INTERVAL '{DELAY}' SECOND) WITH ('connector' = 'filesystem', 'format' = 'json', "
        f"'source.monitor-interval' = '1 s', 'path' = '{folder}')"
    )
    query = QUERY.format(kind)
    assert "Slices(" in "\n".join(row[0] for row in script(f"EXPLAIN {query}")[0].rows)
    batches: list[list[Row]] = BATCHES if is_cut else [[row for rows in BATCHES[:-1] for row in rows], [LAST]]
    running = None
    for number, rows in enumerate(batches):
        write(folder, number, rows)
        if running is None or restarts:
            writer = script.session.sql(query).writeStream.outputMode("append")
            writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
            running = writer.foreachBatch(lambda batch, _: found.extend(map(tuple, batch.collect()))).start()
        if restarts:
            with stopped(running) as query_:
                query_.processAllAvailable()
        else:
            running.processAllAvailable()
    assert running is not None
    running.stop()
    shown = [
        (str(row[0]), str(row[1]), *row[2:10], None if row[10] is None else str(row[10])) for row in found
    ]
    assert sorted(shown, key=str) == wanted(kind, batches)
