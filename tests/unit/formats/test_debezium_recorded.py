"""Messages of a real Debezium make the table of a real PostgreSQL.

`python -m tests.judges.debezium --record` has recorded both.
"""

from __future__ import annotations

import base64
import json
import random
from datetime import UTC, datetime
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.changelog.operators.normalize import Normalize
from penstock.formats import ROW_KIND, DecodedRows, metadata_column
from tests.table_specs import format_for
from tests.unit.changelog.running import Running

RECORDED = json.loads(
    (Path(__file__).parents[2] / "data" / "cdc" / "debezium-postgresql.json").read_text(encoding="utf-8")
)
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("price", pa.decimal128(30, 10)),
        pa.field("flag", pa.bool_()),
        pa.field("at", pa.int64()),
        pa.field("atz", pa.timestamp("us", "UTC")),
        pa.field("day", pa.int32()),
        pa.field("raw", pa.binary()),
        pa.field("big", pa.string()),
        pa.field("x", pa.float64()),
        pa.field("doc", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("extra", pa.string()),
    ]
)
SOURCE = "source.properties"
Row = dict[str, Any]


def decoded(values: list[str | None]) -> DecodedRows:
    made = format_for("debezium-json", {"debezium-json.timestamp-format.standard": "ISO-8601"})
    columns = [metadata_column(ROW_KIND), *COLUMNS.names, metadata_column(SOURCE)]
    texts = [None if value is None else value.encode() for value in values]
    return made.decoder(COLUMNS, columns).decode(pa.array(texts, pa.binary()))


def changes_in_order(seed: int, order: str) -> list[list[Row]]:
    """Return the rows of each message, of both partitions mixed, with their offset or their LSN."""
    changes = [each for each in RECORDED["records"] if not is_truncate(each[3])]
    partitions = [[each for each in changes if each[0] == number] for number in (0, 1)]
    chosen, mixed = random.Random(seed), []
    while any(partitions):
        mixed.append(chosen.choice([each for each in partitions if each]).pop(0))
    found = decoded([value for *_, value in mixed])
    assert not found.failures
    rows: list[list[Row]] = [[] for _ in mixed]
    for index, row in zip(found.indices().tolist(), found.rows.to_pylist(), strict=True):
        source = dict(row.pop(metadata_column(SOURCE)))
        sort_keys = {"offset": mixed[index][1], "lsn": int(source["lsn"] or 0)}
        rows[index].append(
            {**row, "sort_key": sort_keys[order], "row_kind": row.pop(metadata_column(ROW_KIND))}
        )
    return rows


def is_truncate(value: str | None) -> bool:
    return value is not None and json.loads(value)["op"] == "t"


def table_of(changes: list[list[Row]], batch_size: int) -> list[Row]:
    columns = COLUMNS.append(pa.field("sort_key", pa.int64()))
    running = Running(
        Normalize(columns, ("id",), ("sort_key",)), columns.append(pa.field("row_kind", pa.string()))
    )
    table: dict[int, Row] = {}
    for start in range(0, len(changes), batch_size):
        for row in running.step(chain.from_iterable(changes[start : start + batch_size])):
            kind = row.pop("row_kind")
            del row["sort_key"]
            row["x"] = repr(row["x"])  # NaN does not equal NaN
            if kind in ("+I", "+U"):
                table[row["id"]] = row
            else:
                assert table.pop(row["id"]) == row
    return sorted(table.values(), key=lambda row: int(row["id"]))


def true_rows() -> list[Row]:
    """Return the table of PostgreSQL, which the file has as numbers and texts."""
    return [
        {
            **row,
            "price": None if row["price"] is None else Decimal(row["price"]),
            "atz": None if row["atz"] is None else datetime.fromtimestamp(row["atz"] / 1e6, UTC),
            "raw": None if row["raw"] is None else base64.b64decode(row["raw"]),
            "x": repr(None if row["x"] is None else float(row["x"])),
        }
        for row in RECORDED["table"]
    ]


@pytest.mark.parametrize("batch_size", [1, 2, 5, 100])
@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_the_topic_makes_the_true_table(seed: int, batch_size: int) -> None:
    assert table_of(changes_in_order(seed, "offset"), batch_size) == true_rows()


def test_the_order_of_the_log_would_lose_rows() -> None:
    """A transaction may write before another one and commit after it, and after a snapshot."""
    names = {row["id"]: row["name"] for row in table_of(changes_in_order(0, "lsn"), 1)}
    assert names != {row["id"]: row["name"] for row in true_rows()}


def test_a_truncate_is_an_error() -> None:
    (truncate,) = [value for *_, value in RECORDED["records"] if is_truncate(value)]
    assert "has emptied the table" in decoded([truncate]).failures[0].reason
