"""The SQL of the command line: rows as texts, live tables, and the prompt.

    cells.py       values and rows as texts
    changes.py     the rows of a changelog, applied
    select.py      runs a SELECT and shows its rows
    statements.py  where a statement ends while it is typed
    suggest.py     what may come next at the cursor
    prompt.py      the prompt itself (prompt_toolkit)

Runs on the driver. Invariant: `cells`, `changes`, `statements` and `suggest` are pure. This file imports
nothing heavy, because the command line needs it for its help.
"""

from __future__ import annotations

from enum import Enum


class Format(str, Enum):
    """How rows are shown."""

    AUTO = "auto"
    TABLE = "table"
    LINES = "lines"
    JSON = "json"
