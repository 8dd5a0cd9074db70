"""What is known of the rows of a query: whether they change, by which columns they differ, their places.

Runs on the driver. Invariant: rows that change have the column KIND, and nothing else has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

KIND, PARTITION, OFFSET = "__row_kind", "__partition", "__offset"
"""The hidden columns: how a row changes the table, and the place of its record."""
HIDDEN = (KIND, PARTITION, OFFSET)
PLACE = (PARTITION, OFFSET)


@dataclass(frozen=True)
class Feature:
    """A part of a query: its name, what to do if it cannot run, and its offset in the script."""

    name: str
    instead: str
    offset: int


@dataclass(frozen=True)
class Rows:
    """What is known of the rows of a query.

    Attributes:
        changes: the part of the query that changes rows it gave before; None if rows are only inserted.
        keys: columns by which all rows differ, in lower case; None if none are known. () is at most one row.
        is_together: whether the rows of each of `keys` are in one task and in order.
        has_place: whether the columns of PLACE are there.
        in_ms: columns of `keys` that are times of whole milliseconds.
        is_read: whether each task has the rows of one table as it was read, in its order.
        time: the column of the watermark, and its delay in milliseconds.
        changing_time: the same of rows that change, over which windows are.
    """

    changes: Feature | None = None
    keys: frozenset[str] | None = None
    is_together: bool = False
    has_place: bool = False
    in_ms: frozenset[str] = frozenset()
    is_read: bool = False
    time: tuple[str, int] | None = None
    changing_time: tuple[str, int] | None = None

    @property
    def hidden(self) -> tuple[str, ...]:
        """Return the hidden columns."""
        return (*((KIND,) if self.changes is not None else ()), *(PLACE if self.has_place else ()))

    def renamed(self, names: Mapping[str, str]) -> Rows:
        """Return what is known after a projection; `names` has the new name of each column that stays."""
        keys = self.keys
        if keys is not None:
            keys = frozenset(names[key] for key in keys) if keys <= names.keys() else None
        in_ms = frozenset(names[each] for each in self.in_ms if each in names)
        time, changing_time = (_renamed(each, names) for each in (self.time, self.changing_time))
        together = self.is_together and keys is not None
        return replace(
            self, keys=keys, is_together=together, in_ms=in_ms, time=time, changing_time=changing_time
        )


def _renamed(time: tuple[str, int] | None, names: Mapping[str, str]) -> tuple[str, int] | None:
    name = names.get(time[0].lower()) if time is not None else None
    return (name, time[1]) if time is not None and name is not None else None


INSERTS = Rows()
"""Rows that are only inserted, of which no more is known."""


class Varies(Enum):
    """How often a function or column may have another value for the same row."""

    NEVER = "never"
    BATCH = "batch"
    """In another micro-batch: a clock."""
    RECORD = "record"
    """In each record: metadata of change data. The record that deletes a row has an offset of its own."""
    CALL = "call"
    """Each time that it is computed: RAND, and functions of the user that are not declared DETERMINISTIC."""


@dataclass(frozen=True)
class VaryingColumn:
    """A column of rows that change, which may have another value when its row is taken back.

    Attributes:
        name: of the column.
        why: what gives the value, in words.
        varies: how often.
    """

    name: str
    why: str
    varies: Varies


@dataclass(frozen=True)
class Selected:
    """A query in Spark's SQL, and what is known of its rows."""

    sql: str
    rows: Rows = INSERTS


@dataclass(frozen=True)
class Relation:
    """Rows with a name.

    Attributes:
        text: as FROM has it.
        rows: what is known of them.
        time: the column with the watermark, and its delay in milliseconds.
        varying: the columns that may have another value when their row is taken back.
    """

    text: str
    rows: Rows = INSERTS
    time: tuple[str, int] | None = None
    varying: tuple[VaryingColumn, ...] = ()


def plain_kind() -> str:
    """Return the text of KIND for rows that no longer come in pairs: +I for +U, and -D for -U."""
    return f"CASE WHEN `{KIND}` IN ('+I', '+U') THEN '+I' ELSE '-D' END"


def shaped(query: str, rows: Rows, *, changes: bool, has_place: bool = False) -> str:
    """Return a query with the hidden columns that are wanted as its last ones, in the order of HIDDEN."""
    wanted = (*((KIND,) if changes else ()), *(PLACE if has_place else ()))
    if rows.hidden == wanted:
        return query
    star = f"* EXCEPT ({', '.join(f'`{each}`' for each in rows.hidden)})" if rows.hidden else "*"
    kind = f"`{KIND}`" if rows.changes is not None else f"'+I' AS `{KIND}`"
    shown = [star, *([kind] if changes else []), *([f"`{each}`" for each in PLACE] if has_place else [])]
    return f"SELECT {', '.join(shown)} FROM ({query})"
