"""Queries: SELECT, VALUES, set operations, WITH, and the names of tables.

Runs on the driver. Invariant: a name means a query of WITH first, then a table or view.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from penstock.sql.language.parse import parse_option_hint
from penstock.sql.language.source import nearest
from penstock.sql.query._select import Select
from penstock.sql.query._sqlglot import Hint, place_of
from penstock.sql.query.expressions.expressions import Expressions
from penstock.sql.query.piece import Binder, Feature, Script, column_list, quoted

_HINTS_LEFT_OUT = ("BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP", "LOOKUP")
_SET_WORDS = {exp.Union: "UNION", exp.Except: "EXCEPT", exp.Intersect: "INTERSECT"}


class Query:
    """Translates one query, with its subqueries."""

    def __init__(self, script: Script, binder: Binder, hints: list[Hint]) -> None:
        self.script = script
        self.binder = binder
        self.features: list[Feature] = []
        self.changes_rows: Feature | None = None
        self._hints = hints
        self._used: set[Hint] = set()
        self._named_queries: list[str] = []

    def query(self, tree: exp.Expr, names: frozenset[str]) -> str:
        """Return SELECT, VALUES, set operations or a query in brackets; `names` are those of WITH."""
        expressions = self.expressions(names)
        if isinstance(tree, exp.Subquery):
            expressions.only(tree, "this", "order", "limit", "with_")
            inner = self.query(tree.this, names)
            return f"({inner}){self.tail(tree, expressions)}"
        if type(tree) in _SET_WORDS:
            return self._set_operation(tree, names)
        if isinstance(tree, exp.Values):
            return self.values(tree, expressions)
        if type(tree) is exp.Select:
            return self._with(tree, names)
        return expressions.refuse(tree, f"{type(tree).__name__.upper()} is not served here.")

    def no_subquery(self, tree: exp.Expr) -> str:
        """Refuse a query in an expression of a table."""
        place = self.script.offset + (place_of(tree) or 0)
        raise self.script.source.error("a query is not served here.", place)

    def expressions(self, names: frozenset[str]) -> Expressions:
        """Return what translates the expressions of a SELECT."""
        found = Expressions(self.script, self.binder, lambda tree: self.query(tree, names), self.features)
        found.with_text = lambda: f"WITH {', '.join(self._named_queries)} " if self._named_queries else ""
        return found

    def _with(self, tree: exp.Expr, names: frozenset[str]) -> str:
        clause = tree.args.get("with_")
        if clause is None:
            return Select(self, tree, names).text()
        expressions = self.expressions(names)
        expressions.only(clause, "expressions")
        known, first = names, len(self._named_queries)
        for each in clause.expressions:
            expressions.only(each, "this", "alias")
            expressions.only(each.args["alias"], "this", "columns")
            name = each.args["alias"].this.name
            columns = column_list(each.args["alias"])
            self._named_queries.append(f"{quoted(name)}{columns} AS ({self.query(each.this, known)})")
            known = known | {name.lower()}
        parts = self._named_queries[first:]
        return f"WITH {', '.join(parts)} {Select(self, tree, known).text()}"

    def _set_operation(self, tree: Any, names: frozenset[str]) -> str:
        expressions = self.expressions(names)
        expressions.only(tree, "this", "expression", "distinct", "order", "limit", "with_")
        if tree.args.get("with_") is not None:
            expressions.refuse(tree, "WITH before a set operation is not served yet. Use a view.")
        word = _SET_WORDS[type(tree)]
        if word != "UNION":
            expressions.batch_only(tree, word, "Use a JOIN.")
        elif tree.args.get("distinct"):
            expressions.batch_only(tree, "UNION without ALL", "Use UNION ALL.")
        left, right = self.query(tree.this, names), self.query(tree.expression, names)
        every = "" if tree.args.get("distinct") else " ALL"
        return f"({left}) {word}{every} ({right}){self.tail(tree, expressions)}"

    def values(self, tree: exp.Expr, expressions: Expressions) -> str:
        """Return the rows of VALUES as a query."""
        expressions.only(tree, "expressions", "alias")
        rows = []
        for row in tree.expressions:
            cells = row.expressions if isinstance(row, exp.Tuple) else [row]
            rows.append(f"({', '.join(map(expressions.text, cells))})")
        names = ", ".join(f"`EXPR${place}`" for place in range(_width(tree)))
        return f"SELECT * FROM VALUES {', '.join(rows)} AS `_`({names})"

    def tail(self, tree: exp.Expr, expressions: Expressions) -> str:
        """Return ORDER BY and LIMIT."""
        text = ""
        if tree.args.get("order") is not None:
            expressions.batch_only(
                tree.args["order"], "ORDER BY", "The rows of a stream have no end. Leave it out."
            )
            text = f" {expressions.order(tree.args['order'])}"
        limit = tree.args.get("limit")
        if limit is not None:
            options = limit.args.get("limit_options")
            if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
                expressions.refuse(limit, "FETCH takes a number of ROWS ONLY.")
            count = limit.args.get("count") if isinstance(limit, exp.Fetch) else limit.expression
            if not isinstance(count, exp.Literal) or not str(count.this).isdigit():
                expressions.refuse(limit, "expected a number of rows.")
            text += f" LIMIT {count.this}"
        return text

    def table_name(self, tree: exp.Expr, names: frozenset[str], expressions: Expressions) -> str:
        """Return Spark's name of a table in FROM."""
        parts = tuple(
            tree.args[key].name for key in ("catalog", "db", "this") if tree.args.get(key) is not None
        )
        if len(parts) == 1 and parts[0].lower() in names:
            return quoted(parts[0])
        options = self._options_of(tree)
        found = self.binder.table(parts, options)
        if found is None:
            known = [*self.binder.tables(), *names]
            expressions.refuse(
                tree,
                f"there is no table or view '{'.'.join(parts)}'.{nearest('.'.join(parts), known)} SHOW "
                "TABLES lists them.",
            )
        return found

    def _options_of(self, tree: exp.Expr) -> Any:
        stop = tree.this.meta["end"] + 1
        for hint in self._hints:
            if hint.before == stop and _hint_name(hint).startswith("OPTIONS"):
                self._used.add(hint)
                return parse_option_hint(hint.text, self.script.source, self.script.offset + hint.start)
        return ()

    def check_hints(self) -> None:
        """Refuse hints that nothing has used.

        Raises:
            SqlError: the hint is not served, or stands at the wrong place.
        """
        for hint in self._hints:
            name = _hint_name(hint).partition("(")[0].strip()
            if hint in self._used or name in _HINTS_LEFT_OUT:
                continue
            message = f"the hint {name} is not served. Leave it out."
            if name == "OPTIONS":
                message = "OPTIONS has to stand directly behind the name of a table."
            raise self.script.source.error(message, self.script.offset + hint.start)


def _hint_name(hint: Hint) -> str:
    return hint.text[3:-2].strip().upper()


def _width(tree: exp.Expr) -> int:
    first = tree.expressions[0]
    return len(first.expressions) if isinstance(first, exp.Tuple) else 1
