"""QUALIFY: a condition on the results of OVER.

Runs on the driver, before a query is translated. Invariant: SELECT ... QUALIFY c becomes a query around the
SELECT with c in its WHERE, so that ROW_NUMBER() in it becomes a Top-N. What c needs beside the columns of the
SELECT is a column more in it, which the query around does not show. A name in c means a column of SELECT
first, as in Flink. What Flink itself cannot run is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from sqlglot import exp

_INSIDE = ("expressions", "from_", "joins", "laterals", "where", "group", "having", "windows", "hint")
"""The clauses that come before QUALIFY. The others come after it."""
_WITHOUT = "without"

Refuse = Callable[[exp.Expr, str], NoReturn]


def without_qualify(tree: exp.Expr, refuse: Refuse) -> None:
    """Put a query around each SELECT of a tree that has QUALIFY, in place.

    Raises:
        SqlError: QUALIFY has no call with OVER, has a query, or stands beside GROUP BY.
    """
    for select in [each for each in tree.find_all(exp.Select) if each.args.get("qualify") is not None]:
        _wrap(select, refuse)


def left_out(star: exp.Expr) -> tuple[str, ...]:
    """Return the columns that a star of a query around a SELECT does not show."""
    return tuple(star.meta.get(_WITHOUT, ()))


def _wrap(select: exp.Expr, refuse: Refuse) -> None:
    condition = select.args["qualify"].this
    if select.args.get("group") is not None or select.args.get("having") is not None:
        refuse(condition, "QUALIFY is not served beside GROUP BY. Write the groups in a query in FROM.")
    if condition.find(exp.Query) is not None:
        refuse(condition, "a query in QUALIFY is not served. Put it into FROM, and join it.")
    moved = _Moved(select, refuse)
    kept = moved.condition(condition.copy())
    if not moved.has_over:
        refuse(condition, "QUALIFY needs a call with OVER, such as ROW_NUMBER(). Write others in WHERE.")
    inner: Any = exp.Select(**{name: select.args.get(name) for name in _INSIDE})
    for name in (*_INSIDE, "qualify"):
        select.set(name, None)
    for each in moved.hidden:
        inner.append("expressions", each)
    star = exp.Star()
    star.meta[_WITHOUT] = [each.args["alias"].name for each in moved.hidden]
    select.set("expressions", [star])
    alias = exp.TableAlias(this=exp.to_identifier("__qualified"))
    select.set("from_", exp.From(this=exp.Subquery(this=inner, alias=alias)))
    select.set("where", exp.Where(this=kept))


class _Moved:
    """Moves what a condition needs into columns of the SELECT."""

    def __init__(self, select: exp.Expr, refuse: Refuse) -> None:
        self.hidden: list[exp.Expr] = []
        self.has_over = False
        self._refuse = refuse
        self._outputs: dict[str, list[exp.Expr]] = {}
        for each in select.expressions:
            if isinstance(each, exp.Alias):
                self._outputs.setdefault(each.args["alias"].name, []).append(each.this)
            elif isinstance(each, exp.Column):
                self._outputs.setdefault(each.name, []).append(each)

    def condition(self, node: exp.Expr) -> exp.Expr:
        """Return a condition over the columns of the SELECT and the hidden ones."""
        meant = self._meant(node)
        if meant is not None and meant.find(exp.Window) is not None:
            self.has_over = True
            return node
        if isinstance(node, exp.Window):
            self.has_over = True
            return self._column(node)
        if not self._has_over(node):
            is_constant = node.find(exp.Column, exp.Anonymous) is None
            return node if is_constant else self._column(node)
        for child in list(node.iter_expressions()):
            child.replace(self.condition(child.copy()))
        return node

    def _has_over(self, node: exp.Expr) -> bool:
        """Return whether a call with OVER is in an expression, or in a column of SELECT that it names."""
        meant = [self._meant(each) for each in node.find_all(exp.Column)]
        return any(each is not None and each.find(exp.Window) is not None for each in (node, *meant))

    def _column(self, node: exp.Expr) -> exp.Expr:
        """Return a hidden column with an expression, in which names of columns of SELECT are replaced."""
        name = f"__qualify{len(self.hidden)}"
        around = exp.Paren(this=node)  # so that the node itself can be replaced
        for each in list(node.find_all(exp.Column)):
            meant = self._meant(each)
            if meant is None:
                continue
            if meant.find(exp.Window) is not None:
                self._refuse(node, f"'{each.name}' has OVER, and stands in another OVER.")
            each.replace(meant.copy())
        self.hidden.append(exp.alias_(around.this, name))
        return exp.column(name)

    def _meant(self, node: exp.Expr) -> exp.Expr | None:
        """Return the column of SELECT that a name means."""
        if not isinstance(node, exp.Column) or node.args.get("table") is not None:
            return None
        found = self._outputs.get(node.name, [])
        if not found:
            return None
        if len(found) > 1:
            self._refuse(node, f"SELECT has two columns of the name '{node.name}'.")
        if not isinstance(found[0], exp.Column) and found[0].find(exp.Window) is None:
            self._refuse(
                node,
                f"'{node.name}' is a name of SELECT for another expression, and Flink's QUALIFY fails on it. "
                "Write the expression, or a column with its table.",
            )
        return found[0]
