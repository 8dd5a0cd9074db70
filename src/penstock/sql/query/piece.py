"""Pieces of Spark's SQL with their types, and what a translation needs to know from outside.

Runs on the driver. Invariant: the type of a piece is asked for only where the translation depends on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.sql.language.source import Source
from penstock.sql.language.statements import Options

INTEGERS = ("tinyint", "smallint", "int", "bigint")


class UnknownTypeError(Exception):
    """Spark could not analyse a text. The message is Spark's."""


class Binder(Protocol):
    """The tables and functions of a session."""

    def table(self, parts: tuple[str, ...], options: Options) -> str | None:
        """Return Spark's name of a table or view; None if there is no such table.

        Args:
            parts: of the name, as written.
            options: of an OPTIONS hint, which replace those of the table for this read.
        """

    def tables(self) -> list[str]:
        """Return the names of all tables and views, for messages."""

    def column_types(self, select: str) -> list[tuple[str, str]]:
        """Return names and types (Spark's simple strings) of the columns of a query.

        Raises:
            UnknownTypeError: Spark cannot analyse the query.
        """

    @property
    def zone_is_utc(self) -> bool:
        """Return whether the times of the session are those of UTC."""

    def has_function(self, name: str) -> bool:
        """Return whether the user has created a function of this name."""


@dataclass(frozen=True)
class Piece:
    """A text of Spark's SQL, in brackets where that matters, and the way to find its type."""

    text: str
    find_type: Callable[[], str]

    @property
    def type(self) -> str:
        """Return the type as Spark's simple string.

        Raises:
            SqlError: Spark cannot tell it.
        """
        return self.find_type()

    @property
    def is_integer(self) -> bool:
        """Return whether the type is one of the integers."""
        return self.type in INTEGERS


@dataclass(frozen=True)
class Feature:
    """A part of a query that Spark cannot stream: its name, what to do, and its offset in the script."""

    name: str
    instead: str
    offset: int


@dataclass(frozen=True)
class Translated:
    """A query in Spark's SQL, and the parts that only a batch can run."""

    sql: str
    batch_only: tuple[Feature, ...]
    changes_rows: Feature | None = None
    """An aggregation without a window: in a stream its rows replace rows that were emitted before."""


@dataclass(frozen=True)
class Script:
    """The place of a query in its script, for messages."""

    source: Source
    offset: int


def quoted(name: str) -> str:
    """Return a name in backticks."""
    return f"`{name.replace('`', '``')}`"


def literal(text: str) -> str:
    """Return a text as a literal of Spark's SQL, which reads backslashes as the beginning of an escape."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def column_list(alias: Any) -> str:
    """Return the columns of an alias of the parser in brackets; "" without any."""
    columns = alias.args.get("columns") or []
    return f"({', '.join(quoted(each.name) for each in columns)})" if columns else ""
