"""Translate Flink's expressions into Spark's.

Runs on the driver. Invariant: each kind of node has a method that knows all of its parts. Any other node,
and any other part of a node, is refused with its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp

from penstock.sql.query.expressions._calls import Calls
from penstock.sql.query.piece import Piece, quoted
from penstock.sql.query.scope import Scope

_BARE_NAMES = {"LOCALTIMESTAMP", "CURRENT_ROW_TIMESTAMP", "LOCALTIME"}


class Expressions(Calls):
    """Translates the expressions of one SELECT."""

    def _column(self, node: exp.Expr) -> Piece:
        self.only(node, "this", "table", "db", "catalog")
        if isinstance(node.this, exp.Star):
            return self._asked(f"{quoted(node.args['table'].name)}.*")
        parts = [node.args[key].name for key in ("catalog", "db", "table", "this") if node.args.get(key)]
        if len(parts) == 1 and parts[0].upper() in _BARE_NAMES and not node.this.quoted:
            return self._function(node, parts[0].upper(), [])
        if len(parts) <= 2 and parts[-1].lower() in self.window_columns:
            return self._asked(self.window_columns[parts[-1].lower()])
        if self.scope is not None:
            return self._scoped(node, self.scope, parts)
        return self._asked(".".join(map(quoted, parts)))

    def _scoped(self, node: exp.Expr, scope: Scope, parts: list[str]) -> Piece:
        try:
            found = scope.find(parts)
        except ValueError as error:
            self.refuse(node, str(error))
        if found is None:
            return self._asked(".".join(map(quoted, parts)))
        entry, fields = found
        if fields:
            return self._asked(".".join([entry.text, *map(quoted, fields)]))
        return Piece(entry.text, lambda: entry.type)

    methods: ClassVar[dict[type, Callable[[Any, Any], Piece]]] = {**Calls.methods, exp.Column: _column}
