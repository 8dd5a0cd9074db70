"""GROUP BY: its columns, grouping sets, windows, and what may stand beside groups.

Runs on the driver. Invariant: behind the groups only the columns of GROUP BY and aggregates are left. A part
of SELECT that is equal to a column of GROUP BY is that column, however it is written.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from sqlglot import exp

from penstock.sql.bind.context import Context
from penstock.sql.bind.expressions.binder import ExpressionBinder
from penstock.sql.bind.windows import check_zone, group_spans, kind_of_window
from penstock.sql.functions.served import AGGREGATES
from penstock.sql.language.queries import QueryLocation
from penstock.sql.plan.expressions import (
    AggregateCall,
    Call,
    Column,
    Expression,
    Literal,
    QueryCall,
    SortItem,
    rewritten,
)
from penstock.sql.plan.nodes import Aggregate, AggregateOutput, Assignment, Node, Window
from penstock.sql.plan.rewrite import columns_of, free_columns, plan_of, substituted
from penstock.sql.plan.types import BIGINT
from penstock.sql.plan.windows import COLUMNS, parts_of_window, window_type

_SETS = (exp.GroupingSets, exp.Cube, exp.Rollup)
GROUPINGS = ("GROUPING", "GROUPING_ID")
_MOST_SETS = 64
_WINDOW_PARTS = {"START": COLUMNS[0], "END": COLUMNS[1], "ROWTIME": COLUMNS[2]}


@dataclass(frozen=True)
class Item:
    """A column of SELECT: its name, its value, and the node that it was bound of (None in a star)."""

    name: str
    value: Expression
    tree: exp.Expr | None


@dataclass(frozen=True)
class Clauses:
    """What stands behind the rows of FROM: the columns of SELECT, HAVING, QUALIFY and ORDER BY."""

    items: tuple[Item, ...]
    having: Expression | None
    qualify: Expression | None
    order: tuple[SortItem, ...]

    def changed(self, change: Callable[[Expression], Expression]) -> Clauses:
        """Return the clauses with each of their expressions changed."""
        return Clauses(
            tuple(replace(each, value=change(each.value)) for each in self.items),
            None if self.having is None else change(self.having),
            None if self.qualify is None else change(self.qualify),
            tuple(replace(each, expression=change(each.expression)) for each in self.order),
        )


def has_aggregates(tree: exp.Expr) -> bool:
    """Return whether a SELECT without GROUP BY has an aggregate, so that all rows are one group."""
    parts = [*tree.expressions, *(tree.args[key] for key in ("having", "order") if tree.args.get(key))]
    return any(
        str(node.this).upper() in AGGREGATES and node.find_ancestor(exp.Select) is tree and not _is_over(node)
        for part in parts
        for node in part.find_all(exp.Anonymous)
    )


def _is_over(node: exp.Expr) -> bool:
    """Return whether an aggregate is the one before OVER, which needs no group."""
    call = node.parent if isinstance(node.parent, exp.Filter) else node
    return isinstance(call.parent, exp.Window) and call.parent.this is call


def bound_groups(tree: exp.Expr, node: Node, binder: ExpressionBinder) -> Groups:
    """Return the groups of a SELECT over these rows."""
    group = tree.args.get("group")
    items = list(group.expressions) if group is not None else []
    if group is not None:
        binder.only(group, "expressions")
        if group.args.get("all") is not None:
            binder.refuse(group, "GROUP BY takes columns. Leave ALL or DISTINCT out.")
    groups = Groups(binder.context, binder.location, node)
    windows = [each for each in items if kind_of_window(each) is not None]
    if len(windows) > 1:
        binder.refuse(windows[1], "GROUP BY takes one window.")
    if windows:
        _bind_window(groups, tree, windows[0], binder)
    keys: list[Expression] = []

    def key(each: exp.Expr) -> int:
        if isinstance(each, exp.Literal):
            binder.refuse(each, "expected a column, got a literal. Write the column itself.")
        value: Expression = (
            groups.window if windows and each is windows[0] and groups.window else binder.bind(each)
        )
        if value not in keys:
            keys.append(value)
        return keys.index(value)

    choices = [[[key(column) for column in each] for each in _choices(item, binder)] for item in items]
    sets = [tuple(dict.fromkeys(itertools.chain.from_iterable(each))) for each in itertools.product(*choices)]
    if len(sets) > _MOST_SETS:
        binder.refuse(items[0], f"GROUP BY has {len(sets)} sets; at most {_MOST_SETS} are served.")
    groups.offset = binder.location.of(group if group is not None else tree)
    groups.keys = tuple(Assignment(binder.context.column(_key_name(each), each.type), each) for each in keys)
    groups.sets = tuple(sets) if any(isinstance(each, _SETS) for each in items) else ()
    groups.partition_session()
    groups.check_calls(tree, binder)
    return groups


def _key_name(value: Expression) -> str:
    return value.name.lower().removeprefix(".") if isinstance(value, (Column, Call)) else "key"


def _choices(item: exp.Expr, binder: ExpressionBinder) -> list[list[exp.Expr]]:
    """Return the lists of columns that an item of GROUP BY stands for."""
    if not isinstance(item, _SETS):
        return [[item]]
    binder.only(item, "expressions")
    parts = [
        list(each.expressions)
        if isinstance(each, exp.Tuple)
        else [each.this if isinstance(each, exp.Paren) else each]
        for each in item.expressions
    ]
    if isinstance(item, exp.GroupingSets):
        return parts
    if isinstance(item, exp.Rollup):
        kept = [parts[:count] for count in range(len(parts), -1, -1)]
    else:
        counts = range(len(parts), -1, -1)
        kept = [list(some) for count in counts for some in itertools.combinations(parts, count)]
    return [list(itertools.chain.from_iterable(each)) for each in kept]


def _bind_window(groups: Groups, tree: exp.Expr, call: exp.Expr, binder: ExpressionBinder) -> None:
    """Put each row into its windows, and let TUMBLE_START and the like be parts of them."""
    spans, time = group_spans(binder.location, call), binder.bind(call.expressions[0])
    if time.type.name not in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        binder.refuse(call.expressions[0], "a window is over a TIMESTAMP. Write CAST(... AS TIMESTAMP(3)).")
    check_zone(groups.context, groups.location, call)
    window = groups.context.column("window", window_type(time))
    groups.window = window
    groups.input = Window(groups.input, spans, time, (), window, binder.location.of(call))
    parts, lengths = parts_of_window(window), call.expressions[1:]

    def special(node: exp.Expr) -> Expression | None:
        word, _, part = str(node.this).upper().partition("_") if type(node) is exp.Anonymous else ("", "", "")
        if word != spans.kind or part not in _WINDOW_PARTS or node.find_ancestor(exp.Select) is not tree:
            return None
        if node.expressions[1:] != lengths:
            binder.refuse(node, f"{word}_{part} has other intervals than the {word} in GROUP BY.")
        return parts[_WINDOW_PARTS[part]]

    binder.special = special


@dataclass
class Groups:
    """The groups of one SELECT, while it is bound.

    Attributes:
        input: the rows that are grouped.
        keys: the columns of GROUP BY.
        sets: the grouping sets as indices of `keys`; () without any.
        window: the column of a window that stands in GROUP BY.
        ttl: the time of a STATE_TTL hint.
    """

    context: Context
    location: QueryLocation
    input: Node
    keys: tuple[Assignment, ...] = ()
    sets: tuple[tuple[int, ...], ...] = ()
    window: Column | None = None
    offset: int = -1
    ttl: str | None = None
    _calls: dict[AggregateCall, Column] = field(default_factory=dict)
    _groupings: dict[tuple[int, ...], Column] = field(default_factory=dict)

    def partition_session(self) -> None:
        """Let a SESSION of GROUP BY be one of the other columns."""
        rows = self.input
        if self.window is not None and isinstance(rows, Window) and rows.spans.kind == "SESSION":
            others = tuple(each.expression for each in self.keys if each.expression != self.window)
            self.input = replace(rows, partition=others)

    def check_calls(self, tree: exp.Expr, binder: ExpressionBinder) -> None:
        """Bind GROUPING and GROUPING_ID, whose arguments are columns of GROUP BY."""
        inner = binder.special

        def special(node: exp.Expr) -> Expression | None:
            name = str(node.this).upper() if type(node) is exp.Anonymous else ""
            if name not in GROUPINGS or node.find_ancestor(exp.Select) is not tree:
                return inner(node)
            known = {each.expression: index for index, each in enumerate(self.keys)}
            indices = tuple(known.get(binder.bind(each), -1) for each in node.expressions)
            if not indices or -1 in indices:
                binder.refuse(node, f"{name} takes columns of GROUP BY.")
            if not self.sets:
                return Literal("CAST(0 AS BIGINT)", BIGINT, 0)
            if indices not in self._groupings:
                self._groupings[indices] = self.context.column(name.lower(), BIGINT)
            return self._groupings[indices]

        binder.special = special

    def over(self, clauses: Clauses) -> tuple[Node, Clauses]:
        """Return the groups, and what stands behind them in their columns."""
        clauses = clauses.changed(self._of_groups)
        node = Aggregate(
            self.input,
            self.keys,
            tuple(AggregateOutput(column, call) for call, column in self._calls.items()),
            self.sets,
            tuple((column, indices) for indices, column in self._groupings.items()),
            self.offset,
            self.ttl,
        )
        return node, clauses

    def _of_groups(self, value: Expression) -> Expression:
        """Return an expression over the columns of the groups.

        Raises:
            SqlError: it takes a column that is neither in GROUP BY nor in an aggregate.
        """
        known = {each.expression: each.column for each in self.keys}
        own = {*columns_of(self.input)}
        groupings = {*self._groupings.values()}

        def change(part: Expression) -> Expression | None:
            if part in known:
                return known[part]
            if isinstance(part, AggregateCall):
                if part not in self._calls:
                    self._calls[part] = self.context.column(part.name.lower(), part.type)
                return self._calls[part]
            if isinstance(part, Column) and part in own and part not in groupings:
                self._refuse(part)
            if isinstance(part, QueryCall):
                return self._query_of_groups(part, known, own)
            return None

        return rewritten(value, change)

    def _query_of_groups(
        self, query: QueryCall, known: dict[Expression, Column], own: Iterable[Column]
    ) -> QueryCall:
        """Return a query beside groups, which takes columns of the groups only."""
        taken = free_columns(plan_of(query)) & {*own}
        for each in taken:
            if each not in known:
                self._refuse(each)
        names: dict[Column, Expression] = {each: known[each] for each in taken}
        plan = substituted(plan_of(query), names)
        return replace(query, plan=plan, values=tuple(map(self._of_groups, query.values)))

    def _refuse(self, column: Column) -> None:
        message = f"the column '{column.name}' is neither in GROUP BY nor in an aggregate."
        raise self.location.script.error(message, max(column.offset, self.location.offset))
