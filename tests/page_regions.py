"""Put generated tables into a page that people write.

A region begins with `<!-- NAME: made by ... -->` and ends with `<!-- end of NAME -->`. Invariant: a table
without a region, and a region without a table, is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_REGION = re.compile(
    r"(?P<begin><!-- (?P<name>[\w-]+): made by [^\n]* -->\n\n)"
    r"(?P<table>.*?)(?P<end>\n<!-- end of (?P=name) -->\n)",
    re.DOTALL,
)


def filled(page: str, tables: Mapping[str, str]) -> str:
    """Return a page with these tables in its regions.

    Raises:
        ValueError: the regions of the page are not those of the tables, each once.
    """
    names = [found["name"] for found in _REGION.finditer(page)]
    if sorted(names) != sorted(tables):
        raise ValueError(f"the page has the regions {sorted(names)}, the tables are {sorted(tables)}")
    return _REGION.sub(lambda found: found["begin"] + tables[found["name"]] + found["end"], page)


def table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table of Markdown. A `|` within a cell is escaped."""
    lines = [heads, ("---",) * len(heads), *rows]
    shown = (" | ".join(cell.replace("|", "\\|") for cell in line) for line in lines)
    return "".join(f"| {line} |\n".replace("|  |", "| |") for line in shown)


def code(text: str) -> str:
    return f"`{text}`"
