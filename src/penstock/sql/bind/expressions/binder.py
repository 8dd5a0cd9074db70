"""Bind Flink's expressions: names of columns, and everything that is made of them.

Runs on the driver. Invariant: each kind of node has a method that knows all of its parts. Any other node,
and any other part of a node, is refused with its line and column.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp

from penstock.sql.bind.expressions._calls import Calls
from penstock.sql.language.source import nearest
from penstock.sql.plan.expressions import Expression

_BARE_NAMES = {"LOCALTIMESTAMP", "CURRENT_ROW_TIMESTAMP", "LOCALTIME"}


class ExpressionBinder(Calls):
    """Binds the expressions of one SELECT."""

    def _column(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "table", "db", "catalog")
        if isinstance(node.this, exp.Star):
            self.refuse(node, "a star stands in SELECT only.")
        parts = [node.args[key].name for key in ("catalog", "db", "table", "this") if node.args.get(key)]
        try:
            found = self.scope.find(parts)
        except ValueError as error:
            self.refuse(node, str(error))
        if found is None and len(parts) == 1 and parts[0].upper() in _BARE_NAMES and not node.this.quoted:
            return self.function(node, parts[0].upper(), [])
        if found is None:
            self.refuse(node, self._unknown_column(parts))
        column, fields = found
        value: Expression = column.at(self.location.of(node))
        for name in fields:
            value = self.field(node, value, name)
        return value

    def _unknown_column(self, parts: list[str]) -> str:
        name = ".".join(parts)
        if len(parts) > 1 and parts[0].lower() not in map(str.lower, self.scope.aliases):
            known = ", ".join(self.scope.aliases) or "none"
            return f"there is no column '{name}', and FROM has no table '{parts[0]}'. Its tables are {known}."
        known_columns = [each.name for each in self.scope.entries]
        shown = ", ".join(dict.fromkeys(known_columns)) or "none"
        return f"there is no column '{name}'.{nearest(parts[-1], known_columns)} FROM has {shown}."

    methods: ClassVar[dict[type, Callable[[Any, Any], Expression]]] = {**Calls.methods, exp.Column: _column}
