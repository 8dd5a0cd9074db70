"""INTERSECT and EXCEPT of streams, with and without ALL: count how often each row is on both sides.

Runs on the driver. Invariant: a NULL is equal to a NULL here, as in GROUP BY. The result changes when a count
does, so that it is right after rows were taken back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.sql.query.piece import quoted
from penstock.sql.query.rows import KIND, Rows, plain_kind
from penstock.sql.query.steps import Aggregation

if TYPE_CHECKING:
    from penstock.sql.query._query import Query

_SIDE = "__side"
_LEFT, _RIGHT = "`n0`", "`n1`"
_KEPT = {"INTERSECT": f"{_LEFT} > 0 AND {_RIGHT} > 0", "EXCEPT": f"{_LEFT} > 0 AND {_RIGHT} = 0"}
_TIMES = {"INTERSECT": f"least({_LEFT}, {_RIGHT})", "EXCEPT": f"greatest({_LEFT} - {_RIGHT}, 0)"}


def set_operation(
    query: Query, word: str, texts: list[str], tree: exp.Expr, *, changes: bool, is_distinct: bool
) -> tuple[Rows, str]:
    """Return what is known of the rows of a set operation of streams, and a query of them.

    Raises:
        SqlError: the sides do not fit, or a column cannot be compared.
    """
    sides = [f"SELECT *, {side} AS `{_SIDE}` FROM ({text})" for side, text in enumerate(texts)]
    both = " UNION ALL ".join(sides)
    names = [name for name, _ in query.columns(both, tree) if name not in (KIND, _SIDE)]
    keys = [f"g{place}" for place in range(len(names))]
    shown = [f"{quoted(name)} AS `{key}`" for name, key in zip(names, keys, strict=True)]
    shown += [f"CASE WHEN `{_SIDE}` = {side} THEN 1 END AS `a{side}`" for side in (0, 1)]
    shown += [f"`{KIND}`"] if changes else []
    step = Aggregation(
        query.whole(f"SELECT {', '.join(shown)} FROM ({both})"),
        tuple(keys),
        (("n0", "count(a0)"), ("n1", "count(a1)")),
    )
    view = query.cut(step, tree)
    back = ", ".join(f"`{key}` AS {quoted(name)}" for name, key in zip(names, keys, strict=True))
    sql = f"SELECT {back}, {plain_kind()} AS `{KIND}` FROM {view}"
    feature = query.feature(word.title(), tree)
    if is_distinct:
        return Rows(feature, frozenset(name.lower() for name in names)), f"{sql} WHERE {_KEPT[word]}"
    times = f"explode(array_repeat(0, CAST({_TIMES[word]} AS INT)))"
    return Rows(feature), f"{sql} CROSS JOIN LATERAL {times} AS `__times` (`__time`)"
