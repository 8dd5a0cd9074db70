"""The first snapshot and a later one: messages of a real Debezium, in a copy that is new or has rows.

`python -m tests.judges.debezium --record` has recorded the messages. They have changes, and an incremental
snapshot of a table whose copy has rows by then.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.cdc.batch import Plan, ReplicatedBatch
from penstock.cdc.gather import Reader
from penstock.cdc.messages import message_format
from penstock.errors import MaterializeError
from penstock.targets import SqlTable
from tests.unit.cdc.test_batch import QUERY, World, goods
from tests.unit.cdc.test_gather import RAW_SCHEMA
from tests.unit.formats.test_debezium_recorded import COLUMNS, RECORDED, is_truncate, true_rows

RECORDS = [each for each in RECORDED["records"] if not is_truncate(each[3])]
TOPIC = "shop.public.goods"
EXCHANGED = 59
"""The messages end with two rows that exchange their keys in a transaction, which the page excludes."""


def is_of_a_snapshot(value: str | None) -> bool:
    return value is not None and json.loads(value)["source"]["snapshot"] == "incremental"


def replicated(batch_size: int) -> tuple[World, int]:
    """Return the copy, and how many rows it had before the batch with the first message of the snapshot."""
    world, rows_before = World(), None
    options = {"format": "debezium-json", "debezium-json.timestamp-format.standard": "ISO-8601"}
    world.format = message_format(options, declared={TOPIC: COLUMNS}, rest="rest")
    for number, first in enumerate(range(0, len(RECORDS), batch_size)):
        records = RECORDS[first : first + batch_size]
        if rows_before is None and any(is_of_a_snapshot(value) for *_, value in records):
            rows_before = len(world.tables[TOPIC].rows) if TOPIC in world.tables else 0
        run(world, number, records)
    assert rows_before is not None
    return world, rows_before


def run(world: World, number: int, records: list[Any]) -> None:
    rows = [
        {
            "key": key.encode(),
            "value": None if value is None else value.encode(),
            "topic": TOPIC,
            "partition": partition,
            "offset": offset,
        }
        for partition, offset, key, value in sorted(records, key=lambda one: one[:2])
    ]
    raw = pa.RecordBatch.from_pylist(rows, schema=RAW_SCHEMA)

    def read(reader: Reader) -> pa.Table:
        return pa.Table.from_batches(list(reader.run(iter([raw]))))

    plan = Plan(world.format, world.table, world._journal(), {}, "lenient", "stop", threads=1)
    ReplicatedBatch(plan, read, QUERY, number).run()


@pytest.mark.parametrize("batch_size", [1, 3, 7, 100])
def test_an_incremental_snapshot_of_debezium_leaves_the_true_table(batch_size: int) -> None:
    world, rows_before = replicated(batch_size)
    assert (rows_before > 0) == (batch_size < 100)
    found = [dict(row) for _, row in sorted(world.tables[TOPIC].rows.items())]
    for row in found:
        assert set(json.loads(row.pop("rest") or "{}")) <= {"dropped"}
        row["x"] = repr(row["x"])  # NaN does not equal NaN
    assert found == [row for row in true_rows() if row["id"] != EXCHANGED]


def test_a_table_with_rows_of_another_writer_is_not_taken_and_an_emptied_one_is(tmp_path: Path) -> None:
    """Rows that the source does not have would stay."""
    file, world = tmp_path / "shop.db", World()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE goods (id BIGINT PRIMARY KEY, name TEXT)")
        connection.execute("INSERT INTO goods VALUES (7, 'of another writer')")
        connection.commit()

        def copy(_source: Any) -> Any:
            return SqlTable("goods", lambda: sqlite3.connect(file), "sqlite")

        def apply() -> None:
            plan = Plan(world.format, copy, world._journal(), {}, "lenient", "stop", threads=1)
            ReplicatedBatch(plan, world._reading([goods(0, id=1, name="a")], 1), QUERY, 0).run()

        with pytest.raises(MaterializeError, match="has rows that penstock did not write"):
            apply()
        assert connection.execute("SELECT * FROM goods").fetchall() == [(7, "of another writer")]
        connection.execute("DELETE FROM goods")
        connection.commit()
        apply()
        assert connection.execute("SELECT * FROM goods").fetchall() == [(1, "a")]
