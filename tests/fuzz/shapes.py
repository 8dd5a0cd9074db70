"""Random columns and rows for the formats."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

SCALARS: tuple[pa.DataType, ...] = (
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.decimal128(10, 2),
    pa.decimal128(38, 18),
    pa.time32("ms"),
    pa.time64("us"),
    pa.timestamp("ms"),
    pa.timestamp("us"),
    pa.timestamp("ms", "UTC"),
    pa.timestamp("us", "UTC"),
)
TEXTS = (
    "",
    "a",
    "null",
    "#",
    ' "x"\\ ',
    "a;b,c\n",
    "\u00e9\U0001f600",
    "long " * 30,
    "-1.5e3",
    "2024-02-29 12:00:00",
)


def columns(chance: random.Random, *, depth: int = 2, has_maps: bool = True) -> pa.Schema:
    """Return one to six columns. `depth`: how many lists, rows and maps may stand in each other."""
    count = chance.randrange(1, 7)
    kinds = [_kind(chance, depth, has_maps) for _ in range(count)]
    return pa.schema([pa.field(f"f{i}", kind, chance.random() < 0.9) for i, kind in enumerate(kinds)])


def _kind(chance: random.Random, depth: int, has_maps: bool) -> pa.DataType:
    which = chance.random() if depth else 0.0
    if which < 0.6:
        return chance.choice(SCALARS)
    inner = [_kind(chance, depth - 1, has_maps) for _ in range(chance.randrange(1, 4))]
    if which < 0.75:
        return pa.list_(inner[0])
    if which < 0.85 and has_maps:
        return pa.map_(pa.string(), inner[0])
    return pa.struct([pa.field(f"g{i}", one, chance.random() < 0.9) for i, one in enumerate(inner)])


def rows(chance: random.Random, schema: pa.Schema, count: int) -> pa.RecordBatch:
    """Return random rows."""
    made = [pa.array([_value(chance, one) for _ in range(count)], one.type) for one in schema]
    return pa.RecordBatch.from_arrays(made, schema=schema)


def _value(chance: random.Random, column: pa.Field) -> Any:
    kind = column.type
    if column.nullable and chance.random() < 0.15:
        return None
    if pa.types.is_struct(kind):
        return {kind.field(i).name: _value(chance, kind.field(i)) for i in range(kind.num_fields)}
    if pa.types.is_map(kind):
        keys = chance.sample(TEXTS, chance.randrange(4))
        return [(key, _value(chance, kind.item_field)) for key in keys]
    if pa.types.is_list(kind):
        return [_value(chance, kind.value_field) for _ in range(chance.randrange(4))]
    return chance.choice(_choices(kind))


def _choices(kind: pa.DataType) -> Sequence[Any]:
    if pa.types.is_integer(kind):
        return (0, 1, -1, 2 ** (kind.bit_width - 1) - 1, -(2 ** (kind.bit_width - 1)))
    if pa.types.is_string(kind):
        return TEXTS
    return next(choices for test, choices in _CHOICES if test(kind))


_CHOICES: tuple[tuple[Callable[[pa.DataType], bool], Sequence[Any]], ...] = (
    (pa.types.is_boolean, (True, False)),
    (pa.types.is_floating, (0.0, -0.0, 1.5, 1e30, -1e-30, float("inf"), float("nan"))),
    (pa.types.is_decimal, (Decimal(0), Decimal("-12.34"), Decimal("99999999.99"))),
    (pa.types.is_date, (0, 1, -1, 19_782, 2_932_896)),
    (pa.types.is_time, (0, 1, 43_200_000)),
    (pa.types.is_timestamp, (0, 1, -1, 1_709_208_000_123)),
    (pa.types.is_binary, [one.encode() for one in TEXTS]),
)
