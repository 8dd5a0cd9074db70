"""FROM: tables, queries, joins, UNNEST, and windows as table functions.

Runs on the driver. Invariant: a join of a kind that Spark reads otherwise is refused.
"""

from __future__ import annotations

from sqlglot import exp

from penstock.sql.query._parts import Parts, Window
from penstock.sql.query._windows import COLUMNS, WINDOW, is_window_function, parts_of_window, window_call
from penstock.sql.query.piece import column_list, quoted


class Relations(Parts):
    """Translates FROM."""

    def from_clause(self) -> str:
        """Return FROM with its joins, and let expressions know it."""
        clause = self.tree.args.get("from_")
        if clause is None:
            self.inner.from_text = ""
            return ""
        text = self._relation(clause.this)
        self._set_from(text)
        for join in self.tree.args.get("joins") or ():
            text = self._join(text, join)
            self._set_from(text)
        return f" FROM {text}"

    def _set_from(self, text: str) -> None:
        self.inner.from_text = f"FROM {text}"

    def _relation(self, tree: exp.Expr) -> str:
        inner = self.inner
        if is_window_function(tree):
            return self._window_table(tree)
        if isinstance(tree, exp.Table):
            inner.only(tree, "this", "db", "catalog", "alias", "version", "joins")
            if tree.args.get("version") is not None:
                inner.refuse(
                    tree,
                    "FOR SYSTEM_TIME AS OF is not served yet. Join on the key and a condition on the times.",
                )
            if type(tree.this) is exp.Anonymous:
                inner.refuse(tree, f"the table function {tree.this.this} is not served.")
            name = self.query.table_name(tree, self.names, inner)
            alias = tree.args.get("alias")
            text = f"{name} AS {_alias(alias) if alias is not None else quoted(tree.this.name)}"
        elif isinstance(tree, exp.Subquery):
            inner.only(tree, "this", "alias", "joins")
            text = f"({self.query.query(tree.this, self.names)}){_as(tree.args.get('alias'))}"
        elif isinstance(tree, exp.Values):
            values = self.query.values(tree, inner)
            text = f"({values}){_as(tree.args.get('alias'))}"
        else:
            return inner.refuse(tree, f"{type(tree).__name__.upper()} is not served in FROM.")
        for join in tree.args.get("joins") or ():
            text = self._join(text, join)
        return text

    def _join(self, left: str, join: exp.Expr) -> str:
        inner = self.inner
        inner.only(join, "this", "on", "using", "side", "kind", "method")
        side, kind = str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper()
        method = str(join.args.get("method") or "").upper()
        if kind not in ("", "INNER", "OUTER", "CROSS") or method not in ("", "NATURAL"):
            inner.refuse(join, f"{' '.join(filter(None, (method, side, kind)))} JOIN is not served.")
        if isinstance(join.this, exp.Unnest):
            return self._unnest(left, join, side)
        if isinstance(join.this, exp.Lateral):
            inner.refuse(join, "LATERAL is not served yet. UNNEST is.")
        right = self._relation(join.this)
        on, using = join.args.get("on"), join.args.get("using")
        if on is None and using is None and not method and side:
            inner.refuse(join, f"a {side} JOIN needs ON or USING.")
        if on is None and using is None and not method:
            return f"{left} CROSS JOIN {right}"
        words = " ".join(filter(None, (method, side or "INNER", "OUTER" if side else "", "JOIN")))
        if using is not None:
            return f"{left} {words} {right} USING ({', '.join(quoted(each.name) for each in using)})"
        if on is None:
            return f"{left} {words} {right}"
        self._set_from(f"{left} CROSS JOIN {right}")
        return f"{left} {words} {right} ON {inner.text(on)}"

    def _unnest(self, left: str, join: exp.Expr, side: str) -> str:
        inner, unnest = self.inner, join.this
        inner.only(unnest, "expressions", "alias", "offset")
        on = join.args.get("on")
        if len(unnest.expressions) != 1 or unnest.args.get("offset"):
            inner.refuse(unnest, "UNNEST takes one array or map. WITH ORDINALITY is not served yet.")
        if side not in ("", "LEFT") or not (on is None or (isinstance(on, exp.Boolean) and on.this)):
            inner.refuse(unnest, "UNNEST is served with CROSS JOIN, and with LEFT JOIN ... ON TRUE.")
        piece = inner.piece(unnest.expressions[0])
        name = "inline" if piece.type.startswith("array<struct<") else "explode"
        if not piece.type.startswith(("array", "map")):
            inner.refuse(unnest, f"UNNEST takes an ARRAY or a MAP, got {piece.type.upper()}.")
        alias = unnest.args.get("alias")
        words = "LEFT JOIN" if side else "CROSS JOIN"
        condition = " ON TRUE" if side else ""
        return f"{left} {words} LATERAL {name}({piece.text}){_as(alias)}{condition}"

    def _window_table(self, tree: exp.Expr) -> str:
        inner = self.inner
        inner.only(tree, "this", "alias", "joins")
        call = window_call(inner, tree.this)
        table = self.query.table_name(call.table, self.names, inner)
        rows = f"(SELECT *, {call.text} AS `{WINDOW}` FROM {table})"
        if call.kind == "SESSION" and self.tree.args.get("group") is None:
            inner.refuse(tree.this, "SESSION is served with GROUP BY window_start, window_end only.")
        self.window = Window(call.kind, f"`{WINDOW}`", call.partition)
        grouped = self.tree.args.get("group") is not None
        if grouped and self.tree.args.get("joins"):
            inner.refuse(tree.this, "a JOIN of a window in the same SELECT is not served. Use a view.")
        if not grouped:
            parts = ", ".join(
                f"{text} AS {name}"
                for name, text in zip(COLUMNS, parts_of_window(f"`{WINDOW}`"), strict=True)
            )
            rows = f"(SELECT * EXCEPT (`{WINDOW}`), {parts} FROM {rows})"
        return f"{rows} AS {_alias(tree.args['alias']) if tree.args.get('alias') else '`_window`'}"


def _alias(alias: exp.Expr) -> str:
    return f"{quoted(alias.this.name)}{column_list(alias)}"


def _as(alias: exp.Expr | None) -> str:
    return "" if alias is None or alias.this is None else f" AS {_alias(alias)}"
