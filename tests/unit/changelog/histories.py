"""Random changelogs for tests: every -U and -D takes away a row that is there."""

from __future__ import annotations

import random
from typing import Any

from tests.unit.changelog.running import Row


def changelog(chance: random.Random, length: int, make: Any) -> list[Row]:
    """Return a changelog of rows that `make(chance)` makes. Equal rows may be there twice."""
    table: list[Row] = []
    out: list[Row] = []
    for _ in range(length):
        what = chance.random()
        if table and what < 0.3:
            out.append({**table.pop(chance.randrange(len(table))), "row_kind": "-D"})
        elif table and what < 0.6:
            old, new = table.pop(chance.randrange(len(table))), make(chance)
            out += [{**old, "row_kind": "-U"}, {**new, "row_kind": "+U"}]
            table.append(new)
        else:
            table.append(make(chance))
            out.append({**table[-1], "row_kind": "+I"})
    return out


def in_batches(chance: random.Random, rows: list[Row], count: int) -> list[list[Row]]:
    """Divide rows into batches, and shuffle each."""
    edges = sorted(chance.randint(0, len(rows)) for _ in range(count - 1))
    batches = [rows[start:stop] for start, stop in zip([0, *edges], [*edges, len(rows)], strict=True)]
    return [chance.sample(batch, len(batch)) for batch in batches]


def apply(table: list[Row], rows: list[Row]) -> None:
    """Apply changes in any order within the batch: what goes may have come in it."""
    signs = {"+I": 1, "+U": 1, "-U": -1, "-D": -1}
    for row in sorted(rows, key=lambda each: -signs[each["row_kind"]]):
        content = {name: value for name, value in row.items() if name != "row_kind"}
        if signs[row["row_kind"]] > 0:
            table.append(content)
        else:
            table.remove(content)
