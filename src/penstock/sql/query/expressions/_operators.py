"""Literals, operators and conditions.

Runs on the driver. Invariant: an operator of Spark stands only for operands for which it means the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp

from penstock.sql.query._sqlglot import IntervalOf
from penstock.sql.query.expressions._base import Base, boolean
from penstock.sql.query.piece import INTEGERS, Piece, literal, quoted

_ARITHMETIC: dict[type, str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
_COMPARISONS: dict[type, str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
}
_LOGIC: dict[type, str] = {exp.And: "AND", exp.Or: "OR"}
_LITERALS = {"DATE": ("DATE", "date"), "TIMESTAMP": ("TIMESTAMP_NTZ", "timestamp_ntz")}
_LITERAL_TIMES = {**_LITERALS, "TIMESTAMPLTZ": ("TIMESTAMP_LTZ", "timestamp")}


class Operators(Base):
    """Translates literals, operators and conditions."""

    def _dot(self, node: exp.Expr) -> Piece:
        self.only(node, "this", "expression")
        if not isinstance(node.expression, exp.Identifier):
            self.refuse(node, "expected the name of a field.")
        return self._asked(f"{self.text(node.this)}.{quoted(node.expression.name)}")

    def _literal(self, node: exp.Expr) -> Piece:
        if node.args.get("is_string"):
            return Piece(literal(node.this), lambda: "string")
        return self._asked(str(node.this))

    def _constant(self, node: exp.Expr) -> Piece:
        text = "NULL" if isinstance(node, exp.Null) else str(bool(node.this)).upper()
        return Piece(text, lambda: "void" if text == "NULL" else "boolean")

    def _time_literal(self, node: exp.Expr) -> Piece:
        kind = node.args["to"].this.name
        if not (isinstance(node.this, exp.Literal) and node.this.is_string and kind in _LITERAL_TIMES):
            self.refuse(node, f"{kind} is not served here. Use CAST(... AS ...).")
        name, found = _LITERAL_TIMES[kind]
        return Piece(f"{name} {literal(node.this.this)}", lambda: found)

    def _interval(self, node: exp.Expr) -> Piece:
        sign = "-" if node.args["sign"] else ""
        text = f"INTERVAL {sign}{literal(node.args['text'])} {node.args['unit']}"
        return self._asked(text)

    # ---- operators

    def _paren(self, node: exp.Expr) -> Piece:
        inner = self.piece(node.this)
        return Piece(f"({inner.text})", inner.find_type)

    def _arithmetic(self, node: exp.Expr) -> Piece:
        left, right = self._operands(node)
        for each, part in ((left, node.this), (right, node.expression)):
            if isinstance(part, exp.Literal) and each.type == "string":
                self.refuse(part, "expected a number or an interval, got a text. Write CAST(... AS ...).")
        sign = _ARITHMETIC[type(node)]
        text = f"({left.text} {sign} {right.text})"
        return Piece(text, lambda: _wider(left, right) or self._type_of(text))

    def _divide(self, node: exp.Expr) -> Piece:
        left, right = self._operands(node)
        for each in (left, right):
            if each.type in ("string", "boolean"):
                self.refuse(node, f"expected a number, got {each.type.upper()}. Write CAST(... AS ...).")
        wider = _wider(left, right)
        if wider:
            # Flink divides integers without a remainder; `/` of Spark makes a DOUBLE of them.
            return Piece(f"CAST(({left.text} div {right.text}) AS {wider.upper()})", lambda: wider)
        return self._asked(f"({left.text} / {right.text})")

    def _modulo(self, node: exp.Expr) -> Piece:
        left, right = self._operands(node)
        return self._asked(f"({left.text} % {right.text})")

    def _operands(self, node: exp.Expr) -> tuple[Piece, Piece]:
        """Return both sides. Beside a DECIMAL, Flink takes an integer literal as an INT of ten digits."""
        parts = (node.this, node.expression)
        left, right = (self.piece(each) for each in parts)
        found = []
        for part, piece, other in zip(parts, (left, right), (right, left), strict=True):
            is_whole = isinstance(part, exp.Literal) and str(part.this).isdigit()
            if is_whole and other.type.startswith("decimal"):
                piece = self._asked(f"CAST({piece.text} AS {piece.type.upper()})")  # noqa: PLW2901 - widened
            found.append(piece)
        return found[0], found[1]

    def _negative(self, node: exp.Expr) -> Piece:
        inner = self.piece(node.this)
        return Piece(f"(- {inner.text})", inner.find_type)

    def _joined_text(self, node: exp.Expr) -> Piece:
        self.only(node, "this", "expression", "safe")
        left, right = self.piece(node.this), self.piece(node.expression)
        if not {left.type, right.type} <= {"string", "void"}:
            self.refuse(node, "expected two STRINGs beside ||. Write CAST(... AS STRING).")
        return Piece(f"({left.text} || {right.text})", lambda: "string")

    def _comparison(self, node: exp.Expr) -> Piece:
        sign = _COMPARISONS[type(node)]
        return boolean(f"({self.text(node.this)} {sign} {self.text(node.expression)})")

    def _logic(self, node: exp.Expr) -> Piece:
        return boolean(f"({self.text(node.this)} {_LOGIC[type(node)]} {self.text(node.expression)})")

    def _not(self, node: exp.Expr) -> Piece:
        return boolean(f"(NOT {self.text(node.this)})")

    def _is(self, node: exp.Expr) -> Piece:
        self.only(node, "this", "expression")
        if not isinstance(node.expression, (exp.Null, exp.Boolean)):
            self.refuse(node, "expected IS NULL, IS TRUE or IS FALSE.")
        return boolean(f"({self.text(node.this)} IS {self.text(node.expression)})")

    def _distinct_from(self, node: exp.Expr) -> Piece:
        equal = f"({self.text(node.this)} <=> {self.text(node.expression)})"
        return boolean(equal if isinstance(node, exp.NullSafeEQ) else f"(NOT {equal})")

    def _between(self, node: exp.Expr) -> Piece:
        self.only(node, "this", "low", "high")
        low, high = self.text(node.args["low"]), self.text(node.args["high"])
        return boolean(f"({self.text(node.this)} BETWEEN {low} AND {high})")

    def _in(self, node: exp.Expr) -> Piece:
        self.only(node, "this", "expressions", "query")
        this = self.text(node.this)
        if node.args.get("query") is not None:
            self.batch_only(node, "IN (SELECT ...)", "Use a JOIN on distinct values.")
            return boolean(f"({this} IN ({self._subquery(node.args['query'])}))")
        return boolean(f"({this} IN ({', '.join(map(self.text, node.expressions))}))")

    def _exists(self, node: exp.Expr) -> Piece:
        self.batch_only(node, "EXISTS", "Use a JOIN on distinct values.")
        inner = node.this.this if isinstance(node.this, exp.Subquery) else node.this
        return boolean(f"EXISTS ({self._subquery(inner)})")

    def _scalar(self, node: exp.Expr) -> Piece:
        self.only(node, "this")
        self.batch_only(node, "a query as a value", "Use a JOIN.")
        return self._asked(f"({self._subquery(node.this)})")

    def _like(self, node: exp.Expr) -> Piece:
        return self._like_with(node, None)

    def _escape(self, node: exp.Expr) -> Piece:
        if type(node.this) is not exp.Like:
            self.refuse(node, "ESCAPE stands behind LIKE only.")
        return self._like_with(node.this, node.expression)

    def _like_with(self, node: exp.Expr, escape: exp.Expr | None) -> Piece:
        self.only(node, "this", "expression", "negate")
        this, pattern = self.text(node.this), self.text(node.expression)
        negated = "NOT " if node.args.get("negate") else ""
        if escape is not None:
            return boolean(f"({this} {negated}LIKE {pattern} ESCAPE {self.text(escape)})")
        # A backslash is a plain character for Flink, and begins an escape for Spark.
        if not pattern.startswith("'") or "\\" in pattern:
            pattern = f"replace({pattern}, '\\\\', '\\\\\\\\')"
        return boolean(f"({this} {negated}LIKE {pattern})")

    methods: ClassVar[dict[type, Callable[[Any, Any], Piece]]] = {
        **Base.methods,
        exp.Dot: _dot,
        exp.Literal: _literal,
        exp.Null: _constant,
        exp.Boolean: _constant,
        exp.Cast: _time_literal,
        IntervalOf: _interval,
        exp.Paren: _paren,
        **dict.fromkeys(_ARITHMETIC, _arithmetic),
        exp.Div: _divide,
        exp.Mod: _modulo,
        exp.Neg: _negative,
        exp.DPipe: _joined_text,
        **dict.fromkeys(_COMPARISONS, _comparison),
        **dict.fromkeys(_LOGIC, _logic),
        exp.Not: _not,
        exp.Is: _is,
        exp.NullSafeEQ: _distinct_from,
        exp.NullSafeNEQ: _distinct_from,
        exp.Between: _between,
        exp.In: _in,
        exp.Exists: _exists,
        exp.Subquery: _scalar,
        exp.Like: _like,
        exp.Escape: _escape,
    }


def _wider(left: Piece, right: Piece) -> str:
    """Return the wider one of two integer types; "" if one of the types is not an integer."""
    types = (left.type, right.type)
    return INTEGERS[max(map(INTEGERS.index, types))] if set(types) <= set(INTEGERS) else ""
