"""What the names of columns mean in one SELECT.

Runs on the driver. Invariant: a name without a table that two columns have is refused. The rows around a
query are asked last, the nearest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.sql.plan.expressions import Column


@dataclass(frozen=True)
class Entry:
    """A column of FROM: the alias of its table ("" without one), its name, and the column.

    `is_merged`: whether a later entry of a NATURAL or USING join stands for it, so that only its table's name
    finds it, and a star does not show it.
    """

    alias: str
    name: str
    column: Column
    is_merged: bool = False


@dataclass(frozen=True)
class Scope:
    """The columns of FROM, and the scope of the query around it."""

    entries: tuple[Entry, ...] = ()
    outside: Scope | None = None

    def find(self, parts: Sequence[str]) -> tuple[Column, Sequence[str]] | None:
        """Return the column of a name, and the names of fields that follow; None if there is none.

        Raises:
            ValueError: two columns have the name.
        """
        lower = [each.lower() for each in parts]
        for used in (2, 1):
            if used > len(parts):
                continue
            found = [each for each in self.entries if self._is_named(each, lower, used)]
            if len(found) > 1:
                tables = " and ".join(dict.fromkeys(each.alias or "a query" for each in found))
                raise ValueError(f"the column '{'.'.join(parts)}' is in {tables}. Write the table before it.")
            if found:
                return found[0].column, parts[used:]
        return self.outside.find(parts) if self.outside is not None else None

    @staticmethod
    def _is_named(entry: Entry, lower: list[str], used: int) -> bool:
        if entry.name.lower() != lower[used - 1]:
            return False
        return entry.alias.lower() == lower[0] if used > 1 else not entry.is_merged

    def of(self, alias: str) -> list[Entry]:
        """Return the columns of a table."""
        return [each for each in self.entries if each.alias.lower() == alias.lower()]

    @property
    def aliases(self) -> list[str]:
        """Return the names of the tables."""
        return list(dict.fromkeys(each.alias for each in self.entries if each.alias))

    @property
    def shown(self) -> list[Entry]:
        """Return the columns of a star."""
        return [each for each in self.entries if not each.is_merged]
