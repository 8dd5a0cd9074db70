"""Rows that a database has returned, as Arrow.

Runs on the driver. Invariant: a value is the one that penstock has written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds


def as_arrow(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    """Return rows of a database as a table.

    SQLite holds times and decimals as text, and booleans as numbers.
    """
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pa.Table.from_arrays(
        [
            pa.array([None if one is None else _value(one, each.type) for one in values], each.type)
            for values, each in zip(columns, schema, strict=True)
        ],
        schema=schema,
    )


def _value(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, str):
        read = next((found for is_kind, found in _OF_TEXTS if is_kind(kind)), None)
        return value if read is None else read(value)
    if kinds.is_boolean(kind):
        return bool(value)
    return bytes(value) if isinstance(value, memoryview) else value


_OF_TEXTS: Sequence[tuple[Callable[[pa.DataType], bool], Callable[[str], Any]]] = (
    (kinds.is_timestamp, datetime.fromisoformat),
    (kinds.is_date32, date.fromisoformat),
    (kinds.is_decimal128, Decimal),
)
