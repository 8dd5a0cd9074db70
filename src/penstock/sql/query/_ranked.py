"""Top-N and deduplication: ROW_NUMBER() in a query in FROM, and a comparison of it in WHERE.

Runs on the driver. Invariant: only this form is taken; any other use of ROW_NUMBER() goes to Spark.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.sql.query._joins import conjuncts
from penstock.sql.query._orders import null_place
from penstock.sql.query._parts import From
from penstock.sql.query._qualify import left_out
from penstock.sql.query.piece import quoted
from penstock.sql.query.rows import HIDDEN, KIND, PLACE, Rows
from penstock.sql.query.steps import Deduplication, Top

if TYPE_CHECKING:
    from penstock.sql.query._query import Query
    from penstock.sql.query._relations import Relations
    from penstock.sql.query._select import Ranked

_RANK = "n"
"""The column of the operator with the rank."""


@dataclass(frozen=True)
class _Rank:
    """ROW_NUMBER(): its column, its call, its name, how many rows stay, and its part of WHERE."""

    output: exp.Expr
    over: exp.Expr
    name: str
    count: int
    condition: exp.Expr


def first_rows(parts: Relations, tree: exp.Expr) -> From | None:
    """Return the first rows of each group of a stream; None if the query is not of this form, or no stream.

    Raises:
        SqlError: the operator does not have such an order.
    """
    rank = _rank(parts.tree, tree)
    if rank is None:
        return None
    from penstock.sql.query._select import Select  # noqa: PLC0415 - the two need each other

    found = Select(parts.query, tree.this, parts.names).ranked(rank.output, rank.over)
    if found is None:
        return None
    is_window = is_of_window(parts.query, found)
    _check(parts, tree)
    own = {*HIDDEN, *(f"__{name}" for name in (*found.keys, *found.places))}
    columns = [name for name, _ in parts.query.columns(found.sql, tree) if name not in own]
    if is_window:
        return _of_window(parts, tree, rank, found, columns)
    if parts.is_of_versions() and rank.count == 1 and found.is_newest and found.rows.changes is None:
        return _versions(parts, tree, rank, found, columns)
    is_shown = rank.count > 1 and _uses(parts.tree, rank)
    step = _step(parts, rank, found, columns, rank_name=_RANK if is_shown else None)
    view = parts.query.cut(step, rank.output)
    shown = [f"`c{place}` AS {quoted(name)}" for place, name in enumerate(columns)]
    if rank.count == 1 or is_shown:
        place = _place(parts, tree.this.expressions, rank, len(columns))
        shown.insert(place, f"{f'`{_RANK}`' if is_shown else 'CAST(1 AS BIGINT)'} AS {quoted(rank.name)}")
    else:
        parts.gone.add(rank.name)
    feature = parts.query.feature("Deduplicate" if isinstance(step, Deduplication) else "Rank", rank.output)
    time = found.rows.changing_time or found.rows.time
    rows = Rows(feature, found.rows.keys)
    if rank.count == 1 and found.partition_names is not None:
        rows = Rows(feature, frozenset(found.partition_names), is_together=True)
    elif is_shown:
        names = found.partition_names
        keys = frozenset([*names, rank.name.lower()]) if names is not None else None
        rows = Rows(feature, keys, is_together=keys is not None)
    rows = replace(rows, changing_time=time)
    name = _name(tree)
    parts.done.add(id(rank.condition))
    return From(f"(SELECT {', '.join(shown)}, `{KIND}` FROM {view}) AS {quoted(name)}", rows, (name,))


def _of_window(parts: Relations, tree: exp.Expr, rank: _Rank, found: Ranked, columns: list[str]) -> From:
    text, texts = top_of_windows(parts.query, found, rank.over, rank.count, columns)
    shown = [f"{text} AS {quoted(name)}" for text, name in zip(texts, columns, strict=True)]
    place = _place(parts, tree.this.expressions, rank, len(columns))
    shown.insert(place, f"`__n` AS {quoted(rank.name)}")
    names = found.partition_names if rank.count == 1 else None
    parts.done.add(id(rank.condition))
    rows = Rows(keys=frozenset(names) if names is not None else None)
    return From(f"(SELECT {', '.join(shown)} FROM {text}) AS {quoted(_name(tree))}", rows, (_name(tree),))


def _versions(parts: Relations, tree: exp.Expr, rank: _Rank, found: Ranked, columns: list[str]) -> From:
    """Return all rows as versions of their keys. Only the newest of each batch would not be enough."""
    shown = [quoted(name) for name in columns]
    place = _place(parts, tree.this.expressions, rank, len(columns))
    shown.insert(place, f"CAST(1 AS BIGINT) AS {quoted(rank.name)}")
    names = found.partition_names
    feature = parts.query.feature("Deduplicate", rank.output)
    rows = Rows(feature, frozenset(names) if names is not None else None, time=found.rows.time)
    parts.done.add(id(rank.condition))
    text = f"(SELECT {', '.join(shown)}, '+U' AS `{KIND}` FROM ({found.sql}))"
    return From(f"{text} AS {quoted(_name(tree))}", rows, (_name(tree),))


def _name(tree: exp.Expr) -> str:
    alias = tree.args.get("alias")
    return alias.this.name if alias is not None and alias.this is not None else "__top"


def _check(parts: Relations, tree: exp.Expr) -> None:
    alias = tree.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        parts.inner.refuse(alias, "names of columns are not served here. Write AS in SELECT.")


def _place(parts: Relations, outputs: list[exp.Expr], rank: _Rank, width: int) -> int:
    """Return the place of the rank among the other columns."""
    place = [each is rank.output for each in outputs].index(True)
    before, after = outputs[:place], outputs[place + 1 :]
    if not any(map(_is_star, before)):
        return len(before)
    if any(map(_is_star, after)):
        parts.inner.refuse(rank.output, "ROW_NUMBER() between two stars is not served. Write it last.")
    return width - len(after)


def _step(
    parts: Relations, rank: _Rank, found: Ranked, columns: list[str], *, rank_name: str | None
) -> Deduplication | Top:
    items = rank.over.args["order"].expressions
    descends = [bool(each.args.get("desc")) for each in items]
    nulls = [
        null_place(f"`__{name}`", f"{name}n", each) for name, each in zip(found.places, items, strict=True)
    ]
    changes = found.rows.changes is not None
    is_one = rank.count == 1 and not changes and len(set(descends)) == 1 and not any(nulls)
    place = PLACE if is_one and found.rows.has_place else ()
    texts = [f"{quoted(name)} AS `c{number}`" for number, name in enumerate(columns)]
    texts += [f"`__{name}` AS `{name}`" for name in (*found.keys, *found.places)]
    texts += [each for each in nulls if each]
    texts += [f"`{name}`" for name in (*((KIND,) if changes else ()), *place)]
    query = parts.query.whole(f"SELECT {', '.join(texts)} FROM ({found.sql})")
    if is_one:
        return Deduplication(query, found.keys, (*found.places, *place), descends[0])
    ordered = [
        each
        for name, is_down, null in zip(found.places, descends, nulls, strict=True)
        for each in ([(f"{name}n", False)] if null else []) + [(name, is_down)]
    ]
    return Top(query, rank.count, found.keys, tuple(ordered), rank_name)


def _rank(outer: exp.Expr, tree: exp.Expr) -> _Rank | None:
    inner = tree.this
    where = outer.args.get("where")
    if type(inner) is not exp.Select or where is None:
        return None
    for output in inner.expressions:
        if not isinstance(output, exp.Alias) or not isinstance(output.this, exp.Window):
            continue
        over = output.this
        name = output.args["alias"].name
        is_row_number = isinstance(over.this, exp.Anonymous) and str(over.this.this).upper() == "ROW_NUMBER"
        if not is_row_number or over.args.get("order") is None:
            continue
        for each in conjuncts(where.this):
            count = _count(each, name)
            if count is not None:
                return _Rank(output, over, name, count, each)
    return None


def _count(condition: exp.Expr, name: str) -> int | None:
    """Return how many rows a condition keeps: rank <= n, rank < n, rank = 1."""
    if not isinstance(condition, (exp.LTE, exp.LT, exp.EQ)):
        return None
    column, number = condition.this, condition.expression
    if not (isinstance(column, exp.Column) and column.name.lower() == name.lower()):
        return None
    if not (isinstance(number, exp.Literal) and str(number.this).isdigit()):
        return None
    count = int(number.this) - (1 if isinstance(condition, exp.LT) else 0)
    if count < 1 or (isinstance(condition, exp.EQ) and count != 1):
        return None
    return count


def _uses(outer: exp.Expr, rank: _Rank) -> bool:
    """Return whether the rank is used in another place than its comparison."""
    stars = any(_is_star(each) and rank.name not in left_out(each) for each in outer.expressions)
    columns = [
        each
        for each in outer.find_all(exp.Column)
        if each.name.lower() == rank.name.lower() and each.parent is not rank.condition
    ]
    return stars or bool(columns)


def _is_star(each: exp.Expr) -> bool:
    return isinstance(each, exp.Star) or isinstance(each.this, exp.Star)


def is_of_window(query: Query, found: Ranked) -> bool:
    """Return whether rows are numbered within windows of which Spark knows the end."""
    if found.rows.changes is not None:
        return False
    parts = query.window_parts(found.sql)
    is_of_ends = any(parts.get(f"__{name}") == "end" for name in found.keys)
    query.drops_late_rows |= is_of_ends
    return is_of_ends


def top_of_windows(
    query: Query, found: Ranked, over: exp.Expr, count: int, columns: list[str]
) -> tuple[str, list[str]]:
    """Return FROM of the first rows of windows, and the text of each of `columns`; `__n` is the rank.

    Spark gathers the rows of each group until the watermark passes the end of their window, and then sorts
    them. The rows are only inserted, and the same ones if Spark computes a batch again.
    """
    keys = [f"`__{name}`" for name in found.keys]
    types = dict(query.columns(found.sql, over))
    plain = [name for name, kind in types.items() if "map<" not in kind and name not in HIDDEN]
    fields = [f"{quoted(name)} AS `c{place}`" for place, name in enumerate(columns)]
    fields += [f"`__{name}` AS `{name}`" for name in found.places]
    fields.append(f"xxhash64({', '.join(map(quoted, plain))}) AS `h`")
    rows = f"array_sort(collect_list(struct({', '.join(fields)})), (l, r) -> {_compare(found, over)})"
    of_keys = ", ".join(keys)
    first = f"slice({rows}, 1, {count}) AS `__rows`"
    groups = f"SELECT {of_keys}, {first} FROM ({found.sql}) GROUP BY {of_keys}"
    each = "LATERAL VIEW posexplode(`__rows`) `__each` AS `__place`, `__row`"
    text = f"SELECT {of_keys}, `__place` + 1L AS `__n`, `__row` FROM ({groups}) {each}"
    shown = []
    for place, name in enumerate(columns):
        # A column of the groups is taken from the group, so that Spark still knows the end of the window.
        of_key = [key for key, known in zip(keys, found.key_names, strict=True) if known == name.lower()]
        shown.append(of_key[0] if of_key else f"`__row`.`c{place}`")
    return f"({text})", shown


def _compare(found: Ranked, over: exp.Expr) -> str:
    """Return the body of a function that compares the rows l and r. Equal places are compared by content."""
    text = "CASE WHEN l.`h` < r.`h` THEN -1 WHEN l.`h` > r.`h` THEN 1 ELSE 0 END"
    items = list(zip(found.places, over.args["order"].expressions, strict=True))
    for name, each in reversed(items):
        descends = bool(each.args.get("desc"))
        said = each.args.get("nulls_first")
        null = -1 if (not descends if said is None else said) else 1
        less = 1 if descends else -1
        one, other = f"l.`{name}`", f"r.`{name}`"
        text = (
            f"CASE WHEN {one} <=> {other} THEN {text} WHEN {one} IS NULL THEN {null} "
            f"WHEN {other} IS NULL THEN {-null} WHEN {one} < {other} THEN {less} ELSE {-less} END"
        )
    return text
