"""Pieces of Spark's SQL with their types, and what a translation needs to know from outside.

Runs on the driver. Invariant: the type of a piece is asked for only where the translation depends on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.sql.language.source import Source
from penstock.sql.language.statements import Options
from penstock.sql.query.rows import INSERTS, Feature, Relation, Rows, Varies
from penstock.sql.query.steps import Step

_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
INTEGERS = ("tinyint", "smallint", "int", "bigint")


class UnknownTypeError(Exception):
    """Spark could not analyse a text. The message is Spark's."""


class OtherStateError(ValueError):
    """The state of an operator is there, and belongs to another query.

    Attributes:
        path: of the folder of the state.
    """

    def __init__(self, message: str, path: str) -> None:
        super().__init__(message)
        self.path = path


@dataclass(frozen=True)
class UserFunction:
    """A function of CREATE FUNCTION: its name in Spark, and whether equal arguments give equal values."""

    name: str
    is_deterministic: bool


class Binder(Protocol):
    """The tables and functions of a session."""

    def table(
        self, parts: tuple[str, ...], options: Options, *, has_place: bool = False, is_raw: bool = False
    ) -> Relation | None:
        """Return a table or view; None if there is no such table.

        Args:
            parts: of the name, as written.
            options: of an OPTIONS hint, which replace those of the table for this read.
            has_place: whether the rows have their partition and offset, if the table can tell them.
            is_raw: whether changes come as they are read, for a table of versions.
        """

    def is_streaming(self, select: str) -> bool:
        """Return whether the rows of a query are a stream."""

    def cut(self, step: Step, place: str = "") -> str:
        """Return the name of a view of the rows that an operator makes of queries.

        Args:
            step: what the operator does.
            place: line and column of its clause, for EXPLAIN.

        Raises:
            OtherStateError: the operator has a state, which belongs to another query.
            SchemaError: the operator does not take a column.
        """

    def window_parts(self, select: str) -> dict[str, str]:
        """Return the columns of a stream that are the "end" or the "time" of a window; see `WindowEnds`."""

    def kind_of_time(self, select: str, column: str) -> str:
        """Return what the only column of a query is: "watermark", "proctime", or "" for another one.

        Args:
            select: the query.
            column: the name under which the rows have the column.
        """

    def watermarks(self, select: str) -> dict[str, bool] | None:
        """Return the columns of a query that have a watermark; None if it is not a stream with one.

        Each has whether a row may come when the watermark is at its time exactly. A window takes such a row.
        A join of Spark would drop it.
        """

    def has_outer_join(self, select: str) -> bool:
        """Return whether rows of a query come out of an outer join of Spark: their times may be NULL."""

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

    @property
    def foreign_zone(self) -> str | None:
        """Return the zone of the session if the query runs in UTC instead; see `zones`."""

    @property
    def state_ttl(self) -> str | None:
        """Return how long states keep rows; None for ever."""

    def function(self, name: str) -> UserFunction | None:
        """Return a function that the user has created; None if there is none."""

    def accepts_varying(self, message: str) -> bool:
        """Return whether a value that may vary is accepted over rows that change, and note what it does.

        Args:
            message: where the value stands and what it does, for a warning.
        """


@dataclass(frozen=True)
class Piece:
    """A text of Spark's SQL, in brackets where that matters, and the way to find its type."""

    text: str
    find_type: Callable[[], str]

    @property
    def type(self) -> str:
        """Return the type as `spark_type` does.

        Raises:
            SqlError: Spark cannot tell it.
        """
        return self.find_type()

    @property
    def is_integer(self) -> bool:
        return self.type in INTEGERS


@dataclass(frozen=True)
class Translated:
    """A query in Spark's SQL, the parts that only a batch can run, and what is known of its rows."""

    sql: str
    batch_only: tuple[Feature, ...]
    rows: Rows = INSERTS
    drops_late_rows: bool = False
    """Whether Spark leaves out rows of a stream that are later than the watermark."""
    has_interval_join: bool = False
    """Whether Spark forgets rows of a join by their times."""


@dataclass(frozen=True)
class Script:
    """The place of a query in its script, for messages."""

    source: Source
    offset: int


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def spark_type(kind: Any) -> str:
    """Return a type of Spark as its SQL reads it.

    That is the simple string, with backticks around names of fields that need them, such as `order-id`.
    """
    name = kind.typeName()
    if name == "array":
        return f"array<{spark_type(kind.elementType)}>"
    if name == "map":
        return f"map<{spark_type(kind.keyType)},{spark_type(kind.valueType)}>"
    if name == "struct":
        return f"struct<{','.join(map(_field, kind.fields))}>"
    return str(kind.simpleString())


def _field(field: Any) -> str:
    name = field.name if _PLAIN_NAME.fullmatch(field.name) else quoted(field.name)
    return f"{name}:{spark_type(field.dataType)}"


def literal(text: str) -> str:
    """Return a text as a literal of Spark's SQL, which reads backslashes as the beginning of an escape."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def column_list(alias: Any) -> str:
    """Return the columns of an alias of the parser in brackets; "" without any."""
    columns = alias.args.get("columns") or []
    return f"({', '.join(quoted(each.name) for each in columns)})" if columns else ""


_LENGTH_MAX = 200
_CHANGING = re.compile(r"\brand\(|\buuid\(|penstock_sql_\w+`?\(")


def let(texts: Sequence[str], body: Callable[[list[str]], str]) -> str:
    """Return a text of Spark's SQL that uses others.

    A part that is long, or gives another value each time, stands once in the text. So nested calls do not
    make it grow exponentially.

    Args:
        texts: the parts.
        body: gets a text for each part, which it may repeat.
    """
    bound = [place for place, text in enumerate(texts) if len(text) > _LENGTH_MAX or _CHANGING.search(text)]
    if not bound:
        return body(list(texts))
    whole = " ".join(texts)
    name = next(f"v{number}" for number in range(len(whole)) if not re.search(rf"\bv{number}\b", whole))
    fields = ", ".join(f"'f{place}', {texts[place]}" for place in bound)
    named = [f"{name}.f{place}" if place in bound else text for place, text in enumerate(texts)]
    return f"element_at(transform(array(named_struct({fields})), {name} -> {body(named)}), 1)"


MANY = 1_000


@dataclass(frozen=True)
class Function:
    """What a function of Flink becomes in Spark's SQL.

    Attributes:
        least: the smallest number of arguments.
        most: the largest one.
        text: with `{0}`, `{1}` ... for arguments and `{all}` for all of them; or a function of the pieces.
        type: of the result, as Spark's simple string; "" for asking Spark; "{0}" for that of an argument.
        varies: how often it may have another value for the same arguments.
    """

    least: int
    most: int
    text: str | Callable[[list[Piece]], str]
    type: str = ""
    varies: Varies = Varies.NEVER

    def apply(self, args: list[Piece]) -> str:
        """Return the translation."""
        if callable(self.text):
            return self.text(args)
        texts = [each.text for each in args]
        return self.text.format(*texts, all=", ".join(texts))
