"""Literals, operators and conditions.

Runs on the driver. Invariant: an operator of Spark stands only for operands for which it means the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar

from sqlglot import exp

from penstock.sql.bind.expressions.base import Base, kind_of
from penstock.sql.functions.json_values import is_json
from penstock.sql.functions.served import negative
from penstock.sql.functions.variants import NO_COMPARISON
from penstock.sql.language.flink_types import FlinkType
from penstock.sql.language.queries import IntervalOf, is_without_brackets
from penstock.sql.plan.expressions import Call, Expression, FieldOf, Literal, QueryKind, TypedSql
from penstock.sql.plan.texts import let, literal, quoted
from penstock.sql.plan.types import BIGINT, BOOLEAN, INT, INTEGERS, NULL, STRING, from_spark, spark_text

_ARITHMETIC: dict[type, str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
COMPARISONS: dict[type, str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
}
_LOGIC: dict[type, str] = {exp.And: "AND", exp.Or: "OR"}
_WHOLE = tuple(map(str.lower, INTEGERS))
NUMBERS = (*_WHOLE, "decimal", "float", "double", "boolean")
_NEED_BRACKETS = (*COMPARISONS, exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ)
"""Conditions whose order beside a comparison Flink and our parser read differently."""
_OF_ANY_TYPE = ("CASE", "COALESCE", "IFNULL", "IF", "ARRAY")
"""Parts of SQL that give one of their values back, and compare none."""
_UNITS_US = {"DAY": 86_400_000_000, "HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000}
_LITERAL_TIMES = {"DATE": "DATE", "TIMESTAMP": "TIMESTAMP_NTZ", "TIMESTAMPLTZ": "TIMESTAMP_LTZ"}
_TIME_TYPES = {"DATE": "DATE", "TIMESTAMP": "TIMESTAMP", "TIMESTAMPLTZ": "TIMESTAMP_LTZ"}
_A_DATE = re.compile(r"(\d{4})-(\d\d?)-(\d\d?)", re.ASCII)
_A_TIME = re.compile(rf"{_A_DATE.pattern} (\d\d?):(\d\d?):(\d\d?)(?:\.\d{{0,6}}0*)?", re.ASCII)
"""Spark also reads other texts, such as DATE 'today', and leaves out digits behind the microseconds."""


class Operators(Base):
    """Binds literals, operators and conditions."""

    def _dot(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "expression")
        if not isinstance(node.expression, exp.Identifier):
            self.refuse(node, "expected the name of a field.")
        return self.field(node, self.bind(node.this), node.expression.name)

    def field(self, node: exp.Expr, row: Expression, name: str) -> Expression:
        """Return a field of a ROW.

        Raises:
            SqlError: the ROW has no such field, or several whose names differ only in their case.
        """
        found = [each for each in row.type.fields if each.name.lower() == name.lower()]
        if not found:
            self.refuse(node, _no_field(name, row))
        if len(found) > 1:
            names = " and ".join(f"'{each.name}'" for each in found)
            self.refuse(node, f"'.{name}' may be any of the fields {names} of the ROW. Rename all but one.")
        function = FieldOf(1, 1, lambda args: f"{args[0].text}.{quoted(name)}", field=name)
        return self.called(node, f".{name}", function, [row], found[0].type)

    def _literal(self, node: exp.Expr) -> Expression:
        if node.args.get("is_string"):
            return Literal(literal(node.this), STRING, str(node.this))
        text = str(node.this)
        kind = _integer_type(int(text)) if text.isdigit() else None
        if kind is not None:
            return Literal(text, kind, int(text))
        if text.isdigit() and int(text) == 2**63:
            return Literal(text, FlinkType("DECIMAL", (19, 0)))  # with a minus before it, it is a BIGINT
        try:
            return Literal(text, self.context.spark_type(text))
        except ValueError as error:
            self.refuse(node, str(error))

    def _constant(self, node: exp.Expr) -> Expression:
        if isinstance(node, exp.Null):
            return Literal("NULL", NULL)
        return Literal(str(bool(node.this)).upper(), BOOLEAN, bool(node.this))

    def _time_literal(self, node: exp.Expr) -> Expression:
        kind = node.args["to"].this.name
        if kind == "INTERVAL":
            self.refuse(node, "the number of an interval stands in quotes: INTERVAL '1' DAY.")
        if not (isinstance(node.this, exp.Literal) and node.this.is_string and kind in _LITERAL_TIMES):
            self.refuse(node, f"{kind} is not served here. Use CAST(... AS ...).")
        if kind == "TIMESTAMPLTZ":
            self.check_zone(node, "a literal TIMESTAMP_LTZ")
        shape, example = (_A_DATE, "2026-01-02") if kind == "DATE" else (_A_TIME, "2026-01-02 03:04:05.678")
        text = str(node.this.this)
        if not _is_time(text, shape):
            self.refuse(node, f"expected a {kind} such as {kind} '{example}', got '{text}'.")
        digits = () if kind == "DATE" else (len(text.partition(".")[2]),)
        return Literal(f"{_LITERAL_TIMES[kind]} {literal(text)}", FlinkType(_TIME_TYPES[kind], digits), text)

    def _interval(self, node: exp.Expr) -> Expression:
        sign = "-" if node.args["sign"] else ""
        text = f"INTERVAL {sign}{literal(node.args['text'])} {node.args['unit']}"
        return Literal(text, FlinkType("INTERVAL", unit=node.args["unit"]), microseconds(node))

    # ---- operators

    def _paren(self, node: exp.Expr) -> Expression:
        return self.bind(node.this)

    def _arithmetic(self, node: exp.Expr) -> Expression:
        left, right = self._operands(node)
        kinds = [kind_of(left), kind_of(right)]
        for kind, part in zip(kinds, (node.this, node.expression), strict=True):
            if kind == "string":
                self.refuse(part, "expected a number or an interval, got a text. Write CAST(... AS ...).")
        if "date" in kinds and {*kinds} & {*_WHOLE}:
            self.refuse(node, "expected an interval beside a DATE, e.g. INTERVAL '1' DAY.")
        if "date" in kinds and any(each.endswith(("hour", "minute", "second")) for each in kinds):
            self.refuse(node, "expected a TIMESTAMP beside an interval of less than a day. Write a CAST.")
        sign = _ARITHMETIC[type(node)]
        if not self.session.zone_is_utc and {each.partition(" ")[0] for each in kinds} == {
            "timestamp",
            "interval",
        }:
            return self._shifted(node, left, right, sign)
        return self.call(node, sign, f"({{0}} {sign} {{1}})", [left, right], _sum_type(left, right))

    def _shifted(self, node: exp.Expr, left: Expression, right: Expression, sign: str) -> Expression:
        """Return a TIMESTAMP_LTZ plus an interval. Flink's day has 24 hours, Spark's may have 23."""
        is_first = left.type.name == "TIMESTAMP_LTZ"
        time, length, part = (left, right, node.expression) if is_first else (right, left, node.this)
        if not isinstance(length, Literal) or length.value is None:
            self.refuse(
                part,
                "expected one interval of days, hours, minutes or seconds beside a TIMESTAMP_LTZ, because "
                "the time zone of the session has a summer time. Or: SET 'table.local-time-zone' = 'UTC'.",
            )
        text = f"timestamp_micros(unix_micros({{0}}) {sign} {length.value})"
        return self.call(node, sign, text, [time], time.type)

    def _divide(self, node: exp.Expr) -> Expression:
        left, right = self._operands(node)
        for each in (left, right):
            if kind_of(each) in ("string", "boolean"):
                self.refuse(node, f"expected a number, got {kind_of(each).upper()}. Write CAST(... AS ...).")
        wider = _wider(left, right)
        if wider is not None:
            # Flink divides integers without a remainder; `/` of Spark makes a DOUBLE of them.
            return self.call(node, "/", f"CAST(({{0}} div {{1}}) AS {wider.name})", [left, right], wider)
        return self.call(node, "/", "({0} / {1})", [left, right])

    def _modulo(self, node: exp.Expr) -> Expression:
        left, right = self._operands(node)
        for each in (left, right):
            if kind_of(each) == "string":
                self.refuse(node, "expected a number, got STRING. Write CAST(... AS ...).")
        if _wider(left, right) is not None:  # Flink's has the type of the second one
            text = f"CAST(({{0}} % {{1}}) AS {right.type.name})"
            return self.call(node, "%", text, [left, right], right.type)
        return self.call(node, "%", "({0} % {1})", [left, right])

    def _operands(self, node: exp.Expr) -> tuple[Expression, Expression]:
        """Return both sides, integers beside a DECIMAL with as many digits as Flink gives them."""
        left, right = self.bind(node.this), self.bind(node.expression)
        return self._widened(node.this, left, right), self._widened(node.expression, right, left)

    def _widened(self, part: exp.Expr, one: Expression, other: Expression) -> Expression:
        if other.type.name != "DECIMAL" or one.type.name not in INTEGERS:
            return one
        if one.type.name == "BIGINT":
            return self.call(part, "CAST", "CAST({0} AS DECIMAL(19,0))", [one], FlinkType("DECIMAL", (19, 0)))
        if _is_whole(part):  # Spark gives a literal only the digits that it has
            return self.call(part, "CAST", f"CAST({{0}} AS {one.type.name})", [one], one.type)
        return one

    def _negative(self, node: exp.Expr) -> Expression:
        inner = self.bind(node.this)
        if kind_of(inner) == "string":
            self.refuse(node.this, "expected a number or an interval, got a text. Write CAST(... AS ...).")
        if isinstance(inner, Literal) and inner.text.isdigit():
            # Functions ask for the value of a constant, such as the digits of TRUNCATE. The lowest number of
            # a type has no positive one in it, and Flink and Spark read the sign as a part of the number.
            kind = _integer_type(-int(inner.text))
            if kind is not None:
                return Literal(f"-{inner.text}", kind, -int(inner.text))
        return self.call(node, "-", negative, [inner], inner.type)

    def _joined_text(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "expression", "safe")
        left, right = self.bind(node.this), self.bind(node.expression)
        if not {kind_of(left), kind_of(right)} <= {"string", "void"}:
            self.refuse(node, "expected two STRINGs beside ||. Write CAST(... AS STRING).")
        return self.call(node, "||", "({0} || {1})", [left, right], STRING)

    def _comparison(self, node: exp.Expr) -> Expression:
        sign = COMPARISONS[type(node)]
        for each in (node.this, node.expression):
            if is_without_brackets(each, _NEED_BRACKETS):
                self.refuse(node, f"expected brackets around one of the two comparisons beside {sign}.")
        left, right = self.bind(node.this), self.bind(node.expression)
        self.check_kinds(node, sign, left, right)
        return self.compared(node, sign, left, right)

    def compared(self, node: exp.Expr, sign: str, left: Expression, right: Expression) -> Call:
        """Return a comparison in which NaN is as in Flink."""
        indices = []
        if not (self.is_join or left == right):  # Flink takes x = x as x IS NOT NULL
            for index, (one, other, unlike) in enumerate(
                ((left, right, (">", ">=")), (right, left, ("<", "<=")))
            ):
                is_number = kind_of(one) in ("double", "float") and not isinstance(one, Literal)
                if is_number and (sign in unlike or not isinstance(other, Literal)):
                    indices.append(index)
        if not indices:
            return self.call(node, sign, f"({{0}} {sign} {{1}})", [left, right], BOOLEAN)
        return self.call(node, sign, lambda args: not_a_number(sign, args, indices), [left, right], BOOLEAN)

    def check_kinds(self, node: exp.Expr, name: str, *values: Expression) -> None:
        """Refuse a text beside a number or a BOOLEAN, because Spark makes a number of the text."""
        kinds = list(map(kind_of, values))
        if "variant" in kinds and name not in _OF_ANY_TYPE:
            self.refuse(node, NO_COMPARISON)
        number = next((kind for kind in kinds if kind.startswith(NUMBERS)), None)
        if number is not None and "string" in kinds:
            first, second = sorted(("string", number), key=kinds.index)
            shown = f"{first.upper()} and {second.upper()}"
            count = "two values" if len(values) == 2 else "values"
            self.refuse(node, f"expected {count} of one kind beside {name}, got {shown}. Write a CAST.")

    def _logic(self, node: exp.Expr) -> Expression:
        word = _LOGIC[type(node)]
        return self.call(
            node, word, f"({{0}} {word} {{1}})", [self.bind(node.this), self.bind(node.expression)], BOOLEAN
        )

    def _not(self, node: exp.Expr) -> Expression:
        return self.call(node, "NOT", "(NOT {0})", [self.bind(node.this)], BOOLEAN)

    def _is(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "expression")
        if isinstance(node.expression, exp.JSON):
            return self._is_json(node)
        if not isinstance(node.expression, (exp.Null, exp.Boolean)):
            self.refuse(node, "expected IS NULL, IS TRUE or IS FALSE.")
        value = self.bind(node.expression)
        assert isinstance(value, Literal)  # noqa: S101 - the parser takes no other
        return self.call(
            node, f"IS {value.text}", f"({{0}} IS {value.text})", [self.bind(node.this)], BOOLEAN
        )

    def _is_json(self, node: exp.Expr) -> Expression:
        self.only(node.expression, "this")
        this, word = self.bind(node.this), str(node.expression.this or "VALUE")
        if kind_of(this) != "string":
            self.refuse(node, f"expected a STRING before IS JSON, got {kind_of(this).upper()}.")
        return self.call(node, "IS JSON", lambda args: is_json(args[0].text, word), [this], BOOLEAN)

    def _distinct_from(self, node: exp.Expr) -> Expression:
        left, right = self.bind(node.this), self.bind(node.expression)
        self.check_kinds(node, "IS DISTINCT FROM", left, right)
        if isinstance(node, exp.NullSafeEQ):
            return self.call(node, "IS NOT DISTINCT FROM", "({0} <=> {1})", [left, right], BOOLEAN)
        return self.call(node, "IS DISTINCT FROM", "(NOT ({0} <=> {1}))", [left, right], BOOLEAN)

    def _between(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "low", "high", "symmetric")
        low, high = self.bind(node.args["low"]), self.bind(node.args["high"])
        this = self.bind(node.this)
        self.check_kinds(node, "BETWEEN", this, low, high)
        if node.args.get("symmetric"):
            return self.call(node, "BETWEEN SYMMETRIC", _between_symmetric, [this, low, high], BOOLEAN)
        return self.call(node, "BETWEEN", "({0} BETWEEN {1} AND {2})", [this, low, high], BOOLEAN)

    def _in(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "expressions", "query")
        if node.args.get("query") is not None:
            given = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
            values = tuple(map(self.bind, given))
            return self.bind_query(QueryKind.IN, _without_brackets(node.args["query"]), values, self.scope)
        if not node.expressions:
            self.refuse(node, "IN takes at least one value.")
        args = [self.bind(node.this), *map(self.bind, node.expressions)]
        self.check_kinds(node, "IN", *args)
        return self.call(
            node,
            "IN",
            lambda args: f"({args[0].text} IN ({', '.join(each.text for each in args[1:])}))",
            args,
            BOOLEAN,
        )

    def _exists(self, node: exp.Expr) -> Expression:
        return self.bind_query(QueryKind.EXISTS, _without_brackets(node.this), (), self.scope)

    def _scalar(self, node: exp.Expr) -> Expression:
        self.only(node, "this")
        return self.bind_query(QueryKind.VALUE, node.this, (), self.scope)

    def _like(self, node: exp.Expr) -> Expression:
        return self._like_with(node, None)

    def _escape(self, node: exp.Expr) -> Expression:
        if type(node.this) is not exp.Like:
            self.refuse(node, "ESCAPE stands behind LIKE only.")
        return self._like_with(node.this, node.expression)

    def _like_with(self, node: exp.Expr, escape: exp.Expr | None) -> Expression:
        self.only(node, "this", "expression", "negate")
        args = [self.bind(node.this), self.bind(node.expression)]
        word = f"{'NOT ' if node.args.get('negate') else ''}LIKE"
        if escape is not None:
            return self.call(
                node, word, f"({{0}} {word} {{1}} ESCAPE {{2}})", [*args, self.bind(escape)], BOOLEAN
            )
        return self.call(
            node, word, lambda args: f"({args[0].text} {word} {_pattern(args[1].text)})", args, BOOLEAN
        )

    methods: ClassVar[dict[type, Callable[[Any, Any], Expression]]] = {
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
        **dict.fromkeys(COMPARISONS, _comparison),
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


def microseconds(part: exp.Expr) -> int | None:
    """Return the length of a literal interval of one unit up to days; None for anything else."""
    if not isinstance(part, IntervalOf) or part.args["unit"] not in _UNITS_US:
        return None
    whole, _, fraction = part.args["text"].strip().partition(".")
    if not whole.isdigit() or (fraction and (part.args["unit"] != "SECOND" or not fraction.isdigit())):
        return None
    length = int(whole) * _UNITS_US[part.args["unit"]] + int(fraction[:6].ljust(6, "0") or 0)
    return -length if part.args["sign"] else length


def not_a_number(sign: str, args: list[TypedSql], indices: list[int]) -> str:
    """Return a comparison in which NaN is equal to nothing, and neither larger nor smaller, as in Flink.

    Args:
        sign: of the comparison.
        args: both sides.
        indices: which of them may be NaN.
    """

    def body(x: list[str]) -> str:
        tests = " OR ".join(f"isnan({x[index]})" for index in indices)
        answer = "TRUE" if sign == "<>" else "FALSE"
        return (
            f"CASE WHEN ({tests}) AND {x[0]} IS NOT NULL AND {x[1]} IS NOT NULL THEN {answer} "
            f"ELSE {x[0]} {sign} {x[1]} END"
        )

    return let([each.text for each in args], body)


def _between_symmetric(args: list[TypedSql]) -> str:
    return let(
        [each.text for each in args],
        lambda x: f"({x[0]} BETWEEN {x[1]} AND {x[2]} OR {x[0]} BETWEEN {x[2]} AND {x[1]})",
    )


def _pattern(text: str) -> str:
    """Return a pattern of LIKE. A backslash is a plain character for Flink, and an escape for Spark."""
    if text.startswith("'") and "\\" not in text:
        return text
    return f"replace({text}, '\\\\', '\\\\\\\\')"


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


def _integer_type(value: int) -> FlinkType | None:
    """Return the type of an integer that a script writes; None if it is too large for BIGINT."""
    if -(2**31) <= value < 2**31:
        return INT
    return BIGINT if -(2**63) <= value < 2**63 else None


def _is_whole(part: exp.Expr) -> bool:
    while isinstance(part, (exp.Paren, exp.Neg)):
        part = part.this
    return isinstance(part, exp.Literal) and str(part.this).isdigit()


def _wider(left: Expression, right: Expression) -> FlinkType | None:
    """Return the wider one of two integer types; None if one of the types is not an integer."""
    names = {left.type.name, right.type.name}
    if not names <= {*INTEGERS}:
        return None
    return FlinkType(max(names, key=INTEGERS.index))


def _sum_type(left: Expression, right: Expression) -> FlinkType | None:
    """Return the type of a sum, difference or product; None if Spark has to be asked."""
    wider = _wider(left, right)
    if wider is not None:
        return wider
    kinds = {kind_of(left), kind_of(right)}
    if kinds <= {*_WHOLE, "float", "double"} and "double" in kinds:
        return from_spark("double")
    times = [each.type for each in (left, right) if each.type.name in ("TIMESTAMP", "TIMESTAMP_LTZ")]
    return times[0] if len(times) == 1 and any(kind.startswith("interval") for kind in kinds) else None


def _no_field(name: str, row: Expression) -> str:
    fields = ", ".join(each.name for each in row.type.fields)
    if not fields:
        return f"expected a ROW before '.{name}', got {spark_text(row.type).upper()}."
    return f"the ROW has no field '{name}'. It has {fields}."


def _without_brackets(query: exp.Expr) -> exp.Expr:
    """Return a query without its brackets, unless they hold more than it."""
    others = any(value for key, value in query.args.items() if key != "this")
    return query.this if isinstance(query, exp.Subquery) and not others else query
