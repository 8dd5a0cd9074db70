"""IN (SELECT ...), EXISTS and their negations in WHERE of a stream: semi joins and anti joins.

Runs on the driver. Invariant: a NULL that is compared by = is equal to nothing. Where NOT IN may meet a NULL,
it is an anti join and one more condition, because one NULL in its query makes it keep nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.sql.query._aggregated import place_in
from penstock.sql.query._correlated import is_value
from penstock.sql.query._joins import Side, add_key, conjuncts, used
from penstock.sql.query._parts import From
from penstock.sql.query.piece import Piece, quoted
from penstock.sql.query.rows import HIDDEN, Rows
from penstock.sql.query.scope import Entry, Scope
from penstock.sql.query.steps import RegularJoin

if TYPE_CHECKING:
    from penstock.sql.query._groups import Groups
    from penstock.sql.query._select import Select

_VALUE, _HAS_CONDITION = "__x", "has_condition_on_nulls"
_HAS_ROWS, _HAS_NULL = 1, 2
"""What the query of NOT IN has; 0 without rows."""
_NAMES = {"semi": "LeftSemiJoin", "anti": "LeftAntiJoin"}


@dataclass(frozen=True)
class _Condition:
    """A query in WHERE: the condition, the query, the values before IN, and the kind of its join."""

    node: exp.Expr
    query: exp.Expr
    values: list[exp.Expr]
    how: str

    @property
    def is_in(self) -> bool:
        """Return whether it is IN, and not EXISTS."""
        return bool(self.values)


def kept_by_queries(parts: Groups, source: From) -> From:
    """Return the rows of FROM that the queries in WHERE keep, if FROM is a stream.

    The other conditions of WHERE are applied before, so that the join keeps less.

    Raises:
        SqlError: a query compares otherwise than by =.
    """
    where = parts.tree.args.get("where")
    every = [each for each in conjuncts(where.this if where else None) if id(each) not in parts.done]
    found = [condition for each in every if (condition := _condition(each)) is not None]
    if not found or not parts.query.is_streaming(source.text):
        return source
    if parts.window is not None:
        parts.inner.refuse(
            found[0].node,
            "a query in WHERE beside GROUP BY of a window is not served. Put the window in a view.",
        )
    own = {id(each.node) for each in found}
    plain = [
        each for each in every if id(each) not in own and not any(map(is_value, each.find_all(exp.Subquery)))
    ]
    kept = " AND ".join(map(parts.inner.text, plain))
    for each in found:
        source = _kept(parts, source, each, _is_never_null(plain, each.values, parts.aliases), kept)
        parts.use(source)
        kept = ""
    parts.done.update(map(id, plain), own)
    return source


def _condition(node: exp.Expr) -> _Condition | None:
    inner, how = node, "semi"
    if isinstance(node, exp.Not):
        inner, how = (node.this.this if isinstance(node.this, exp.Paren) else node.this), "anti"
    if isinstance(inner, exp.In) and inner.args.get("query") is not None:
        values = inner.this.expressions if isinstance(inner.this, exp.Tuple) else [inner.this]
        return _Condition(node, _without_brackets(inner.args["query"]), values, how)
    if isinstance(inner, exp.Exists):
        return _Condition(node, _without_brackets(inner.this), [], how)
    return None


def _without_brackets(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Subquery) else node


def _is_never_null(conditions: list[exp.Expr], values: list[exp.Expr], aliases: frozenset[str]) -> bool:
    """Return whether conditions leave no NULL in any of the values."""
    checked = [
        each.this.this
        for each in conditions
        if isinstance(each, exp.Not)
        and isinstance(each.this, exp.Is)
        and isinstance(each.this.expression, exp.Null)
    ]
    return all(
        isinstance(each, exp.Literal) or place_in(checked, each, aliases) is not None for each in values
    )


def _kept(parts: Groups, source: From, condition: _Condition, is_never_null: bool, kept: str) -> From:
    source = parts.named(source, "__left")
    one = Side(source, parts.entries(source), "l")
    other, pairs, local, theirs_never_null = _other(parts, one, condition)
    if condition.is_in and condition.how == "anti" and not (is_never_null and theirs_never_null):
        _add_condition_on_nulls(parts, condition, is_correlated=len(pairs) > len(condition.values))
    if not pairs:
        parts.inner.refuse(
            condition.node, "EXISTS of a stream needs a comparison by = of its rows with the rows outside."
        )
    for mine, theirs in pairs:
        parts.use(source)
        first = parts.inner.piece(mine)
        add_key(parts, condition.node, one, other, [(first.text, first.type), (theirs.text, theirs.type)])
    return _joined(parts, condition, one, other, kept, local)


def _add_condition_on_nulls(parts: Groups, condition: _Condition, *, is_correlated: bool) -> None:
    """Add a condition to WHERE: a NULL stays if the query has no row, and others stay if it has no NULL."""
    if is_correlated or len(condition.values) > 1:
        parts.inner.refuse(
            condition.node,
            "NOT IN of several values, or compared with the rows outside, keeps no row for a NULL of its "
            "query. In a stream say that there is none: write `x IS NOT NULL` for each value before NOT IN, "
            "and in WHERE of the query for each column. Or write NOT EXISTS.",
        )
    if any(_is_any_rows(each) for each in condition.query.find_all(exp.Query)):
        parts.inner.refuse(
            condition.node,
            "NOT IN of a query with LIMIT and without ORDER BY is not served in a stream. It is run "
            "twice, and may give other rows the second time. Add ORDER BY, or write `IS NOT NULL` for both "
            "sides.",
        )
    if condition.node.meta.get(_HAS_CONDITION):
        return  # a query of WITH is translated again wherever its name stands
    condition.node.meta[_HAS_CONDITION] = True
    alias = exp.TableAlias(this=exp.to_identifier("__in"), columns=[exp.to_identifier(_VALUE)])
    least = exp.Literal.number
    kind = _case(exp.column(_VALUE), least(_HAS_NULL), least(_HAS_ROWS))
    found = exp.Select(
        expressions=[exp.Anonymous(this="MAX", expressions=[kind])],
        from_=exp.From(this=exp.Subquery(this=condition.query.copy(), alias=alias)),
    )
    known = exp.Anonymous(this="COALESCE", expressions=[exp.Subquery(this=found), least(0)])
    limit = _case(condition.values[0].copy(), least(_HAS_ROWS), least(_HAS_NULL))
    where = parts.tree.args["where"]
    where.set("this", exp.And(this=where.this, expression=exp.LT(this=known, expression=limit)))


def _is_any_rows(query: exp.Expr) -> bool:
    """Return whether the query may give other rows each time that it is run."""
    return query.args.get("limit") is not None and query.args.get("order") is None


def _case(value: exp.Expr, if_null: exp.Expr, other: exp.Expr) -> exp.Expr:
    is_null = exp.Is(this=value, expression=exp.Null())
    return exp.Case(ifs=[exp.If(this=is_null, true=if_null)], default=other)


def _other(
    parts: Groups, one: Side, condition: _Condition
) -> tuple[Side, list[tuple[exp.Expr, Piece]], str, bool]:
    """Return the rows of the query, the pairs that are compared, its filter, and whether IN meets no NULL."""
    from penstock.sql.query._select import Select  # noqa: PLC0415 - the two need each other

    tree = condition.query
    if type(tree) is exp.Select and not any(
        tree.args.get(each) for each in ("group", "having", "limit", "offset", "order", "with_")
    ):
        query = Select(parts.query, tree, parts.names)
        if not query.is_aggregation():
            return _correlated(parts, query, one, condition)
    if not condition.is_in:
        parts.inner.refuse(
            condition.node, "this EXISTS is not served in a stream. Leave out what is not in FROM or WHERE."
        )
    selected = parts.query.query(tree, parts.names)
    right = From(f"({selected.sql}) AS `__right`", selected.rows, ("__right",))
    _check_stream(parts, right, condition)
    columns = [each for each in parts.query.columns(selected.sql, tree) if each[0] not in HIDDEN]
    _check_width(parts, condition, len(columns))
    entries = [Entry("__right", name, f"`__right`.{quoted(name)}", kind) for name, kind in columns]
    pieces = list(map(_piece, entries))
    return Side(right, entries, "r"), list(zip(condition.values, pieces, strict=True)), "", False


def _piece(entry: Entry) -> Piece:
    return Piece(entry.text, lambda: entry.type)


def _correlated(
    parts: Groups, query: Select, one: Side, condition: _Condition
) -> tuple[Side, list[tuple[exp.Expr, Piece]], str, bool]:
    right, conditions = query.plain_source()
    _check_stream(parts, right, condition)
    right = query.named(query.plain(right), "__right")
    other = Side(right, query.entries(right), "r")
    query.use(right)
    pairs = []
    shown = query.columns_of_in(other.entries) if condition.is_in else []
    if condition.is_in:
        _check_width(parts, condition, len(shown))
        pairs = [(mine, query.inner.piece(each)) for mine, each in zip(condition.values, shown, strict=True)]
    local = []
    for each in conditions:
        try:
            pair = _outer_pair(each, one, other)
            is_local = other.has(each) or each.find(exp.Column) is None
        except ValueError as error:
            parts.inner.refuse(each, str(error))
        if pair is not None:
            pairs.append((pair[0], query.inner.piece(pair[1])))
        elif is_local:
            local.append(each)
        else:
            parts.inner.refuse(each, "a query in WHERE of a stream compares with the rows outside by = only.")
    texts = " AND ".join(map(query.inner.text, local))
    return other, pairs, texts, _is_never_null(local, shown, query.aliases)


def _check_stream(parts: Groups, right: From, condition: _Condition) -> None:
    if not parts.query.is_streaming(right.text):
        parts.inner.refuse(
            condition.node, "a query over a static table in WHERE of a stream is not served. Use a JOIN."
        )


def _check_width(parts: Groups, condition: _Condition, width: int) -> None:
    if width != len(condition.values):
        parts.inner.refuse(
            condition.node, f"IN compares {len(condition.values)} values, and its query has {width} columns."
        )


def _outer_pair(node: exp.Expr, one: Side, other: Side) -> tuple[exp.Expr, exp.Expr] | None:
    """Return a comparison of an outer with an inner value. A name means an inner column first."""
    if type(node) is not exp.EQ:
        return None
    for mine, theirs in ((node.this, node.expression), (node.expression, node.this)):
        if other.has(theirs) and not other.has(mine) and one.has(mine):
            return mine, theirs
    return None


def _joined(parts: Groups, condition: _Condition, one: Side, other: Side, kept: str, local: str) -> From:
    ones, how = used(parts, one), condition.how
    changes = (one.source.rows.changes is not None, other.source.rows.changes is not None)
    wheres = [f" WHERE {each}" if each else "" for each in (kept, local)]
    step = RegularJoin(
        parts.query.whole(f"{one.query(ones, has_kind=changes[0])}{wheres[0]}"),
        parts.query.whole(f"{other.query([], has_kind=changes[1])}{wheres[1]}"),
        tuple((f"lk{place}", f"rk{place}") for place in range(len(one.keys))),
        how,
    )
    view = parts.query.cut(step, condition.node)
    is_append = not any(changes) and how == "semi"
    name = f"Join(joinType=[{_NAMES[how]}])"
    feature = None if is_append else parts.query.feature(name, condition.node)
    entries = [Entry(each.alias, each.name, f"`l{place}`", each.type) for place, each in enumerate(ones)]
    return From(
        f"{view} AS `__kept`", Rows(feature, one.key_names(ones)), one.source.aliases, Scope(tuple(entries))
    )
