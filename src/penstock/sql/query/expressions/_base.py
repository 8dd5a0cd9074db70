"""The base of translating expressions: state of one SELECT, types on demand, and refusals with a place.

Runs on the driver. Invariant: a node without a method is refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

from sqlglot import exp

from penstock.errors import SqlError
from penstock.sql.query._not_served import REFUSED
from penstock.sql.query._sqlglot import place_of
from penstock.sql.query.piece import Binder, Piece, Script, UnknownTypeError
from penstock.sql.query.rows import Feature, Rows, Varies
from penstock.sql.query.scope import Scope
from penstock.sql.query.varying import VaryingCall, refusal, warning
from penstock.sql.query.zones import depends_on_zone

Subquery = Callable[[exp.Expr], str]
_SIGNS: dict[type, str] = {
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
    exp.IntDiv: "DIV",
    exp.RegexpLike: "RLIKE",
    exp.SimilarTo: "SIMILAR TO",
    exp.Overlaps: "OVERLAPS",
    exp.CurrentTime: "CURRENT_TIME",
    exp.AtTimeZone: "AT TIME ZONE",
    exp.Tuple: "a list of values in brackets",
    exp.Concat: "a text behind a text",
    exp.IgnoreNulls: "IGNORE NULLS",
    exp.RespectNulls: "RESPECT NULLS",
    exp.WithinGroup: "WITHIN GROUP",
}
_CLAUSES = {"locks": "FOR UPDATE", "pivots": "PIVOT", "sample": "TABLESAMPLE", "windows": "WINDOW"}
"""Names of SQL for parts of a query that have another name in sqlglot."""
_INSTEAD = {
    "pivots": " Write an aggregate with FILTER for each column.",
    "sample": " Write a condition in WHERE, such as MOD(id, 10) = 0.",
}
"""What to write instead of such a part."""


class Base:
    """Finds the method of a node, and refuses nodes and parts without one."""

    methods: ClassVar[dict[type, Callable[[Any, Any], Piece]]] = {}

    def __init__(self, script: Script, binder: Binder, subquery: Subquery, features: list[Feature]) -> None:
        self.script = script
        self.binder = binder
        self.features = features
        self._from_text = ""
        self._rows: Rows | None = None
        """What is known of the rows that expressions are computed for; None if nothing was said of them."""
        self.is_free = False
        """Whether a clock may give the value of another micro-batch when a row is taken back."""
        self.varying: list[VaryingCall] = []
        """The calls of functions that may give another value when they are computed again."""
        self.outside: tuple[Base, ...] = ()
        """The SELECTs around this one, the nearest first, whose columns an expression may name too."""
        self.with_text: Callable[[], str] = str
        self.window_columns: dict[str, str] = {}
        self.scope: Scope | None = None
        self.replaced: dict[int, str] = {}
        self.is_join = False
        """Whether the expression is the condition of a JOIN, whose equalities Spark has to see as such."""
        self._subquery = subquery
        self._types: dict[str, str] = {}

    @property
    def from_text(self) -> str:
        """Return `FROM ...` of Spark's SQL; "" without FROM."""
        return self._from_text

    def over(self, from_text: str, rows: Rows, scope: Scope | None = None) -> None:
        """Let expressions be over these rows.

        Args:
            from_text: `FROM ...` of Spark's SQL; "" without FROM.
            rows: what is known of them. Functions such as NOW() are refused if they change.
            scope: what the names of columns mean, if Spark does not know them.
        """
        self._from_text, self._rows, self.scope = from_text, rows, scope

    def computed_behind(self, rows: Rows) -> None:
        """Let expressions be over other rows with the same columns."""
        self._rows = rows

    def check_varying(self, node: exp.Expr, name: str, varies: Varies) -> None:
        """Refuse a function that may give another value when it is computed again, over rows that change.

        Nothing known of the rows counts as rows that change, so that a forgotten `over` is a refusal and not
        a wrong table.

        Raises:
            SqlError: the rows change, and the session does not accept it.
        """
        if varies is Varies.NEVER:
            return
        call = VaryingCall(name, varies)
        self.varying.append(call)
        if self.is_free and varies is Varies.BATCH:
            return
        for each in (self, *self.outside):
            self.check_rows(each._rows, node, call)  # noqa: SLF001 - of the same class

    def check_rows(self, rows: Rows | None, node: exp.Expr, call: VaryingCall) -> None:
        """Refuse a value that may vary over these rows, if they change; see `check_varying`."""
        if rows is not None and rows.changes is None:
            return
        line, column = self.script.source.line_and_column(self.script.offset + self._place(node))
        if not self.binder.accepts_varying(f"line {line}, column {column}: {warning(call)}"):
            cause = rows.changes.name if rows is not None and rows.changes is not None else ""
            self.refuse(node, refusal(call, cause))

    def text(self, node: exp.Expr) -> str:
        """Return the translation of an expression."""
        return self.piece(node).text

    def piece(self, node: exp.Expr) -> Piece:
        """Return the translation of an expression, and its type on demand; see `text`."""
        if id(node) in self.replaced:
            return self._asked(self.replaced[id(node)])
        method = self.methods.get(type(node))
        if method is None:
            shown = _shown(node)
            instead = f": {REFUSED[shown]}" if shown in REFUSED else " here."
            self.refuse(node, f"{shown} is not served{instead}")
        return method(self, node)

    def refuse(self, node: exp.Expr, message: str) -> NoReturn:
        """Raise the error for a part of the query."""
        raise self.error_at(self._place(node), message)

    def _place(self, node: exp.Expr) -> int:
        """Return the offset of a node in the query, or of the nearest part around it that has one."""
        place = place_of(node)
        parent = node.parent
        while place is None and parent is not None:
            place, parent = place_of(parent), parent.parent
        return place or 0

    def error_at(self, place: int, message: str) -> SqlError:
        """Return the error for an offset in the query."""
        return self.script.source.error(message, self.script.offset + place)

    def check_zone(self, node: exp.Expr, what: str) -> None:
        """Refuse what depends on the zone of the session, if the query runs in UTC instead."""
        zone = self.binder.foreign_zone
        if zone is not None:
            self.refuse(node, depends_on_zone(what, zone))

    def batch_only(self, node: exp.Expr, name: str, instead: str) -> None:
        """Note a part that Spark cannot stream."""
        self.features.append(Feature(name, instead, self.script.offset + (place_of(node) or 0)))

    def only(self, node: exp.Expr, *parts: str) -> None:
        """Refuse a node that has other parts than these."""
        for name, value in node.args.items():
            if name not in parts and value not in (None, False, [], ""):
                shown = value if isinstance(value, exp.Expr) else node
                said = _CLAUSES.get(name, name.strip("_").upper())
                self.refuse(shown, f"{said} is not served here.{_INSTEAD.get(name, '')}")

    def _asked(self, text: str) -> Piece:
        return Piece(text, lambda: self._type_of(text))

    def _type_of(self, text: str) -> str:
        if text not in self._types:
            self._types[text] = self._found_type(text)
        return self._types[text]

    def _found_type(self, text: str) -> str:
        select = f"SELECT {text} AS x {self.from_text}"
        try:
            return self._type_in(select)
        except UnknownTypeError as error:
            first = error
        for each in self.outside:
            select = f"SELECT __type.x AS x {each.from_text}, LATERAL ({select}) AS __type"
            with contextlib.suppress(UnknownTypeError):
                return self._type_in(select)
        raise self.error_at(0, f"Spark cannot tell the type of {text}: {first}") from None

    def _type_in(self, select: str) -> str:
        return self.binder.column_types(f"{self.with_text()}{select}")[0][1]


def boolean(text: str) -> Piece:
    return Piece(text, lambda: "boolean")


def _shown(node: exp.Expr) -> str:
    return _SIGNS.get(type(node), type(node).__name__.upper())
