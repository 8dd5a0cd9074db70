"""JOIN ... FOR SYSTEM_TIME AS OF: each row with the version that was valid at its time.

Runs on the driver. Invariant: the times are those of both watermarks, so that a row waits until no version
for it can come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.sql.query._joins import compared, scope_of, sides_of, used
from penstock.sql.query._parts import From
from penstock.sql.query.piece import quoted
from penstock.sql.query.rows import Rows
from penstock.sql.query.steps import VersionJoin

if TYPE_CHECKING:
    from penstock.sql.query._relations import Relations


_VIEW = (
    "Or use a view that shows the key and the time of ROW_NUMBER() OVER (PARTITION BY key ORDER BY time "
    "DESC) = 1, where time is the column of the WATERMARK."
)


def join_versions(parts: Relations, left: From, join: exp.Expr, side: str) -> From:
    """Return rows with versions of a table; or with its rows of now if it is static.

    Raises:
        SqlError: the times are not those of watermarks, or the join is of another kind.
    """
    inner, tree = parts.inner, join.this
    inner.only(tree, "this", "db", "catalog", "alias", "version")
    if side not in ("", "LEFT"):
        inner.refuse(join, "FOR SYSTEM_TIME AS OF is served with JOIN and LEFT JOIN.")
    time = tree.args["version"].expression
    right = parts.table(tree, is_raw=True)
    is_stream = parts.query.is_streaming(right.text)
    if not is_stream and parts.query.is_streaming(left.text):
        return parts.static_join(left, right, join, side)
    if not is_stream:
        inner.refuse(tree, "FOR SYSTEM_TIME AS OF is served in streams only. Use ROW_NUMBER() in a batch.")
    if left.rows.changes is not None:
        inner.refuse(join, "the left side of FOR SYSTEM_TIME AS OF must only insert rows.")
    if left.time is None or not isinstance(time, exp.Column) or time.name.lower() != left.time[0].lower():
        inner.refuse(
            time,
            "expected the column of the left table that has its WATERMARK. As of PROCTIME() only a static "
            "table is joined, such as one of 'jdbc' or 'filesystem'.",
        )
    if right.time is None:
        inner.refuse(tree, f"the right table of FOR SYSTEM_TIME AS OF needs a WATERMARK. {_VIEW}")
    if right.rows.keys is None or right.rows.changes is None:
        inner.refuse(
            tree,
            f"the right table of FOR SYSTEM_TIME AS OF needs a PRIMARY KEY, and rows that change. {_VIEW}",
        )
    one, other = sides_of(parts, left, right)
    rest = compared(parts, one, other, join, how="left")
    if rest:
        inner.refuse(rest[0], "FOR SYSTEM_TIME AS OF takes comparisons by = only. Write others in WHERE.")
    if not other.is_unique():
        inner.refuse(join, "ON must compare all columns of the PRIMARY KEY of the right table.")
    ones = used(parts, one, frozenset({left.time[0].lower()}))
    others = used(parts, other, frozenset({right.time[0].lower()}))
    names = [
        f"{each.prefix}{[entry.name.lower() for entry in columns].index(of[0].lower())}"
        for each, columns, of in ((one, ones, left.time), (other, others, right.time))
    ]
    step = VersionJoin(
        parts.query.whole(one.query(ones, has_kind=False)),
        parts.query.whole(other.query(others, has_kind=True)),
        tuple((f"lk{place}", f"rk{place}") for place in range(len(one.keys))),
        names[0],
        names[1],
        max(left.time[1], right.time[1]),
        "left" if side else "inner",
    )
    view = parts.query.cut(step, join)
    parts.query.drops_late_rows = True  # a late row may see a later version
    keys = one.key_names(ones)
    source = From(
        f"{view} AS {quoted('__join')}",
        Rows(None, keys),
        (*left.aliases, *right.aliases),
        scope_of(one, ones, other, others),
    )
    parts.use(source)
    return source
