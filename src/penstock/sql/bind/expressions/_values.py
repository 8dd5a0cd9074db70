"""Values that are made of values: CASE, ARRAY, MAP, an element, CAST.

Runs on the driver. Invariant: a CAST to a text gives the text of Flink, or is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp

from penstock.sql.bind.expressions._quantified import Quantified
from penstock.sql.bind.expressions.base import kind_of
from penstock.sql.functions.casts import cast
from penstock.sql.functions.variants import NO_CAST, element_of
from penstock.sql.functions.zones import is_zoned
from penstock.sql.language.flink_types import FlinkType
from penstock.sql.language.parse import parse_flink_type
from penstock.sql.language.queries import CastTo
from penstock.sql.plan.expressions import Case, Expression, Literal, TypedSql
from penstock.sql.plan.types import STRING, TIMES, declared, widest

_ELEMENTS = (
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "string",
    "boolean",
    "double",
    "float",
    "decimal",
    "date",
)
"""Kinds of elements of an ARRAY whose text is that of Flink."""
NO_TEXTS = ("array", "map", "struct", "interval", "variant")


class Values(Quantified):
    """Binds values that are made of values."""

    def _case(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "ifs", "default")
        this = [self.bind(node.this)] if node.this is not None and node.this != "" else []
        ifs = [(self.bind(each.this), self.bind(each.args["true"])) for each in node.args["ifs"]]
        default = [self.bind(node.args["default"])] if node.args.get("default") else []
        results = [*(then for _, then in ifs), *default]
        if this:
            self.check_kinds(node, "CASE", *this, *(when for when, _ in ifs))
        self.check_kinds(node, "CASE", *results)
        args = [*this, *(part for pair in ifs for part in pair), *default]
        count = len(ifs)

        def text(pieces: list[TypedSql]) -> str:
            texts = [each.text for each in pieces]
            shown = f" {texts.pop(0)}" if this else ""
            whens = " ".join(f"WHEN {texts[2 * i]} THEN {texts[2 * i + 1]}" for i in range(count))
            return f"CASE{shown} {whens}{f' ELSE {texts[-1]}' if default else ''} END"

        function = Case(len(args), len(args), text, branches=count, has_operand=bool(this))
        return self.called(node, "CASE", function, args, widest([each.type for each in results]))

    def _array(self, node: exp.Expr) -> Expression:
        args = [self.bind(each) for each in node.expressions]
        self.check_kinds(node, "ARRAY", *args)
        inner = widest([each.type for each in args])
        kind = None if inner is None or not args else FlinkType("ARRAY", elements=(inner,))
        return self.call(node, "ARRAY", _listed("array"), args, kind)

    def _bracket(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "expressions", "offset", "safe")
        items = node.expressions
        name = node.this.name.upper() if type(node.this) is exp.Column else ""
        if name == "MULTISET":
            self.refuse(node, "MULTISET is not served: Spark has none. Use ARRAY[...].")
        if name == "MAP" and len(items) != 1:
            if len(items) % 2:
                self.refuse(node, "MAP[...] has as many keys as values.")
            return self.call(node, "MAP", _listed("map"), list(map(self.bind, items)))
        if len(items) != 1:
            self.refuse(node, "expected one index or key in [].")
        base, index = self.bind(node.this), self.bind(items[0])
        if base.type.name == "ARRAY":
            value = index.value if isinstance(index, Literal) else None
            is_number = value is not None or isinstance(items[0], (exp.Literal, exp.Neg))
            if is_number and not (type(value) is int and value > 0):
                self.refuse(items[0], "the index of an array is a number from 1.")
            return self.call(
                node, "[]", "get({0}, CAST({1} AS INT) - 1)", [base, index], base.type.elements[0]
            )
        if base.type.name == "VARIANT":
            return self._element_of_variant(node, base, items[0])
        if base.type.name == "MAP":
            return self.call(node, "[]", "try_element_at({0}, {1})", [base, index], base.type.elements[1])
        return self.refuse(node, f"expected an ARRAY, MAP or VARIANT before [], got {kind_of(base).upper()}.")

    def _element_of_variant(self, node: exp.Expr, base: Expression, item: exp.Expr) -> Expression:
        """Return a field or an element of a VARIANT, which is a VARIANT again."""
        is_text = bool(isinstance(item, exp.Literal) and item.args.get("is_string"))
        if not is_text and not (
            isinstance(item, exp.Literal) and str(item.this).isdigit() and int(item.this)
        ):
            self.refuse(item, "expected the name of a field in quotes, or a number from 1, as a literal.")
        key = str(item.this) if is_text else int(item.this)
        return self.call(node, "[]", lambda args: element_of(key, args[0].text), [base], base.type)

    def _cast(self, node: exp.Expr) -> Expression:
        offset = self.location.offset + node.args["start"]
        kind = declared(parse_flink_type(node.args["text"], self.location.script, offset))
        if is_zoned(kind):
            self.check_zone(node, f"a CAST to {kind.name}")
        inner = self.bind(node.this)
        if inner.type.name == "VARIANT":
            self.refuse(node, NO_CAST)
        if kind.name in ("STRING", "VARCHAR", "CHAR"):
            inner = self._as_text(node, inner)
        is_try = bool(node.args.get("is_try"))
        try:  # a type that is not served is wrong at its own offset
            cast(TypedSql("x", kind_of(inner)), kind, is_try=is_try)
        except ValueError as error:
            raise self.location.script.error(str(error), offset) from None
        return self.call(
            node,
            "TRY_CAST" if is_try else "CAST",
            lambda args: cast(args[0], kind, is_try=is_try),
            [inner],
            kind,
        )

    def _as_text(self, node: exp.Expr, inner: Expression) -> Expression:
        """Refuse a CAST to a text that would look different, and write booleans as Flink does."""
        kind = kind_of(inner)
        if inner.type.name in TIMES:
            return self._time_as_text(node, inner)
        if inner.type.name == "ARRAY" and kind_of_element(inner).startswith(_ELEMENTS):
            is_boolean = inner.type.elements[0].name == "BOOLEAN"
            return self.call(
                node, "CAST", lambda args: _array_text(args[0].text, is_boolean=is_boolean), [inner], STRING
            )
        if kind.startswith(NO_TEXTS):
            self.refuse(node, f"a CAST of {kind.upper()} to a text is not served.")
        if kind == "boolean":
            return self.call(node, "CAST", "upper(CAST({0} AS STRING))", [inner], STRING)
        return inner

    def _time_as_text(self, node: exp.Expr, inner: Expression) -> Expression:
        """Return a TIMESTAMP as a text with the digits of its type."""
        if not inner.type.args:
            self.refuse(
                node,
                "a CAST of a TIMESTAMP to a text needs the digits of the second. Write CAST(CAST(... AS "
                "TIMESTAMP(3)) AS STRING), or DATE_FORMAT(..., 'yyyy-MM-dd HH:mm:ss.SSS').",
            )
        digits = inner.type.args[0]

        def text(args: list[TypedSql]) -> str:
            found = f"CAST({args[0].text} AS STRING)"
            whole, fraction = f"left({found}, 19)", f"rpad(substring({found}, 21), {digits}, '0')"
            return f"concat({whole}, '.', {fraction})" if digits else whole

        return self.call(node, "CAST", text, [inner], STRING)

    methods: ClassVar[dict[type, Callable[[Any, Any], Expression]]] = {
        **Quantified.methods,
        exp.Case: _case,
        exp.Array: _array,
        exp.Bracket: _bracket,
        CastTo: _cast,
    }


def kind_of_element(array: Expression) -> str:
    """Return the type of the elements of an ARRAY as a simple string of Spark."""
    return kind_of(Literal("NULL", array.type.elements[0]))


def _listed(name: str) -> Callable[[list[TypedSql]], str]:
    return lambda args: f"{name}({', '.join(each.text for each in args)})"


def _array_text(text: str, *, is_boolean: bool) -> str:
    element = "upper(CAST(__e AS STRING))" if is_boolean else "CAST(__e AS STRING)"
    return f"concat('[', array_join(transform({text}, __e -> {element}), ', ', 'NULL'), ']')"
