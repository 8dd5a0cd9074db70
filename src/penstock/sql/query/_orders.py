"""ORDER BY in a stream: its columns, and the order of the watermark's column by penstock's `sort_by_time`.

Also the numbers of LIMIT, FETCH and OFFSET.

Runs on the driver. Invariant: an item of ORDER BY is a column of SELECT first, and else an expression over
the rows of FROM, in a column that nothing else sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from penstock.sql.query._sqlglot import place_of
from penstock.sql.query.expressions.expressions import Expressions
from penstock.sql.query.piece import quoted
from penstock.sql.query.rows import KIND, Rows, Selected
from penstock.sql.query.scope import column_name
from penstock.sql.query.steps import TimeSort

if TYPE_CHECKING:
    from penstock.sql.query._parts import From, Parts
    from penstock.sql.query._query import Query
    from penstock.sql.query.expressions.expressions import Expressions

_NEEDS_TIME = (
    "ORDER BY without LIMIT in a stream begins with the column of the WATERMARK of a table, ascending, as in "
    "Flink. Rows in another order would have to wait for ever: add LIMIT, or leave ORDER BY out."
)
_NEEDS_NAME = (
    "ORDER BY in a stream takes columns of SELECT here. Give the value a name by AS and order by that name."
)


@dataclass(frozen=True)
class Extra:
    """Columns for items of ORDER BY that SELECT does not show: by the places of the items, their texts."""

    texts: Mapping[int, str]

    @staticmethod
    def name(place: int) -> str:
        """Return the name of the column of an item."""
        return f"__s{place}"

    @property
    def names(self) -> list[str]:
        return list(map(self.name, self.texts))

    @property
    def shown(self) -> str:
        """Return the columns, behind those of SELECT."""
        return "".join(f", {text} AS `{self.name(place)}`" for place, text in self.texts.items())


NO_EXTRA = Extra({})


def extra_columns(parts: Parts, source: From, select: str) -> Extra:
    """Return the columns that ORDER BY needs beside those of SELECT.

    Raises:
        SqlError: an item of ORDER BY is not served.
    """
    names = [name for name, _ in parts.query.columns(select, parts.tree) if name not in source.rows.hidden]
    found = {}
    for place, each in enumerate(parts.tree.args["order"].expressions):
        if _shown(parts.query, parts.tree, each.this, names) is None:
            _check_names(parts, each.this)
            found[place] = parts.inner.text(each.this)
    return Extra(found)


def with_time(rows: Rows, source: From | None, extra: Extra) -> Rows:
    """Return what is known of rows, with the time of FROM if SELECT leaves it out and ORDER BY takes it."""
    time = source.rows.time if source is not None else None
    if source is None or time is None or 0 not in extra.texts:
        return rows
    if column_name(extra.texts[0], source.aliases) != time[0].lower():
        return rows
    return replace(rows, time=(extra.name(0), time[1]))


def column_of(query: Query, tree: exp.Expr, place: int, names: list[str], extra: Extra) -> str:
    """Return the column that an item of ORDER BY is.

    Args:
        query: the whole query.
        tree: the query with ORDER BY.
        place: of the item, from 0.
        names: of the columns of SELECT.
        extra: the others.

    Raises:
        SqlError: no column has its name or number.
    """
    if place in extra.texts:
        return extra.name(place)
    node = tree.args["order"].expressions[place].this
    found = _shown(query, tree, node, names)
    if found is None:
        query.refuse(node, _NEEDS_NAME)
    return found


def in_order_of_time(
    query: Query, sql: str, tree: exp.Expr, expressions: Expressions, rows: Rows, extra: Extra
) -> Selected:
    """Return the rows of a stream in the order of the watermark's column.

    Raises:
        SqlError: the order is another one, or the rows change.
    """
    order = tree.args["order"]
    if rows.changes is not None or rows.time is None:
        query.refuse(order, _NEEDS_TIME)
    if tree is not query.last:
        query.refuse(
            order,
            "ORDER BY without LIMIT in a view of a stream is not served, because the query around the view "
            "does not keep the order. Write it in the query that reads the view.",
        )
    hidden = (*rows.hidden, *extra.names)
    names = [name for name, _ in query.columns(sql, tree) if name not in hidden]
    texts = [f"{quoted(name)} AS `c{place}`" for place, name in enumerate(names)]
    ordered: list[tuple[str, bool]] = []
    for place, each in enumerate(order.expressions):
        name = column_of(query, tree, place, names, extra)
        expressions.only(each, "this", "desc", "nulls_first")
        if place == 0 and (name.lower() != rows.time[0].lower() or each.args.get("desc")):
            query.refuse(order, _NEEDS_TIME)
        more, by = item_of_order(quoted(name), place, each)
        texts += more if place else more[:1]  # a time is never null
        ordered += by if place else []
    places = [each for each in rows.hidden if each != KIND]
    texts += [f"`{each}`" for each in places]
    step = TimeSort(
        query.whole(f"SELECT {', '.join(texts)} FROM ({sql})"),
        "o0",
        rows.time[1],
        (*ordered, *((each, False) for each in places)),
    )
    view = query.cut(step, order)
    query.drops_late_rows = True
    shown = ", ".join(f"`c{place}` AS {quoted(name)}" for place, name in enumerate(names))
    return Selected(f"SELECT {shown} FROM {view}", Rows(keys=rows.keys))


def item_of_order(text: str, place: int, each: exp.Expr) -> tuple[list[str], list[tuple[str, bool]]]:
    """Return the columns `o0`, `o0n` and so on of an item of ORDER BY, and the order by them."""
    name = f"o{place}"
    null = null_place(text, f"{name}n", each)
    texts = [f"{text} AS `{name}`", *([null] if null else [])]
    return texts, [*([(f"{name}n", False)] if null else []), (name, bool(each.args.get("desc")))]


def null_place(text: str, name: str, each: exp.Expr) -> str:
    """Return a column that puts nulls to where an order wants them; "" if they are there anyway.

    Args:
        text: what is ordered.
        name: of the new column.
        each: the item of ORDER BY. Null is the lowest value.
    """
    wanted, is_down = each.args.get("nulls_first"), bool(each.args.get("desc"))
    if wanted is None or bool(wanted) is not is_down:
        return ""
    null, other = (0, 1) if wanted else (1, 0)
    return f"CASE WHEN {text} IS NULL THEN {null} ELSE {other} END AS `{name}`"


def _shown(query: Query, tree: exp.Expr, node: exp.Expr, names: list[str]) -> str | None:
    """Return the column of SELECT with the name or the number of an item; None if no column has it.

    Raises:
        SqlError: two columns have the name, or there is no column of the number.
    """
    if isinstance(node, exp.Literal):
        number = int(str(node.this)) if node.is_int else 0
        if not 1 <= number <= len(names):
            query.refuse(node, f"ORDER BY takes the number of a column of SELECT, from 1 to {len(names)}.")
        return names[number - 1]
    if not isinstance(node, exp.Column) or (node.table and node not in tree.expressions):
        return None
    found = [name for name in names if name.lower() == node.name.lower()]
    if len(found) > 1:
        query.refuse(node, f"SELECT has two columns '{node.name}'. Give one of them another name by AS.")
    return found[0] if found else None


def check_case(query: Query, tree: exp.Expr) -> None:
    """Refuse a name in ORDER BY that Spark takes for another column of SELECT, because it ignores case."""
    names = [each.alias_or_name for each in tree.expressions]
    for item in tree.args["order"].expressions:
        node = item.this
        if not isinstance(node, exp.Column) or node.table or node.name in names:
            continue
        for each in tree.expressions:
            is_other = isinstance(each, exp.Alias) and each.this.name.lower() != node.name.lower()
            if is_other and each.alias.lower() == node.name.lower():
                query.refuse(
                    node,
                    f"'{node.name}' and '{each.alias}' of SELECT are two names in Flink, and one in Spark. "
                    f"Write '{each.alias}', or another name behind AS.",
                )


def _check_names(parts: Parts, node: exp.Expr) -> None:
    """Refuse an expression in which a name could mean a column of SELECT or one of FROM."""
    own = {
        str(each.args["alias"].name).lower()
        for each in parts.tree.expressions
        if isinstance(each, exp.Alias)
        and not (isinstance(each.this, exp.Column) and each.this.name == each.args["alias"].name)
    }
    means_two = any(not each.table and each.name.lower() in own for each in node.find_all(exp.Column))
    if means_two or node.find(exp.Select) is not None:
        parts.inner.refuse(node, _NEEDS_NAME)


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
