"""The history of `penstock demo cdc`, and its judge: it must find what wrong queries would keep."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.demo.cdc import history
from penstock.demo.cdc.check import (
    check_carriers,
    check_departures,
    compare,
    expected_carriers,
    expected_departures,
)
from penstock.demo.cdc.history import REPEATED, TOMBSTONES, Debezium, Message, changes, record_batches

ON_TIME, CANCELLED, AFTER_MIDNIGHT, DIVERTED = range(4)


def flight(number: int, hour: int, dep_delay: int | None, arr_delay: int | None, day: int = 1) -> Any:
    """A row of the flights. The airport is in UTC."""
    return {
        "flight": number,
        "carrier": "UA",
        "origin": "EWR",
        "dest": "IAH",
        "hour": hour,
        "minute": 30,
        "dep_delay": dep_delay,
        "arr_delay": arr_delay,
        "air_time": None if arr_delay is None else 60,
        "event_time": dt.datetime(2013, 1, day, hour, 30, tzinfo=dt.UTC),
    }


FLIGHTS = pa.Table.from_pylist(
    [
        flight(1, 5, -3, 7),
        flight(2, 6, None, None),
        flight(3, 23, 30, 40),
        flight(4, 22, 89, None),
        flight(1, 5, 0, 0, day=4),
    ]
)


def rows_of(messages: list[Message]) -> list[tuple[Any, ...]]:
    """Apply messages to a table as strictly as possible. Return its rows as the judge has them."""
    table: dict[bytes, Any] = {}
    newest = 0
    for key, value in messages:
        if value is None:
            assert key not in table
            continue
        change = json.loads(value)
        newest = max(newest, change["source"]["lsn"])
        assert change["source"]["lsn"] == newest
        assert change["before"] == table.pop(key, None)
        assert (change["op"] in "rc") == (change["before"] is None)
        if change["after"] is not None:
            table[key] = change["after"]
    texts = [{**row, "scheduled": row["scheduled"].replace(".000000Z", "+00:00")} for row in table.values()]
    return [tuple(row.values()) for row in texts]


def test_the_history_leads_to_the_true_table() -> None:
    debezium = Debezium()
    found = rows_of(list(debezium.messages(changes(FLIGHTS))))
    expected = [tuple(row.values()) for row in expected_departures(FLIGHTS).to_pylist()]
    assert compare("departures", found, expected).is_right
    assert sorted(row[0] for row in found) == ["UA1", "UA1", "UA3D", "UA4"]
    assert debezium.counts == {
        "rows of the snapshot": 4,
        "creates": 2,  # the flight of the fourth day, and the new key
        "updates": 6,
        "deletes": 2,  # the cancelled flight, and the old key
        TOMBSTONES: 2,
    }


def test_messages_come_again_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "_RESTART_EVERY", 6)
    monkeypatch.setattr(history, "_SENT_AGAIN", 4)
    debezium = Debezium()
    messages = list(debezium.messages(changes(FLIGHTS)))
    assert messages[2:6] == messages[6:10]
    assert debezium.counts[REPEATED] == 8
    assert len(messages) == sum(debezium.counts.values())
    batches = list(record_batches(messages, batch_rows=5))
    assert [tuple(row.values()) for batch in batches for row in batch.to_pylist()] == messages


def test_the_judge_finds_rows_that_are_missing_doubled_or_different() -> None:
    rows = [("UA1", 5), ("UA2", None)]
    assert compare("t", rows[::-1], rows).is_right
    assert compare("t", rows[:1], rows).missing == (("UA2", None),)
    assert compare("t", [*rows, rows[0]], rows).unexpected == (("UA1", 5),)
    different = compare("t", [("UA1", 6), rows[1]], rows)
    assert (different.missing, different.unexpected) == ((("UA1", 5),), (("UA1", 6),))
    assert "1 rows missing (such as (('UA1', 5),))" in str(different)


def test_the_judge_reads_both_tables(tmp_path: Path) -> None:
    database, file = tmp_path / "airports.db", str(tmp_path / "carriers.parquet")
    expected = expected_departures(FLIGHTS)
    marks = ", ".join("?" * expected.num_columns)
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(f"CREATE TABLE departures ({', '.join(expected.column_names)})")
        rows = [tuple(row.values()) for row in expected.to_pylist()]
        connection.executemany(f"INSERT INTO departures VALUES ({marks})", rows)  # noqa: S608 - marks only
        connection.commit()
    assert check_departures(database, FLIGHTS).is_right
    assert not check_departures(database, FLIGHTS.slice(1)).is_right
    carriers = expected_carriers(FLIGHTS)
    assert [tuple(row.values()) for row in carriers.to_pylist()] == [("UA", 4, 4, 116, 89, 1)]
    pq.write_table(carriers, file)
    assert check_carriers([file], FLIGHTS).is_right
    assert not check_carriers([file, file], FLIGHTS).is_right
