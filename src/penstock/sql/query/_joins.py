"""Joins that Spark cannot stream: of rows that change, and outer joins that are not interval joins.

Runs on the driver. Invariant: a condition that is not a comparison of both sides by = is applied to the pairs
of an inner join. In an outer join a condition on one side decides which of its rows have a key, because a row
without a key has no partner and stays. Others are refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.sql.query._parts import From, Parts
from penstock.sql.query.piece import INTEGERS
from penstock.sql.query.rows import KIND, Rows, plain_kind
from penstock.sql.query.scope import Entry, Scope, column_name
from penstock.sql.query.steps import RegularJoin

if TYPE_CHECKING:
    from penstock.sql.query._relations import Relations

_NESTED = ("array", "map", "struct")
_COMPARISONS = (exp.EQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between)
_OPERANDS = ("this", "expression", "low", "high")


def conjuncts(tree: exp.Expr | None) -> list[exp.Expr]:
    """Return the parts of a condition that AND joins."""
    if tree is None:
        return []
    if isinstance(tree, exp.Paren):
        return conjuncts(tree.this)
    if isinstance(tree, exp.And):
        return [*conjuncts(tree.this), *conjuncts(tree.expression)]
    return [tree]


def compared_values(tree: exp.Expr | None) -> list[exp.Expr]:
    """Return the values that have to be there for ON to be true.

    They are those that it compares, but literals. Another condition is a value itself, because Spark may make
    a comparison of it: `a IN (b)` and `NOT a <> b` are `a = b`.
    """
    values: list[exp.Expr | None] = []
    for each in conjuncts(tree):
        is_comparison = type(each) in _COMPARISONS
        values += [each.args.get(name) for name in _OPERANDS] if is_comparison else [each]
    found: list[exp.Expr] = []
    for value in values:
        if value is not None and value.find(exp.Column) is not None and value not in found:
            found.append(value)
    return found


def conditions_of(parts: Parts) -> list[exp.Expr]:
    where = parts.tree.args.get("where")
    return conjuncts(where.this) if where is not None else []


@dataclass
class Side:
    """One side of a join: its rows, its columns, and the texts of what is compared."""

    source: From
    entries: list[Entry]
    prefix: str
    keys: list[tuple[str, str]] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    """What a row has to fulfil to have a partner."""

    def has(self, node: exp.Expr) -> bool:
        """Return whether all columns of an expression are of this side."""
        columns = list(node.find_all(exp.Column))
        scope = Scope(tuple(self.entries))
        return bool(columns) and all(scope.find(name_parts(each)) is not None for each in columns)

    def query(self, columns: list[Entry], *, has_kind: bool) -> str:
        """Return the rows with the columns of a step."""
        texts = [f"{each.text} AS `{self.prefix}{place}`" for place, each in enumerate(columns)]
        texts += [
            f"{self._key_of_partners(text)} AS `{self.prefix}k{place}`"
            for place, (text, _) in enumerate(self.keys)
        ]
        kind = f", `{KIND}`" if has_kind else ""
        return f"SELECT {', '.join(texts)}{kind} FROM {self.source.text}"

    def _key_of_partners(self, text: str) -> str:
        if not self.conditions:
            return text
        return f"CASE WHEN {' AND '.join(f'({each})' for each in self.conditions)} THEN {text} END"

    def key_names(self, columns: list[Entry]) -> frozenset[str] | None:
        """Return the columns by which rows of this side differ, under their new names."""
        keys = self.source.rows.keys
        if keys is None:
            return None
        places = {self.name_of(each.text): place for place, each in enumerate(columns)}
        return frozenset(f"{self.prefix}{places[key]}" for key in keys) if keys <= places.keys() else None

    def name_of(self, text: str) -> str | None:
        """Return the name of a column of this side; None for another text."""
        return column_name(text, self.source.aliases)

    def is_unique(self) -> bool:
        """Return whether each value of what is compared has one row at most."""
        keys = self.source.rows.keys
        return keys is not None and keys <= {self.name_of(text) for text, _ in self.keys}


def name_parts(column: exp.Expr) -> list[str]:
    """Return the parts of the name of a column, as they are written."""
    return [column.args[key].name for key in ("catalog", "db", "table", "this") if column.args.get(key)]


def sides_of(parts: Parts, left: From, right: From) -> tuple[Side, Side]:
    """Return both sides of a join with their columns."""
    left, right = parts.named(left, "__left"), parts.named(right, "__right")
    return Side(left, parts.entries(left), "l"), Side(right, parts.entries(right), "r")


def compared(parts: Relations, one: Side, other: Side, join: exp.Expr, how: str) -> list[exp.Expr]:
    """Note what both sides are compared by, and return the other conditions of ON.

    Raises:
        SqlError: nothing is compared by = in an outer join, or values of two types are.
    """
    inner = parts.inner
    if join.args.get("using") or join.args.get("method"):
        inner.refuse(join, "this join of streams needs ON with a comparison of both sides by =.")
    rest = _keys_of(parts, one, other, conjuncts(join.args.get("on")))
    if one.keys:
        return rest
    if how != "inner":
        inner.refuse(join, "this outer join of streams needs ON with a comparison of both sides by =.")
    _keys_of(
        parts, one, other, conditions_of(parts)
    )  # WHERE holds behind the join. It tells what can be pairs
    if not one.keys:  # every pair: all rows are in one task, as in Flink
        add_key(parts, join, one, other, [("0", "int")] * 2)
    return rest


def _keys_of(parts: Relations, one: Side, other: Side, conditions: list[exp.Expr]) -> list[exp.Expr]:
    """Note the comparisons of both sides by =, and return the other conditions."""
    rest = []
    for each in conditions:
        pair = _pair(each, one, other, parts)
        if pair is None:
            rest.append(each)
            continue
        values = []
        for side, node in zip((one, other), pair, strict=True):
            parts.use(side.source)
            piece = parts.inner.piece(node)
            values.append((piece.text, piece.type))  # the type, while this side is FROM
        add_key(parts, each, one, other, values)
    return rest


def add_key(parts: Parts, node: exp.Expr, one: Side, other: Side, values: list[tuple[str, str]]) -> None:
    """Note a value of each side, with its type, that are compared by =.

    Raises:
        SqlError: they have two types.
    """
    (first, kind), (second, other_kind) = values
    if kind != other_kind:
        if kind not in INTEGERS or other_kind not in INTEGERS:
            parts.inner.refuse(
                node,
                f"expected two values of one type, got {kind.upper()} and {other_kind.upper()}. Write "
                "CAST(... AS ...).",
            )
        kind = INTEGERS[max(INTEGERS.index(kind), INTEGERS.index(other_kind))]
        first, second = (f"CAST({text} AS {kind.upper()})" for text in (first, second))
    one.keys.append((first, kind))
    other.keys.append((second, kind))


def _pair(node: exp.Expr, one: Side, other: Side, parts: Relations) -> tuple[exp.Expr, exp.Expr] | None:
    if type(node) is not exp.EQ:
        return None
    try:
        if one.has(node.this) and other.has(node.expression):
            both = (node.this, node.expression)
        elif other.has(node.this) and one.has(node.expression):
            both = (node.expression, node.this)
        else:
            return None
    except ValueError as error:
        parts.inner.refuse(node, str(error))
    for side, mine in zip((other, one), both, strict=True):
        if side.has(mine):
            parts.inner.refuse(mine, "both tables have this column. Write the table before it.")
    return both


def used(parts: Parts, side: Side, extra: frozenset[str] = frozenset()) -> list[Entry]:
    """Return the columns of a side that the query may use. All of them if it has a star.

    Raises:
        SqlError: one of them is nested.
    """
    tree = parts.tree
    names = {each.name.lower() for each in tree.find_all(exp.Identifier)}
    stars = any(each.find_ancestor(exp.Select) is tree for each in tree.find_all(exp.Star))
    keys = {*(side.source.rows.keys or ()), *extra}
    found = [
        each
        for each in side.entries
        if stars or each.name.lower() in names or side.name_of(each.text) in keys
    ]
    for each in found:
        if each.type.startswith(_NESTED):
            parts.inner.refuse(
                tree.args["from_"],
                f"the column '{each.name}' is {each.type.upper()}, and this join of streams takes no nested "
                "columns. Leave it out in a view, or take its fields.",
            )
    return found


def scope_of(one: Side, ones: list[Entry], other: Side, others: list[Entry]) -> Scope:
    """Return the columns behind a join."""
    entries = [
        Entry(each.alias, each.name, f"`{side.prefix}{place}`", each.type)
        for side, columns in ((one, ones), (other, others))
        for place, each in enumerate(columns)
    ]
    return Scope(tuple(entries))


def join_changes(parts: Relations, left: From, right: From, join: exp.Expr, how: str) -> From:
    """Return the rows of a join by an operator of penstock.

    Raises:
        SqlError: the operator does not have such a join.
    """
    ttls = (parts.take_ttl(left), parts.take_ttl(right))
    one, other = sides_of(parts, left, right)
    rest = compared(parts, one, other, join, how)
    if how != "inner":
        rest = [each for each in rest if not _is_of_one_side(parts, each, one, other)]
    if rest and how != "inner":
        parts.inner.refuse(
            rest[0],
            "this outer join of streams compares its two sides by = only. Its other conditions take columns "
            "of one side. Times are served if both bounds compare the columns of both WATERMARKs: b.ts "
            "BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR. An inner join takes any condition.",
        )
    ones, others = used(parts, one), used(parts, other)
    step = RegularJoin(
        parts.query.whole(one.query(ones, has_kind=one.source.rows.changes is not None)),
        parts.query.whole(other.query(others, has_kind=other.source.rows.changes is not None)),
        tuple((f"lk{place}", f"rk{place}") for place in range(len(one.keys))),
        how,
        ttls,
    )
    view = parts.query.cut(step, join)
    keys = _keys(one, other, one.key_names(ones), other.key_names(others), how)
    is_append = one.source.rows.changes is None and other.source.rows.changes is None and how == "inner"
    changes = None if is_append else parts.query.feature(f"Join(joinType=[{how}])", join)
    scope = scope_of(one, ones, other, others)
    source = From(f"{view} AS `__join`", Rows(changes, keys), (*left.aliases, *right.aliases), scope)
    return _filtered(parts, source, rest)


def _is_of_one_side(parts: Parts, node: exp.Expr, one: Side, other: Side) -> bool:
    """Note a condition whose columns are all of one side. Return whether it is such a condition."""
    for side, opposite in ((one, other), (other, one)):
        try:
            is_own = side.has(node) and not any(map(opposite.has, node.find_all(exp.Column)))
        except ValueError as error:
            parts.inner.refuse(node, str(error))
        if is_own:
            parts.use(side.source)
            side.conditions.append(parts.inner.text(node))
            return True
    return False


def _filtered(parts: Relations, source: From, rest: list[exp.Expr]) -> From:
    """Return the pairs that fulfil the conditions, before a next join gives the columns new names."""
    if not rest:
        return source
    parts.use(source)
    condition = " AND ".join(f"({parts.inner.text(each)})" for each in rest)
    star = f"* EXCEPT (`{KIND}`), {plain_kind()} AS `{KIND}`" if source.rows.changes is not None else "*"
    return replace(source, text=f"(SELECT {star} FROM {source.text} WHERE {condition}) AS `__join`")


def _keys(
    one: Side, other: Side, ones: frozenset[str] | None, others: frozenset[str] | None, how: str
) -> frozenset[str] | None:
    """Return the columns by which the pairs differ."""
    if ones is not None and other.is_unique() and how in ("inner", "left"):
        return ones
    if others is not None and one.is_unique() and how in ("inner", "right"):
        return others
    return ones | others if ones is not None and others is not None else None


def check_compared(parts: Relations, left: From, right: From, join: exp.Expr, *, is_inner: bool) -> None:
    """Check that two streams are compared by =. Spark itself refuses such a join only in the first batch."""
    if not are_compared(parts, left, right, join, is_inner=is_inner):
        parts.inner.refuse(
            join, "an outer join of two streams needs a comparison of both sides by =. A JOIN needs none."
        )


def are_compared(parts: Relations, left: From, right: From, join: exp.Expr, *, is_inner: bool) -> bool:
    """Return whether two streams are compared by =: in ON, and for an inner join also in WHERE."""
    if join.args.get("using") or join.args.get("method"):
        return True
    given = conjuncts(join.args.get("on"))
    if is_inner:
        given += conditions_of(parts)
    pairs = [each for each in given if type(each) is exp.EQ]
    if any(map(_has_two_tables, pairs)) or not are_streams(parts, left, right):
        return True
    one, other = sides_of(parts, left, right)
    return any(_is_of_both(each, one, other) for each in pairs)


def are_streams(parts: Relations, left: From, right: From) -> bool:
    """Return whether both sides of a join are streams."""
    return parts.query.is_streaming(left.text) and parts.query.is_streaming(right.text)


def _has_two_tables(pair: exp.Expr) -> bool:
    """Return whether a comparison names different tables. The usual case needs no question to Spark."""
    sides = [
        {each.table.lower() for each in side.find_all(exp.Column)} for side in (pair.this, pair.expression)
    ]
    return all(len(names) == 1 and "" not in names for names in sides) and sides[0] != sides[1]


def _is_of_both(pair: exp.Expr, one: Side, other: Side) -> bool:
    first, second = pair.this, pair.expression
    try:
        return (one.has(first) and other.has(second)) or (other.has(first) and one.has(second))
    except ValueError:
        return True  # two tables have the column: Spark says so
