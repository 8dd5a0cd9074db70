"""What one statement is bound with: its script, the session, column ids, and Spark's types.

Runs on the driver. Invariant: Spark is asked for the type of a call only where nothing else tells it, over
constants of the types of its arguments, and once for the same question.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from penstock.sql.language.flink_types import Field, FlinkType
from penstock.sql.language.source import Source as ScriptSource
from penstock.sql.language.statements import ComputedColumn, Fragment, Options
from penstock.sql.plan.expressions import Column, Expression, Function, Literal, TypedSql
from penstock.sql.plan.nodes import Source
from penstock.sql.plan.types import NUMBERS, from_spark, spark_text, type_of_cast


class UnknownTypeError(Exception):
    """Spark could not analyse a text. The message is Spark's."""


@dataclass(frozen=True)
class UserFunction:
    """A function of CREATE FUNCTION: its name in Spark, and whether equal arguments give equal values."""

    name: str
    is_deterministic: bool


@dataclass(frozen=True)
class SourceTable:
    """A table as a query names it: its columns in their order, stored with their types or computed."""

    source: Source
    columns: tuple[Field | ComputedColumn, ...]
    script: ScriptSource | None = None
    """Where computed columns were written."""
    mark: int = -1
    """The offset of the WATERMARK in that script."""


@dataclass(frozen=True)
class SourceView:
    """A view: its query, the script that has it, the names of its columns, and its database."""

    query: Fragment
    script: ScriptSource
    columns: tuple[str, ...]
    database: str


class Session(Protocol):
    """What binding asks of a session."""

    @property
    def is_batch(self) -> bool: ...

    @property
    def zone_is_utc(self) -> bool: ...

    @property
    def foreign_zone(self) -> str | None:
        """Return the zone of the session if the query runs in UTC instead; see `zones`."""

    def table(self, parts: tuple[str, ...], options: Options) -> SourceTable | SourceView | None:
        """Return a table or view; None if there is no such table. `options` are those of a hint."""

    def within(self, database: str) -> AbstractContextManager[None]:
        """Return a context in which names without a database are those of this one."""

    def tables(self) -> list[str]:
        """Return the names of all tables and views, for messages."""

    def function(self, name: str) -> UserFunction | None:
        """Return a function that the user has created; None if there is none."""

    def spark_types(self, select: str) -> list[tuple[str, str]]:
        """Return names and types (simple strings of Spark) of the columns of a query without tables.

        Raises:
            UnknownTypeError: Spark cannot analyse the query.
        """


class Context:
    """One statement that is bound."""

    def __init__(self, session: Session, script: ScriptSource) -> None:
        self.session = session
        self.script = script
        self._ids = itertools.count()
        self._types: dict[str, FlinkType] = {}

    def column(self, name: str, kind: FlinkType) -> Column:
        """Return a column with a new id."""
        return Column(next(self._ids), name, kind)

    def type_of(self, function: Function, args: Sequence[Expression]) -> FlinkType:
        """Return the type of a call.

        Raises:
            ValueError: an argument is not served, or Spark does not know the call.
        """
        if function.type == "{0}":
            return args[0].type
        if function.type:
            return from_spark(function.type)
        kinds = [spark_text(each.type) for each in args]
        typed = [TypedSql(self._constant(each, kind), kind) for each, kind in zip(args, kinds, strict=True)]
        text = function.apply(typed)
        known = type_of_cast(text) if all(each.type.name in NUMBERS for each in args) else None
        return self.spark_type(text) if known is None else known

    def spark_type(self, text: str) -> FlinkType:
        """Return the type of an expression without columns.

        Raises:
            ValueError: Spark does not know it.
        """
        if text not in self._types:
            try:
                self._types[text] = from_spark(self.session.spark_types(f"SELECT {text} AS x")[0][1])
            except UnknownTypeError as error:
                raise ValueError(f"Spark cannot tell the type: {error}") from None
        return self._types[text]

    @staticmethod
    def _constant(expression: Expression, kind: str) -> str:
        """Return a constant of the type of an expression; itself if it is one, which Spark may ask for."""
        if isinstance(expression, Literal):
            return expression.text
        return f"CAST(NULL AS {kind})"
