"""One history in every format, through a real broker into a table: equal to the true one after each batch.

Messages come again, as after a restart of the tool that sends them, and batches are applied again, as after a
restart of the query.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.changelog.operators.normalize import Normalize
from penstock.targets import SqlTable
from penstock.targets.batch import Batch, LastRows
from tests import judge
from tests.fix_broker import MakeTopic
from tests.kafka.test_changelogs import rows_of
from tests.registry_server import running_registry
from tests.unit.changelog.running import Row, Running
from tests.unit.formats.test_changelog_histories import (
    AVRO,
    REGISTERED,
    WRITERS,
    Change,
    delivered,
    history,
)

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("weight", pa.float64())])
READ = pa.schema([*COLUMNS, ("row_kind", pa.string()), pa.field("offset", pa.int64(), nullable=False)])
ORDERED = COLUMNS.append(pa.field("at", pa.int64()))


def some_history(chance: random.Random) -> list[Change]:
    """Return inserts, updates, changes of the key and deletes."""

    def cells() -> Row | None:
        values = {"name": chance.choice([None, "", "a", "é"]), "weight": chance.choice([None, 0.5, 9.0])}
        return chance.choice([None, values, values, values])

    changes, _ = history([(chance.randint(1, 5), cells(), chance.randint(1, 5)) for _ in range(60)])
    return changes


def table_after(changes: Sequence[Change]) -> list[Row]:
    table: dict[int, Row] = {}
    for old, new in changes:
        if old is not None:
            del table[old["id"]]
        if new is not None:
            table[new["id"]] = new
    return sorted(table.values(), key=lambda row: row["id"])


def stored(file: Path) -> list[Row]:
    with closing(sqlite3.connect(file)) as connection:
        found = connection.execute("SELECT id, name, weight FROM goods ORDER BY id").fetchall()
    return [dict(zip(COLUMNS.names, row, strict=True)) for row in found]


def follow(file: Path, changes: list[Change], batches: list[list[int]], rows: pa.Table) -> None:
    """Apply the batches, and compare the table with the true one after each."""
    target = SqlTable("goods", lambda: sqlite3.connect(file), "sqlite")
    running = Running(Normalize(ORDERED, ("id",), ("at",)), ORDERED.append(pa.field("row_kind", pa.string())))
    last = LastRows(("id",), COLUMNS)
    read: list[Row] = rows.to_pylist()
    seen, offset = 0, 0
    for number, indices in enumerate(batches):
        at = dict(zip(range(offset, offset + len(indices)), indices, strict=True))
        offset += len(indices)
        out = running.step({**row, "at": at[row["offset"]]} for row in read if row["offset"] in at)
        normalized = pa.Table.from_pylist(out, schema=running.operator.out_columns)
        batch = Batch("query", number, ("id",), last.last_rows(normalized))
        assert target.apply(batch)
        seen = max(seen, indices[-1] + 1)
        assert stored(file) == table_after(changes[:seen])
        assert not target.apply(batch)
    assert seen == len(changes)


@pytest.mark.parametrize("name", WRITERS)
def test_a_table_is_equal_to_its_history_after_each_batch(
    bootstrap: str, make_topic: MakeTopic, tmp_path: Path, name: str
) -> None:
    chance = random.Random(name)
    changes = some_history(chance)
    batches = delivered(chance, len(changes))
    values = [WRITERS[name](*changes[index]) for indices in batches for index in indices]
    assert len(values) > len(changes)
    topic = make_topic()
    judge.produce(bootstrap, topic, *values)
    form, _, has_schema = name.partition(" with ")
    options: dict[str, Any] = {"format": form}
    options |= {f"{form}.schema-include": "true"} if has_schema else {}
    with running_registry() as registry:
        registry.register("goods-value", REGISTERED.text)
        options |= {f"{AVRO}.url": registry.url} if form == AVRO else {}
        rows = rows_of(bootstrap, topic, len(values), options, READ)
    follow(tmp_path / "shop.db", changes, batches, rows)
