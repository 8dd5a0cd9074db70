"""Literals, operators and conditions.

Runs on the driver. Invariant: an operator of Spark stands only for operands for which it means the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar

from sqlglot import exp

from penstock.errors import SqlError
from penstock.sql.query._json import is_json
from penstock.sql.query._sqlglot import IntervalOf, is_without_brackets
from penstock.sql.query.expressions._base import Base, boolean
from penstock.sql.query.piece import INTEGERS, Piece, let, literal, quoted

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
NUMBERS = (*INTEGERS, "decimal", "float", "double", "boolean")
_NEED_BRACKETS = (*_COMPARISONS, exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ)
"""Conditions whose order beside a comparison Flink and our parser read differently."""
_UNITS_US = {"DAY": 86_400_000_000, "HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000}
_LITERALS = {"DATE": ("DATE", "date"), "TIMESTAMP": ("TIMESTAMP_NTZ", "timestamp_ntz")}
_A_DATE = re.compile(r"(\d{4})-(\d\d?)-(\d\d?)", re.ASCII)
_A_TIME = re.compile(rf"{_A_DATE.pattern} (\d\d?):(\d\d?):(\d\d?)(?:\.\d{{0,6}}0*)?", re.ASCII)
"""Spark also reads other texts, such as DATE 'today', and leaves out digits behind the microseconds."""
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
        text = str(node.this)
        if text.isdigit() and int(text) < 2**63:
            return Piece(text, lambda: "int" if int(text) < 2**31 else "bigint")
        return self._asked(text)

    def _constant(self, node: exp.Expr) -> Piece:
        text = "NULL" if isinstance(node, exp.Null) else str(bool(node.this)).upper()
        return Piece(text, lambda: "void" if text == "NULL" else "boolean")

    def _time_literal(self, node: exp.Expr) -> Piece:
        kind = node.args["to"].this.name
        if kind == "INTERVAL":
            self.refuse(node, "the number of an interval stands in quotes: INTERVAL '1' DAY.")
        if not (isinstance(node.this, exp.Literal) and node.this.is_string and kind in _LITERAL_TIMES):
            self.refuse(node, f"{kind} is not served here. Use CAST(... AS ...).")
        name, found = _LITERAL_TIMES[kind]
        if found == "timestamp":
            self.check_zone(node, "a literal TIMESTAMP_LTZ")
        shape, example = (_A_DATE, "2026-01-02") if kind == "DATE" else (_A_TIME, "2026-01-02 03:04:05.678")
        if not _is_time(node.this.this, shape):
            self.refuse(node, f"expected a {kind} such as {kind} '{example}', got '{node.this.this}'.")
        return Piece(f"{name} {literal(node.this.this)}", lambda: found)

    def _interval(self, node: exp.Expr) -> Piece:
        sign = "-" if node.args["sign"] else ""
        text = f"INTERVAL {sign}{literal(node.args['text'])} {node.args['unit']}"
        return Piece(text, lambda: f"interval {node.args['unit'].lower()}")

    # ---- operators

    def _paren(self, node: exp.Expr) -> Piece:
        inner = self.piece(node.this)
        return Piece(f"({inner.text})", inner.find_type)

    def _arithmetic(self, node: exp.Expr) -> Piece:
        left, right = self._operands(node)
        for each, part in ((left, node.this), (right, node.expression)):
            if each.type == "string":
                self.refuse(part, "expected a number or an interval, got a text. Write CAST(... AS ...).")
        if {left.type, right.type} & {"date"} and {left.type, right.type} & {*INTEGERS}:
            self.refuse(node, "expected an interval beside a DATE, e.g. INTERVAL '1' DAY.")
        sign = _ARITHMETIC[type(node)]
        text = f"({left.text} {sign} {right.text})"
        if {left.type, right.type} & {"date"} and any(
            each.type.endswith(("hour", "minute", "second")) for each in (left, right)
        ):
            self.refuse(node, "expected a TIMESTAMP beside an interval of less than a day. Write a CAST.")
        if not self.binder.zone_is_utc and {left.type.partition(" ")[0], right.type.partition(" ")[0]} == {
            "timestamp",
            "interval",
        }:
            return self._shifted(node, left, right, sign)
        return Piece(text, lambda: _wider(left, right) or self._type_of(text))

    def _shifted(self, node: exp.Expr, left: Piece, right: Piece, sign: str) -> Piece:
        """Return a TIMESTAMP_LTZ plus an interval. Flink's day has 24 hours, Spark's may have 23."""
        time, part = (left, node.expression) if left.type == "timestamp" else (right, node.this)
        length = microseconds(part)
        if length is None:
            self.refuse(
                part,
                "expected one interval of days, hours, minutes or seconds beside a TIMESTAMP_LTZ, because "
                "the time zone of the session has a summer time. Or: SET 'table.local-time-zone' = 'UTC'.",
            )
        return Piece(f"timestamp_micros(unix_micros({time.text}) {sign} {length})", lambda: "timestamp")

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
        for each in (left, right):
            if each.type == "string":
                self.refuse(node, "expected a number, got STRING. Write CAST(... AS ...).")
        text = f"({left.text} % {right.text})"
        if left.is_integer and right.is_integer:  # Flink's has the type of the second one
            return Piece(f"CAST({text} AS {right.type.upper()})", right.find_type)
        return self._asked(text)

    def _operands(self, node: exp.Expr) -> tuple[Piece, Piece]:
        """Return both sides, integers beside a DECIMAL with as many digits as Flink gives them."""
        parts = (node.this, node.expression)
        left, right = (self.piece(each) for each in parts)
        return self._widened(parts[0], left, right), self._widened(parts[1], right, left)

    def _widened(self, part: exp.Expr, piece: Piece, other: Piece) -> Piece:
        if not other.type.startswith("decimal") or piece.type not in INTEGERS:
            return piece
        if piece.type == "bigint":
            return self._asked(f"CAST({piece.text} AS DECIMAL(19,0))")
        if _is_whole(part):  # Spark gives a literal only the digits that it has
            return self._asked(f"CAST({piece.text} AS {piece.type.upper()})")
        return piece

    def _negative(self, node: exp.Expr) -> Piece:
        inner = self.piece(node.this)
        if inner.type == "string":
            self.refuse(node.this, "expected a number or an interval, got a text. Write CAST(... AS ...).")
        return Piece(f"(- {inner.text})", inner.find_type)

    def _joined_text(self, node: exp.Expr) -> Piece:
        self.only(node, "this", "expression", "safe")
        left, right = self.piece(node.this), self.piece(node.expression)
        if not {left.type, right.type} <= {"string", "void"}:
            self.refuse(node, "expected two STRINGs beside ||. Write CAST(... AS STRING).")
        return Piece(f"({left.text} || {right.text})", lambda: "string")

    def _comparison(self, node: exp.Expr) -> Piece:
        sign = _COMPARISONS[type(node)]
        for each in (node.this, node.expression):
            if is_without_brackets(each, _NEED_BRACKETS):
                self.refuse(node, f"expected brackets around one of the two comparisons beside {sign}.")
        left, right = self.piece(node.this), self.piece(node.expression)
        text = f"({left.text} {sign} {right.text})"
        self.check_kinds(node, sign, left, right)
        if self.is_join or left.text == right.text:  # Flink takes x = x as x IS NOT NULL
            return boolean(text)
        may_be_nan = [
            piece
            for piece, part, unlike in (
                (left, node.this, (">", ">=")),
                (right, node.expression, ("<", "<=")),
            )
            if not isinstance(part, exp.Literal)
            and self._known_type(piece) in ("double", "float")
            and (sign in unlike or not isinstance(_other(node, part), exp.Literal))
        ]
        return boolean(not_a_number(text, sign, left, right, may_be_nan) if may_be_nan else text)

    def check_kinds(self, node: exp.Expr, name: str, *pieces: Piece) -> None:
        """Refuse a text beside a number or a BOOLEAN, because Spark makes a number of the text."""
        kinds = [self._known_type(each) for each in pieces]
        number = next((kind for kind in kinds if kind.startswith(NUMBERS)), None)
        if number is not None and "string" in kinds:
            first, second = sorted(("string", number), key=kinds.index)
            shown = f"{first.upper()} and {second.upper()}"
            count = "two values" if len(pieces) == 2 else "values"
            self.refuse(node, f"expected {count} of one kind beside {name}, got {shown}. Write a CAST.")

    def _known_type(self, piece: Piece) -> str:
        try:
            return piece.type
        except SqlError:  # Spark's own message about the whole query is better
            return ""

    def _logic(self, node: exp.Expr) -> Piece:
        return boolean(f"({self.text(node.this)} {_LOGIC[type(node)]} {self.text(node.expression)})")

    def _not(self, node: exp.Expr) -> Piece:
        return boolean(f"(NOT {self.text(node.this)})")

    def _is(self, node: exp.Expr) -> Piece:
        self.only(node, "this", "expression")
        if isinstance(node.expression, exp.JSON):
            return self._is_json(node)
        if not isinstance(node.expression, (exp.Null, exp.Boolean)):
            self.refuse(node, "expected IS NULL, IS TRUE or IS FALSE.")
        return boolean(f"({self.text(node.this)} IS {self.text(node.expression)})")

    def _is_json(self, node: exp.Expr) -> Piece:
        self.only(node.expression, "this")
        this = self.piece(node.this)
        if this.type != "string":
            self.refuse(node, f"expected a STRING before IS JSON, got {this.type.upper()}.")
        return boolean(is_json(this.text, str(node.expression.this or "VALUE")))

    def _distinct_from(self, node: exp.Expr) -> Piece:
        left, right = self.piece(node.this), self.piece(node.expression)
        self.check_kinds(node, "IS DISTINCT FROM", left, right)
        equal = f"({left.text} <=> {right.text})"
        return boolean(equal if isinstance(node, exp.NullSafeEQ) else f"(NOT {equal})")

    def _between(self, node: exp.Expr) -> Piece:
        self.only(node, "this", "low", "high", "symmetric")
        low, high = self.piece(node.args["low"]), self.piece(node.args["high"])
        this = self.piece(node.this)
        self.check_kinds(node, "BETWEEN", this, low, high)
        if node.args.get("symmetric"):
            return boolean(
                let(
                    [this.text, low.text, high.text],
                    lambda x: f"({x[0]} BETWEEN {x[1]} AND {x[2]} OR {x[0]} BETWEEN {x[2]} AND {x[1]})",
                )
            )
        return boolean(f"({this.text} BETWEEN {low.text} AND {high.text})")

    def _in(self, node: exp.Expr) -> Piece:
        self.only(node, "this", "expressions", "query")
        if node.args.get("query") is not None:
            self.batch_only(node, "IN (SELECT ...)", "Use a JOIN on distinct values.")
            is_list = isinstance(node.this, exp.Tuple)
            given = (
                f"({', '.join(map(self.text, node.this.expressions))})" if is_list else self.text(node.this)
            )
            # Spark takes a query in two pairs of brackets for one value.
            inner = self._subquery(_without_brackets(node.args["query"]))
            return boolean(f"({given} IN ({inner}))")
        if not node.expressions:
            self.refuse(node, "IN takes at least one value.")
        this = self.piece(node.this)
        values = [self.piece(each) for each in node.expressions]
        self.check_kinds(node, "IN", this, *values)
        return boolean(f"({this.text} IN ({', '.join(each.text for each in values)}))")

    def _exists(self, node: exp.Expr) -> Piece:
        self.batch_only(node, "EXISTS", "Use a JOIN on distinct values.")
        return boolean(f"EXISTS ({self._subquery(_without_brackets(node.this))})")

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


def _is_time(text: str, shape: re.Pattern[str]) -> bool:
    """Return whether a text is a date, or a date and a time, that exists."""
    found = shape.fullmatch(text)
    if found is None:
        return False
    try:
        year, month, day, *clock = map(int, found.groups())
        datetime(year, month, day, *clock)  # type: ignore[arg-type]  # noqa: DTZ001 - it has no zone
    except ValueError:
        return False
    return True


def _other(node: exp.Expr, part: exp.Expr) -> exp.Expr:
    found: exp.Expr = node.expression if part is node.this else node.this
    return found


def _is_whole(part: exp.Expr) -> bool:
    while isinstance(part, (exp.Paren, exp.Neg)):
        part = part.this
    return isinstance(part, exp.Literal) and str(part.this).isdigit()


def microseconds(part: exp.Expr) -> int | None:
    """Return the length of a literal interval of one unit up to days; None for anything else."""
    while isinstance(part, exp.Paren):
        part = part.this
    if not isinstance(part, IntervalOf) or part.args["unit"] not in _UNITS_US:
        return None
    whole, _, fraction = part.args["text"].strip().partition(".")
    if not whole.isdigit() or (fraction and (part.args["unit"] != "SECOND" or not fraction.isdigit())):
        return None
    length = int(whole) * _UNITS_US[part.args["unit"]] + int(fraction[:6].ljust(6, "0") or 0)
    return -length if part.args["sign"] else length


def not_a_number(text: str, sign: str, left: Piece, right: Piece, may_be_nan: list[Piece]) -> str:
    """Return a comparison in which NaN is equal to nothing, and neither larger nor smaller, as in Flink."""

    def body(x: list[str]) -> str:
        texts = dict(zip((left.text, right.text), x, strict=True))
        tests = " OR ".join(f"isnan({texts[each.text]})" for each in may_be_nan)
        answer = "TRUE" if sign == "<>" else "FALSE"
        return (
            f"CASE WHEN ({tests}) AND {x[0]} IS NOT NULL AND {x[1]} IS NOT NULL THEN {answer} "
            f"ELSE {x[0]} {sign} {x[1]} END"
        )

    return let([left.text, right.text], body)


def _wider(left: Piece, right: Piece) -> str:
    """Return the wider one of two integer types; "" if one of the types is not an integer."""
    types = (left.type, right.type)
    return INTEGERS[max(map(INTEGERS.index, types))] if set(types) <= set(INTEGERS) else ""


def _without_brackets(query: exp.Expr) -> exp.Expr:
    """Return a query without its brackets, unless they hold more than it."""
    others = any(value for key, value in query.args.items() if key != "this")
    return query.this if isinstance(query, exp.Subquery) and not others else query
