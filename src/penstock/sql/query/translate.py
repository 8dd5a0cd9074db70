"""Translate a query of Flink's SQL into one of Spark's.

Runs on the driver. Invariant: every clause of a SELECT is translated or refused; none is left out. Parts that
Spark cannot stream are listed in the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from penstock.sql.language.parse import parse_option_hint
from penstock.sql.language.source import Source, nearest
from penstock.sql.language.statements import Fragment
from penstock.sql.query._expressions import Expressions
from penstock.sql.query._functions import AGGREGATES
from penstock.sql.query._sqlglot import Hint, place_of, read_expression, read_query, without_hints
from penstock.sql.query._windows import (
    COLUMNS,
    WINDOW,
    group_window,
    interval_ms,
    is_window_function,
    window_call,
)
from penstock.sql.query.piece import Binder, Feature, Piece, Script, Translated, quoted

_STARTS = ("this", "expressions", "from_", "joins", "where", "group", "having", "order", "limit", "distinct")
_HINTS_LEFT_OUT = ("BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP", "LOOKUP")
_SET_GROUPS: dict[type, str] = {exp.GroupingSets: "GROUPING SETS", exp.Cube: "CUBE", exp.Rollup: "ROLLUP"}
_SET_WORDS = {exp.Union: "UNION", exp.Except: "EXCEPT", exp.Intersect: "INTERSECT"}


@dataclass
class _Window:
    """The window of a SELECT: Spark's window, its text in GROUP BY, and the columns that mean its parts."""

    kind: str = ""
    group_text: str = ""
    partition: tuple[str, ...] = ()


def translate_query(fragment: Fragment, source: Source, binder: Binder) -> Translated:
    """Return a query in Spark's SQL.

    Raises:
        SqlError: the query cannot be read, names an unknown table, or has a part that is not served.
    """
    text, hints = without_hints(fragment.text)
    tree = read_query(text, source, fragment.offset)
    query = _Query(Script(source, fragment.offset), binder, hints)
    try:
        sql = query.query(tree, frozenset())
        query.check_hints()
    except RecursionError:
        raise source.error(
            "the query is nested too deeply. Divide it, e.g. with views.", fragment.offset
        ) from None
    return Translated(sql, tuple(query.features), query.changes_rows)


def translate_expression(fragment: Fragment, source: Source, binder: Binder, from_text: str) -> Piece:
    """Return an expression over the columns of a table.

    Args:
        fragment: its text.
        source: the script, for messages.
        binder: the functions of the session.
        from_text: `FROM ...` of Spark's SQL, with the columns that it uses.

    Raises:
        SqlError: see `translate_query`.
    """
    tree = read_expression(fragment.text, source, fragment.offset)
    script = Script(source, fragment.offset)
    query = _Query(script, binder, [])
    expressions = Expressions(script, binder, query.no_subquery, query.features)
    expressions.from_text = from_text
    return expressions.piece(tree)


def watermark_delay_ms(fragment: Fragment, column: str, source: Source) -> int:
    """Return the delay of `column` or `column - INTERVAL ...`.

    Raises:
        SqlError: the expression has another form, which Spark cannot follow.
    """
    tree = read_expression(fragment.text, source, fragment.offset)
    delay: int | None = None
    if isinstance(tree, exp.Column) and tree.name == column:
        delay = 0
    elif isinstance(tree, exp.Sub) and isinstance(tree.this, exp.Column) and tree.this.name == column:
        delay = interval_ms(tree.expression)
    if delay is None:
        raise source.error(
            f"expected `{column}` or `{column} - INTERVAL '5' SECOND` for the watermark, because Spark's "
            "watermark is the newest time less a fixed delay.",
            fragment.offset,
        )
    return delay


