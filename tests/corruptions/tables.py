"""Corruptions of the rows of a table, which `penstock table compare` has to find and to name.

Runs in tests only, on Arrow. Invariant: an honest table has the same rows in another order and in other
record batches.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.targets.compare import Rows, TablesCompared, compare_rows

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("amount", pa.decimal128(20, 3)),
        ("at", pa.timestamp("us", "UTC")),
        ("rate", pa.float64()),
        ("data", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("city", pa.string()), ("number", pa.int32())])),
    ]
)
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
Row: TypeAlias = dict[str, Any]
Corruption: TypeAlias = Callable[[random.Random, list[Row]], set[int]]


def rows_of(choice: random.Random) -> list[Row]:
    """Return the rows of a table, some values of which are equal."""
    return [
        {
            "id": number,
            "name": choice.choice(["a", "", "A", None]),
            "amount": choice.choice([Decimal("0.000"), Decimal(f"{number}.100"), None]),
            "at": choice.choice([_BEGIN + timedelta(days=number), None]),
            "rate": choice.choice([0.0, float("nan"), number / 3, None]),
            "data": choice.choice([b"", b"\0", bytes([number]), None]),
            "tags": choice.choice([[], ["x"], ["x", None], None]),
            "place": choice.choice([{"city": "x", "number": None}, {"city": None, "number": number}, None]),
        }
        for number in range(choice.randint(2, 40))
    ]


def lost(choice: random.Random, rows: list[Row]) -> set[int]:
    """Lose a row."""
    return {rows.pop(choice.randrange(len(rows)))["id"]}


def doubled(choice: random.Random, rows: list[Row]) -> set[int]:
    """Have a row twice."""
    rows.append(dict(choice.choice(rows)))
    return {rows[-1]["id"]}


def swapped(choice: random.Random, rows: list[Row]) -> set[int]:
    """Exchange all values of two rows, or those of one column. If they are equal, change one."""
    one, two = choice.sample(rows, 2)
    for name in choice.choice([SCHEMA.names[1:], [choice.choice(SCHEMA.names[1:])]]):
        one[name], two[name] = two[name], one[name]
    one["name"] = "swapped"
    return {one["id"], two["id"]}


def changed(choice: random.Random, rows: list[Row]) -> set[int]:
    """Change one value by as little as its type allows."""
    row, name = choice.choice(rows), choice.choice(SCHEMA.names[1:])
    row[name] = _OTHERS[name](row[name])
    return {row["id"]}


def torn(choice: random.Random, rows: list[Row]) -> set[int]:
    """Lose the values of a row behind a column, or all rows behind one."""
    at = choice.randrange(len(rows))
    if choice.random() < 0.5:
        gone = {row["id"] for row in rows[at:]}
        del rows[at:]
        return gone
    row = rows[at]
    row["name"] = "torn"
    row.update(dict.fromkeys(SCHEMA.names[choice.randrange(2, len(SCHEMA)) :]))
    return {row["id"]}


def other_key(choice: random.Random, rows: list[Row]) -> set[int]:
    """Give a row the key of another one, or a new one."""
    row = choice.choice(rows)
    before = row["id"]
    row["id"] = choice.choice([each["id"] for each in rows if each is not row] + [len(rows)])
    return {before, row["id"]}


_OTHERS: dict[str, Callable[[Any], Any]] = {
    "name": lambda value: "" if value is None else value + " ",
    "amount": lambda value: Decimal("0.000") if value is None else value + Decimal("0.001"),
    "at": lambda value: _BEGIN if value is None else value + timedelta(microseconds=1),
    "rate": lambda value: 0.0 if value is None else None,
    "data": lambda value: b"" if value is None else value + b"\0",
    "tags": lambda value: [] if value is None else [*value, None],
    "place": lambda value: {"city": None, "number": None} if value is None else None,
}
CORRUPTIONS: dict[str, Corruption] = {
    "lost": lost,
    "doubled": doubled,
    "swapped": swapped,
    "changed": changed,
    "torn": torn,
    "other key": other_key,
}


def _table(choice: random.Random, rows: list[Row]) -> Rows:
    """Return rows in any order and in any record batches."""
    shuffled = choice.sample(rows, len(rows))
    batches = pa.Table.from_pylist(shuffled, schema=SCHEMA).to_batches(choice.randint(1, 50))
    return Rows(SCHEMA, ("id",), lambda: batches)


def compared(seed: int, corruption: str | None) -> tuple[TablesCompared, set[int]]:
    """Compare a table with itself, or with what a corruption has made of it; and the keys it has touched."""
    choice = random.Random(f"{seed}/{corruption}")
    rows = rows_of(choice)
    other = [dict(row) for row in rows]
    touched = set() if corruption is None else CORRUPTIONS[corruption](choice, other)
    return compare_rows(_table(choice, rows), _table(choice, other)), touched


def failure(seed: int, corruption: str | None) -> str | None:
    """Return what was not found, not named, or invented; None: nothing."""
    found, touched = compared(seed, corruption)
    named = {row.key["id"] for row in found.rows}
    is_right = found.is_equal == (corruption is None) and named <= touched and bool(named) == bool(touched)
    return None if is_right else f"seed {seed}, {corruption or 'honest'}: {found.to_json()}"
