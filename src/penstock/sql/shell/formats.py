"""How rows are shown.

Runs on the driver. Pure. Invariant: it imports nothing heavy, because the command line needs it for its help.
"""

from __future__ import annotations

from enum import Enum


class Format(str, Enum):
    """How rows are shown."""

    AUTO = "auto"
    TABLE = "table"
    LINES = "lines"
    JSON = "json"
