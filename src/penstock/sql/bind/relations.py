"""FROM: tables, views, queries, joins, UNNEST, and windows as table functions.

Runs on the driver. Invariant: every kind of join is bound as Flink means it, or refused with line and column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.sql.bind.arguments import arguments_of
from penstock.sql.bind.changelogs import PARAMETERS, ChangelogCall, is_changelog_function
from penstock.sql.bind.context import SourceTable, SourceView
from penstock.sql.bind.expressions.base import kind_of
from penstock.sql.bind.expressions.binder import ExpressionBinder
from penstock.sql.bind.hints import Ttls
from penstock.sql.bind.query import BoundQuery, Names, QueryBinder, bind_expression
from penstock.sql.bind.scope import Entry, Scope
from penstock.sql.bind.windows import check_zone, is_window_function, no_time, window_call
from penstock.sql.functions.zones import has_zone
from penstock.sql.language.flink_types import FlinkType
from penstock.sql.language.parse import parse_option_hint
from penstock.sql.language.queries import TableArgument
from penstock.sql.language.source import nearest
from penstock.sql.language.statements import ComputedColumn, Options
from penstock.sql.plan.expressions import Call, Column, Expression, Function, Varies, conjuncts
from penstock.sql.plan.nodes import (
    Apply,
    AsOfJoin,
    Assignment,
    Join,
    JoinKind,
    Node,
    Project,
    Scan,
    TableFunction,
    Unnest,
    Values,
    Watermark,
    Window,
    copies,
)
from penstock.sql.plan.rewrite import columns_of
from penstock.sql.plan.texts import quoted
from penstock.sql.plan.types import INT, TIMES, from_spark, spark_text, widest
from penstock.sql.plan.windows import COLUMNS, parts_of_window, window_type

_NO_MODEL = "Use a Python function: CREATE FUNCTION ... LANGUAGE PYTHON."
_INSTEAD = {
    "VECTOR_SEARCH": _NO_MODEL,
    "ML_PREDICT": _NO_MODEL,
}
"""What to use instead of a table function of Flink."""
_KINDS = {"": JoinKind.INNER, "LEFT": JoinKind.LEFT, "RIGHT": JoinKind.RIGHT, "FULL": JoinKind.FULL}


@dataclass(frozen=True)
class Relation:
    """Rows of FROM, and what the names of their columns mean."""

    node: Node
    entries: tuple[Entry, ...]


class RelationBinder:
    """Binds FROM of one SELECT."""

    def __init__(self, query: QueryBinder, names: Names, outside: Scope | None, ttls: Ttls) -> None:
        self.query = query
        self.ttls = ttls
        self.context = query.context
        self.session = query.session
        self.location = query.location
        self.names = names
        self.outside = outside

    def relation(self, tree: exp.Expr) -> Relation:
        """Return what stands in FROM."""
        if is_window_function(tree):
            found = self._window(tree)
        elif isinstance(tree, exp.Table) and is_changelog_function(tree):
            found = self._changelog(tree)
        elif isinstance(tree, exp.Table):
            self._only(tree, "this", "db", "catalog", "alias", "version", "joins")
            if tree.args.get("version") is not None:
                self.location.refuse(tree, "FOR SYSTEM_TIME AS OF stands behind the right table of a JOIN.")
            found = self._table(tree)
        elif isinstance(tree, exp.Subquery):
            self._only(tree, "this", "alias", "joins", "order", "limit", "offset", "with_")
            found = self._named(
                self.query.query(tree, self.names, self.outside), tree.args.get("alias"), tree
            )
        elif isinstance(tree, exp.Values):
            found = self._named(self.query.values(tree, self.names), tree.args.get("alias"), tree)
        else:
            self.location.refuse(tree, f"{type(tree).__name__.upper()} is not served in FROM.")
        for join in tree.args.get("joins") or ():
            found = self.join(found, join)
        return found

    def expressions(self, entries: Sequence[Entry]) -> ExpressionBinder:
        return self.query.expressions(Scope(tuple(entries), self.outside), self.names)

    def _only(self, node: exp.Expr, *parts: str) -> None:
        self.expressions(()).only(node, *parts)

    # ---- tables

    def _table(self, tree: exp.Expr) -> Relation:
        if type(tree.this) is exp.Anonymous:
            name = str(tree.this.this)
            instead = _INSTEAD.get(
                name.upper(), "Those of CREATE FUNCTION stand behind LATERAL TABLE in a join."
            )
            self.location.refuse(tree, f"the table function {name.upper()} is not served. {instead}")
        return self._named(self.bound_table(tree), tree.args.get("alias"), tree, tree.this.name)

    def bound_table(self, tree: exp.Expr) -> BoundQuery:
        """Return a table, view or CTE with the names of its columns."""
        if not isinstance(tree.this, exp.Identifier):
            self.location.refuse(tree, "expected at most three parts: catalog, database and name.")
        identifiers = [tree.args[key] for key in ("catalog", "db", "this") if tree.args.get(key) is not None]
        if "" in identifiers:
            self.location.refuse(tree, "expected a name between two dots.")
        parts = tuple(each.name for each in identifiers)
        if len(parts) == 1 and parts[0] in self.names:
            return self.query.named(self.names[parts[0]])
        try:
            found = self.session.table(parts, self._options_of(tree))
        except ValueError as error:
            self.location.refuse(tree, str(error))
        if found is None:
            known = [*self.session.tables(), *self.names]
            self.location.refuse(
                tree,
                f"there is no table or view '{'.'.join(parts)}'.{nearest('.'.join(parts), known)} SHOW "
                "TABLES lists them.",
            )
        return (
            self._view(found)
            if isinstance(found, SourceView)
            else self._source(found, self.location.of(tree))
        )

    def _options_of(self, tree: exp.Expr) -> Options:
        stop = tree.this.meta["end"] + 1
        for hint in self.query.hints.found:
            if hint.before == stop and hint.said.startswith("OPTIONS"):
                self.query.hints.used.add(hint)
                return parse_option_hint(hint.text, self.location.script, self.location.offset + hint.start)
        return ()

    def _source(self, table: SourceTable, offset: int) -> BoundQuery:
        """Return the columns of a table: those that are read, and those that are computed of them."""
        stored = {
            each.name: self.context.column(each.name, each.type)
            for each in table.columns
            if not isinstance(each, ComputedColumn)
        }
        node: Node = Scan(table.source, tuple(stored.values()), offset)
        columns = stored
        if len(stored) < len(table.columns) and table.script is not None:
            scope = Scope(tuple(Entry("", name, column) for name, column in stored.items()))
            outputs = []
            for each in table.columns:
                if isinstance(each, ComputedColumn):
                    value = bind_expression(each.expression, table.script, self.context, scope)
                    outputs.append(Assignment(self.context.column(each.name, value.type), value))
                else:
                    outputs.append(Assignment(stored[each.name], stored[each.name]))
            node = Project(node, tuple(outputs))
            columns = {each.column.name: each.column for each in outputs}
        if table.source.time is not None and table.source.is_stream:
            time = columns[table.source.time[0]]
            if time.type.name not in TIMES and table.script is not None:
                raise table.script.error(no_time(time.name, spark_text(time.type)), table.mark)
            node, columns = self._timed(node, columns, table.source.time)
        return BoundQuery(node, tuple(columns.values()), tuple(columns))

    def _timed(
        self, node: Node, columns: dict[str, Column], time: tuple[str, int]
    ) -> tuple[Node, dict[str, Column]]:
        """Return rows with a watermark. Spark's watermarks are of TIMESTAMP columns with a zone only."""
        name, delay_ms = time
        plain = columns[name]
        made = self.context.column(name, replace(plain.type, name="TIMESTAMP_LTZ"))
        return Watermark(node, plain, made, delay_ms), {**columns, name: made}

    def _view(self, view: SourceView) -> BoundQuery:
        inner = QueryBinder(view.query, view.script, self.context, self.query.select)
        with self.session.within(view.database):
            found = inner.query(inner.tree, {}, None)
        if view.columns and len(view.columns) != len(found.columns):
            raise view.script.error(
                f"the view names {len(view.columns)} columns, and its query has {len(found.columns)} now.",
                view.query.offset,
            )
        return replace(found, names=view.columns) if view.columns else found

    def _named(self, bound: BoundQuery, alias: exp.Expr | None, tree: exp.Expr, name: str = "") -> Relation:
        """Return rows under an alias, which may name their columns."""
        names = bound.names
        if alias is not None and alias.this is not None:
            name = alias.this.name
        if alias is not None and alias.args.get("columns"):
            names = tuple(each.name for each in alias.args["columns"])
            if len(names) != len(bound.columns):
                self.location.refuse(
                    tree, f"'{name}' has {len(bound.columns)} columns, and {len(names)} names were given."
                )
        entries = (Entry(name, *each) for each in zip(names, bound.columns, strict=True))
        return Relation(bound.node, tuple(entries))

    # ---- FROM_CHANGELOG and TO_CHANGELOG

    def _changelog(self, tree: exp.Expr) -> Relation:
        self._only(tree, "this", "alias", "joins")
        call, name = tree.this, str(tree.this.this).upper()
        found = ChangelogCall(
            self.location, call, arguments_of(self.location, call, PARAMETERS, in_any_case=False)
        )
        given = found.arguments.get("input")
        if isinstance(given, TableArgument):
            if given.args.get("partition_by"):
                self.location.refuse(
                    call, f"PARTITION BY is not served in {name}. Leave it out, as Flink 2.3 wants it."
                )
            rows = self.bound_table(given.this)
        elif isinstance(given, exp.Subquery):
            rows = self.query.query(given, self.names, self.outside)
        else:
            self.location.refuse(
                call, f"{name} takes its rows as `input => TABLE name`, or a query in brackets."
            )
        return self._named(found.bound(rows, self.context), tree.args.get("alias"), tree)

    # ---- windows

    def _window(self, tree: exp.Expr) -> Relation:
        self._only(tree, "this", "alias", "joins")
        call = window_call(self.location, tree.this)
        is_query = isinstance(call.table, exp.Subquery)
        table = (
            self.query.query(call.table, self.names, self.outside)
            if is_query
            else self.bound_table(call.table)
        )
        name = "" if is_query else call.table.name
        entries = tuple(Entry(name, *each) for each in zip(table.names, table.columns, strict=True))
        binder = self.expressions(entries)
        time = binder.bind(call.time)
        if spark_text(time.type) not in ("timestamp", "timestamp_ntz"):
            self.location.refuse(
                call.time,
                f"a window is over a TIMESTAMP, and '{call.time.name}' is {spark_text(time.type).upper()}.",
            )
        partition = tuple(binder.bind(exp.column(each)) for each in call.partition)
        check_zone(self.context, self.location, tree.this)
        window = self.context.column("window", window_type(time))
        node: Node = Window(table.node, call.spans, time, partition, window, self.location.of(tree.this))
        parts = {
            name: (self.context.column(name, each.type), each)
            for name, each in parts_of_window(window).items()
        }
        node = Project(node, (*copies(table.columns), *(Assignment(*each) for each in parts.values())))
        names, columns = (*table.names, *COLUMNS), (*table.columns, *(column for column, _ in parts.values()))
        return self._named(BoundQuery(node, columns, names), tree.args.get("alias"), tree, "_window")

    # ---- joins

    def join(self, left: Relation, join: exp.Expr) -> Relation:
        """Return the rows before a JOIN with those behind it."""
        self._only(join, "this", "on", "using", "side", "kind", "method")
        side, kind = str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper()
        method = str(join.args.get("method") or "").upper()
        if kind not in ("", "INNER", "OUTER", "CROSS") or method not in ("", "NATURAL"):
            self.location.refuse(join, f"{' '.join(filter(None, (method, side, kind)))} JOIN is not served.")
        if kind == "OUTER" and not side:
            self.location.refuse(join, "an OUTER JOIN needs LEFT, RIGHT or FULL before OUTER.")
        if isinstance(join.this, exp.Unnest):
            return self._unnest(left, join, side)
        if isinstance(join.this, exp.Lateral):
            if isinstance(join.this.this, exp.Subquery):
                return self._lateral(left, join, side)
            return self._table_function(left, join, side)
        if isinstance(join.this, exp.Table) and join.this.args.get("version") is not None:
            return self._as_of(left, join, side)
        right = self.relation(join.this)
        has_condition = join.args.get("on") is not None or join.args.get("using") is not None
        if has_condition and kind == "CROSS":
            self.location.refuse(join, "a CROSS JOIN and a comma have no ON and no USING. Write JOIN ... ON.")
        if not has_condition and not method and kind != "CROSS":
            self.location.refuse(
                join, f"a {f'{side} ' if side else ''}JOIN needs ON or USING. Or write CROSS JOIN."
            )
        if join.args.get("using") is not None or method:
            return self._using(left, right, join, _KINDS[side])
        return self._on(left, right, join, _KINDS[side])

    def _on(self, left: Relation, right: Relation, join: exp.Expr, kind: JoinKind) -> Relation:
        entries = (*left.entries, *right.entries)
        conditions = self._conditions(entries, join)
        ttls = self._ttls(left, right)
        node = Join(left.node, right.node, kind, conditions, self.location.of(join), ttls=ttls)
        return Relation(node, entries)

    def _conditions(self, entries: Sequence[Entry], join: exp.Expr) -> tuple[Expression, ...]:
        """Return the conditions of ON."""
        if join.args.get("on") is None:
            return ()
        binder = self.expressions(entries)
        binder.is_join = True
        return conjuncts(binder.condition(join.args["on"], "ON"))

    def _ttls(self, left: Relation, right: Relation) -> tuple[str | None, str | None] | None:
        found = (self.ttls.take(left.entries), self.ttls.take(right.entries))
        return found if any(found) else None

    def _using(self, left: Relation, right: Relation, join: exp.Expr, kind: JoinKind) -> Relation:
        """Return a join by columns of one name, which a star shows once and first, as Flink does."""
        names = [each.name for each in join.args.get("using") or ()]
        if join.args.get("method"):
            theirs = {each.name for each in right.entries if not each.is_merged}
            names = [each.name for each in left.entries if each.name in theirs and not each.is_merged]
        binder = self.expressions(())
        binder.is_join = True
        pairs = [(self._found(left, name, join), self._found(right, name, join)) for name in names]
        conditions = []
        for one, other in pairs:
            binder.check_kinds(join, "USING", one, other)
            conditions.append(binder.compared(join, "=", one, other))
        ttls = self._ttls(left, right)
        node: Node = Join(left.node, right.node, kind, tuple(conditions), self.location.of(join), ttls=ttls)
        merged = [one if kind is not JoinKind.RIGHT else other for one, other in pairs]
        if kind is JoinKind.FULL:
            values = [
                Call("COALESCE", Function(2, 2, "coalesce({all})"), pair, self._wider(pair)) for pair in pairs
            ]
            merged = [self.context.column(name, each.type) for name, each in zip(names, values, strict=True)]
            node = Project(node, (*copies(columns_of(node)), *map(Assignment, merged, values)))
        lower = {name.lower() for name in names}
        others = (
            replace(each, is_merged=each.is_merged or each.name.lower() in lower)
            for each in (*left.entries, *right.entries)
        )
        return Relation(node, (*(Entry("", *each) for each in zip(names, merged, strict=True)), *others))

    def _found(self, side: Relation, name: str, join: exp.Expr) -> Column:
        try:
            found = Scope(side.entries).find([name])
        except ValueError as error:
            self.location.refuse(join, str(error))
        if found is None:
            self.location.refuse(join, f"there is no column '{name}' on both sides of the join.")
        return found[0]

    @staticmethod
    def _wider(pair: tuple[Column, Column]) -> FlinkType:
        return widest([each.type for each in pair]) or pair[0].type

    def _as_of(self, left: Relation, join: exp.Expr, side: str) -> Relation:
        tree = join.this
        self._only(tree, "this", "db", "catalog", "alias", "version")
        if side not in ("", "LEFT"):
            self.location.refuse(join, "FOR SYSTEM_TIME AS OF is served with JOIN and LEFT JOIN.")
        time = self.expressions(left.entries).bind(tree.args["version"].expression)
        right = self._table(tree)
        entries = (*left.entries, *right.entries)
        conditions = self._conditions(entries, join)
        node = AsOfJoin(left.node, right.node, _KINDS[side], conditions, time, offset=self.location.of(join))
        return Relation(node, entries)

    # ---- rows that are made of a row

    def _lateral(self, left: Relation, join: exp.Expr, side: str) -> Relation:
        self._only(join.this, "this", "alias")
        self._check_lateral(join, side)
        found = self.query.query(join.this.this, self.names, Scope(left.entries, self.outside))
        right = self._named(found, join.this.args.get("alias"), join.this)
        node = Apply(left.node, right.node, _KINDS[side], self.location.of(join))
        return Relation(node, (*left.entries, *right.entries))

    def _check_lateral(self, join: exp.Expr, side: str) -> None:
        on = join.args.get("on")
        if side not in ("", "LEFT") or not (on is None or (isinstance(on, exp.Boolean) and on.this)):
            word = "UNNEST" if isinstance(join.this, exp.Unnest) else "LATERAL"
            self.location.refuse(
                join.this, f"{word} is served with CROSS JOIN, and with LEFT JOIN ... ON TRUE."
            )

    def _unnest(self, left: Relation, join: exp.Expr, side: str) -> Relation:
        unnest = join.this
        self._only(unnest, "expressions", "alias", "offset")
        if len(unnest.expressions) != 1:
            self.location.refuse(unnest, "UNNEST takes one array or map.")
        self._check_lateral(join, side)
        value = self.expressions(left.entries).bind(unnest.expressions[0])
        kind, alias = value.type, unnest.args.get("alias")
        if kind.name not in ("ARRAY", "MAP"):
            self.location.refuse(unnest, f"UNNEST takes an ARRAY or a MAP, got {kind_of(value).upper()}.")
        parts = [("EXPR$0", kind.elements[0])]
        if kind.name == "MAP":
            parts = [("KEY", kind.elements[0]), ("VALUE", kind.elements[1])]
        elif kind.elements[0].name == "ROW":
            parts = [(each.name, each.type) for each in kind.elements[0].fields]
        columns = [self.context.column(*each) for each in parts]
        number = None
        ordinality = unnest.args.get("offset")
        if ordinality:
            if not isinstance(ordinality, exp.Expr):
                self.location.refuse(unnest, "WITH ORDINALITY needs names: AS t (element, number).")
            number = self.context.column(ordinality.name, INT)
        node = Unnest(left.node, value, tuple(columns), number, is_outer=side == "LEFT")
        return self._beside(left, node, columns, alias, unnest, number)

    def _beside(
        self,
        left: Relation,
        node: Node,
        columns: list[Column],
        alias: exp.Expr | None,
        tree: exp.Expr,
        number: Column | None = None,
    ) -> Relation:
        """Return rows with columns that were made of them, under the names of an alias."""
        names = [each.name for each in columns]
        given = list(alias.args.get("columns") or ()) if alias is not None else []
        if given:
            names = [each.name for each in given]
            if len(names) != len(columns):
                self.location.refuse(
                    tree, f"the rows have {len(columns)} columns, and {len(names)} names were given."
                )
        name = alias.this.name if alias is not None and alias.this is not None else ""
        entries = [Entry(name, *each) for each in zip(names, columns, strict=True)]
        if number is not None:
            entries.append(Entry(name, number.name, number))
        return Relation(node, (*left.entries, *entries))

    def _table_function(self, left: Relation, join: exp.Expr, side: str) -> Relation:
        """Return each row with the rows that a table function of the user makes of it."""
        call = join.this.this
        self._only(join.this, "this", "alias")
        is_table = type(call) is exp.Anonymous and call.name.upper() == "TABLE" and len(call.expressions) == 1
        function = call.expressions[0] if is_table else None
        if type(function) is not exp.Anonymous:
            self.location.refuse(
                join.this,
                "LATERAL takes a query in brackets, or TABLE(function(...)) with a table function of CREATE "
                "FUNCTION.",
            )
        own = self.session.function(str(function.this))
        if own is None:
            self.location.refuse(
                function,
                f"there is no table function '{function.this}'. Make it with pyspark.sql.functions.udtf and "
                "CREATE FUNCTION ... AS 'module.function' LANGUAGE PYTHON. UNNEST takes arrays and maps.",
            )
        self._check_lateral(join, side)
        values = self.expressions(left.entries).local_values(function, function.expressions)
        typed = ", ".join(f"CAST(NULL AS {spark_text(each.type)})" for each in values)
        try:
            shown = self.session.spark_types(f"SELECT * FROM {quoted(own.name)}({typed})")
        except Exception as error:  # noqa: BLE001 - told with the offset of the call
            self.location.refuse(function, f"Spark refuses the table function: {error}")
        columns = []
        for name, text in shown:
            if self.session.foreign_zone is not None and has_zone(text):
                self.expressions(()).check_zone(function, f"the TIMESTAMP '{name}' of {function.this}")
            columns.append(self.context.column(name, from_spark(text)))
        node = TableFunction(
            left.node,
            own.name,
            tuple(values),
            tuple(columns),
            side == "LEFT",
            Varies.NEVER if own.is_deterministic else Varies.CALL,
            str(function.this),
            self.location.of(function),
        )
        return self._beside(left, node, columns, join.this.args.get("alias"), join.this)


def no_rows() -> Relation:
    """Return the one row without columns that a SELECT without FROM is over."""
    return Relation(Values(((),), ()), ())
