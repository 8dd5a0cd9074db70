"""LIMIT in a stream, with ORDER BY, OFFSET or rows that change: the first rows of all, by penstock's `top_n`.

Runs on the driver. Invariant: only the rows are those of Flink. The rows of a stream have no order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.sql.query._orders import NO_EXTRA, Extra, column_of, item_of_order
from penstock.sql.query.piece import quoted
from penstock.sql.query.rows import KIND, PLACE, Rows, Selected, plain_kind
from penstock.sql.query.steps import Top

if TYPE_CHECKING:
    from penstock.sql.query._query import Query
    from penstock.sql.query.expressions.expressions import Expressions


def first_of_all(
    query: Query,
    sql: str,
    tree: exp.Expr,
    expressions: Expressions,
    rows: Rows,
    places: range,
    extra: Extra = NO_EXTRA,
) -> Selected:
    """Return the first rows of a query over a stream.

    Args:
        query: the whole query.
        sql: the rows in Spark's SQL.
        tree: the query, with LIMIT.
        expressions: of the query.
        rows: what is known of the rows.
        places: from 0, of those that stay.
        extra: columns for ORDER BY, which go.
    """
    names = [name for name, _ in query.columns(sql, tree) if name not in (*rows.hidden, *extra.names)]
    texts = [f"{quoted(name)} AS `c{place}`" for place, name in enumerate(names)]
    order: list[tuple[str, bool]] = []
    clause = tree.args.get("order")
    for place, each in enumerate(clause.expressions if clause is not None else ()):
        expressions.only(each, "this", "desc", "nulls_first")
        text = quoted(column_of(query, tree, place, names, extra))
        more, by = item_of_order(text, place, each)
        texts += more
        order += by
    if clause is None:  # any rows are right. Those that were read first do not change
        read = PLACE if rows.has_place and rows.changes is None else ()
        texts += [f"`{each}` AS `o{place}`" for place, each in enumerate(read)] or ["0 AS `o0`"]
        order = [(f"o{place}", False) for place in range(len(read) or 1)]
    kind = [f"`{KIND}`"] if rows.changes is not None else []
    inner = query.whole(f"SELECT {', '.join([*texts, '0 AS `p0`', *kind])} FROM ({sql})")
    rank = "n" if places.start else None
    view = query.cut(Top(inner, places.stop, ("p0",), tuple(order), rank), clause or tree.args["limit"])
    feature = query.feature("SortLimit", clause) if clause else query.feature("Limit", tree.args["limit"])
    shown = ", ".join(f"`c{place}` AS {quoted(name)}" for place, name in enumerate(names))
    if rank is not None:  # a row that moves to another place is not the pair of the one that was there
        sql = f"SELECT {shown}, {plain_kind()} AS `{KIND}` FROM {view} WHERE `{rank}` > {places.start}"
        return Selected(sql, Rows(feature, rows.keys))
    found = Rows(feature, rows.keys, is_together=rows.keys is not None)
    return Selected(f"SELECT {shown}, `{KIND}` FROM {view}", found)
