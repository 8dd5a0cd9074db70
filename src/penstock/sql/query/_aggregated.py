"""GROUP BY without a window over a stream: a cut of the query at penstock's `aggregate`.

Runs on the driver. Invariant: behind the cut only the columns of GROUP BY and aggregates are left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.sql.query._aggregates import Calls, aggregate_text
from penstock.sql.query._functions import AGGREGATES
from penstock.sql.query._grouping_sets import FUNCTIONS, KINDS, SET, Sets, sets_of
from penstock.sql.query._parts import From
from penstock.sql.query.piece import Piece, quoted
from penstock.sql.query.rows import KIND, OFFSET, Feature, Rows, Selected, plain_kind
from penstock.sql.query.steps import Aggregation

if TYPE_CHECKING:
    from penstock.sql.query._groups import Groups

_BARE_NAMES = ("LOCALTIMESTAMP", "CURRENT_ROW_TIMESTAMP")
_NO_CALL = ("none", "count(none)")


def aggregate_nodes(tree: exp.Expr) -> list[exp.Expr]:
    """Return the calls of aggregates in the columns and HAVING of a SELECT, without those with OVER."""
    having = tree.args.get("having")
    found = []
    for part in [*tree.expressions, *([having] if having is not None else [])]:
        for node in part.find_all(exp.Anonymous):
            above = with_filter(node).parent
            if (
                str(node.this).upper() in AGGREGATES
                and node.find_ancestor(exp.Select) is tree
                and not isinstance(above, exp.Window)
            ):
                found.append(node)
    return found


def aggregated(parts: Groups, source: From) -> Selected:
    """Return a SELECT with aggregates over a stream.

    Raises:
        SqlError: an aggregate or a column is not served.
    """
    tree, inner = parts.tree, parts.inner
    group = tree.args.get("group")
    items = list(group.expressions) if group is not None else []
    if group is not None:
        inner.only(group, "expressions")
    sets, ttl = sets_in(parts, items), parts.take_ttl(source)
    source, where = parts.filtered(source)
    keys = [parts.group_item(each) for each in sets.columns]
    calls, replaced = calls_in(parts, _order_of(source))
    texts = [f"{text} AS `g{place}`" for place, text in enumerate(keys or ["0"])]
    texts += [f"{text} AS `a{place}`" for place, text in enumerate(calls.arguments)]
    if not calls.calls:
        texts.append("CAST(NULL AS INT) AS `none`")
    texts += [f"`{KIND}`"] if source.rows.changes is not None else []
    rows = f"SELECT {', '.join(texts)} FROM {source.text}{where}"
    names = tuple(f"g{place}" for place in range(len(keys) or 1))
    if sets.are_many:
        own = [f"`a{place}`" for place in range(len(calls.arguments))]
        own += [*([] if calls.calls else ["`none`"]), *([f"`{KIND}`"] if source.rows.changes else [])]
        rows, names = sets.exploded(rows, own), (*names, SET)
    query = parts.query.whole(rows)
    # The count of nothing never changes: a group comes once and goes once.
    given = tuple(calls.calls) or (("n", _NO_CALL[1]),)
    view = parts.query.cut(Aggregation(query, names, given, ttl), tree)
    replaced |= {id(each): _grouping(parts, sets, each) for each in grouping_nodes(tree)}
    call = tree.args.get("group") or tree
    feature = parts.query.feature("GroupAggregate", call, "Write into a table that takes updates.")
    parts.use_columns(view, bound(parts, sets.columns, replaced), Rows(feature))
    return _selected(parts, sets, view, feature)


def grouping_nodes(tree: exp.Expr) -> list[exp.Expr]:
    """Return the calls of GROUPING and the like in a SELECT."""
    return [
        each
        for each in tree.find_all(exp.Anonymous)
        if str(each.this).upper() in FUNCTIONS and each.find_ancestor(exp.Select) is tree
    ]


def with_filter(node: exp.Expr) -> exp.Expr:
    """Return a call of an aggregate with its FILTER, if it has one."""
    return node.parent if isinstance(node.parent, exp.Filter) else node


def calls_in(parts: Groups, order: str | None) -> tuple[Calls, dict[int, str]]:
    """Return the aggregates of a SELECT, and their texts over the columns of an operator.

    Args:
        parts: of the SELECT.
        order: the text that orders the rows of a batch; None without an order.
    """
    calls = Calls()
    texts = {id(with_filter(each)): _call(parts, calls, each, order) for each in aggregate_nodes(parts.tree)}
    return calls, texts


def sets_in(parts: Groups, items: list[exp.Expr]) -> Sets:
    """Return the grouping sets that items of GROUP BY are."""
    for each in items:
        if isinstance(each, KINDS):
            parts.inner.only(each, "expressions")
    try:
        return sets_of(items)
    except ValueError as error:
        parts.inner.refuse(items[0], str(error))


def _order_of(source: From) -> str | None:
    """Return the text that orders the rows of a batch: the offset, or the time of the watermark."""
    if source.rows.changes is not None:
        return None
    if source.rows.has_place:
        return f"`{OFFSET}`"
    return quoted(source.time[0]) if source.time is not None else None


def _call(parts: Groups, calls: Calls, node: exp.Expr, order: str | None) -> str:
    """Return the text of an aggregate over the columns of an operator; `calls` gets what it needs."""
    inner, name, args = parts.inner, str(node.this).upper(), list(node.expressions)
    is_distinct = bool(args) and type(args[0]) is exp.Distinct
    if is_distinct:
        inner.only(args[0], "expressions")
        args = args[0].expressions
    inner.check_count(node, name, AGGREGATES[name], len(args))
    pieces = [Piece("*", lambda: "bigint") if type(each) is exp.Star else inner.piece(each) for each in args]
    condition = inner.text(node.parent.expression.this) if isinstance(node.parent, exp.Filter) else None
    try:
        return aggregate_text(calls, name, pieces, is_distinct=is_distinct, condition=condition, order=order)
    except ValueError as error:
        return inner.refuse(node, f"{name}: {error}")


def bound(parts: Groups, columns: list[exp.Expr], known: dict[int, str]) -> dict[int, str]:
    """Return the texts of all parts of SELECT and HAVING that stand for a column of the operator.

    Args:
        parts: of the SELECT.
        columns: of GROUP BY, which are the columns `g0`, `g1`, ... of the operator.
        known: the texts of other parts: aggregates, and GROUPING.

    Raises:
        SqlError: a column is neither in GROUP BY nor in an aggregate.
    """
    replaced = dict(known)

    def bind(node: exp.Expr) -> None:
        if id(node) in replaced or is_of_window(parts, node):
            return
        place = place_in(columns, node, parts.aliases)
        if place is not None:
            replaced[id(node)] = f"`g{place}`"
            return
        if isinstance(node, exp.Anonymous) and not parts.inner.has_function(str(node.this)):
            return  # it is refused by its name, not for the columns that it takes
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            parts.inner.refuse(node, "SELECT * is not served with GROUP BY.")
        if isinstance(node, exp.Column) and node.name.upper() not in _BARE_NAMES:
            parts.inner.refuse(node, f"the column '{node.name}' is neither in GROUP BY nor in an aggregate.")
        for child in node.iter_expressions():
            bind(child)

    having = parts.tree.args.get("having")
    for each in [*parts.tree.expressions, *([having.this] if having is not None else [])]:
        bind(each)
    return replaced


def is_of_window(parts: Groups, node: exp.Expr) -> bool:
    """Return whether a node is a column of the window of FROM."""
    return isinstance(node, exp.Column) and node.name.lower() in parts.inner.window_columns


def _grouping(parts: Groups, sets: Sets, node: exp.Expr) -> str:
    places = [place_in(sets.columns, each, parts.aliases) for each in node.expressions]
    known = [each for each in places if each is not None]
    if not known or len(known) < len(places):
        parts.inner.refuse(node, f"{str(node.this).upper()} takes columns of GROUP BY.")
    return sets.grouping(known)


def place_in(items: list[exp.Expr], node: exp.Expr, aliases: frozenset[str]) -> int | None:
    """Return the place of an expression in GROUP BY; `aliases` are the tables of FROM."""
    for place, item in enumerate(items):
        if node == item or _is_same_column(node, item, aliases):
            return place
    return None


def _is_same_column(one: exp.Expr, other: exp.Expr, aliases: frozenset[str]) -> bool:
    """Return whether two columns are the same, with and without the name of the table."""
    if not (isinstance(one, exp.Column) and isinstance(other, exp.Column)):
        return False
    tables = {each.table.lower() for each in (one, other)} - {""}
    return one.name.lower() == other.name.lower() and len(tables) < 2 and tables <= aliases


def _selected(parts: Groups, sets: Sets, view: str, feature: Feature) -> Selected:
    tree, inner, items = parts.tree, parts.inner, sets.columns
    having = tree.args.get("having")
    outputs = [parts.output(each, None) for each in tree.expressions]
    names: dict[int, str] = {}
    for each, name in zip(tree.expressions, parts.output_names(), strict=True):
        place = place_in(items, each.this if isinstance(each, exp.Alias) else each, parts.aliases)
        if place is not None:
            names[place] = name.lower()
    is_key = len(names) == len(items) and not sets.are_many
    keys = frozenset(names.values()) if is_key else None
    rows = Rows(feature, keys, is_together=keys is not None and having is None)
    kind = f"`{KIND}`" if having is None else f"{plain_kind()} AS `{KIND}`"
    kept = f" WHERE {inner.text(having.this)}" if having is not None else ""
    sql = f"SELECT {', '.join(outputs)}, {kind} FROM {view}{kept}"
    if tree.args.get("distinct") is not None:
        rows, sql = parts.query.distinct(sql, rows, tree)
    return parts.query.ended(sql, tree, inner, rows)
