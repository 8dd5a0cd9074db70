"""FROM: tables, queries, joins, UNNEST, and windows as table functions.

Runs on the driver. Invariant: a join of a kind that Spark reads otherwise is refused.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from penstock.sql.query._as_of import join_versions
from penstock.sql.query._changing_windows import timed_changes, windows_of_rows
from penstock.sql.query._join_times import Pair, bounding_times, with_plain_times
from penstock.sql.query._joins import (
    are_compared,
    are_streams,
    check_compared,
    compared_values,
    join_changes,
)
from penstock.sql.query._lateral import lateral_join, without_keys
from penstock.sql.query._parts import From, Parts, Window
from penstock.sql.query._ranked import first_rows
from penstock.sql.query._session_rows import session_rows
from penstock.sql.query._window_ends import over_times, rows_of_structs, rows_of_windows
from penstock.sql.query._windows import (
    COLUMNS,
    WINDOW,
    check_time,
    check_zone,
    is_window_function,
    parts_of_window,
    window_call,
)
from penstock.sql.query.piece import column_list, quoted
from penstock.sql.query.rows import INSERTS, KIND, Rows
from penstock.sql.query.scope import Scope
from penstock.sql.query.zones import has_zone

_NO_MODEL = "Use a Python function: CREATE FUNCTION ... LANGUAGE PYTHON."
_INSTEAD = {
    "TO_CHANGELOG": "Declare a column `row_kind STRING METADATA FROM 'row-kind'` to get changes as rows.",
    "FROM_CHANGELOG": "Read the topic with a format such as 'debezium-json'.",
    "VECTOR_SEARCH": _NO_MODEL,
    "ML_PREDICT": _NO_MODEL,
}
"""What to use instead of a table function of Flink."""
_HOW = {"": "inner", "LEFT": "left", "RIGHT": "right", "FULL": "full"}


class Relations(Parts):
    """Translates FROM."""

    def source(self) -> From | None:
        """Return FROM with its joins, and let expressions know it."""
        clause = self.tree.args.get("from_")
        if clause is None:
            self.inner.over("", INSERTS)
            return None
        source = self._relation(clause.this, is_alone=not self.tree.args.get("joins"))
        for join in self.tree.args.get("joins") or ():
            source = self._join(source, join)
        self.use(source)
        return source

    def _relation(self, tree: exp.Expr, *, is_alone: bool = False) -> From:
        inner = self.inner
        if is_window_function(tree):
            return self._window_table(tree)
        if isinstance(tree, exp.Table):
            inner.only(tree, "this", "db", "catalog", "alias", "version", "joins")
            if tree.args.get("version") is not None:
                inner.refuse(tree, "FOR SYSTEM_TIME AS OF stands behind the right table of a JOIN.")
            source = self.table(tree, is_raw=self.is_of_versions())
        elif isinstance(tree, exp.Subquery):
            inner.only(tree, "this", "alias", "joins")
            first = first_rows(self, tree) if is_alone and not tree.args.get("joins") else None
            if first is not None:
                return first
            selected = self.query.query_of(tree.this, self.names, is_raw=self.is_of_versions())
            source = _from(f"({selected.sql})", selected.rows, tree.args.get("alias"))
        elif isinstance(tree, exp.Values):
            if is_alone:
                inner.over("", INSERTS)
            values = self.query.values(tree, inner)
            source = _from(f"({values})", Rows(), tree.args.get("alias"))
        else:
            return inner.refuse(tree, f"{type(tree).__name__.upper()} is not served in FROM.")
        for join in tree.args.get("joins") or ():
            source = self._join(source, join)
        return source

    def table(self, tree: exp.Expr, *, is_raw: bool = False) -> From:
        """Return a table, view or query of WITH, with its alias."""
        if type(tree.this) is exp.Anonymous:
            name = str(tree.this.this)
            instead = _INSTEAD.get(
                name.upper(), "Those of CREATE FUNCTION stand behind LATERAL TABLE in a join."
            )
            self.inner.refuse(tree, f"the table function {name} is not served. {instead}")
        found = self.query.table(tree, self.names, self.inner, is_raw=is_raw)
        alias = tree.args.get("alias")
        rows = replace(found.rows, time=found.time if found.rows.changes is None or is_raw else None)
        if found.rows.changes is not None and not is_raw and found.time is not None:
            rows = replace(rows, changing_time=found.time)
        made = _from(found.text, rows, alias, tree.this.name)
        return replace(made, time=found.time if alias is None or not alias.args.get("columns") else None)

    def _join(self, left: From, join: exp.Expr) -> From:
        self.use(left)
        inner = self.inner
        inner.only(join, "this", "on", "using", "side", "kind", "method")
        side, kind = str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper()
        method = str(join.args.get("method") or "").upper()
        if kind not in ("", "INNER", "OUTER", "CROSS") or method not in ("", "NATURAL"):
            inner.refuse(join, f"{' '.join(filter(None, (method, side, kind)))} JOIN is not served.")
        if kind == "OUTER" and not side:
            inner.refuse(join, "an OUTER JOIN needs LEFT, RIGHT or FULL before OUTER.")
        if isinstance(join.this, exp.Unnest):
            return self._unnest(left, join, side)
        if isinstance(join.this, exp.Lateral):
            if isinstance(join.this.this, exp.Subquery):
                return self._lateral_query(left, join, side)
            return self._table_function(left, join, side)
        if isinstance(join.this, exp.Table) and join.this.args.get("version") is not None:
            return join_versions(self, left, join, side)
        right = self._relation(join.this)
        has_condition = join.args.get("on") is not None or join.args.get("using") is not None
        if has_condition and kind == "CROSS":
            inner.refuse(join, "a CROSS JOIN and a comma have no ON and no USING. Write JOIN ... ON.")
        if not has_condition and not method and kind != "CROSS":
            inner.refuse(join, f"a {f'{side} ' if side else ''}JOIN needs ON or USING. Or write CROSS JOIN.")
        times = bounding_times(self, left, right, join, side)
        if self._needs_operator(left, right, join, side, times):
            return join_changes(self, left, right, join, _HOW[side])
        return self._native(left, right, join, side, method, times)

    def _lateral_query(self, left: From, join: exp.Expr, side: str) -> From:
        """Return each row with the rows of a query that is compared with it."""
        left = self.named(left, "__left")
        made = lateral_join(self, join, left, side)
        right = self._relation(made.this)
        times = bounding_times(self, left, right, made, side)
        if self._needs_operator(left, right, made, side, times):
            return without_keys(self, join_changes(self, left, right, made, _HOW[side]))
        return without_keys(self, self._native(left, right, made, side, "", times))

    def _needs_operator(self, left: From, right: From, join: exp.Expr, side: str, times: Pair | None) -> bool:
        """Return whether Spark cannot stream the join."""
        changes = left.rows.changes is not None or right.rows.changes is not None
        if not changes and not side and not are_compared(self, left, right, join, is_inner=True):
            return True
        is_of_spark = not side and not self.ttls and self.inner.binder.state_ttl is None
        if not changes and (is_of_spark or times is not None):
            return False
        is_both = self.query.is_streaming(left.text) and self.query.is_streaming(right.text)
        if changes and not is_both and not isinstance(join.this, exp.Values):
            self.inner.refuse(
                join,
                "rows that change are joined with a static table, which is read again in each batch. If it "
                "changes, a row is taken back that never was there. Write FOR SYSTEM_TIME AS OF behind the "
                "static table if it never changes or if its rows of now are wanted.",
            )
        if changes and not is_both and side not in ("", "LEFT" if left.rows.changes else "RIGHT"):
            self.inner.refuse(join, "an outer join that keeps the rows of a static table is not served.")
        return is_both

    def join_text(self, left: From, right: From, join: exp.Expr, side: str, method: str) -> str:
        """Return a join in Spark's SQL."""
        inner = self.inner
        on, using = join.args.get("on"), join.args.get("using")
        if on is None and using is None and not method:
            # WHERE compares two streams. Spark does not stream a CROSS JOIN, even if it is compared there.
            word = "JOIN" if are_streams(self, left, right) else "CROSS JOIN"
            return f"{left.text} {word} {right.text}"
        words = " ".join(filter(None, (method, side or "INNER", "OUTER" if side else "", "JOIN")))
        if using is not None:
            columns = ", ".join(quoted(each.name) for each in using)
            return f"{left.text} {words} {right.text} USING ({columns})"
        if on is None:
            return f"{left.text} {words} {right.text}"
        # ON names columns of both sides, also before the join of them has a text.
        self.use(self._both(left, right, f"{left.text} CROSS JOIN {right.text}"))
        inner.is_join = True
        condition = inner.text(on)
        if side and are_streams(self, left, right):
            # In an outer join of streams Spark takes a NULL for equal to a NULL, and a row whose time is NULL
            # waits for ever. A row that fails a condition of its side comes out at once.
            present = [f"({inner.text(each)}) IS NOT NULL" for each in compared_values(on)]
            condition = " AND ".join([f"({condition})", *present])
        inner.is_join = False
        return f"{left.text} {words} {right.text} ON {condition}"

    def _native(
        self, left: From, right: From, join: exp.Expr, side: str, method: str, times: Pair | None
    ) -> From:
        left, right = self.plain(left), self.plain(right)
        check_compared(self, left, right, join, is_inner=not side)
        is_of_streams = are_streams(self, left, right)
        if is_of_streams and side and join.args.get("on") is None:
            self._check_using(left if side == "LEFT" else right, join, side)
        if is_of_streams:
            left = with_plain_times(self, left, join, times[0] if times else None)
            right = with_plain_times(self, right, join, times[1] if times else None)
            self.query.drops_late_rows |= times is not None
            self.query.has_interval_join |= times is not None
        text = self.join_text(left, right, join, side, method)
        made = self._both(left, right, text)
        return replace(made, has_plain_times=is_of_streams and times is None)

    def _check_using(self, kept: From, join: exp.Expr, side: str) -> None:
        """Check an outer join of streams without ON: nothing says there that a NULL is equal to nothing."""
        if side == "FULL":
            self.inner.refuse(join, "a FULL JOIN of streams needs ON with each comparison.")
        if self.query.has_outer_join(f"SELECT * FROM {kept.text}"):
            self.inner.refuse(
                join, f"a {side} JOIN of streams behind an outer join needs ON with each comparison."
            )

    def _both(self, left: From, right: From, text: str) -> From:
        scope = None
        if left.scope is not None or right.scope is not None:
            scope = Scope((*self.entries(left), *self.entries(right)))
        rows = Rows(left.rows.changes or right.rows.changes)
        return From(text, rows, (*left.aliases, *right.aliases), scope)

    def static_join(self, left: From, right: From, join: exp.Expr, side: str) -> From:
        """Return a join with a static table, which Spark reads again in each batch."""
        return self._native(left, right, join, side, "", None)

    def _unnest(self, left: From, join: exp.Expr, side: str) -> From:
        inner, unnest = self.inner, join.this
        inner.only(unnest, "expressions", "alias", "offset")
        if len(unnest.expressions) != 1:
            inner.refuse(unnest, "UNNEST takes one array or map.")
        left = self.plain(left)
        rows, alias = self._elements(left, unnest), unnest.args.get("alias")
        return self._lateral(left, join, side, rows, _as(alias, unnest.args.get("offset")))

    def _table_function(self, left: From, join: exp.Expr, side: str) -> From:
        """Return each row with the rows that a table function of the user makes of it."""
        inner, call = self.inner, join.this.this
        inner.only(join.this, "this", "alias")
        is_table = type(call) is exp.Anonymous and call.name.upper() == "TABLE" and len(call.expressions) == 1
        function = call.expressions[0] if is_table else None
        if type(function) is not exp.Anonymous:
            inner.refuse(
                join.this,
                "LATERAL takes a query in brackets, or TABLE(function(...)) with a table function of CREATE "
                "FUNCTION.",
            )
        own = inner.binder.function(str(function.this))
        if own is None:
            inner.refuse(
                function,
                f"there is no table function '{function.this}'. Make it with pyspark.sql.functions.udtf and "
                "CREATE FUNCTION ... AS 'module.function' LANGUAGE PYTHON. UNNEST takes arrays and maps.",
            )
        inner.check_user_function(function, str(function.this), own)
        left = self.plain(left)
        rows = f"{own.name}({', '.join(inner.local_texts(function.expressions))})"
        if inner.binder.foreign_zone is not None:
            shown = f"SELECT `f`.* FROM {left.text} CROSS JOIN LATERAL {rows} AS `f`"
            for column, kind in self.query.columns(shown, function):
                if has_zone(kind):
                    inner.check_zone(function, f"the TIMESTAMP '{column}' of {function.this}")
        return self._lateral(left, join, side, rows, _as(join.this.args.get("alias")))

    def _lateral(self, left: From, join: exp.Expr, side: str, rows: str, names: str) -> From:
        """Return each row with the rows that are made of it."""
        on, alias = join.args.get("on"), join.this.args.get("alias")
        if side not in ("", "LEFT") or not (on is None or (isinstance(on, exp.Boolean) and on.this)):
            word = "UNNEST" if isinstance(join.this, exp.Unnest) else "LATERAL"
            self.inner.refuse(join.this, f"{word} is served with CROSS JOIN, and with LEFT JOIN ... ON TRUE.")
        words = "LEFT JOIN" if side else "CROSS JOIN"
        condition = " ON TRUE" if side else ""
        if side and isinstance(join.this, exp.Unnest):  # Spark takes no MAP in a LEFT JOIN LATERAL
            words, condition, rows = "CROSS JOIN", "", rows.replace("(", "_outer(", 1)
        text = f"{left.text} {words} LATERAL {rows}{names}{condition}"
        right = From("", aliases=(alias.this.name,) if alias is not None and alias.this is not None else ())
        scope = left.scope
        if scope is not None:
            both = replace(left, text=text, scope=None, aliases=right.aliases)
            scope = Scope((*scope.entries, *self.entries(both)))
        return From(text, Rows(left.rows.changes), (*left.aliases, *right.aliases), scope)

    def _elements(self, left: From, unnest: exp.Expr) -> str:
        """Return the rows of an array or map, also with their numbers from 1 as the last column."""
        piece = self.inner.piece(unnest.expressions[0])
        if not piece.type.startswith(("array", "map")):
            self.inner.refuse(unnest, f"UNNEST takes an ARRAY or a MAP, got {piece.type.upper()}.")
        text, is_of_rows = piece.text, piece.type.startswith("array<struct<")
        number = unnest.args.get("offset")
        if number is None or number is False:
            return f"{'inline' if is_of_rows else 'explode'}({text})"
        if not isinstance(number, exp.Expr):
            self.inner.refuse(unnest, "WITH ORDINALITY needs names: AS t (element, number).")
        fields = ["e"]
        if piece.type.startswith("map"):
            text, fields = f"map_entries({text})", ["e.key", "e.value"]
        elif is_of_rows:
            found = self.query.columns(f"SELECT inline({text}) FROM {left.text}", unnest)
            fields = [f"e.{quoted(name)}" for name, _ in found]
        named = ", ".join(f"'f{place}', {field}" for place, field in enumerate(fields))
        return f"inline(transform({text}, (e, i) -> named_struct({named}, 'o', i + 1)))"

    def _window_table(self, tree: exp.Expr) -> From:
        inner = self.inner
        inner.only(tree, "this", "alias", "joins")
        call = window_call(inner, tree.this)
        table = self.query.table(call.table, self.names, inner)
        grouped, changes = _is_grouped_by_window(self.tree), table.rows.changes
        if changes is not None:
            table = replace(table, text=timed_changes(self, call, table, tree.this, is_grouped=grouped))
        else:
            table = replace(table, text=over_times(self, table.text, call.column, tree.this))
            check_time(self, table.text, call.time, quoted(call.column))
        check_zone(inner, tree.this)
        hidden = [each for each in table.rows.hidden if each != KIND]
        star = f"* EXCEPT ({', '.join(f'`{each}`' for each in hidden)})" if hidden else "*"
        if call.kind == "SESSION" and not grouped:
            rows = session_rows(self, call, table, star, tree.this)
        else:
            rows = call.rows(star, table.text)
        if call.is_made:
            rows = rows_of_structs(self, rows, tree.this, call.hops)
        shown = parts_of_window(f"`{WINDOW}`")
        window = Window(call.kind, f"`{WINDOW}`", call.partition, shown, quoted(call.column))
        self.window = window if grouped else None
        self.query.drops_late_rows |= grouped
        if grouped and self.tree.args.get("joins"):
            inner.refuse(tree.this, "a JOIN of a window in the same SELECT is not served. Use a view.")
        if changes is not None and not grouped:
            text, known = windows_of_rows(rows, shown, table.rows, call)
            return _from(text, known, tree.args.get("alias"), "_window")
        if not grouped:
            parts = ", ".join(f"{text} AS {name}" for name, text in zip(COLUMNS, shown, strict=True))
            rows = rows_of_windows(self, rows, parts, tree.this)
        alias = tree.args.get("alias")
        name = alias.this.name if alias else "_window"
        of_rows = Rows(changes, changing_time=table.rows.changing_time or table.time) if changes else Rows()
        return From(f"{rows} AS {_alias(alias) if alias else '`_window`'}", of_rows, (name,))


