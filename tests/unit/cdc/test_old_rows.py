"""Old rows whose values Debezium may have made up: for each type of a column."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.cdc._old_rows import OldRows, has_two_values

UNKNOWN = OldRows(are_sent=False, are_left_out=False, with_defaults=frozenset(), rest=None)
TYPES: list[tuple[pa.DataType, Any, Any]] = [
    *((kind, 0, 7) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint64())),
    *((kind, 0.0, 1.5) for kind in (pa.float32(), pa.float64())),
    (pa.decimal128(1, 0), Decimal(0), Decimal(7)),
    (pa.decimal128(2, 2), Decimal("0.00"), Decimal("0.07")),
    (pa.decimal128(10, 2), Decimal("0.00"), Decimal("17.53")),
    (pa.decimal128(38, 38), Decimal(0), Decimal("0.5")),
    (pa.decimal256(50, 2), Decimal(0), Decimal("17.53")),
    (pa.bool_(), False, True),
    (pa.string(), "", "pen"),
    (pa.large_string(), "0", "pen"),
    (pa.string(), "1970-01-01T00:00:00Z", "1970-02-01T00:00:00Z"),
    (pa.binary(), b"", b"x"),
    (pa.large_binary(), b"", b"x"),
    (pa.date32(), date(1970, 1, 1), date(2026, 1, 1)),
    (pa.time32("ms"), time(0), time(1)),
    (pa.time64("us"), time(0), time(1)),
    (pa.timestamp("us"), datetime(1970, 1, 1), datetime(2026, 1, 1)),  # noqa: DTZ001 - the column has no zone
    (pa.timestamp("us", "UTC"), datetime(1970, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
]


@pytest.mark.parametrize(("kind", "made_up", "true"), TYPES, ids=str)
def test_a_value_proves_an_old_row_if_it_is_neither_made_up_nor_that_of_before(
    kind: pa.DataType, made_up: Any, true: Any
) -> None:
    rows = pa.table({"x": pa.chunked_array([pa.array([true, None, made_up, true], kind)])})
    old = np.array([1, 2, 3, 3])
    assert UNKNOWN.is_whole(rows, old, np.array([0, 0, 0, 0])).tolist() == [False] * 4
    assert UNKNOWN.is_whole(rows, old, np.array([-1, -1, -1, 2])).tolist() == [False, False, True, True]
    for count, has_two in ((2, False), (3, True)):
        assert (
            has_two_values(pa.RecordBatch.from_arrays([pa.array([true, None, made_up][:count], kind)], ["x"]))
            == has_two
        )


@pytest.mark.parametrize(
    "values", [[[1], [2]], [{"a": 1}, {"a": 2}], [None, None]], ids=["list", "struct", "null"]
)
def test_nested_values_prove_nothing(values: list[Any]) -> None:
    rows = pa.table({"x": pa.chunked_array([pa.array(values)])})
    assert UNKNOWN.is_whole(rows, np.array([1]), np.array([0])).tolist() == [False]
