"""Calls of functions and aggregates, with FILTER and OVER.

Runs on the driver. Invariant: a function that is not in the tables of `_functions.py` is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp

from penstock.sql.language.source import nearest
from penstock.sql.query._distinct import distinct_in_stream
from penstock.sql.query._functions import (
    AGGREGATES,
    EXTRACT_UNITS,
    FUNCTIONS,
    OVER_ONLY,
    SUFFIX,
    TIME_UNITS,
)
from penstock.sql.query._json_texts import json_array, json_object, json_text
from penstock.sql.query._not_served import REFUSED
from penstock.sql.query._old_times import unix_timestamp
from penstock.sql.query._units import EXTRACTED, ceil_to, floor_to, months_between
from penstock.sql.query.expressions._values import NO_TEXTS, Values
from penstock.sql.query.piece import Function, Piece, UnknownTypeError, UserFunction, quoted
from penstock.sql.query.rows import Varies
from penstock.sql.query.zones import asks_for_zone, has_zone, without_zone

_NO_BRACKETS: dict[type, str] = {exp.CurrentTimestamp: "CURRENT_TIMESTAMP", exp.CurrentDate: "CURRENT_DATE"}
_ONE_KIND = ("COALESCE", "IFNULL", "NULLIF", "GREATEST", "LEAST")
_WITH_WORDS = ("_IN", "_FROM", "_FOR", "_TO", "_BOTH", "_LEADING", "_TRAILING")
"""Ends of the names of functions whose arguments have words between them. Flink does not have these names."""
_NO_DISTINCT = ("ARRAY_AGG", "APPROX_COUNT_DISTINCT", "PERCENTILE")
_TEXTS_OF_TIMES = ("DATE_FORMAT", "FROM_UNIXTIME")
_NEEDS_UTC = (
    "is served in the time zone UTC only, because a day of Spark's may have 23 hours. SET "
    "'table.local-time-zone' = 'UTC'."
)


class Calls(Values):
    """Translates calls of functions and aggregates."""

    def _call(self, node: exp.Expr) -> Piece:
        if str(node.this).upper().endswith(_WITH_WORDS) and not node.meta.get("words"):
            return self._other_function(node, str(node.this), node.expressions, "")
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
            if type(node.this) in (exp.IgnoreNulls, exp.RespectNulls):
                self.piece(node.this)
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
        if asks_for_zone(name, len(args)):
            self.check_zone(node, name)
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
            if name not in AGGREGATES or name in _NO_DISTINCT:
                self.refuse(node, f"DISTINCT is not served in {name}.")
            args = args[0].expressions
        if name == "APPROX_COUNT_DISTINCT":
            self.batch_only(node, name, "Count in two steps: first GROUP BY the value.")
        self.check_varying(node, name, found.varies)
        pieces = self._arguments(node, name, args, is_distinct=distinct)
        self.check_count(node, name, found, len(pieces))
        if found.type == "string" and name not in _TEXTS_OF_TIMES:
            self._check_texts(node, name, pieces)
        try:
            if distinct and self._is_streaming():
                text = distinct_in_stream(name, pieces[0], suffix)
            else:
                text = found.apply(_distinct(pieces) if distinct else pieces).replace(SUFFIX, suffix)
        except ValueError as error:
            self.refuse(node, f"{name}: {error}")
        return self._typed(found, text, pieces)

    def _is_streaming(self) -> bool:
        try:
            return self.binder.is_streaming(f"{self.with_text()}SELECT 1 AS x {self.from_text}")
        except UnknownTypeError:
            return False  # Spark refuses the query as a whole, with the same message

    def _arguments(
        self, node: exp.Expr, name: str, args: list[exp.Expr], *, is_distinct: bool
    ) -> list[Piece]:
        stars = [each for each in args if isinstance(each, exp.Star)]
        if stars and (name != "COUNT" or is_distinct):
            self.refuse(node, f"{name} does not take *. Write a column.")
        pieces = [self._argument(each) for each in args]
        if name == "DATE_FORMAT":  # a pattern may name the zone
            pieces = list(map(self.local, pieces))
        if name in _ONE_KIND:
            self.check_kinds(node, name, *pieces)
        if name == "IF":
            self.check_kinds(node, name, *pieces[1:])
        return pieces

    def _typed(self, found: Function, text: str, pieces: list[Piece]) -> Piece:
        if found.type == "{0}":
            return Piece(text, pieces[0].find_type)
        return Piece(text, lambda: found.type) if found.type else self._asked(text)

    def _check_texts(self, node: exp.Expr, name: str, pieces: list[Piece]) -> None:
        """Refuse what Spark would make a text of, in another form than Flink."""
        for each in pieces:
            if each.type.startswith((*NO_TEXTS, "timestamp", "boolean")):
                self.refuse(node, f"{name}: expected a STRING, got {each.type.upper()}. Write a CAST.")

    def _argument(self, node: exp.Expr) -> Piece:
        return Piece("*", lambda: "bigint") if type(node) is exp.Star else self.piece(node)

    def check_count(self, node: exp.Expr, name: str, found: Function, count: int) -> None:
        """Refuse a wrong number of arguments."""
        if found.least <= count <= found.most:
            return
        wanted = str(found.least) if found.least == found.most else f"{found.least} to {found.most}"
        if found.most >= 1_000:
            wanted = f"at least {found.least}"
        self.refuse(node, f"{name} takes {wanted} arguments, got {count}.")

    def has_function(self, written: str) -> bool:
        """Return whether there is a function: one of Flink that is served, or one of CREATE FUNCTION."""
        name = written.upper()
        is_served = any(name in each for each in (self._special, FUNCTIONS, AGGREGATES, OVER_ONLY))
        return is_served or self.binder.function(written) is not None

    def check_user_function(self, node: exp.Expr, written: str, function: UserFunction) -> None:
        """Refuse a function of the user over rows that change, unless it is declared DETERMINISTIC."""
        self.check_varying(node, written, Varies.NEVER if function.is_deterministic else Varies.CALL)

    def _other_function(self, node: exp.Expr, written: str, args: list[exp.Expr], suffix: str) -> Piece:
        name = written.upper()
        own = self.binder.function(written)
        if own is not None and not suffix:
            self.check_user_function(node, written, own)
            return self._own_function(
                node, written, f"{quoted(own.name)}({', '.join(self.local_texts(args))})"
            )
        if name in REFUSED:
            self.refuse(node, f"{name} is not served: {REFUSED[name]}")
        if name in OVER_ONLY:
            self.refuse(node, f"{name} needs OVER (...).")
        if suffix and (own is not None or name in FUNCTIONS or name in self._special):
            self.refuse(node, f"FILTER and OVER are for aggregates, which {written} is not.")
        known = [
            each
            for each in (*FUNCTIONS, *AGGREGATES, *OVER_ONLY, *self._special)
            if not each.endswith(_WITH_WORDS)
        ]
        return self.refuse(
            node,
            f"the function {written} is not one of those that are served.{nearest(name, known)} "
            "docs/functions.md lists them. Others: CREATE FUNCTION ... LANGUAGE PYTHON.",
        )

    def _own_function(self, node: exp.Expr, written: str, text: str) -> Piece:
        found = self._asked(text)
        if self.binder.foreign_zone is not None and has_zone(found.type):
            self.check_zone(node, f"a TIMESTAMP of the function {written}")
        return found

    def local_texts(self, args: list[exp.Expr]) -> list[str]:
        """Return the arguments of a function of the user."""
        return [self.local(self.piece(each)).text for each in args]

    def local(self, piece: Piece) -> Piece:
        """Return a value for a function that must not see how local times travel in UTC."""
        if self.binder.foreign_zone is None or not has_zone(piece.type):
            return piece
        kind = without_zone(piece.type)
        return Piece(f"CAST({piece.text} AS {kind})", lambda: kind)

    def _extract(self, node: exp.Expr, args: list[exp.Expr]) -> Piece:
        unit = args[0].name.upper()
        if unit in EXTRACTED:
            this = self.piece(args[1])
            if this.type not in ("date", "timestamp_ntz"):
                self.refuse(
                    node, f"EXTRACT({unit}) takes a DATE or TIMESTAMP, got {this.type.upper()}. Write a CAST."
                )
            text = f"CAST({this.text} AS TIMESTAMP_NTZ)"
            return Piece(EXTRACTED[unit].format(text), lambda: "bigint")
        if unit not in EXTRACT_UNITS:
            self.refuse(node, f"EXTRACT takes {', '.join((*EXTRACT_UNITS, *EXTRACTED))}, got {unit}.")
        return self._function(node, EXTRACT_UNITS[unit], args[1:])

    def _to_unit(self, node: exp.Expr, args: list[exp.Expr]) -> Piece:
        this, unit = self.piece(args[0]), args[1].name.upper()
        if unit not in TIME_UNITS:
            self.refuse(node, f"expected one of {', '.join(TIME_UNITS)} after TO, got {unit}.")
        kind = this.type
        if kind not in ("timestamp", "timestamp_ntz", "date"):
            self.refuse(node, f"expected a time before TO, got {kind.upper()}.")
        convert = floor_to if str(node.this).upper() == "FLOOR_TO" else ceil_to
        return Piece(convert(this.text, kind, unit), lambda: kind)

    def _add_units(self, node: exp.Expr, args: list[exp.Expr]) -> Piece:
        name, unit = str(node.this).upper(), args[0].name.upper()
        if len(args) != 3 or unit not in TIME_UNITS:
            self.refuse(node, f"{name} takes one of {', '.join(TIME_UNITS)} and two values.")
        first, second = self.piece(args[1]), self.piece(args[2])
        if name == "TIMESTAMPDIFF":
            return self._difference(node, unit, first, second)
        kind = second.type
        if kind == "date" and unit in ("SECOND", "MINUTE", "HOUR"):
            self.refuse(
                node, f"TIMESTAMPADD of {unit} to a DATE is not served. Write CAST(... AS TIMESTAMP)."
            )
        if kind == "timestamp" and not self.binder.zone_is_utc:
            self.refuse(node, f"TIMESTAMPADD to a TIMESTAMP_LTZ {_NEEDS_UTC}")
        call = f"timestampadd({unit}, {first.text}, {second.text})"
        return Piece(f"CAST({call} AS {kind.upper()})", lambda: kind)

    def _difference(self, node: exp.Expr, unit: str, first: Piece, second: Piece) -> Piece:
        if not self.binder.zone_is_utc and "timestamp" in (first.type, second.type):
            self.refuse(node, f"TIMESTAMPDIFF of a TIMESTAMP_LTZ {_NEEDS_UTC}")
        if unit in ("MONTH", "QUARTER", "YEAR"):
            return Piece(months_between(first.text, second.text, unit), lambda: "int")
        # Without a zone, a day always has 24 hours.
        start, stop = (f"CAST({each.text} AS TIMESTAMP_NTZ)" for each in (first, second))
        length = "INTERVAL '7' DAY" if unit == "WEEK" else f"INTERVAL '1' {unit}"
        return Piece(f"CAST((({stop} - {start}) div {length}) AS INT)", lambda: "int")

    def _row(self, node: exp.Expr, args: list[exp.Expr]) -> Piece:
        fields = ", ".join(f"'EXPR${place}', {self.text(each)}" for place, each in enumerate(args))
        return self._asked(f"named_struct({fields})")

    def _round(self, node: exp.Expr, args: list[exp.Expr]) -> Piece:
        if len(args) not in (1, 2) or (len(args) == 2 and not str(args[1].this).isdigit()):
            self.refuse(node, "ROUND takes a number, and how many digits to keep as a literal from 0.")
        texts = ", ".join(map(self.text, args))
        one = self.piece(args[0])
        decimal = re.fullmatch(r"decimal\(\d+,(\d+)\)", one.type)
        if decimal and len(args) > 1 and int(str(args[1].this)) >= int(decimal[1]):
            return one
        return (
            Piece(f"round({texts})", one.find_type)
            if one.type == "double"
            else self._asked(f"round({texts})")
        )

    def _unix_timestamp(self, node: exp.Expr, args: list[exp.Expr]) -> Piece:
        if not args:
            self.check_varying(node, "UNIX_TIMESTAMP()", Varies.BATCH)
        pieces = [self.piece(each) for each in args]
        try:
            text = unix_timestamp(pieces, zone_is_utc=self.binder.zone_is_utc)
        except ValueError as error:
            self.refuse(node, f"UNIX_TIMESTAMP: {error}")
        return Piece(text, lambda: "bigint")

    def _json_object(self, node: exp.Expr, args: list[exp.Expr]) -> Piece:
        entries: dict[str, str] = {}
        for key, value in zip(args[1::2], args[2::2], strict=True):
            if not (isinstance(key, exp.Literal) and key.is_string):
                self.refuse(key, "JSON_OBJECT: expected a KEY in quotes.")
            if str(key.this) in entries:
                self.refuse(key, f"JSON_OBJECT: the KEY '{key.this}' comes twice.")
            entries[str(key.this)] = self._json_text(node, value)
        try:
            text = json_object(entries, keeps_nulls=str(args[0].this) == "NULL")
        except ValueError as error:
            self.refuse(node, f"JSON_OBJECT: {error}")
        return Piece(text, lambda: "string")

    def _json_array(self, node: exp.Expr, args: list[exp.Expr]) -> Piece:
        texts = [self._json_text(node, each) for each in args[1:]]
        return Piece(json_array(texts, keeps_nulls=str(args[0].this) == "NULL"), lambda: "string")

    def _json_text(self, node: exp.Expr, value: exp.Expr) -> str:
        """Return a value as JSON. A function of JSON that stands there itself makes JSON already."""
        while isinstance(value, exp.Paren):
            value = value.this
        if _makes_json(value):
            return self.text(value)
        name = value.name if isinstance(value, exp.Column) else ""
        made = any(each.alias == name and _makes_json(each.this) for each in node.root().find_all(exp.Alias))
        if (name and made) or any(map(_makes_json, value.find_all(exp.Anonymous))):
            self.refuse(
                value,
                f"{str(node.this).upper()}: Flink takes JSON that another function makes for JSON or for a "
                "text, as its plan is. Write the function here itself, or JSON_STRING of it.",
            )
        piece = self.piece(value)
        try:
            return json_text(piece.text, piece.type)
        except ValueError as error:
            self.refuse(value, f"{str(node.this).upper()}: {error}")

    _special: ClassVar[dict[str, Callable[[Any, exp.Expr, list[exp.Expr]], Piece]]] = {
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
    methods: ClassVar[dict[type, Callable[[Any, Any], Piece]]] = {
        **Values.methods,
        exp.Anonymous: _call,
        **dict.fromkeys(_NO_BRACKETS, _word),
        exp.Filter: _filter,
        exp.Window: _window,
    }


def _makes_json(node: exp.Expr) -> bool:
    return type(node) is exp.Anonymous and str(node.this).upper() in ("JSON_OBJECT", "JSON_ARRAY", "JSON")


def _distinct(pieces: list[Piece]) -> list[Piece]:
    return [Piece(f"DISTINCT {pieces[0].text}", pieces[0].find_type), *pieces[1:]]