def _is_grouped_by_window(tree: exp.Expr) -> bool:
    group = tree.args.get("group")
    return group is not None and any(each.name.lower() in COLUMNS for each in group.find_all(exp.Column))


def _from(text: str, rows: Rows, alias: exp.Expr | None, name: str = "") -> From:
    if alias is not None and alias.this is not None:
        name = alias.this.name
    columns = column_list(alias) if alias is not None else ""
    if columns:
        columns = f"{columns[:-1]}{''.join(f', `{each}`' for each in rows.hidden)})"
        rows = replace(rows, keys=None, is_together=False, time=None, changing_time=None)
    if not name and rows.hidden:
        name = "__query"
    shown = f"{text} AS {quoted(name)}{columns}" if name else text
    return From(shown, rows, (name,) if name else (), time=rows.time if name else None)


def _alias(alias: exp.Expr) -> str:
    return f"{quoted(alias.this.name)}{column_list(alias)}"


def _as(alias: exp.Expr | None, number: exp.Expr | bool | None = None) -> str:
    """Return the names of rows; `number` is the name of one more column."""
    if alias is None or alias.this is None:
        return ""
    names = _alias(alias)
    return f" AS {names[:-1]}, {quoted(number.name)})" if isinstance(number, exp.Expr) else f" AS {names}"