class _Query:
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
        expressions = self._expressions(names)
        if isinstance(tree, exp.Subquery):
            expressions.only(tree, "this", "order", "limit", "with_")
            inner = self.query(tree.this, names)
            return f"({inner}){self._tail(tree, expressions)}"
        if type(tree) in _SET_WORDS:
            return self._set_operation(tree, names)
        if isinstance(tree, exp.Values):
            return self._values(tree, expressions)
        if type(tree) is exp.Select:
            return self._with(tree, names)
        return expressions.refuse(tree, f"{type(tree).__name__.upper()} is not served here.")

    def no_subquery(self, tree: exp.Expr) -> str:
        """Refuse a query in an expression of a table."""
        place = self.script.offset + (place_of(tree) or 0)
        raise self.script.source.error("a query is not served here.", place)

    def _expressions(self, names: frozenset[str]) -> Expressions:
        found = Expressions(self.script, self.binder, lambda tree: self.query(tree, names), self.features)
        found.with_text = lambda: f"WITH {', '.join(self._named_queries)} " if self._named_queries else ""
        return found

    def _with(self, tree: exp.Expr, names: frozenset[str]) -> str:
        clause = tree.args.get("with_")
        if clause is None:
            return _Select(self, tree, names).text()
        expressions = self._expressions(names)
        expressions.only(clause, "expressions")
        known, first = names, len(self._named_queries)
        for each in clause.expressions:
            expressions.only(each, "this", "alias")
            expressions.only(each.args["alias"], "this", "columns")
            name = each.args["alias"].this.name
            columns = _column_list(each.args["alias"])
            self._named_queries.append(f"{quoted(name)}{columns} AS ({self.query(each.this, known)})")
            known = known | {name.lower()}
        parts = self._named_queries[first:]
        return f"WITH {', '.join(parts)} {_Select(self, tree, known).text()}"

    def _set_operation(self, tree: Any, names: frozenset[str]) -> str:
        expressions = self._expressions(names)
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
        return f"({left}) {word}{every} ({right}){self._tail(tree, expressions)}"

    def _values(self, tree: exp.Expr, expressions: Expressions) -> str:
        expressions.only(tree, "expressions", "alias")
        rows = []
        for row in tree.expressions:
            cells = row.expressions if isinstance(row, exp.Tuple) else [row]
            rows.append(f"({', '.join(map(expressions.text, cells))})")
        names = ", ".join(f"`EXPR${place}`" for place in range(_width(tree)))
        return f"SELECT * FROM VALUES {', '.join(rows)} AS `_`({names})"

    def _tail(self, tree: exp.Expr, expressions: Expressions) -> str:
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


