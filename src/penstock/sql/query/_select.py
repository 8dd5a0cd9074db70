"""One SELECT: its columns, WHERE, HAVING and DISTINCT.

Runs on the driver. Invariant: every clause is translated or refused.
"""

from __future__ import annotations

from sqlglot import exp

from penstock.sql.query._groups import Groups
from penstock.sql.query.piece import quoted

_STARTS = ("this", "expressions", "from_", "joins", "where", "group", "having", "order", "limit", "distinct")


class Select(Groups):
    """Translates one SELECT."""

    def text(self) -> str:
        """Return the SELECT in Spark's SQL."""
        tree, inner = self.tree, self.inner
        inner.only(tree, *_STARTS, "with_", "hint")
        if not tree.expressions:
            inner.refuse(tree, "SELECT has no columns.")
        body = self.from_clause()
        self._grouped()
        where = tree.args.get("where")
        filtered = f" WHERE {inner.text(where.this)}" if where is not None else ""
        group = self._group_by()
        outputs = [self._output(each) for each in tree.expressions]
        having = tree.args.get("having")
        kept = f" HAVING {inner.text(having.this)}" if having is not None else ""
        distinct = self._distinct()
        tail = self.query.tail(tree, inner)
        self._note_grouping()
        return f"SELECT {distinct}{', '.join(outputs)}{body}{filtered}{group}{kept}{tail}"

    def _distinct(self) -> str:
        distinct = self.tree.args.get("distinct")
        if distinct is None:
            return ""
        self.inner.only(distinct, "expressions")
        self.inner.batch_only(self.tree, "SELECT DISTINCT", "Use a window, or the batch mode.")
        return "DISTINCT "

    def _output(self, each: exp.Expr) -> str:
        inner = self.inner
        alias = ""
        node = each
        if isinstance(each, exp.Alias):
            inner.only(each, "this", "alias")
            alias, node = quoted(each.args["alias"].name), each.this
        if isinstance(node, exp.Star):
            inner.only(node)
            if self.tree.args.get("group") is not None:
                inner.refuse(node, "SELECT * is not served with GROUP BY.")
            return "*"
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            return inner.text(node)
        name = alias or (quoted(node.name) if isinstance(node, exp.Column) else "")
        text = inner.text(node)
        if not name:
            name = f"`EXPR${[id(e) for e in self.tree.expressions].index(id(each))}`"
        return f"{text} AS {name}"
