"""Bind one SELECT: its columns, WHERE, GROUP BY, HAVING, QUALIFY, DISTINCT and ORDER BY.

Runs on the driver. Invariant: every clause is bound or refused. The nodes stand in the order in which SQL
says that the clauses act: FROM, WHERE, GROUP BY, HAVING, OVER, QUALIFY, SELECT, DISTINCT, ORDER BY, LIMIT.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from penstock.sql.bind.expressions.binder import ExpressionBinder
from penstock.sql.bind.groups import Clauses, Groups, Item, bound_groups, has_aggregates
from penstock.sql.bind.hints import Ttls
from penstock.sql.bind.limits import bound_limit
from penstock.sql.bind.query import BoundQuery, Names, QueryBinder, output_of
from penstock.sql.bind.relations import Relation, RelationBinder, no_rows
from penstock.sql.bind.scope import Scope
from penstock.sql.language.source import nearest
from penstock.sql.plan.expressions import Column, Expression, OverCall, SortItem, conjuncts, rewritten, walk
from penstock.sql.plan.nodes import (
    Assignment,
    Distinct,
    Filter,
    Node,
    Over,
    OverOutput,
    Project,
    Sort,
    copies,
)

_CLAUSES = (
    *("this", "expressions", "from_", "joins", "where", "group", "having", "qualify"),
    *("order", "limit", "offset", "distinct", "windows", "with_", "hint"),
)
_PARTS_OF_OVER = ("partition_by", "order", "spec")


class SelectBinder:
    """Binds one SELECT."""

    def __init__(self, query: QueryBinder, tree: exp.Expr, names: Names, outside: Scope | None) -> None:
        self.query = query
        self.context = query.context
        self.location = query.location
        self.tree = tree
        self.names = names
        self.outside = outside

    def bound(self) -> BoundQuery:
        """Return the plan of the SELECT and its columns."""
        tree = self.tree
        ttls = self.query.hints.ttls_of(tree, self.location)
        source = self._from(ttls)
        binder = self.query.expressions(Scope(source.entries, self.outside), self.names)
        binder.only(tree, *_CLAUSES)
        if not tree.expressions:
            binder.refuse(tree, "SELECT has no columns.")
        self._use_named_windows(binder)
        node = _filtered(source.node, self._condition("where", binder))
        groups: Groups | None = None
        if tree.args.get("group") is not None or has_aggregates(tree):
            groups = bound_groups(tree, node, binder)
            groups.ttl = ttls.take(source.entries)
            node = groups.input
        ttls.check(Scope(source.entries).aliases, self.location, is_batch=self.query.session.is_batch)
        items = self._items(source, binder, groups)
        having, qualify = self._condition("having", binder), self._qualify(items, binder)
        clauses = Clauses(items, having, qualify, self._order(items, binder))
        if groups is not None:
            node, clauses = groups.over(clauses)
        node, clauses = self._over(_filtered(node, clauses.having), clauses)
        return self._shown(_filtered(node, clauses.qualify), clauses.items, clauses.order)

    def _from(self, ttls: Ttls) -> Relation:
        clause = self.tree.args.get("from_")
        if clause is None:
            return no_rows()
        relations = RelationBinder(self.query, self.names, self.outside, ttls)
        found = relations.relation(clause.this)
        for join in self.tree.args.get("joins") or ():
            found = relations.join(found, join)
        return found

    def _condition(self, clause: str, binder: ExpressionBinder) -> Expression | None:
        tree = self.tree.args.get(clause)
        if tree is None:
            return None
        return binder.condition(tree.this, clause.upper())

    # ---- columns

    def _items(self, source: Relation, binder: ExpressionBinder, groups: Groups | None) -> tuple[Item, ...]:
        items: list[Item] = []
        for ordinal, each in enumerate(self.tree.expressions):
            node = each.this if isinstance(each, exp.Alias) else each
            if isinstance(each, exp.Alias):
                binder.only(each, "this", "alias")
            if isinstance(node, exp.Star) or isinstance(node.this, exp.Star):
                items += self._star(node, source, binder, is_grouped=groups is not None)
                continue
            items.append(Item(_name(each, ordinal), binder.bind(node), node))
        return tuple(items)

    def _star(
        self, node: exp.Expr, source: Relation, binder: ExpressionBinder, *, is_grouped: bool
    ) -> list[Item]:
        scope = Scope(source.entries)
        if is_grouped:
            binder.refuse(node, "SELECT * is not served with GROUP BY.")
        if isinstance(node, exp.Star):
            binder.only(node)
            entries = scope.shown
        else:
            entries = scope.of(node.args["table"].name) if isinstance(node, exp.Column) else []
        if isinstance(node, exp.Column) and not entries:
            return self._star_of_row(node, binder)
        if not entries:
            binder.refuse(node, "SELECT * needs FROM.")
        return [Item(each.name, each.column.at(self.location.of(node)), None) for each in entries]

    def _star_of_row(self, node: exp.Expr, binder: ExpressionBinder) -> list[Item]:
        """Return the fields of a ROW: `SELECT r.*`."""
        name = node.args["table"].name
        found = binder.scope.find([name])
        if found is None:
            known = ", ".join(binder.scope.aliases) or "none"
            binder.refuse(node, f"FROM has no table '{name}' for '{name}.*'. Its tables are {known}.")
        row = found[0].at(self.location.of(node))
        return [Item(each.name, binder.field(node, row, each.name), None) for each in row.type.fields]

    # ---- OVER and QUALIFY

    def _use_named_windows(self, binder: ExpressionBinder) -> None:
        """Put the windows of WINDOW into the calls that name them."""
        known = {str(each.this.name): each for each in self.tree.args.get("windows") or ()}
        for each in known.values():
            binder.only(each, "this", *_PARTS_OF_OVER)
        for node in self.tree.find_all(exp.Window):
            name = node.args.get("alias")
            if name is None or node.find_ancestor(exp.Select) is not self.tree:
                continue
            if name.name not in known:
                binder.refuse(
                    node, f"there is no window '{name.name}' in WINDOW.{nearest(name.name, [*known])}"
                )
            if any(node.args.get(part) for part in _PARTS_OF_OVER):
                binder.refuse(
                    node, f"OVER adds something to the window '{name.name}'. Write all of it in OVER."
                )
            node.set("alias", None)
            copied = known[name.name].copy()
            for part in _PARTS_OF_OVER:
                node.set(part, copied.args.get(part))

    def _qualify(self, items: tuple[Item, ...], binder: ExpressionBinder) -> Expression | None:
        """Return the condition of QUALIFY, in which a name means a column of SELECT first."""
        clause = self.tree.args.get("qualify")
        if clause is None:
            return None
        condition = clause.this
        if self.tree.args.get("group") is not None or self.tree.args.get("having") is not None:
            binder.refuse(
                condition, "QUALIFY is not served beside GROUP BY. Write the groups in a query in FROM."
            )
        if condition.find(exp.Query) is not None:
            binder.refuse(condition, "a query in QUALIFY is not served. Put it into FROM, and join it.")
        before = binder.special
        binder.special = lambda node: self._meant(node, items, binder) or before(node)
        found = binder.bind(condition)
        binder.special = before
        if not any(isinstance(each, OverCall) for each in walk(found)):
            binder.refuse(
                condition, "QUALIFY needs a call with OVER, such as ROW_NUMBER(). Write others in WHERE."
            )
        return found

    def _meant(self, node: exp.Expr, items: tuple[Item, ...], binder: ExpressionBinder) -> Expression | None:
        """Return the column of SELECT that a name in QUALIFY means."""
        if not isinstance(node, exp.Column) or node.args.get("table") is not None:
            return None
        found = [each for each in items if each.tree is not None and each.name == node.name]
        if not found:
            return None
        if len(found) > 1:
            binder.refuse(node, f"SELECT has two columns of the name '{node.name}'.")
        value = found[0].value
        has_over = any(isinstance(each, OverCall) for each in walk(value))
        if has_over and node.find_ancestor(exp.Window) is not None:
            binder.refuse(node, f"'{node.name}' has OVER, and stands in another OVER.")
        if not isinstance(value, Column) and not has_over:
            binder.refuse(
                node,
                f"'{node.name}' is a name of SELECT for another expression, and Flink's QUALIFY fails on it. "
                "Write the expression, or a column with its table.",
            )
        return value

    def _over(self, node: Node, clauses: Clauses) -> tuple[Node, Clauses]:
        """Return the rows with a column for each call with OVER, which stands for it from then on."""
        calls: dict[OverCall, Column] = {}

        def column_of(part: Expression) -> Expression | None:
            if not isinstance(part, OverCall):
                return None
            if part not in calls:
                calls[part] = self.context.column(part.call.name.lower(), part.type)
            return calls[part]

        clauses = clauses.changed(lambda value: rewritten(value, column_of))
        if calls:
            outputs = tuple(OverOutput(column, call) for call, column in calls.items())
            node = Over(node, outputs, min(each.call.offset for each in outputs))
        return node, clauses

    # ---- ORDER BY and the result

    def _order(self, items: tuple[Item, ...], binder: ExpressionBinder) -> tuple[SortItem, ...]:
        """Return ORDER BY over the rows of FROM. A name or a number means a column of SELECT first."""
        clause = self.tree.args.get("order")
        if clause is None:
            return ()
        found = []
        for each in clause.expressions:
            binder.only(each, "this", "desc", "nulls_first")
            index = self._index_of(each.this, items, binder)
            value = items[index].value if index is not None else self._sort_value(each.this, items, binder)
            found.append(SortItem(value, bool(each.args.get("desc")), each.args.get("nulls_first")))
        return tuple(found)

    def _sort_value(self, node: exp.Expr, items: tuple[Item, ...], binder: ExpressionBinder) -> Expression:
        before = binder.special
        binder.special = lambda part: self._ordered(part, items, binder) or before(part)
        value = binder.bind(node)
        binder.special = before
        return value

    def _index_of(self, node: exp.Expr, items: tuple[Item, ...], binder: ExpressionBinder) -> int | None:
        marks = tuple(Column(index, each.name, each.value.type) for index, each in enumerate(items))
        is_of_from = isinstance(node, exp.Column) and _has(binder, node.name)
        names, columns = tuple(each.name for each in items), self._once(items, marks)
        found = output_of(node, names, columns, self.location, in_any_case=not is_of_from)
        return None if found is None else found.id

    @staticmethod
    def _once(items: tuple[Item, ...], marks: tuple[Column, ...]) -> tuple[Column, ...]:
        """Return a mark for each item; equal ones for equal values, which may have one name twice."""
        first: dict[Expression, Column] = {}
        return tuple(first.setdefault(each.value, mark) for each, mark in zip(items, marks, strict=True))

    @staticmethod
    def _ordered(node: exp.Expr, items: tuple[Item, ...], binder: ExpressionBinder) -> Expression | None:
        """Return the column of SELECT that a name inside of an item means, if FROM has none of this name."""
        if not isinstance(node, exp.Column) or node.table:
            return None
        found = [each for each in items if each.name == node.name] or [
            each for each in items if each.name.lower() == node.name.lower()
        ]
        is_of_from = any(each.name.lower() == node.name.lower() for each in binder.scope.entries)
        return found[0].value if len(found) == 1 and not is_of_from else None

    def _shown(self, node: Node, items: tuple[Item, ...], order: tuple[SortItem, ...]) -> BoundQuery:
        tree = self.tree
        outputs = tuple(Assignment(self._column(each), each.value) for each in items)
        columns = tuple(each.column for each in outputs)
        names = tuple(each.name for each in items)
        distinct = tree.args.get("distinct")
        shown: dict[Expression, Column] = {each.expression: each.column for each in outputs}
        more = [
            Assignment(self.context.column("", each.expression.type), each.expression)
            for each in order
            if each.expression not in shown
        ]
        if distinct is not None and more:
            self.location.refuse(
                tree.args["order"], "ORDER BY beside DISTINCT takes columns of SELECT, as in Flink."
            )
        shown |= {each.expression: each.column for each in more}
        node = Project(node, (*outputs, *more))
        if distinct is not None:
            self.query.expressions(Scope(), self.names).only(distinct, "expressions")
            node = Distinct(node, columns, self.location.of(tree))
        if order:
            by = tuple(replace(each, expression=shown[each.expression]) for each in order)
            node = Sort(node, by, tree is self.query.root, self.location.of(tree.args["order"]))
        node = bound_limit(node, tree, self.location)
        if more:
            node = Project(node, copies(columns))
        return BoundQuery(node, columns, names)

    def _column(self, item: Item) -> Column:
        return self.context.column(item.name, item.value.type)


def bind_select(query: QueryBinder, tree: exp.Expr, names: Names, outside: Scope | None) -> BoundQuery:
    """Return the plan of a SELECT and its columns."""
    return SelectBinder(query, tree, names, outside).bound()


def _filtered(node: Node, condition: Expression | None) -> Node:
    return node if condition is None else Filter(node, conjuncts(condition))


def _name(each: exp.Expr, ordinal: int) -> str:
    if isinstance(each, exp.Alias):
        return str(each.args["alias"].name)
    return str(each.name) if isinstance(each, (exp.Column, exp.Dot)) else f"EXPR${ordinal}"


def _has(binder: ExpressionBinder, name: str) -> bool:
    """Return whether FROM has a column of this name, in this case."""
    return any(each.name == name for each in binder.scope.entries)
