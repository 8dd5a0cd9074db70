"""Bind the query of a statement: its plan, whose columns have names again.

Runs on the driver. Invariant: a query has SELECTs, and a SELECT has queries. They meet here only: a query is
given what binds its SELECTs.
"""

from __future__ import annotations

from sqlglot import exp

from penstock.sql.bind.context import Context
from penstock.sql.bind.query import QueryBinder, not_too_deep
from penstock.sql.bind.select import bind_select
from penstock.sql.language.source import Source
from penstock.sql.language.statements import Fragment
from penstock.sql.plan.nodes import Output

_CLAUSES = ("order", "limit", "offset", "with_")


def bind_query(fragment: Fragment, script: Source, context: Context) -> Output:
    """Return the plan of a query.

    Raises:
        SqlError: the query cannot be read, names an unknown table, or has a part that is not served.
    """
    binder = QueryBinder(fragment, script, context, bind_select)
    binder.root = binder.tree
    while isinstance(binder.root, exp.Subquery) and not any(map(binder.root.args.get, _CLAUSES)):
        binder.root = binder.root.this
    with not_too_deep(script, fragment.offset):
        found = binder.query(binder.tree, {}, None)
    binder.hints.check(binder.location)
    return Output(found.node, found.columns, found.names)
