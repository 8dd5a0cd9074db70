"""Messages of a real Debezium become the rows of a real PostgreSQL, for many types.

`python -m tests.judges.debezium.types` has recorded both.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isnan
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.cdc.messages import message_format
from tests.unit.cdc.debezium_messages import binary

RECORDED = json.loads(
    (Path(__file__).parents[2] / "data" / "cdc" / "debezium-postgresql-types.json").read_text(
        encoding="utf-8"
    )
)
VALUES = binary([None if each is None else each.encode() for each in RECORDED["values"]])
MESSAGES = message_format({"format": "debezium-json", "debezium-json.schema-include": "true"})
TEXTS = MESSAGES.schemas(pa.nulls(len(VALUES), pa.binary()), VALUES).texts
COLUMNS = MESSAGES.source(TEXTS[0]).columns
FIRST: dict[str, Any] = {
    "id": 1,
    "small": 6,
    "whole": -7,
    "real": 1.5,
    "double": 1e300,
    "price": Decimal("1234567890.12"),
    "large": "12345678901234567890123456789012345678901234567890.12345",
    "free": "1.23",
    "flag": True,
    "name": "naïve",
    "fixed": "ab  ",
    "raw": b"\x01\x02",
    "bits": b"\x01\x01",
    "day": date(2024, 2, 29),
    "clock": "12:34:56.789012",
    "clock_zone": "10:34:56Z",
    "at": datetime(2024, 2, 29, 12, 34, 56, 789012, UTC).replace(tzinfo=None),
    "at_ms": datetime(2024, 2, 29, 12, 34, 56, 789000, UTC).replace(tzinfo=None),
    "at_zone": datetime(2024, 2, 29, 10, 34, 56, 789012, UTC),
    "doc": '{"a": [1]}',
    "uid": "8c19773b-93ee-4f08-a627-63d7f625a574",
    "address": "10.0.0.1",
    "numbers": [1, None, 3],
    "names": ["a", None, "b c"],
    "days": [date(2024, 2, 29), date(1970, 1, 1)],
    "prices": [Decimal("1.500"), Decimal("-2.250")],
}


def rows() -> list[tuple[int, str, dict[str, Any]]]:
    changes = MESSAGES.changes(pa.nulls(len(VALUES), pa.binary()), VALUES, COLUMNS)
    assert not changes.failures
    changes.rows.validate(full=True)
    return list(
        zip(changes.index.to_pylist(), changes.kinds.to_pylist(), changes.rows.to_pylist(), strict=True)
    )


def test_all_messages_have_one_schema_and_all_columns() -> None:
    assert len(TEXTS) == 1
    assert MESSAGES.source(TEXTS[0]).name == "public.goods"
    assert COLUMNS.names == [*RECORDED["columns"]]
    assert COLUMNS.field("id") == pa.field("id", pa.int64(), nullable=False)


def test_the_snapshot_the_update_and_the_delete_give_the_rows_of_the_table() -> None:
    found = rows()
    assert [(index, kind, row["id"]) for index, kind, row in found] == [
        (0, "+I", 1),
        (1, "+I", 2),
        (2, "+I", 3),
        (3, "+U", 1),
        (4, "-D", 2),
    ]
    shown = {int(row["id"]): row for row in RECORDED["table"]}
    assert {*shown} == {1, 3}
    updated = found[3][2]
    assert {name: updated[name] for name in FIRST} == FIRST
    assert (updated["place"]["x"], updated["place"]["y"], updated["span"]) == (1.0, 2.0, 37_091_106_700_000)
    for name in ("small", "whole", "price", "large", "day", "at", "name", "uid"):
        assert str(updated[name]) == shown[1][name], name
    assert {name for name, value in found[2][2].items() if value is not None} == {"id"}


def test_values_at_the_ends_of_their_ranges_are_kept() -> None:
    row = rows()[1][2]
    assert isnan(row["double"])
    assert (row["small"], row["whole"], row["flag"]) == (-32768, -(2**31), False)
    assert (row["price"], row["large"]) == (Decimal("-9999999999.99"), "-0.00001")
    assert row["free"] == "-123456789012345678901234567890.5"
    assert (row["name"], row["fixed"], row["raw"]) == ("", "    ", b"")
    assert (row["day"], row["clock"]) == (date(1, 1, 1), "24:00:00.000000")
    assert row["at"] == datetime(1900, 1, 1, tzinfo=UTC).replace(tzinfo=None)
    assert row["at_ms"] == datetime(9999, 12, 31, 23, 59, 59, 999000, UTC).replace(tzinfo=None)
    assert row["at_zone"] == datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)
    assert (row["numbers"], row["names"], row["days"], row["prices"]) == ([], [], [], [])
