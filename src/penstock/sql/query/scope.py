"""What the names of columns mean behind an operator, whose columns have names of its own.

Runs on the driver. Invariant: a name that two columns have is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_COLUMN = re.compile(r"(?:`(?P<table>(?:[^`]|``)+)`\.)?`(?P<name>(?:[^`]|``)+)`")


@dataclass(frozen=True)
class Entry:
    """A column: the name of its table, its own name, its text in Spark's SQL, and its type."""

    alias: str
    name: str
    text: str
    type: str


@dataclass(frozen=True)
class Scope:
    """The columns of FROM."""

    entries: tuple[Entry, ...]

    def find(self, parts: list[str]) -> tuple[Entry, list[str]] | None:
        """Return the column of a name, and the names of fields that follow.

        Raises:
            ValueError: two columns have the name.
        """
        lower = [each.lower() for each in parts]
        for used in (2, 1):
            if used > len(parts):
                continue
            found = [
                each
                for each in self.entries
                if each.name.lower() == lower[used - 1] and (used == 1 or each.alias.lower() == lower[0])
            ]
            if len(found) > 1:
                tables = " and ".join(each.alias for each in found)
                raise ValueError(f"the column '{'.'.join(parts)}' is in {tables}. Write the table before it.")
            if found:
                return found[0], parts[used:]
        return None

    def of(self, alias: str) -> list[Entry]:
        """Return the columns of a table."""
        return [each for each in self.entries if each.alias.lower() == alias.lower()]


def column_name(text: str, aliases: Iterable[str]) -> str | None:
    """Return the name in a text that is a column, in lower case; None for any other text.

    Args:
        text: in Spark's SQL: `name`, or `alias`.`name`. Before the field of a ROW stands no table.
        aliases: the names of the tables.
    """
    found = _COLUMN.fullmatch(text)
    if found is None:
        return None
    table = found["table"]
    if table is not None and table.replace("``", "`").lower() not in {each.lower() for each in aliases}:
        return None
    return found["name"].replace("``", "`").lower()
