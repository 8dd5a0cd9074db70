"""The parts of one SELECT that its other files share.

Runs on the driver. Invariant: one object a SELECT.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.sql.query.expressions.expressions import Expressions

if TYPE_CHECKING:
    from penstock.sql.query._query import Query


@dataclass
class Window:
    """The window of a SELECT: Spark's window, its text in GROUP BY, and the columns that mean its parts."""

    kind: str = ""
    group_text: str = ""
    partition: tuple[str, ...] = ()


class Parts:
    """A SELECT of a query, the names of WITH, its expressions, and its window."""

    def __init__(self, query: Query, tree: exp.Expr, names: frozenset[str]) -> None:
        self.query = query
        self.tree = tree
        self.names = names
        self.window: Window | None = None
        self.inner: Expressions = query.expressions(names)
