"""The base of binding expressions: the scope, calls with their types, and refusals with line and column.

Runs on the driver. Invariant: a node without a method is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn

from sqlglot import exp

from penstock.sql.bind.context import Context
from penstock.sql.bind.scope import Scope
from penstock.sql.functions.not_served import REFUSED
from penstock.sql.functions.zones import depends_on_zone
from penstock.sql.language.flink_types import FlinkType
from penstock.sql.language.queries import QueryLocation
from penstock.sql.plan.expressions import Call, Expression, Function, QueryCall, QueryKind, TypedSql, Varies
from penstock.sql.plan.types import spark_text

BindQuery = Callable[[QueryKind, exp.Expr, tuple[Expression, ...], Scope], QueryCall]
Special = Callable[[exp.Expr], Expression | None]
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
    exp.CurrentUser: "CURRENT_USER",
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


def kind_of(expression: Expression) -> str:
    """Return the type of an expression as a simple string of Spark."""
    return spark_text(expression.type)


class Base:
    """Finds the method of a node, and refuses nodes and parts without one."""

    methods: ClassVar[dict[type, Callable[[Any, Any], Expression]]] = {}

    def __init__(
        self, context: Context, location: QueryLocation, scope: Scope, bind_query: BindQuery
    ) -> None:
        self.context = context
        self.session = context.session
        self.location = location
        self.scope = scope
        self.bind_query = bind_query
        self.special: Special = lambda _: None
        """What the SELECT knows of a node: the start of the window of GROUP BY."""
        self.is_join = False
        """Whether the expression is the condition of a JOIN, whose equalities Spark has to see as such."""

    def bind(self, node: exp.Expr) -> Expression:
        """Return what an expression means."""
        special = self.special(node)
        if special is not None:
            return special
        method = self.methods.get(type(node))
        if method is None:
            shown = _SIGNS.get(type(node), type(node).__name__.upper())
            instead = f": {REFUSED[shown]}" if shown in REFUSED else " here."
            self.refuse(node, f"{shown} is not served{instead}")
        return method(self, node)

    def call(
        self,
        node: exp.Expr,
        name: str,
        text: str | Callable[[list[TypedSql]], str],
        args: Sequence[Expression],
        kind: FlinkType | None = None,
        *,
        varies: Varies = Varies.NEVER,
    ) -> Call:
        """Return a call of a function that Spark has under this text; see `called`."""
        function = Function(len(args), len(args), text, "", varies)
        return self.called(node, name, function, args, kind)

    def called(
        self,
        node: exp.Expr,
        name: str,
        function: Function,
        args: Sequence[Expression],
        kind: FlinkType | None = None,
    ) -> Call:
        """Return a call of a function.

        Raises:
            SqlError: an argument is not served.
        """
        try:
            found = self.context.type_of(function, args) if kind is None else kind
            return Call(name, function, tuple(args), found, self.location.of(node))
        except ValueError as error:
            self.refuse(node, f"{name}: {error}" if name else str(error))

    def condition(self, node: exp.Expr, clause: str) -> Expression:
        """Return the condition of a clause.

        Raises:
            SqlError: the expression is not one of BOOLEAN.
        """
        found = self.bind(node)
        if kind_of(found) not in ("boolean", "void"):
            self.refuse(node, f"{clause} takes a condition, got {kind_of(found).upper()}.")
        return found

    def refuse(self, node: exp.Expr, message: str) -> NoReturn:
        """Raise the error for a part of the query."""
        self.location.refuse(node, message)

    def check_zone(self, node: exp.Expr, what: str) -> None:
        """Refuse what depends on the zone of the session, if the query runs in UTC instead."""
        zone = self.session.foreign_zone
        if zone is not None:
            self.refuse(node, depends_on_zone(what, zone))

    def only(self, node: exp.Expr, *parts: str) -> None:
        """Refuse a node that has other parts than these."""
        for name, value in node.args.items():
            if name not in parts and value not in (None, False, [], ""):
                shown = value if isinstance(value, exp.Expr) else node
                said = _CLAUSES.get(name, name.strip("_").upper())
                self.refuse(shown, f"{said} is not served here.{_INSTEAD.get(name, '')}")
