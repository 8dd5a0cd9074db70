"""Top-N and deduplication of windows: ROW_NUMBER() with the end of a window in PARTITION BY.

Runs on the driver. Spark gathers the rows of each group until the watermark passes the end of their window,
and then sorts them. Invariant: the rows are only inserted, and the same ones if Spark computes a batch again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.sql.query.piece import quoted
from penstock.sql.query.rows import HIDDEN

if TYPE_CHECKING:
    from penstock.sql.query._query import Query
    from penstock.sql.query._select import Ranked


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
    """Return FROM of the first rows, and the text of each of `columns`; `__n` is the rank.

    Args:
        query: the query.
        found: the rows that are numbered.
        over: ROW_NUMBER() with its order.
        count: how many rows of a group stay.
        columns: the names of the columns to show.
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
