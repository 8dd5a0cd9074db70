"""The text for PostgreSQL's COPY has each row once, in the order of the keys. A server reads it elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.targets import _copy_text
from penstock.targets._copy_text import copy_texts

COLUMNS = pa.schema([("part", pa.decimal128(4, 1)), ("id", pa.string()), ("deleted", pa.bool_())])
ROWS = [(Decimal("2.0"), "b", False), (Decimal("-3.5"), "c", True), (Decimal("2.0"), "a", False)]


def rows() -> pa.Table:
    return pa.Table.from_batches(  # as tasks send them
        [pa.RecordBatch.from_pylist([dict(zip(COLUMNS.names, one, strict=True))], COLUMNS) for one in ROWS]
    )


def lines(found: pa.Table, *keys: str) -> list[str]:
    return "".join(copy_texts(found, keys)).splitlines()


@pytest.mark.parametrize("part", [1, 2, 10])
def test_rows_are_in_the_order_of_their_keys(monkeypatch: pytest.MonkeyPatch, part: int) -> None:
    monkeypatch.setattr(_copy_text, "_ROWS", part)
    assert lines(rows(), "part", "id") == ["-3.5\tc\t1", "2.0\ta\t0", "2.0\tb\t0"]
    assert lines(rows(), "id") == ["2.0\ta\t0", "2.0\tb\t0", "-3.5\tc\t1"]


def test_very_large_rows_are_not_copied_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_copy_text, "_SORTED_BYTES_MAX", rows().nbytes - 1)
    assert lines(rows(), "id") == ["2.0\tb\t0", "-3.5\tc\t1", "2.0\ta\t0"]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "-03:30"])
def test_a_time_with_a_zone_is_written_in_utc(unit: str, zone: str) -> None:
    at = pa.array([datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), None], pa.timestamp(unit, zone))
    found = pa.table({"id": [1, 2], "at": at, "deleted": [False, False]})
    digits = {"s": "", "ms": ".000", "us": ".000000", "ns": ".000000000"}[unit]
    assert lines(found, "id") == [f"1\t1969-12-31 23:59:59{digits}Z\t0", "2\t\\N\t0"]
