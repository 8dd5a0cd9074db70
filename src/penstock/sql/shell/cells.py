"""Values and rows as texts.

Runs on the driver. Pure. Invariant: a cell has one line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from penstock.changelog.row_kinds import INSERT, NAMES, ROW_KIND

_SPACE = str.maketrans({"\n": " ", "\r": " ", "\t": " "})


def cell(value: Any) -> str:
    """Return a value as the text of one cell."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, (bytes, bytearray)):
        return f"x'{bytes(value).hex()}'"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{cell(key)}={cell(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (tuple, list)):
        first, last = "()" if isinstance(value, tuple) else "[]"  # a ROW is a tuple
        return f"{first}{', '.join(map(cell, value))}{last}"
    return (value.isoformat(" ") if isinstance(value, datetime) else str(value)).translate(_SPACE)


def kind_and_cells(names: Sequence[str], row: Sequence[Any]) -> tuple[str, tuple[str, ...]]:
    """Return the row kind of a row and its cells; `+I` if the query has no row kinds."""
    if ROW_KIND not in names:
        return NAMES[INSERT], tuple(map(cell, row))
    kind = list(names).index(ROW_KIND)
    cells = tuple(cell(value) for at, value in enumerate(row) if at != kind)
    return str(row[kind]), cells


def shown_names(names: Sequence[str]) -> list[str]:
    """Return the columns that are shown: all but the row kind."""
    return [name for name in names if name != ROW_KIND]


def line(kind: str, cells: Sequence[str]) -> str:
    """Return a row as a line, e.g. `+I[1, a]`."""
    return f"{kind}[{', '.join(cells)}]"


def aligned(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Return the lines of a table whose columns are aligned."""
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    for row in (names, *rows):
        text = "  ".join(each.ljust(width) for each, width in zip(row, widths, strict=True))
        yield text.rstrip()
