"""Translate Flink's expressions into Spark's.

Runs on the driver. Invariant: each kind of node has a method here that knows all of its parts. Any other
node, and any other part of a node, is refused with its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

from sqlglot import exp

from penstock.errors import SqlError
from penstock.sql.language.flink_types import FlinkType
from penstock.sql.language.parse import parse_flink_type
from penstock.sql.language.source import nearest
from penstock.sql.query._functions import (
    AGGREGATES,
    EXTRACT_UNITS,
    FUNCTIONS,
    OVER_ONLY,
    REFUSED,
    SUFFIX,
    TIME_UNITS,
    Function,
)
from penstock.sql.query._sqlglot import CastTo, IntervalOf, place_of
from penstock.sql.query.piece import (
    INTEGERS,
    Binder,
    Feature,
    Piece,
    Script,
    UnknownTypeError,
    literal,
    quoted,
)
from penstock.sql.query.spark_types import spark_type

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
_NO_BRACKETS: dict[type, str] = {exp.CurrentTimestamp: "CURRENT_TIMESTAMP", exp.CurrentDate: "CURRENT_DATE"}
_BARE_NAMES = {"LOCALTIMESTAMP", "CURRENT_ROW_TIMESTAMP", "LOCALTIME"}
_LITERALS = {"DATE": ("DATE", "date"), "TIMESTAMP": ("TIMESTAMP_NTZ", "timestamp_ntz")}
_LITERAL_TIMES = {**_LITERALS, "TIMESTAMPLTZ": ("TIMESTAMP_LTZ", "timestamp")}
_NO_TEXTS = ("array", "map", "struct", "interval")
_TEXTS_OF_TIMES = ("DATE_FORMAT", "FROM_UNIXTIME")

Subquery = Callable[[exp.Expr], str]


class Expressions:
    """Translates the expressions of one SELECT."""

    def __init__(self, script: Script, binder: Binder, subquery: Subquery, features: list[Feature]) -> None:
        self.script = script
        self.binder = binder
        self.features = features
        self.from_text = ""
        self.with_text: Callable[[], str] = str
        self.window_columns: dict[str, str] = {}
        self.replaced: dict[int, str] = {}
        self._subquery = subquery
        self._types: dict[str, str] = {}

    def text(self, node: exp.Expr) -> str:
        """Return the translation of an expression.

        Raises:
            SqlError: a part of it is not served.
        """
        return self.piece(node).text

    def piece(self, node: exp.Expr) -> Piece:
        """Return the translation of an expression, and its type on demand; see `text`."""
        if id(node) in self.replaced:
            return self._asked(self.replaced[id(node)])
        method = self._methods.get(type(node))
        if method is None:
            self.refuse(node, f"{_shown(node)} is not served here.")
        return method(self, node)

    def refuse(self, node: exp.Expr, message: str) -> NoReturn:
        """Raise the error for a part of the query."""
        place = place_of(node)
        parent = node.parent
        while place is None and parent is not None:
            place, parent = place_of(parent), parent.parent
        raise self.error_at(place or 0, message)

    def error_at(self, place: int, message: str) -> SqlError:
        """Return the error for an offset in the query."""
        return self.script.source.error(message, self.script.offset + place)

    def batch_only(self, node: exp.Expr, name: str, instead: str) -> None:
        """Note a part that Spark cannot stream."""
        self.features.append(Feature(name, instead, self.script.offset + (place_of(node) or 0)))

    def only(self, node: exp.Expr, *parts: str) -> None:
        """Refuse a node that has other parts than these."""
        for name, value in node.args.items():
            if name not in parts and value not in (None, False, [], ""):
                shown = value if isinstance(value, exp.Expr) else node
                self.refuse(shown, f"{name.strip('_').upper()} is not served here.")

    def _asked(self, text: str) -> Piece:
        return Piece(text, lambda: self._type_of(text))

    def _type_of(self, text: str) -> str:
        if text not in self._types:
            try:
                found = self.binder.column_types(f"{self.with_text()}SELECT {text} AS x {self.from_text}")
            except UnknownTypeError as error:
                raise self.error_at(0, f"Spark cannot tell the type of {text}: {error}") from None
            self._types[text] = found[0][1]
        return self._types[text]

    # ---- columns and literals

    def _column(self, node: exp.Expr) -> Piece:
        self.only(node, "this", "table", "db", "catalog")
        if isinstance(node.this, exp.Star):
            return self._asked(f"{quoted(node.args['table'].name)}.*")
        parts = [node.args[key].name for key in ("catalog", "db", "table", "this") if node.args.get(key)]
        if len(parts) == 1 and parts[0].upper() in _BARE_NAMES and not node.this.quoted:
            return self._function(node, parts[0].upper(), [])
        if len(parts) <= 2 and parts[-1].lower() in self.window_columns:
            return self._asked(self.window_columns[parts[-1].lower()])
        return self._asked(".".join(map(quoted, parts)))

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
        return _boolean(f"({self.text(node.this)} {sign} {self.text(node.expression)})")

    def _logic(self, node: exp.Expr) -> Piece:
        return _boolean(f"({self.text(node.this)} {_LOGIC[type(node)]} {self.text(node.expression)})")

    def _not(self, node: exp.Expr) -> Piece:
        return _boolean(f"(NOT {self.text(node.this)})")

    def _is(self, node: exp.Expr) -> Piece:
        self.only(node, "this", "expression")
        if not isinstance(node.expression, (exp.Null, exp.Boolean)):
            self.refuse(node, "expected IS NULL, IS TRUE or IS FALSE.")
        return _boolean(f"({self.text(node.this)} IS {self.text(node.expression)})")

    def _distinct_from(self, node: exp.Expr) -> Piece:
        equal = f"({self.text(node.this)} <=> {self.text(node.expression)})"
        return _boolean(equal if isinstance(node, exp.NullSafeEQ) else f"(NOT {equal})")

    def _between(self, node: exp.Expr) -> Piece:
        self.only(node, "this", "low", "high")
        low, high = self.text(node.args["low"]), self.text(node.args["high"])
        return _boolean(f"({self.text(node.this)} BETWEEN {low} AND {high})")

    def _in(self, node: exp.Expr) -> Piece:
        self.only(node, "this", "expressions", "query")
        this = self.text(node.this)
        if node.args.get("query") is not None:
            self.batch_only(node, "IN (SELECT ...)", "Use a JOIN on distinct values.")
            return _boolean(f"({this} IN ({self._subquery(node.args['query'])}))")
        return _boolean(f"({this} IN ({', '.join(map(self.text, node.expressions))}))")

    def _exists(self, node: exp.Expr) -> Piece:
        self.batch_only(node, "EXISTS", "Use a JOIN on distinct values.")
        inner = node.this.this if isinstance(node.this, exp.Subquery) else node.this
        return _boolean(f"EXISTS ({self._subquery(inner)})")

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
            return _boolean(f"({this} {negated}LIKE {pattern} ESCAPE {self.text(escape)})")
        # A backslash is a plain character for Flink, and begins an escape for Spark.
        if not pattern.startswith("'") or "\\" in pattern:
            pattern = f"replace({pattern}, '\\\\', '\\\\\\\\')"
        return _boolean(f"({this} {negated}LIKE {pattern})")

    # ---- values made of values

    def _case(self, node: exp.Expr) -> Piece:
        self.only(node, "this", "ifs", "default")
        this = f" {self.text(node.this)}" if node.this is not None and node.this != "" else ""
        whens = " ".join(
            f"WHEN {self.text(each.this)} THEN {self.text(each.args['true'])}" for each in node.args["ifs"]
        )
        default = node.args.get("default")
        return self._asked(f"CASE{this} {whens}{f' ELSE {self.text(default)}' if default else ''} END")

    def _array(self, node: exp.Expr) -> Piece:
        return self._asked(f"array({', '.join(map(self.text, node.expressions))})")

    def _bracket(self, node: exp.Expr) -> Piece:
        self.only(node, "this", "expressions", "offset", "safe")
        items = node.expressions
        if type(node.this) is exp.Column and node.this.name.upper() == "MAP" and len(items) != 1:
            if len(items) % 2:
                self.refuse(node, "MAP[...] has as many keys as values.")
            return self._asked(f"map({', '.join(map(self.text, items))})")
        if len(items) != 1:
            self.refuse(node, "expected one index or key in [].")
        base, index = self.piece(node.this), self.piece(items[0])
        if base.type.startswith("array"):
            if isinstance(items[0], (exp.Literal, exp.Neg)) and not str(items[0].this).isdigit():
                self.refuse(items[0], "the index of an array is a number from 1.")
            return self._asked(f"get({base.text}, CAST({index.text} AS INT) - 1)")
        if base.type.startswith("map"):
            return self._asked(f"try_element_at({base.text}, {index.text})")
        return self.refuse(node, f"expected an ARRAY or MAP before [], got {base.type.upper()}.")

    def _cast(self, node: exp.Expr) -> Piece:
        offset = self.script.offset + node.args["start"]
        kind = parse_flink_type(node.args["text"], self.script.source, offset)
        inner = self.piece(node.this)
        if kind.name in ("STRING", "VARCHAR", "CHAR"):
            inner = self._as_text(node, inner)
        try:
            target = spark_type(kind)
            text = _cast_text(inner, kind, target, "try_cast" if node.args.get("is_try") else "CAST")
        except ValueError as error:
            raise self.script.source.error(str(error), offset) from None
        return self._asked(text)

    def _as_text(self, node: exp.Expr, inner: Piece) -> Piece:
        """Refuse a CAST to a text that would look different, and write booleans as Flink does."""
        if inner.type.startswith("timestamp"):
            self.refuse(
                node,
                "a CAST of a TIMESTAMP to a text is not served: Spark leaves out zeros of the fraction. "
                "Use DATE_FORMAT(..., 'yyyy-MM-dd HH:mm:ss.SSS').",
            )
        if inner.type.startswith(_NO_TEXTS):
            self.refuse(node, f"a CAST of {inner.type.upper()} to a text is not served.")
        if inner.type == "boolean":
            return Piece(f"upper(CAST({inner.text} AS STRING))", lambda: "string")
        return inner

    # ---- functions

    def _call(self, node: exp.Expr) -> Piece:
        return self._function(node, str(node.this), node.expressions)

    def _word(self, node: exp.Expr) -> Piece:
        self.only(node)
        return self._function(node, _NO_BRACKETS[type(node)], [])

    def _filter(self, node: exp.Expr) -> Piece:
        return self._function(
            node.this,
            str(node.this.this),
            node.this.expressions,
            f" FILTER (WHERE {self.text(node.expression.this)})",
        )

    def _window(self, node: exp.Expr) -> Piece:
        self.only(node, "this", "partition_by", "order", "spec", "over")
        self.batch_only(
            node,
            "OVER",
            "Use a window (TUMBLE, HOP, SESSION), or the operators of docs/changelogs.md.",
        )
        if type(node.this) is not exp.Anonymous:
            self.refuse(node.this, "expected a function before OVER.")
        parts = []
        if node.args.get("partition_by"):
            parts.append(f"PARTITION BY {', '.join(map(self.text, node.args['partition_by']))}")
        if node.args.get("order") is not None:
            parts.append(self.order(node.args["order"]))
        if node.args.get("spec") is not None:
            parts.append(self._frame(node.args["spec"]))
        over = f" OVER ({' '.join(parts)})"
        return self._function(node.this, str(node.this.this), node.this.expressions, over, is_over=True)

    def order(self, node: exp.Expr) -> str:
        """Return ORDER BY. Nulls are the smallest values in both systems."""
        items = []
        for each in node.expressions:
            self.only(each, "this", "desc", "nulls_first")
            nulls = each.args.get("nulls_first")
            said = "" if nulls is None else f" NULLS {'FIRST' if nulls else 'LAST'}"
            items.append(f"{self.text(each.this)}{' DESC' if each.args.get('desc') else ''}{said}")
        return f"ORDER BY {', '.join(items)}"

    def _frame(self, node: exp.Expr) -> str:
        self.only(node, "kind", "start", "start_side", "end", "end_side")

        def bound(value: Any, side: Any) -> str:
            shown = value if isinstance(value, str) else self.text(value)
            return f"{shown} {side}" if side else shown

        start = bound(node.args["start"], node.args.get("start_side"))
        stop = bound(node.args.get("end") or "CURRENT ROW", node.args.get("end_side"))
        return f"{node.args['kind']} BETWEEN {start} AND {stop}"

    def _function(
        self,
        node: exp.Expr,
        written: str,
        args: list[exp.Expr],
        suffix: str = "",
        *,
        is_over: bool = False,
    ) -> Piece:
        name = written.upper()
        special = self._special.get(name)
        if special is not None and not suffix:
            return special(self, node, args)
        tables = {**(AGGREGATES | (OVER_ONLY if is_over else {}) if suffix else {**FUNCTIONS, **AGGREGATES})}
        found = tables.get(name)
        if found is None:
            return self._other_function(node, written, args, suffix)
        distinct = bool(args) and type(args[0]) is exp.Distinct
        if distinct:
            self.only(args[0], "expressions")
            if name not in AGGREGATES:
                self.refuse(node, f"DISTINCT is not served in {name}.")
            self.batch_only(node, f"{name}(DISTINCT ...)", "Count in two steps: first GROUP BY the value.")
            args = args[0].expressions
        pieces = [self._argument(each) for each in args]
        self._check_count(node, name, found, len(pieces))
        if found.type == "string" and name not in _TEXTS_OF_TIMES:
            self._check_texts(node, name, pieces)
        if distinct:
            pieces = [Piece(f"DISTINCT {pieces[0].text}", pieces[0].find_type), *pieces[1:]]
        try:
            text = found.apply(pieces).replace(SUFFIX, suffix)
        except ValueError as error:
            self.refuse(node, f"{name}: {error}")
        return self._typed(found, text, pieces)

    def _typed(self, found: Function, text: str, pieces: list[Piece]) -> Piece:
        if found.type == "{0}":
            return Piece(text, pieces[0].find_type)
        return Piece(text, lambda: found.type) if found.type else self._asked(text)

    def _check_texts(self, node: exp.Expr, name: str, pieces: list[Piece]) -> None:
        """Refuse what Spark would make a text of, in another form than Flink."""
        for each in pieces:
            if each.type.startswith((*_NO_TEXTS, "timestamp", "boolean")):
                self.refuse(node, f"{name}: expected a STRING, got {each.type.upper()}. Write a CAST.")

    def _argument(self, node: exp.Expr) -> Piece:
        return Piece("*", lambda: "bigint") if type(node) is exp.Star else self.piece(node)

    def _check_count(self, node: exp.Expr, name: str, found: Function, count: int) -> None:
        if found.least <= count <= found.most:
            return
        wanted = str(found.least) if found.least == found.most else f"{found.least} to {found.most}"
        if found.most >= 1_000:
            wanted = f"at least {found.least}"
        self.refuse(node, f"{name} takes {wanted} arguments, got {count}.")

    def _other_function(self, node: exp.Expr, written: str, args: list[exp.Expr], suffix: str) -> Piece:
        name = written.upper()
        if self.binder.has_function(written) and not suffix:
            return self._asked(f"{quoted(written)}({', '.join(map(self.text, args))})")
        if name in REFUSED:
            self.refuse(node, f"{name} is not served: {REFUSED[name]}")
        if name in OVER_ONLY:
            self.refuse(node, f"{name} needs OVER (...).")
        known = [*FUNCTIONS, *AGGREGATES, *OVER_ONLY, *self._special]
        return self.refuse(
            node,
            f"the function {written} is not one of those that are served.{nearest(name, known)} docs/sql.md "
            "lists them. Others: CREATE FUNCTION ... LANGUAGE PYTHON.",
        )

    def _extract(self, node: exp.Expr, args: list[exp.Expr]) -> Piece:
        unit = args[0].name.upper()
        if unit not in EXTRACT_UNITS:
            self.refuse(node, f"EXTRACT takes {', '.join(EXTRACT_UNITS)}, got {unit}.")
        return self._function(node, EXTRACT_UNITS[unit], args[1:])

    def _to_unit(self, node: exp.Expr, args: list[exp.Expr]) -> Piece:
        this, unit = self.piece(args[0]), args[1].name.upper()
        units = [each for each in TIME_UNITS if each != "WEEK"]
        if unit not in units:  # weeks of Flink's begin on Sunday here, those of Spark on Monday
            self.refuse(node, f"expected one of {', '.join(units)} after TO, got {unit}.")
        kind = this.type
        if kind not in ("timestamp", "timestamp_ntz", "date"):
            self.refuse(node, f"expected a time before TO, got {kind.upper()}.")
        floor = f"CAST(date_trunc('{unit}', {this.text}) AS {kind.upper()})"
        if str(node.this).upper() == "FLOOR_TO":
            return Piece(floor, lambda: kind)
        above = f"CAST({floor} + INTERVAL '1' {unit} AS {kind.upper()})"
        return Piece(f"CASE WHEN {floor} = {this.text} THEN {floor} ELSE {above} END", lambda: kind)

    def _add_units(self, node: exp.Expr, args: list[exp.Expr]) -> Piece:
        name, unit = str(node.this).upper(), args[0].name.upper()
        if len(args) != 3 or unit not in TIME_UNITS:
            self.refuse(node, f"{name} takes one of {', '.join(TIME_UNITS)} and two values.")
        if name == "TIMESTAMPDIFF" and unit in ("MONTH", "QUARTER", "YEAR"):
            self.refuse(
                node, f"TIMESTAMPDIFF of {unit} is not served: at the end of a month Spark counts less."
            )
        first, second = self.piece(args[1]), self.piece(args[2])
        call = f"{name.lower()}({unit}, {first.text}, {second.text})"
        if name == "TIMESTAMPDIFF":
            return Piece(f"CAST({call} AS INT)", lambda: "int")
        kind = second.type
        if kind == "date" and unit in ("SECOND", "MINUTE", "HOUR"):
            self.refuse(
                node, f"TIMESTAMPADD of {unit} to a DATE is not served. Write CAST(... AS TIMESTAMP)."
            )
        return Piece(f"CAST({call} AS {kind.upper()})", lambda: kind)

    def _row(self, node: exp.Expr, args: list[exp.Expr]) -> Piece:
        fields = ", ".join(f"'EXPR${place}', {self.text(each)}" for place, each in enumerate(args))
        return self._asked(f"named_struct({fields})")

    def _round(self, node: exp.Expr, args: list[exp.Expr]) -> Piece:
        if len(args) not in (1, 2) or (len(args) == 2 and not str(args[1].this).isdigit()):
            self.refuse(node, "ROUND takes a number, and how many digits to keep as a literal from 0.")
        texts = ", ".join(map(self.text, args))
        one = self.piece(args[0])
        return (
            Piece(f"round({texts})", one.find_type)
            if one.type == "double"
            else self._asked(f"round({texts})")
        )

    _special: ClassVar[dict[str, Callable[[Any, exp.Expr, list[exp.Expr]], Piece]]] = {
        "EXTRACT": _extract,
        "CEIL_TO": _to_unit,
        "FLOOR_TO": _to_unit,
        "TIMESTAMPADD": _add_units,
        "TIMESTAMPDIFF": _add_units,
        "ROW": _row,
        "ROUND": _round,
    }
    _methods: ClassVar[dict[type, Callable[[Any, Any], Piece]]] = {
        exp.Column: _column,
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
        exp.Case: _case,
        exp.Array: _array,
        exp.Bracket: _bracket,
        CastTo: _cast,
        exp.Anonymous: _call,
        **dict.fromkeys(_NO_BRACKETS, _word),
        exp.Filter: _filter,
        exp.Window: _window,
    }


def _boolean(text: str) -> Piece:
    return Piece(text, lambda: "boolean")


def _wider(left: Piece, right: Piece) -> str:
    """Return the wider one of two integer types; "" if one of the types is not an integer."""
    types = (left.type, right.type)
    return INTEGERS[max(map(INTEGERS.index, types))] if set(types) <= set(INTEGERS) else ""


def _shown(node: exp.Expr) -> str:
    return type(node).__name__.upper()


def _cast_text(inner: Piece, kind: FlinkType, target: str, word: str) -> str:
    """Return a CAST with the length or precision of Flink's type."""
    text = f"{word}({inner.text} AS {target})"
    length = kind.args[0] if kind.args else None
    if kind.name in ("BINARY", "VARBINARY") and length not in (None, 2**31 - 1):
        raise ValueError(f"CAST AS {kind.name}({length}) is not served. Use BYTES.")
    if kind.name == "CHAR":
        return f"rpad({text}, {length or 1}, ' ')"
    if kind.name == "VARCHAR" and length not in (None, 2**31 - 1):
        return f"substring({text}, 1, {length})"
    if kind.name in ("TIMESTAMP", "TIMESTAMP_LTZ") and length is not None and length < 6:
        step = f"CAST('{10.0**-length:.{max(length, 0)}f}' AS DECIMAL(18,6))"
        beyond = f"CAST(extract(SECOND FROM {text}) % {step} AS DECIMAL(18,6))"
        return f"({text} - make_dt_interval(0, 0, 0, {beyond}))"
    return text
