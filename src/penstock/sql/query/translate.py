"""Translate a query of Flink's SQL into one of Spark's.

Runs on the driver. Invariant: every clause of a SELECT is translated or refused; none is left out. Parts that
Spark cannot stream are listed in the result.
"""

from __future__ import annotations

import re

from sqlglot import exp

from penstock.sql.language.source import Source
from penstock.sql.language.statements import Fragment
from penstock.sql.query._functions import AGGREGATES, FUNCTIONS, OVER_ONLY
from penstock.sql.query._hints import without_hints
from penstock.sql.query._not_served import FREE, REFUSED
from penstock.sql.query._qualify import without_qualify
from penstock.sql.query._query import Query
from penstock.sql.query._sqlglot import read_expression, read_query
from penstock.sql.query._windows import interval_ms
from penstock.sql.query.expressions.expressions import Expressions
from penstock.sql.query.piece import Binder, Piece, Script, Translated
from penstock.sql.query.rows import INSERTS
from penstock.sql.query.varying import VaryingCall


def translate_query(
    fragment: Fragment,
    source: Source,
    binder: Binder,
    *,
    has_place: bool = False,
    is_inner: bool = False,
    is_raw: bool = False,
    free: tuple[bool, ...] = (),
) -> Translated:
    """Return a query in Spark's SQL.

    Args:
        fragment: its text.
        source: the script, for messages.
        binder: the tables and functions of the session.
        has_place: whether the rows are wanted with their places, because the order of equal keys counts.
        is_inner: whether other queries read the rows: it is the query of a view.
        is_raw: whether the rows are wanted as versions of their keys, for FOR SYSTEM_TIME AS OF.
        free: for each column, whether a clock may stand in it although the rows change, because the table
            that is written finds its rows by other columns.

    Raises:
        SqlError: the query cannot be read, names an unknown table, or has a part that is not served.
    """
    text, hints = without_hints(fragment.text)
    tree = read_query(text, source, fragment.offset)
    is_ordered = re.search(r"\b(OVER|FIRST_VALUE|LAST_VALUE)\b", text.upper()) is not None
    clauses = [tree.args.get(each) is not None for each in ("order", "limit", "offset")]
    is_sorted = clauses[0] != clauses[1] or clauses[2]
    query = Query(
        Script(source, fragment.offset),
        binder,
        hints,
        has_place=has_place or is_ordered or is_sorted,
        free=free,
    )
    query.last = None if is_inner else tree
    query.root = _without_brackets(tree)
    try:
        without_qualify(tree, query.refuse)
        selected = query.query_of(tree, {}, is_raw=is_raw)
        query.check_hints()
    except RecursionError:
        raise source.error(
            "the query is nested too deeply. Divide it, e.g. with views.", fragment.offset
        ) from None
    return Translated(
        selected.sql,
        tuple(query.features),
        selected.rows,
        query.drops_late_rows,
        query.has_interval_join,
    )


def _without_brackets(tree: exp.Expr) -> exp.Expr:
    while isinstance(tree, exp.Subquery) and not any(
        tree.args.get(each) for each in ("order", "limit", "offset", "with_")
    ):
        tree = tree.this
    return tree


def translate_expression(
    fragment: Fragment, source: Source, binder: Binder, from_text: str
) -> tuple[Piece, list[VaryingCall]]:
    """Return an expression over the columns of a table, and its calls that may give other values.

    The caller decides whether such calls may be over the rows of the table.

    Args:
        fragment: its text.
        source: the script, for messages.
        binder: the functions of the session.
        from_text: `FROM ...` of Spark's SQL, with the columns that it uses.
    """
    tree = read_expression(fragment.text, source, fragment.offset)
    script = Script(source, fragment.offset)
    query = Query(script, binder, [])
    expressions = Expressions(script, binder, query.no_subquery, query.features)
    expressions.over(from_text, INSERTS)
    return expressions.piece(tree), expressions.varying


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


_WITH_WORDS = (
    *("EXTRACT", "TIMESTAMPADD", "TIMESTAMPDIFF", "ROW", "ROUND", "POSITION", "CAST", "TRY_CAST"),
    *("UNIX_TIMESTAMP", "JSON_OBJECT", "JSON_ARRAY"),
)


def is_flinks(name: str) -> bool:
    """Return whether Flink has a function of this name, in any case. A user's function cannot have it."""
    upper = name.upper()
    names = {*_WITH_WORDS, *FUNCTIONS, *AGGREGATES, *OVER_ONLY, *REFUSED}
    return upper in names - FREE
