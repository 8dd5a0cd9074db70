"""A query as a value in a stream, `(SELECT MAX(x) FROM t)`: a left join with its one row.

Runs on the driver. Invariant: a row has the value of the rows that are there now, and NULL if there are none.
As in Flink, a COUNT of no rows is NULL, unless the query compares its rows with those outside: then it is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.sql.query._aggregated import aggregate_nodes, with_filter
from penstock.sql.query._correlated import (
    Correlated,
    grouped_by_keys,
    is_hidden,
    is_value,
    with_keys,
    without_correlation,
)
from penstock.sql.query._joins import Side, add_key, conjuncts, used
from penstock.sql.query._parts import From
from penstock.sql.query.piece import literal, quoted
from penstock.sql.query.rows import HIDDEN, Rows
from penstock.sql.query.scope import Entry, Scope
from penstock.sql.query.steps import RegularJoin

if TYPE_CHECKING:
    from penstock.sql.query._groups import Groups

_VALUE, _ROWS, _RIGHT = "__value", "__rows", "__right"
_CLAUSES = ("having", "group", "distinct", "limit", "offset", "order", "with_")
_MANY = "a query as a value gave more than one row. Take one of them with MAX, MIN or WHERE."
_OF_GROUPS = (
    "a query as a value beside groups stands in WHERE or in an aggregate. Put the groups in a query in FROM, "
    "and compare them around it."
)


@dataclass(frozen=True)
class _Value:
    """A query as a value.

    Attributes:
        node: where it stands.
        found: the query, with the values that it is compared with.
        tree: a query with one row for each of these values.
        aggregates: those of its own; empty if it gives rows.
    """

    node: exp.Expr
    found: Correlated
    tree: exp.Expr
    aggregates: tuple[exp.Expr, ...]

    @property
    def output(self) -> exp.Expr:
        """Return its column."""
        each: exp.Expr = self.found.tree.expressions[0]
        return each.this if isinstance(each, exp.Alias) else each


def with_values(parts: Groups, source: From) -> From:
    """Return FROM with the values of queries in SELECT and WHERE, if FROM is a stream.

    Conditions of WHERE without a query are applied before, so that the join keeps less.

    Raises:
        SqlError: a query is not served as a value.
    """
    nodes, of_groups = _nodes(parts), _nodes_of_having(parts)
    if not (nodes or of_groups) or not parts.query.is_streaming(source.text):
        return source
    _check(parts, nodes, of_groups)
    source, kept = parts.named(source, "__left"), _early(parts)
    columns = used(parts, Side(source, parts.entries(source), "l"))
    bound: list[tuple[_Value, list[Entry]]] = []
    for node in nodes:
        value = _value(parts, node, source)
        others = [each for _, of_value in bound for each in of_value]
        source, ones, new = _joined(parts, source, [*columns, *others], value, kept)
        columns, rest = ones[: len(columns)], iter(ones[len(columns) :])
        bound = [(each, [next(rest) for _ in of_value]) for each, of_value in bound]
        bound.append((value, new))
        kept = ""
    source = From(source.text, source.rows, source.aliases, Scope(tuple(columns)))
    parts.use(source)
    for value, entries in bound:
        parts.inner.replaced[id(value.node)] = _text(parts, value, entries, source)
    return source


def _nodes(parts: Groups) -> list[exp.Expr]:
    where = parts.tree.args.get("where")
    every = [
        *parts.tree.expressions,
        *(each for each in conjuncts(where.this if where else None) if id(each) not in parts.done),
    ]
    return [
        node
        for each in every
        for node in each.find_all(exp.Subquery)
        if is_value(node) and node.find_ancestor(exp.Select) is parts.tree
    ]


def _nodes_of_having(parts: Groups) -> list[exp.Expr]:
    having = parts.tree.args.get("having")
    return [each for each in having.find_all(exp.Subquery) if is_value(each)] if having is not None else []


def _check(parts: Groups, nodes: list[exp.Expr], of_groups: list[exp.Expr]) -> None:
    if parts.window is not None:
        parts.inner.refuse(
            [*nodes, *of_groups][0],
            "a query as a value beside a window is not served. Put the window in a view.",
        )
    if not parts.is_aggregation():
        return
    where = parts.tree.args.get("where")
    places = [*aggregate_nodes(parts.tree), *([where] if where is not None else [])]
    inside = {id(node) for place in places for node in place.find_all(exp.Subquery)}
    for node in [*of_groups, *nodes]:
        if id(node) not in inside or any(node is each for each in of_groups):
            parts.inner.refuse(node, _OF_GROUPS)


def _early(parts: Groups) -> str:
    """Return the conditions that need no query, which are done then."""
    where = parts.tree.args.get("where")
    plain = [
        each
        for each in conjuncts(where.this if where else None)
        if id(each) not in parts.done and each.find(exp.Select, exp.SetOperation) is None
    ]
    texts = list(map(parts.inner.text, plain))
    parts.done.update(map(id, plain))
    return " AND ".join(texts)


def _value(parts: Groups, node: exp.Expr, source: From) -> _Value:
    from penstock.sql.query._select import Select  # noqa: PLC0415 - the two need each other

    parts.inner.only(node, "this")
    tree = node.this
    while isinstance(tree, exp.Subquery):
        parts.inner.only(tree, "this")
        tree = tree.this
    found = without_correlation(tree, frozenset(map(str.lower, source.aliases)), parts.inner.refuse)
    clauses = [each for each in _CLAUSES if found.tree.args.get(each)]
    if found.outer and (type(tree) is not exp.Select or clauses):
        parts.inner.refuse(
            node,
            "a query as a value that is compared with the rows outside has FROM and WHERE only in a stream. "
            "Use a JOIN with a query in FROM.",
        )
    if type(tree) is exp.Select and len(tree.expressions) != 1:
        parts.inner.refuse(node, f"a query as a value has one column, got {len(tree.expressions)}.")
    is_plain = type(tree) is exp.Select and not clauses
    if is_plain and Select(parts.query, found.tree, parts.names).is_aggregation():
        return _aggregate(parts, node, found)
    return _Value(node, found, _of_rows(found), ())


def _aggregate(parts: Groups, node: exp.Expr, found: Correlated) -> _Value:
    calls = tuple(map(with_filter, aggregate_nodes(found.tree)))
    for column in found.tree.expressions[0].find_all(exp.Column):
        if not any(column is each for call in calls for each in call.find_all(exp.Column)):
            parts.inner.refuse(node, f"the column '{column.name}' is in no aggregate.")
    tree = found.tree.copy()
    tree.set(
        "expressions",
        [exp.alias_(call.copy(), f"{_VALUE}{place}") for place, call in enumerate(calls)],
    )
    return _Value(node, found, grouped_by_keys(Correlated(tree, found.outer, found.inner)), calls)


def _of_rows(found: Correlated) -> exp.Expr:
    """Return the number of rows and the only value of a query, for each value of what is compared."""
    keys = [each.alias for each in found.keys]
    names = [exp.to_identifier(each) for each in (_VALUE, *keys)]
    alias = exp.TableAlias(this=exp.to_identifier("__query"), columns=names)
    calls = [
        exp.alias_(exp.Anonymous(this="COUNT", expressions=[exp.Star()]), _ROWS),
        exp.alias_(exp.Anonymous(this="MAX", expressions=[exp.column(_VALUE)]), _VALUE),
    ]
    return exp.Select(
        expressions=[*calls, *map(exp.column, keys)],
        from_=exp.From(this=exp.Subquery(this=with_keys(found), alias=alias)),
        group=exp.Group(expressions=list(map(exp.column, keys))) if keys else None,
    )


def _joined(
    parts: Groups, source: From, columns: list[Entry], value: _Value, kept: str
) -> tuple[From, list[Entry], list[Entry]]:
    """Return the rows with a value, the new places of `columns`, and the columns of the value."""
    selected = parts.query.query(value.tree, parts.names)
    text = f"({selected.sql})"
    if not parts.query.is_streaming(text):
        parts.inner.refuse(
            value.node, "a query over a static table as a value in a stream is not served. Use a JOIN."
        )
    right = From(f"{text} AS {quoted(_RIGHT)}", selected.rows, (_RIGHT,))
    entries = [
        Entry(_RIGHT, name, f"{quoted(_RIGHT)}.{quoted(name)}", kind)
        for name, kind in parts.query.columns(selected.sql, value.node)
        if name not in HIDDEN
    ]
    one, other = Side(source, columns, "l"), Side(right, entries, "r")
    keys = [each for each in entries if is_hidden(each.name)]
    for outer, key in zip(value.found.outer, keys, strict=True):
        parts.use(source)
        mine = parts.inner.piece(outer)
        add_key(parts, value.node, one, other, [(mine.text, mine.type), (key.text, key.type)])
    if not keys:
        one.keys.append(("0", "int"))
        other.keys.append(("0", "int"))
    others = [each for each in entries if not is_hidden(each.name)]
    rows = one.query(columns, has_kind=source.rows.changes is not None)
    step = RegularJoin(
        parts.query.whole(f"{rows} WHERE {kept}" if kept else rows),
        parts.query.whole(other.query(others, has_kind=selected.rows.changes is not None)),
        tuple((f"lk{place}", f"rk{place}") for place in range(len(one.keys))),
        "left",
    )
    view = parts.query.cut(step, value.node)
    feature = parts.query.feature("Join(joinType=[LeftOuterJoin])", value.node)
    ones = [Entry(each.alias, each.name, f"`l{place}`", each.type) for place, each in enumerate(columns)]
    new = [Entry(_RIGHT, each.name, f"`r{place}`", each.type) for place, each in enumerate(others)]
    made = From(
        f"{view} AS `__values`", Rows(feature, one.key_names(columns)), source.aliases, Scope(tuple(ones))
    )
    return made, ones, new


def _text(parts: Groups, value: _Value, entries: list[Entry], source: From) -> str:
    """Return the value over the columns of its join."""
    if not value.aggregates:
        rows, one = (next(each.text for each in entries if each.name == name) for name in (_ROWS, _VALUE))
        return f"CASE WHEN {rows} > 1 THEN raise_error({literal(_MANY)}) ELSE {one} END"
    inner = parts.query.expressions(parts.names)
    inner.over(f"FROM {source.text}", source.rows)
    for call, entry in zip(value.aggregates, entries, strict=True):
        name = (call.this if isinstance(call, exp.Filter) else call).name.upper()
        is_count = name == "COUNT" and bool(value.found.outer)
        inner.replaced[id(call)] = f"coalesce({entry.text}, 0)" if is_count else entry.text
    return f"({inner.text(value.output)})"
