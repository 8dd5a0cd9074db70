"""Windows of a stream that another part of the query reads: their ends stay known to Spark.

Runs on the driver. Invariant: rows of windows that are grouped, ranked or joined by the end of their window
are only inserted, once for each window, when the watermark has passed its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.sql.query._parts import From
from penstock.sql.query._windows import COLUMNS, WINDOW
from penstock.sql.query.steps import WindowEnds

if TYPE_CHECKING:
    from penstock.sql.query._groups import Groups
    from penstock.sql.query._relations import Relations

_START, _END, _TIME = COLUMNS


def over_times(parts: Relations, table: str, column: str, tree: exp.Expr) -> str:
    """Return a table for a window over `column`, which may be the time of an earlier window."""
    found = parts.query.window_parts(f"SELECT * FROM {table}")
    names = [name for name, part in found.items() if part == "time" and name.lower() == column.lower()]
    if not names:
        return table
    query = parts.query.whole(f"SELECT * FROM {table}")
    return parts.query.cut(WindowEnds(query, None, (), (names[0],)), tree)


def rows_of_structs(parts: Relations, rows: str, tree: exp.Expr, hops: int) -> str:
    """Return rows whose windows are structs that Spark does not know as windows.

    Args:
        parts: of the SELECT.
        rows: with the structs.
        tree: the window function.
        hops: of a HOP, how many windows each row is in; else 0.
    """
    if not parts.query.is_streaming(rows):
        return rows
    query = parts.query.whole(f"SELECT * FROM {rows}")
    return parts.query.cut(WindowEnds(query, None, (), (), WINDOW, hops), tree)


def rows_of_windows(parts: Relations, rows: str, columns: str, tree: exp.Expr) -> str:
    """Return rows with the columns of their window."""
    if not parts.query.is_streaming(rows):
        return f"(SELECT * EXCEPT (`{WINDOW}`), {columns} FROM {rows})"
    query = parts.query.whole(f"SELECT *, {columns} FROM {rows}")
    return parts.query.cut(WindowEnds(query, WINDOW, (_END,), (_TIME,)), tree)


def closed_windows(parts: Groups, with_window: str, sql: str) -> str:
    """Return a SELECT of groups with the ends of their windows, if another part of the query reads them.

    Args:
        parts: of the SELECT.
        with_window: the SELECT, with Spark's window as its last column.
        sql: the SELECT without that column.
    """
    ends = tuple(name for name, part in _shown(parts) if part == _END)
    times = tuple(name for name, part in _shown(parts) if part == _TIME)
    if not ends and not times:
        return sql
    view = parts.query.cut(WindowEnds(parts.query.whole(with_window), WINDOW, ends, times), parts.tree)
    return f"SELECT * FROM {view}"


def _shown(parts: Groups) -> list[tuple[str, str]]:
    """Return the names of the columns that are a part of the window, each with the part."""
    found = []
    for each, name in zip(parts.tree.expressions, parts.output_names(), strict=True):
        node = each.this if isinstance(each, exp.Alias) else each
        part = ""
        if isinstance(node, exp.Column) and node.name.lower() in parts.inner.window_columns:
            part = node.name.lower()
        elif isinstance(node, exp.Anonymous) and id(node) in parts.inner.replaced:
            word = str(node.this).upper().rpartition("_")[2]
            part = {"END": _END, "ROWTIME": _TIME}.get(word, "")
        if part:
            found.append((name, part))
    return found


def groups_windows(parts: Groups, source: From) -> bool:
    """Return whether GROUP BY has the end of a window, so that Spark knows when a group is complete."""
    group = parts.tree.args.get("group")
    if group is None or source.rows.changes is not None:
        return False
    columns = [each for each in group.expressions if isinstance(each, exp.Column)]
    texts = [f"{parts.inner.text(each)} AS `g{place}`" for place, each in enumerate(columns)]
    if not texts:
        return False
    found = parts.query.window_parts(f"SELECT {', '.join(texts)} FROM {source.text}")
    is_of_ends = "end" in found.values()
    parts.query.drops_late_rows |= is_of_ends
    return is_of_ends
