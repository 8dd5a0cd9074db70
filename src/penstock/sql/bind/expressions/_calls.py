"""Calls of functions and aggregates, with FILTER and OVER.

Runs on the driver. Invariant: a function that is not in the tables of `_functions.py` is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, NoReturn

from sqlglot import exp

from penstock.sql.bind.context import UserFunction
from penstock.sql.bind.expressions._frames import frame_of
from penstock.sql.bind.expressions._values import NO_TEXTS, Values
from penstock.sql.bind.expressions.base import kind_of
from penstock.sql.functions.json_texts import json_array, json_object, json_text
from penstock.sql.functions.not_served import REFUSED
from penstock.sql.functions.served import AGGREGATES, EXTRACT_UNITS, FUNCTIONS, OVER_ONLY, SUFFIX, TIME_UNITS
from penstock.sql.functions.units import EXTRACTED, ceil_to, floor_to, months_between
from penstock.sql.functions.unix_times import unix_timestamp
from penstock.sql.functions.zones import asks_for_zone, has_zone, without_zone
from penstock.sql.language.flink_types import FlinkType
from penstock.sql.language.source import nearest
from penstock.sql.plan.expressions import (
    AggregateCall,
    Expression,
    Function,
    Literal,
    OverCall,
    SortItem,
    TypedSql,
    Varies,
)
from penstock.sql.plan.texts import quoted
from penstock.sql.plan.types import BIGINT, DOUBLE, INT, STRING, from_spark, widest

_NO_BRACKETS: dict[type, str] = {exp.CurrentTimestamp: "CURRENT_TIMESTAMP", exp.CurrentDate: "CURRENT_DATE"}
_ONE_KIND = ("COALESCE", "IFNULL", "NULLIF", "GREATEST", "LEAST")
_WITH_WORDS = ("_IN", "_FROM", "_FOR", "_TO", "_BOTH", "_LEADING", "_TRAILING")
"""Ends of the names of functions whose arguments have words between them. Flink does not have these names."""
_NO_DISTINCT = ("ARRAY_AGG", "APPROX_COUNT_DISTINCT", "PERCENTILE")
_TEXTS_OF_TIMES = ("DATE_FORMAT", "FROM_UNIXTIME")
_MILLISECONDS = {
    "NOW": "TIMESTAMP_LTZ",
    "PROCTIME": "TIMESTAMP_LTZ",
    "CURRENT_ROW_TIMESTAMP": "TIMESTAMP_LTZ",
    "CURRENT_TIMESTAMP": "TIMESTAMP_LTZ",
    "LOCALTIMESTAMP": "TIMESTAMP",
    "TO_TIMESTAMP": "TIMESTAMP",
    "TO_TIMESTAMP_LTZ": "TIMESTAMP_LTZ",
}
"""Functions whose time has three digits of a second in Flink."""
_NEEDS_UTC = (
    "is served in the time zone UTC only, because a day of Spark's may have 23 hours. SET "
    "'table.local-time-zone' = 'UTC'."
)


class Calls(Values):
    """Binds calls of functions and aggregates."""

    def _call(self, node: exp.Expr) -> Expression:
        if str(node.this).upper().endswith(_WITH_WORDS) and not node.meta.get("words"):
            return self._other_function(node, str(node.this), node.expressions)
        return self.function(node, str(node.this), node.expressions)

    def _word(self, node: exp.Expr) -> Expression:
        self.only(node)
        return self.function(node, _NO_BRACKETS[type(node)], [])

    def _filter(self, node: exp.Expr) -> Expression:
        call = node.this
        if not isinstance(call, exp.Anonymous) or str(call.this).upper() not in AGGREGATES:
            self._no_suffix(call)
        condition = self.bind(node.expression.this)
        return self.aggregate(call, str(call.this).upper(), call.expressions, condition)

    def _window(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "partition_by", "order", "spec", "over")
        call = node.this.this if isinstance(node.this, exp.Filter) else node.this
        if type(call) is not exp.Anonymous:
            if type(call) in (exp.IgnoreNulls, exp.RespectNulls):
                self.bind(call)
            self.refuse(call, "expected a function before OVER.")
        name = str(call.this).upper()
        if name not in AGGREGATES and name not in OVER_ONLY:
            self._no_suffix(call)
        condition = self.bind(node.this.expression.this) if isinstance(node.this, exp.Filter) else None
        found = self.aggregate(call, name, call.expressions, condition)
        order = node.args.get("order")
        return OverCall(
            found,
            tuple(map(self.bind, node.args.get("partition_by") or ())),
            tuple(map(self.sort_item, order.expressions if order is not None else ())),
            frame_of(self, node.args["spec"]) if node.args.get("spec") is not None else None,
            self.location.of(node),
        )

    def sort_item(self, node: exp.Expr) -> SortItem:
        """Return an item of ORDER BY."""
        self.only(node, "this", "desc", "nulls_first")
        return SortItem(self.bind(node.this), bool(node.args.get("desc")), node.args.get("nulls_first"))

    def _no_suffix(self, call: exp.Expr) -> None:
        """Refuse FILTER or OVER behind something else than an aggregate."""
        written = str(call.this) if isinstance(call, exp.Anonymous) else type(call).__name__.upper()
        name = written.upper()
        if name in REFUSED:
            self.refuse(call, f"{name} is not served: {REFUSED[name]}")
        if self.session.function(written) is not None or name in FUNCTIONS or name in self._special:
            self.refuse(call, f"FILTER and OVER are for aggregates, which {written} is not.")
        self._unknown(call, written)

    def function(self, node: exp.Expr, written: str, args: list[exp.Expr]) -> Expression:
        """Return a call of a function or aggregate."""
        name = written.upper()
        if asks_for_zone(name, len(args)):
            self.check_zone(node, name)
        special = self._special.get(name)
        if special is not None:
            return special(self, node, args)
        if name in AGGREGATES:
            return self.aggregate(node, name, args)
        found = FUNCTIONS.get(name)
        if found is None:
            return self._other_function(node, written, args)
        values = self._arguments(node, name, args)
        self.check_count(node, name, found, len(values))
        if found.type == "string" and name not in _TEXTS_OF_TIMES:
            self._check_texts(node, name, values)
        if name == "DATE_FORMAT":  # a pattern may name the zone
            values = [self.local(node, each) for each in values]
        return self.called(node, name, found, values, self._type_of(name, values))

    def _type_of(self, name: str, values: list[Expression]) -> FlinkType | None:
        """Return the type of a call where Spark's type does not say enough; None elsewhere."""
        if name in _MILLISECONDS:
            return FlinkType(_MILLISECONDS[name], (3,))
        if name in ("COALESCE", "IFNULL", "GREATEST", "LEAST"):
            return widest([each.type for each in values])
        return widest([each.type for each in values[1:]]) if name == "IF" else None

    def aggregate(
        self, node: exp.Expr, name: str, args: list[exp.Expr], condition: Expression | None = None
    ) -> AggregateCall:
        """Return a call of an aggregate, or of a function that needs OVER."""
        found = AGGREGATES.get(name) or OVER_ONLY[name]
        is_distinct = bool(args) and type(args[0]) is exp.Distinct
        if is_distinct:
            self.only(args[0], "expressions")
            if name not in AGGREGATES or name in _NO_DISTINCT:
                self.refuse(node, f"DISTINCT is not served in {name}.")
            args = args[0].expressions
        stars = [each for each in args if isinstance(each, exp.Star)]
        if stars and (name != "COUNT" or is_distinct or len(args) > 1):
            self.refuse(node, f"{name} does not take *. Write a column.")
        values = [] if stars else self._arguments(node, name, args)
        if not stars:
            self.check_count(node, name, found, len(values))
        if found.type == "string":
            self._check_texts(node, name, values)
        try:
            if callable(found.text):  # it checks the types of its arguments
                texts = [each.text if isinstance(each, Literal) else "x" for each in values]
                found.apply([TypedSql(*each) for each in zip(texts, map(kind_of, values), strict=True)])
            kind = BIGINT if name == "COUNT" else self._aggregate_type(found, values)
        except ValueError as error:
            self.refuse(node, f"{name}: {error}")
        return AggregateCall(name, tuple(values), kind, is_distinct, condition, self.location.of(node))

    def _aggregate_type(self, found: Function, values: list[Expression]) -> FlinkType:
        """Return the type of an aggregate. Without its suffix Spark can tell it over constants."""
        plain = replace(found, text=lambda args: found.apply(args).replace(SUFFIX, ""))
        return self.context.type_of(plain, values)

    def _arguments(self, node: exp.Expr, name: str, args: list[exp.Expr]) -> list[Expression]:
        if any(isinstance(each, exp.Star) for each in args):
            self.refuse(node, f"{name} does not take *. Write a column.")
        if args and type(args[0]) is exp.Distinct:
            self.refuse(node, f"DISTINCT is not served in {name}.")
        values = list(map(self.bind, args))
        if name in _ONE_KIND:
            self.check_kinds(node, name, *values)
        if name == "IF":
            self.check_kinds(node, name, *values[1:])
        return values

    def _check_texts(self, node: exp.Expr, name: str, values: list[Expression]) -> None:
        """Refuse what Spark would make a text of, in another form than Flink."""
        for each in values:
            if kind_of(each).startswith((*NO_TEXTS, "timestamp", "boolean")):
                self.refuse(node, f"{name}: expected a STRING, got {kind_of(each).upper()}. Write a CAST.")

    def check_count(self, node: exp.Expr, name: str, found: Function, count: int) -> None:
        """Refuse a wrong number of arguments."""
        if found.least <= count <= found.most:
            return
        wanted = str(found.least) if found.least == found.most else f"{found.least} to {found.most}"
        if found.most >= 1_000:
            wanted = f"at least {found.least}"
        self.refuse(node, f"{name} takes {wanted} arguments, got {count}.")

    def _other_function(self, node: exp.Expr, written: str, args: list[exp.Expr]) -> Expression:
        name = written.upper()
        own = self.session.function(written)
        if own is not None:
            return self._own_function(node, written, own, args)
        if name in REFUSED:
            self.refuse(node, f"{name} is not served: {REFUSED[name]}")
        if name in OVER_ONLY:
            self.refuse(node, f"{name} needs OVER (...).")
        return self._unknown(node, written)

    def _unknown(self, node: exp.Expr, written: str) -> NoReturn:
        known = [
            each
            for each in (*FUNCTIONS, *AGGREGATES, *OVER_ONLY, *self._special)
            if not each.endswith(_WITH_WORDS)
        ]
        self.refuse(
            node,
            f"the function {written} is not one of those that are served.{nearest(written.upper(), known)} "
            "docs/functions.md lists them. Others: CREATE FUNCTION ... LANGUAGE PYTHON.",
        )

    def _own_function(
        self, node: exp.Expr, written: str, own: UserFunction, args: list[exp.Expr]
    ) -> Expression:
        values = self.local_values(node, args)
        varies = Varies.NEVER if own.is_deterministic else Varies.CALL
        text = f"{quoted(own.name)}".replace("{", "{{").replace("}", "}}")
        found = self.call(node, written, f"{text}({{all}})", values, varies=varies)
        if self.session.foreign_zone is not None and has_zone(kind_of(found)):
            self.check_zone(node, f"a TIMESTAMP of the function {written}")
        return found

    def local_values(self, node: exp.Expr, args: list[exp.Expr]) -> list[Expression]:
        """Return the arguments of a function of the user."""
        return [self.local(node, self.bind(each)) for each in args]

    def local(self, node: exp.Expr, value: Expression) -> Expression:
        """Return a value for a function that must not see how local times travel in UTC."""
        kind = kind_of(value)
        if self.session.foreign_zone is None or not has_zone(kind):
            return value
        plain = without_zone(kind)
        return self.call(
            node, "CAST", lambda args: f"CAST({args[0].text} AS {plain})", [value], from_spark(plain)
        )

    def _extract(self, node: exp.Expr, args: list[exp.Expr]) -> Expression:
        unit = args[0].name.upper()
        if unit in EXTRACTED:
            this = self.bind(args[1])
            if kind_of(this) not in ("date", "timestamp_ntz"):
                self.refuse(
                    node,
                    f"EXTRACT({unit}) takes a DATE or TIMESTAMP, got {kind_of(this).upper()}. Write a CAST.",
                )
            text = EXTRACTED[unit]
            return self.call(
                node,
                f"EXTRACT({unit})",
                lambda pieces: text.format(f"CAST({pieces[0].text} AS TIMESTAMP_NTZ)"),
                [this],
                BIGINT,
            )
        if unit not in EXTRACT_UNITS:
            self.refuse(node, f"EXTRACT takes {', '.join((*EXTRACT_UNITS, *EXTRACTED))}, got {unit}.")
        return self.function(node, EXTRACT_UNITS[unit], args[1:])

    def _to_unit(self, node: exp.Expr, args: list[exp.Expr]) -> Expression:
        this, unit = self.bind(args[0]), args[1].name.upper()
        kind, name = kind_of(this), str(node.this).upper()
        if unit not in TIME_UNITS:
            self.refuse(node, f"expected one of {', '.join(TIME_UNITS)} after TO, got {unit}.")
        if kind not in ("timestamp", "timestamp_ntz", "date"):
            self.refuse(node, f"expected a time before TO, got {kind.upper()}.")
        convert = floor_to if name == "FLOOR_TO" else ceil_to
        return self.call(node, name, lambda pieces: convert(pieces[0].text, kind, unit), [this], this.type)

    def _add_units(self, node: exp.Expr, args: list[exp.Expr]) -> Expression:
        name, unit = str(node.this).upper(), args[0].name.upper()
        if len(args) != 3 or unit not in TIME_UNITS:
            self.refuse(node, f"{name} takes one of {', '.join(TIME_UNITS)} and two values.")
        first, second = self.bind(args[1]), self.bind(args[2])
        if name == "TIMESTAMPDIFF":
            return self._difference(node, unit, first, second)
        kind = kind_of(second)
        if kind == "date" and unit in ("SECOND", "MINUTE", "HOUR"):
            self.refuse(
                node, f"TIMESTAMPADD of {unit} to a DATE is not served. Write CAST(... AS TIMESTAMP)."
            )
        if kind == "timestamp" and not self.session.zone_is_utc:
            self.refuse(node, f"TIMESTAMPADD to a TIMESTAMP_LTZ {_NEEDS_UTC}")
        text = f"CAST(timestampadd({unit}, {{0}}, {{1}}) AS {kind.upper()})"
        return self.call(node, name, text, [first, second], second.type)

    def _difference(self, node: exp.Expr, unit: str, first: Expression, second: Expression) -> Expression:
        if not self.session.zone_is_utc and "timestamp" in (kind_of(first), kind_of(second)):
            self.refuse(node, f"TIMESTAMPDIFF of a TIMESTAMP_LTZ {_NEEDS_UTC}")

        def text(pieces: list[TypedSql]) -> str:
            if unit in ("MONTH", "QUARTER", "YEAR"):
                return months_between(pieces[0].text, pieces[1].text, unit)
            # Without a zone, a day always has 24 hours.
            start, stop = (f"CAST({each.text} AS TIMESTAMP_NTZ)" for each in pieces)
            length = "INTERVAL '7' DAY" if unit == "WEEK" else f"INTERVAL '1' {unit}"
            return f"CAST((({stop} - {start}) div {length}) AS INT)"

        return self.call(node, f"TIMESTAMPDIFF {unit}", text, [first, second], INT)

    def _row(self, node: exp.Expr, args: list[exp.Expr]) -> Expression:
        return self.call(node, "ROW", _struct, list(map(self.bind, args)))

    def _round(self, node: exp.Expr, args: list[exp.Expr]) -> Expression:
        bound = list(map(self.bind, args))
        digits = bound[1].value if len(bound) == 2 and isinstance(bound[1], Literal) else None
        if len(bound) != 1 and type(digits) is not int:
            self.refuse(node, "ROUND takes a number, and how many digits to keep as a literal.")
        if bound[0].type.name == "DECIMAL" and isinstance(digits, int):
            if digits < 0:  # the type that Flink gives is not known
                advice = "Write ROUND(x / 1000, 0) * 1000 and the like."
                self.refuse(node, f"ROUND of a DECIMAL: expected a literal from 0. {advice}")
            if digits >= (*bound[0].type.args, 0)[1]:
                return bound[0]
        return self.call(node, "ROUND", "round({all})", bound, DOUBLE if bound[0].type == DOUBLE else None)

    def _unix_timestamp(self, node: exp.Expr, args: list[exp.Expr]) -> Expression:
        is_utc = self.session.zone_is_utc
        return self.call(
            node,
            "UNIX_TIMESTAMP" if args else "UNIX_TIMESTAMP()",
            lambda pieces: unix_timestamp(pieces, zone_is_utc=is_utc),
            list(map(self.bind, args)),
            BIGINT,
            varies=Varies.NEVER if args else Varies.BATCH,
        )

    def _json_object(self, node: exp.Expr, args: list[exp.Expr]) -> Expression:
        keys: list[str] = []
        for key in args[1::2]:
            if not (isinstance(key, exp.Literal) and key.is_string):
                self.refuse(key, "JSON_OBJECT: expected a KEY in quotes.")
            if str(key.this) in keys:
                self.refuse(key, f"JSON_OBJECT: the KEY '{key.this}' comes twice.")
            keys.append(str(key.this))
        keeps_nulls = str(args[0].this) == "NULL"
        values = [self._json_value(node, each) for each in args[2::2]]
        plain = list(map(_makes_json, args[2::2]))

        def text(pieces: list[TypedSql]) -> str:
            texts = _json_texts(pieces, plain)
            return json_object(dict(zip(keys, texts, strict=True)), keeps_nulls=keeps_nulls)

        return self.call(node, "JSON_OBJECT", text, values, STRING)

    def _json_array(self, node: exp.Expr, args: list[exp.Expr]) -> Expression:
        keeps_nulls = str(args[0].this) == "NULL"
        values = [self._json_value(node, each) for each in args[1:]]
        plain = list(map(_makes_json, args[1:]))
        return self.call(
            node,
            "JSON_ARRAY",
            lambda pieces: json_array(_json_texts(pieces, plain), keeps_nulls=keeps_nulls),
            values,
            STRING,
        )

    def _json_value(self, node: exp.Expr, value: exp.Expr) -> Expression:
        """Return a value in JSON. A function of JSON that stands there itself makes JSON already."""
        name = value.name if isinstance(value, exp.Column) else ""
        made = any(each.alias == name and _makes_json(each.this) for each in node.root().find_all(exp.Alias))
        is_hidden = (bool(name) and made) or any(map(_makes_json, value.find_all(exp.Anonymous)))
        if is_hidden and not _makes_json(value):
            self.refuse(
                value,
                f"{str(node.this).upper()}: Flink takes JSON that another function makes for JSON or for a "
                "text, as its plan is. Write the function here itself, or JSON_STRING of it.",
            )
        return self.bind(value)

    _special: ClassVar[dict[str, Callable[[Any, exp.Expr, list[exp.Expr]], Expression]]] = {
        "EXTRACT": _extract,
        "CEIL_TO": _to_unit,
        "FLOOR_TO": _to_unit,
        "TIMESTAMPADD": _add_units,
        "TIMESTAMPDIFF": _add_units,
        "ROW": _row,
        "ROUND": _round,
        "UNIX_TIMESTAMP": _unix_timestamp,
        "JSON_OBJECT": _json_object,
        "JSON_ARRAY": _json_array,
    }
    methods: ClassVar[dict[type, Callable[[Any, Any], Expression]]] = {
        **Values.methods,
        exp.Anonymous: _call,
        **dict.fromkeys(_NO_BRACKETS, _word),
        exp.Filter: _filter,
        exp.Window: _window,
    }


def _struct(pieces: list[TypedSql]) -> str:
    fields = (f"'EXPR${index}', {each.text}" for index, each in enumerate(pieces))
    return f"named_struct({', '.join(fields)})"


def _makes_json(node: exp.Expr) -> bool:
    while isinstance(node, exp.Paren):
        node = node.this
    return type(node) is exp.Anonymous and str(node.this).upper() in ("JSON_OBJECT", "JSON_ARRAY", "JSON")


def _json_texts(pieces: list[TypedSql], plain: list[bool]) -> list[str]:
    return [
        each.text if is_json else json_text(each.text, each.type)
        for each, is_json in zip(pieces, plain, strict=True)
    ]
