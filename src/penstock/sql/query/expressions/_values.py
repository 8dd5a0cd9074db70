"""Values that are made of values: CASE, ARRAY, MAP, an element, CAST.

Runs on the driver. Invariant: a CAST to a text gives the text of Flink, or is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp

from penstock.sql.language.parse import parse_flink_type
from penstock.sql.query._sqlglot import CastTo
from penstock.sql.query.casts import cast
from penstock.sql.query.expressions._operators import Operators
from penstock.sql.query.piece import INTEGERS, Piece
from penstock.sql.query.zones import is_zoned

_ELEMENTS = (*INTEGERS, "string", "boolean", "double", "float", "decimal", "date")
"""Kinds of elements of an ARRAY whose text is that of Flink."""
NO_TEXTS = ("array", "map", "struct", "interval")


class Values(Operators):
    """Translates values that are made of values."""

    def _case(self, node: exp.Expr) -> Piece:
        self.only(node, "this", "ifs", "default")
        this = self.piece(node.this) if node.this is not None and node.this != "" else None
        ifs = [(self.piece(each.this), self.piece(each.args["true"])) for each in node.args["ifs"]]
        default = self.piece(node.args["default"]) if node.args.get("default") else None
        if this is not None:
            self.check_kinds(node, "CASE", this, *(when for when, _ in ifs))
        self.check_kinds(node, "CASE", *(then for _, then in ifs), *([default] if default else []))
        shown = f" {this.text}" if this is not None else ""
        whens = " ".join(f"WHEN {when.text} THEN {then.text}" for when, then in ifs)
        return self._asked(f"CASE{shown} {whens}{f' ELSE {default.text}' if default else ''} END")

    def _array(self, node: exp.Expr) -> Piece:
        pieces = [self.piece(each) for each in node.expressions]
        self.check_kinds(node, "ARRAY", *pieces)
        return self._asked(f"array({', '.join(each.text for each in pieces)})")

    def _bracket(self, node: exp.Expr) -> Piece:
        self.only(node, "this", "expressions", "offset", "safe")
        items = node.expressions
        if type(node.this) is exp.Column and node.this.name.upper() == "MULTISET":
            self.refuse(node, "MULTISET is not served: Spark has none. Use ARRAY[...].")
        if type(node.this) is exp.Column and node.this.name.upper() == "MAP" and len(items) != 1:
            if len(items) % 2:
                self.refuse(node, "MAP[...] has as many keys as values.")
            return self._asked(f"map({', '.join(map(self.text, items))})")
        if len(items) != 1:
            self.refuse(node, "expected one index or key in [].")
        base, index = self.piece(node.this), self.piece(items[0])
        if base.type.startswith("array"):
            if isinstance(items[0], (exp.Literal, exp.Neg)) and str(items[0].this).strip("0") in ("", "-"):
                self.refuse(items[0], "the index of an array is a number from 1.")
            if isinstance(items[0], (exp.Literal, exp.Neg)) and not str(items[0].this).isdigit():
                self.refuse(items[0], "the index of an array is a number from 1.")
            return self._asked(f"get({base.text}, CAST({index.text} AS INT) - 1)")
        if base.type.startswith("map"):
            return self._asked(f"try_element_at({base.text}, {index.text})")
        return self.refuse(node, f"expected an ARRAY or MAP before [], got {base.type.upper()}.")

    def _cast(self, node: exp.Expr) -> Piece:
        offset = self.script.offset + node.args["start"]
        kind = parse_flink_type(node.args["text"], self.script.source, offset)
        if is_zoned(kind):
            self.check_zone(node, f"a CAST to {kind.name}")
        inner = self.piece(node.this)
        if kind.name in ("STRING", "VARCHAR", "CHAR"):
            inner = self._as_text(node, inner)
        try:
            text = cast(inner, kind, is_try=bool(node.args.get("is_try")))
        except ValueError as error:
            raise self.script.source.error(str(error), offset) from None
        return self._asked(text)

    def _as_text(self, node: exp.Expr, inner: Piece) -> Piece:
        """Refuse a CAST to a text that would look different, and write booleans as Flink does."""
        if inner.type.startswith("timestamp"):
            return self._time_as_text(node, inner)
        element = re.fullmatch(r"array<(\w+(?:\(\d+,\d+\))?)>", inner.type)
        if element and element[1].startswith(_ELEMENTS):
            return Piece(_array_text(inner.text, element[1]), lambda: "string")
        if inner.type.startswith(NO_TEXTS):
            self.refuse(node, f"a CAST of {inner.type.upper()} to a text is not served.")
        if inner.type == "boolean":
            return Piece(f"upper(CAST({inner.text} AS STRING))", lambda: "string")
        return inner

    def _time_as_text(self, node: exp.Expr, inner: Piece) -> Piece:
        """Return a TIMESTAMP as a text. Spark does not know how many digits the second of a column has."""
        this = node.this
        while isinstance(this, exp.Paren):
            this = this.this
        found = re.match(r"TIMESTAMP(?:_LTZ)?\s*(?:\((\d)\))?", str(this.args.get("text", "")).upper())
        if not isinstance(this, CastTo) or found is None:
            self.refuse(
                node,
                "a CAST of a TIMESTAMP to a text needs the digits of the second. Write CAST(CAST(... AS "
                "TIMESTAMP(3)) AS STRING), or DATE_FORMAT(..., 'yyyy-MM-dd HH:mm:ss.SSS').",
            )
        digits = int(found[1] or 6)
        text = f"CAST({inner.text} AS STRING)"
        whole, fraction = f"left({text}, 19)", f"rpad(substring({text}, 21), {digits}, '0')"
        return Piece(f"concat({whole}, '.', {fraction})" if digits else whole, lambda: "string")

    methods: ClassVar[dict[type, Callable[[Any, Any], Piece]]] = {
        **Operators.methods,
        exp.Case: _case,
        exp.Array: _array,
        exp.Bracket: _bracket,
        CastTo: _cast,
    }


def _array_text(text: str, kind: str) -> str:
    element = "upper(CAST(__e AS STRING))" if kind == "boolean" else "CAST(__e AS STRING)"
    return f"concat('[', array_join(transform({text}, __e -> {element}), ', ', 'NULL'), ']')"
