"""One SELECT of Spark's SQL while it is made.

Runs on the driver. Invariant: clauses act in the order of `Stage`, so a node joins the SELECT only if no
later clause is there; else the SELECT becomes a query in FROM.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from penstock.sql.plan.expressions import Column
from penstock.sql.plan.hidden import KIND
from penstock.sql.plan.texts import quoted
from penstock.types import ROW_KIND

_VIEW = re.compile(r"`(\w+)` AS `(\w+)`")
_SIMPLE = re.compile(r"(?:`(?:[^`]|``)+`\.)?`(?:[^`]|``)+`|-?\d+|NULL|TRUE|FALSE")


class Stage(IntEnum):
    """The last clause that a SELECT has."""

    ROWS = 0
    GROUPED = 1
    OVER = 2
    DISTINCT = 3
    SORTED = 4
    LIMITED = 5


@dataclass(frozen=True)
class Query:
    """Rows as Spark gives them, to an operator or as the result.

    Attributes:
        text: a SELECT that gives them.
        view: the view that has them, if the SELECT only chooses columns; "" if it does more.
        columns: the columns that it chooses, as texts of a SELECT.
    """

    text: str
    view: str = ""
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Select:
    """A SELECT.

    Attributes:
        source: behind FROM; "" without.
        outputs: the text of each column.
        where: conditions before groups.
        group: behind GROUP BY; "" without.
        having: conditions behind groups.
        order: columns, each with its text and what stands behind it.
        limit: LIMIT and OFFSET.
        kind: the text of the row kind of a changelog; None for append-only rows.
    """

    source: str
    outputs: Mapping[Column, str]
    where: tuple[str, ...] = ()
    group: str = ""
    having: tuple[str, ...] = ()
    order: tuple[tuple[Column, str, str], ...] = ()
    limit: str = ""
    stage: Stage = Stage.ROWS
    has_varying: bool = False
    """Whether a condition of `where` may have another value each time."""
    is_join: bool = False
    """Whether the source is a join, which stands in brackets on the right side of another one."""
    is_distinct: bool = False
    kind: str | None = None
    fixed: frozenset[Column] = field(default_factory=frozenset)
    """Columns whose texts may stand once only: they have another value, or cost much, each time."""

    def query(self, columns: Sequence[Column], names: Sequence[str], kind: str = ROW_KIND) -> Query:
        """Return the rows for an operator. It knows the column of row kinds by another name."""
        text = self.text(columns, names, kind)
        view = _VIEW.fullmatch(self.source)
        chosen = [self.outputs[each] for each in columns] + [self.kind or "NULL"]
        is_more = self != Select(self.source, self.outputs, kind=self.kind, fixed=self.fixed)
        if view is None or is_more or not all(map(is_simple, chosen)):
            return Query(text)
        shown = self._shown(columns, names, kind)
        return Query(text, view[1], tuple(each.removeprefix(f"`{view[2]}`.") for each in shown))

    def _shown(self, columns: Sequence[Column], names: Sequence[str], kind: str) -> list[str]:
        texts = [f"{self.outputs[each]} AS {quoted(name)}" for each, name in zip(columns, names, strict=True)]
        return [*texts, *([f"{self.kind} AS `{kind}`"] if self.kind is not None else [])] or ["1 AS `one`"]

    def text(self, columns: Sequence[Column], names: Sequence[str] | None = None, kind: str = KIND) -> str:
        """Return the SELECT of these columns, named c<id> or as given, and of the row kind."""
        shown = [short(each) for each in columns] if names is None else names
        outputs = self._shown(columns, shown, kind)
        parts = [f"SELECT {'DISTINCT ' if self.is_distinct else ''}{', '.join(outputs)}"]
        parts += [f"FROM {self.source}"] if self.source else []
        parts += [f"WHERE {' AND '.join(self.where)}"] if self.where else []
        parts += [f"GROUP BY {self.group}"] if self.group else []
        parts += [f"HAVING {' AND '.join(self.having)}"] if self.having else []
        if self.order:
            known = dict(zip(columns, shown, strict=True))
            items = (
                f"{quoted(known[column]) if column in known else text}{suffix}"
                for column, text, suffix in self.order
            )
            parts.append(f"ORDER BY {', '.join(items)}")
        return " ".join([*parts, *([self.limit] if self.limit else [])])

    def inlines(self, uses: Mapping[Column, int]) -> bool:
        """Return whether expressions may take the texts of columns in place of their names."""
        return all(
            _SIMPLE.fullmatch(self.outputs[column]) is not None
            or (count == 1 and column not in self.fixed and len(self.outputs[column]) < 400)
            for column, count in uses.items()
            if column in self.outputs
        )

    def with_(self, **changes: object) -> Select:
        return replace(self, **changes)  # type: ignore[arg-type]  # the caller names its own attributes


def without_pairs(kind: str | None) -> str | None:
    """Return the text of a row kind for rows that no longer come in pairs: +I for +U, and -D for -U."""
    return None if kind is None else f"CASE WHEN {kind} IN ('+I', '+U') THEN '+I' ELSE '-D' END"


def is_simple(text: str) -> bool:
    """Return whether a text is a column or a short constant."""
    return _SIMPLE.fullmatch(text) is not None


def is_column(text: str) -> bool:
    """Return whether a text is a column, which is NULL where an outer join has no row."""
    return is_simple(text) and text.startswith("`")


def short(column: Column) -> str:
    """Return the name of a column in Spark's SQL."""
    return f"c{column.id}"
