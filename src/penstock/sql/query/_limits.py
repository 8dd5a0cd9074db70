"""The numbers of LIMIT, FETCH and OFFSET.

Runs on the driver. Invariant: each is a literal number of rows.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from penstock.sql.query._sqlglot import place_of
from penstock.sql.query.expressions.expressions import Expressions


def row_count(limit: Any, expressions: Expressions) -> str:
    """Return the number of LIMIT or FETCH."""
    options = limit.args.get("limit_options")
    if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
        expressions.refuse(limit, "FETCH takes a number of ROWS ONLY.")
    count = limit.args.get("count") if isinstance(limit, exp.Fetch) else limit.expression
    return _number(count, limit, expressions)


def rows_left_out(offset: exp.Expr, limit: exp.Expr | None, expressions: Expressions) -> str:
    """Return the number of OFFSET."""
    count = offset.expression
    number = _number(count, offset, expressions)
    is_before = limit is not None and (place_of(count) or 0) < (place_of(limit.expression) or 0)
    if is_before and not isinstance(limit, exp.Fetch):
        expressions.refuse(offset, "LIMIT takes one number. Write LIMIT count OFFSET start.")
    return number


def _number(count: Any, clause: exp.Expr, expressions: Expressions) -> str:
    if not isinstance(count, exp.Literal) or not str(count.this).isdigit():
        expressions.refuse(clause, "expected a number of rows.")
    return str(count.this)
