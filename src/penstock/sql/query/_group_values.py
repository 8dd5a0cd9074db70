"""Queries as values beside groups: the groups become a query in FROM, and the values are compared around it.

Runs on the driver. Invariant: the query means the same. `SELECT k FROM t GROUP BY k HAVING SUM(x) > (q)`
becomes `SELECT g0 FROM (SELECT k AS g0, SUM(x) AS a0 FROM t GROUP BY k) WHERE a0 > (q)`.
"""

from __future__ import annotations

from sqlglot import exp

from penstock.sql.query._aggregated import aggregate_nodes, place_in, with_filter
from penstock.sql.query._correlated import is_value
from penstock.sql.query._grouping_sets import FUNCTIONS, KINDS

_NAME = "__groups"
_WINDOWS = ("TUMBLE", "HOP", "SESSION", "CUMULATE")
_OUTER = ("order", "limit", "offset", "distinct", "with_")


def groups_in_from(tree: exp.Expr) -> exp.Expr | None:
    """Return the query around its groups; None if it has no values beside groups.

    It is also None for windows and grouping sets, which have functions of their own in SELECT.

    Args:
        tree: a SELECT. It is not changed.
    """
    having, group = tree.args.get("having"), tree.args.get("group")
    if not _has_values(tree) or tree.args.get("from_") is None:
        return None
    items = list(group.expressions) if group is not None else []
    if any(isinstance(each, (*KINDS, exp.Literal)) or _is_window(each) for each in items):
        return None
    if any(_is_grouping(each) for each in tree.find_all(exp.Anonymous)):
        return None
    calls = list(map(with_filter, aggregate_nodes(tree)))
    aliases = frozenset(
        each.alias_or_name.lower() for each in tree.args["from_"].find_all(exp.Table, exp.Subquery)
    )
    inside = tree.copy()
    for each in (*_OUTER, "having"):
        inside.set(each, None)
    named = [*((item, f"__g{place}") for place, item in enumerate(items))]
    named += [(call, f"__a{place}") for place, call in enumerate(calls)]
    inside.set("expressions", [exp.alias_(each.copy(), name) for each, name in named])
    around = _Around(items, calls, aliases)
    outputs = [around.output(each, place) for place, each in enumerate(tree.expressions)]
    outer = exp.Select(
        expressions=outputs,
        from_=exp.From(this=exp.Subquery(this=inside, alias=exp.TableAlias(this=exp.to_identifier(_NAME)))),
        where=exp.Where(this=around.of(having.this)) if having is not None else None,
    )
    for each in _OUTER:
        outer.set(each, tree.args[each].copy() if tree.args.get(each) is not None else None)
    return outer


class _Around:
    """Expressions over the groups: items of GROUP BY and aggregates are columns."""

    def __init__(self, items: list[exp.Expr], calls: list[exp.Expr], aliases: frozenset[str]) -> None:
        self._items = items
        self._calls = {id(call): place for place, call in enumerate(calls)}
        self._aliases = aliases

    def output(self, each: exp.Expr, place: int) -> exp.Expr:
        """Return a column of SELECT with the name that it has at its place."""
        if isinstance(each, exp.Alias):
            made = each.copy()
            made.set("this", self.of(each.this))
            return made
        name = each.name if isinstance(each, exp.Column) else f"EXPR${place}"
        # Not `exp.alias_`, which makes the name that of a query in brackets.
        return exp.Alias(this=self.of(each), alias=exp.to_identifier(name, quoted=True))

    def of(self, node: exp.Expr) -> exp.Expr:
        """Return an expression over the groups. Queries in it stay as they are."""
        if id(node) in self._calls:
            return exp.column(f"__a{self._calls[id(node)]}")
        place = place_in(self._items, node, self._aliases)
        if place is not None:
            return exp.column(f"__g{place}")
        if isinstance(node, exp.Subquery):
            return node.copy()
        made = node.copy()
        for name, value in node.args.items():
            if isinstance(value, exp.Expr):
                made.set(name, self.of(value))
            elif isinstance(value, list):
                made.set(name, [self.of(each) if isinstance(each, exp.Expr) else each for each in value])
        return made


def _has_values(tree: exp.Expr) -> bool:
    """Return whether groups have a query as a value in HAVING, or in SELECT outside of aggregates."""
    calls = aggregate_nodes(tree)
    if not calls and tree.args.get("group") is None:
        return False
    inside = {id(node) for call in calls for node in with_filter(call).find_all(exp.Subquery)}
    having = tree.args.get("having")
    return any(
        is_value(node) and id(node) not in inside
        for part in [*tree.expressions, *([having] if having is not None else [])]
        for node in part.find_all(exp.Subquery)
    )


def _is_window(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this).upper() in _WINDOWS


def _is_grouping(node: exp.Expr) -> bool:
    return str(node.this).upper() in FUNCTIONS or _is_window(node)