class _Select:
    """Translates one SELECT."""

    def __init__(self, query: _Query, tree: exp.Expr, names: frozenset[str]) -> None:
        self._query = query
        self._tree = tree
        self._names = names
        self._window: _Window | None = None
        self._in: Expressions = query._expressions(names)  # noqa: SLF001 - of this module

    def text(self) -> str:
        """Return the SELECT in Spark's SQL."""
        tree, inner = self._tree, self._in
        inner.only(tree, *_STARTS, "with_", "hint")
        if not tree.expressions:
            inner.refuse(tree, "SELECT has no columns.")
        body = self._from()
        self._grouped()
        where = tree.args.get("where")
        filtered = f" WHERE {inner.text(where.this)}" if where is not None else ""
        group = self._group_by()
        outputs = [self._output(each) for each in tree.expressions]
        having = tree.args.get("having")
        kept = f" HAVING {inner.text(having.this)}" if having is not None else ""
        distinct = self._distinct()
        tail = self._query._tail(tree, inner)  # noqa: SLF001 - of this module
        self._note_grouping()
        return f"SELECT {distinct}{', '.join(outputs)}{body}{filtered}{group}{kept}{tail}"

    def _distinct(self) -> str:
        distinct = self._tree.args.get("distinct")
        if distinct is None:
            return ""
        self._in.only(distinct, "expressions")
        self._in.batch_only(self._tree, "SELECT DISTINCT", "Use a window, or the batch mode.")
        return "DISTINCT "

    # ---- FROM

    def _from(self) -> str:
        clause = self._tree.args.get("from_")
        if clause is None:
            self._in.from_text = ""
            return ""
        text = self._relation(clause.this)
        self._set_from(text)
        for join in self._tree.args.get("joins") or ():
            text = self._join(text, join)
            self._set_from(text)
        return f" FROM {text}"

    def _set_from(self, text: str) -> None:
        self._in.from_text = f"FROM {text}"

    def _relation(self, tree: exp.Expr) -> str:
        inner = self._in
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
            name = self._query.table_name(tree, self._names, inner)
            alias = tree.args.get("alias")
            text = f"{name} AS {_alias(alias) if alias is not None else quoted(tree.this.name)}"
        elif isinstance(tree, exp.Subquery):
            inner.only(tree, "this", "alias", "joins")
            text = f"({self._query.query(tree.this, self._names)}){_as(tree.args.get('alias'))}"
        elif isinstance(tree, exp.Values):
            values = self._query._values(tree, inner)  # noqa: SLF001 - of this module
            text = f"({values}){_as(tree.args.get('alias'))}"
        else:
            return inner.refuse(tree, f"{type(tree).__name__.upper()} is not served in FROM.")
        for join in tree.args.get("joins") or ():
            text = self._join(text, join)
        return text

    def _join(self, left: str, join: exp.Expr) -> str:
        inner = self._in
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
        inner, unnest = self._in, join.this
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

    # ---- windows and groups

    def _window_table(self, tree: exp.Expr) -> str:
        inner = self._in
        inner.only(tree, "this", "alias", "joins")
        call = window_call(inner, tree.this)
        table = self._query.table_name(call.table, self._names, inner)
        rows = f"(SELECT *, {call.text} AS `{WINDOW}` FROM {table})"
        if call.kind == "SESSION" and self._tree.args.get("group") is None:
            inner.refuse(tree.this, "SESSION is served with GROUP BY window_start, window_end only.")
        self._window = _Window(call.kind, f"`{WINDOW}`", call.partition)
        grouped = self._tree.args.get("group") is not None
        if grouped and self._tree.args.get("joins"):
            inner.refuse(tree.this, "a JOIN of a window in the same SELECT is not served. Use a view.")
        if not grouped:
            parts = ", ".join(
                f"{text} AS {name}" for name, text in zip(COLUMNS, _parts(f"`{WINDOW}`"), strict=True)
            )
            rows = f"(SELECT * EXCEPT (`{WINDOW}`), {parts} FROM {rows})"
        return f"{rows} AS {_alias(tree.args['alias']) if tree.args.get('alias') else '`_window`'}"

    def _grouped(self) -> None:
        """Replace the columns of a window by parts of Spark's window."""
        group = self._tree.args.get("group")
        if group is None:
            return
        for each in group.expressions:
            if type(each) is exp.Anonymous and str(each.this).upper() in (
                "TUMBLE",
                "HOP",
                "SESSION",
                "CUMULATE",
            ):
                kind, text, name = group_window(self._in, each)
                self._window = _Window(kind, text)
                self._in.replaced[id(each)] = text
                self._replace_group_functions(kind, name, each)
        if self._window is not None and self._window.group_text == f"`{WINDOW}`":
            self._in.window_columns = dict(zip(COLUMNS, _parts(f"`{WINDOW}`"), strict=True))

    def _replace_group_functions(self, kind: str, name: str, window: exp.Expr) -> None:
        lengths = [interval_ms(each) for each in window.expressions[1:]]
        start, stop, last = _parts(name)
        texts = {f"{kind}_START": start, f"{kind}_END": stop, f"{kind}_ROWTIME": last}
        for node in self._tree.find_all(exp.Anonymous):
            word = str(node.this).upper()
            if word in texts and node.find_ancestor(exp.Select) is self._tree:
                if [interval_ms(each) for each in node.expressions[1:]] != lengths:
                    self._in.refuse(node, f"{word} has other intervals than the {kind} in GROUP BY.")
                self._in.replaced[id(node)] = texts[word]

    def _group_by(self) -> str:
        group = self._tree.args.get("group")
        if group is None:
            return ""
        self._in.only(group, "expressions")
        items = []
        windows = set()
        for each in group.expressions:
            if self._window is not None and isinstance(each, exp.Column) and each.name.lower() in COLUMNS:
                windows.add(each.name.lower())
            elif type(each) in _SET_GROUPS:
                items.append(self._sets(each))
            else:
                items.append(self._group_item(each))
        if windows:
            if not {"window_start", "window_end"} <= windows and self._is_table_window():
                self._in.refuse(group, "GROUP BY needs both window_start and window_end.")
            self._check_session(items)
            items.insert(0, self._window.group_text if self._window else "")
        return f" GROUP BY {', '.join(items)}"

    def _is_table_window(self) -> bool:
        return self._window is not None and self._window.group_text == f"`{WINDOW}`"

    def _check_session(self, items: list[str]) -> None:
        window = self._window
        if window is None or window.kind != "SESSION":
            return
        if {quoted(each).lower() for each in window.partition} != {
            item.split(".")[-1].lower() for item in items
        }:
            self._in.refuse(
                self._tree.args["group"],
                "the columns of PARTITION BY in SESSION and those of GROUP BY have to be the same, because "
                "Spark builds sessions of the groups.",
            )

    def _group_item(self, each: exp.Expr) -> str:
        if isinstance(each, exp.Literal):
            self._in.refuse(each, "expected a column, got a literal. Write the column itself.")
        return self._in.text(each)

    def _sets(self, node: exp.Expr) -> str:
        self._in.only(node, "expressions")

        def one(item: exp.Expr) -> str:
            inner = (
                item.expressions
                if isinstance(item, exp.Tuple)
                else [item.this if isinstance(item, exp.Paren) else item]
            )
            columns = [
                self._window.group_text
                if self._window is not None and isinstance(each, exp.Column) and each.name.lower() in COLUMNS
                else self._in.text(each)
                for each in inner
            ]
            return f"({', '.join(dict.fromkeys(columns))})"

        items = ", ".join(one(each) for each in node.expressions)
        return f"{_SET_GROUPS[type(node)]} ({items})"

    def _note_grouping(self) -> None:
        tree = self._tree
        group = tree.args.get("group")
        aggregated = group is not None or any(
            str(node.this).upper() in AGGREGATES
            and node.find_ancestor(exp.Select) is tree
            and not isinstance(node.parent, exp.Window)
            and not (isinstance(node.parent, exp.Filter) and isinstance(node.parent.parent, exp.Window))
            for node in tree.find_all(exp.Anonymous)
        )
        is_windowed = self._window is not None and group is not None
        if aggregated and not is_windowed and self._query.changes_rows is None:
            place = self._query.script.offset + (place_of(group if group is not None else tree) or 0)
            self._query.changes_rows = Feature(
                "GROUP BY without a window",
                "Group by a window (TUMBLE, HOP or SESSION) too, or read a bounded table in batch mode: SET "
                "'execution.runtime-mode' = 'batch'.",
                place,
            )

    # ---- outputs

    def _output(self, each: exp.Expr) -> str:
        inner = self._in
        alias = ""
        node = each
        if isinstance(each, exp.Alias):
            inner.only(each, "this", "alias")
            alias, node = quoted(each.args["alias"].name), each.this
        if isinstance(node, exp.Star):
            inner.only(node)
            if self._tree.args.get("group") is not None:
                inner.refuse(node, "SELECT * is not served with GROUP BY.")
            return "*"
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            return inner.text(node)
        name = alias or (quoted(node.name) if isinstance(node, exp.Column) else "")
        text = inner.text(node)
        if not name:
            name = f"`EXPR${[id(e) for e in self._tree.expressions].index(id(each))}`"
        return f"{text} AS {name}"


def _hint_name(hint: Hint) -> str:
    return hint.text[3:-2].strip().upper()


def _parts(window: str) -> tuple[str, str, str]:
    """Return start, end and time of a window. Flink's start and end are TIMESTAMP without a zone.

    Spark's own `window_time` is a microsecond before the end, Flink's is a millisecond before it.
    """
    start, stop = (f"CAST({window}.{side} AS TIMESTAMP_NTZ)" for side in ("start", "end"))
    return start, stop, f"({window}.end - INTERVAL '0.001' SECOND)"


def _width(tree: exp.Expr) -> int:
    first = tree.expressions[0]
    return len(first.expressions) if isinstance(first, exp.Tuple) else 1


def _column_list(alias: exp.Expr) -> str:
    columns = alias.args.get("columns") or []
    return f"({', '.join(quoted(each.name) for each in columns)})" if columns else ""


def _alias(alias: exp.Expr) -> str:
    return f"{quoted(alias.this.name)}{_column_list(alias)}"


def _as(alias: exp.Expr | None) -> str:
    return "" if alias is None or alias.this is None else f" AS {_alias(alias)}"
