"""Windows of rows that change: Spark gathers the changes of each group until the window is over.

Runs on the driver. Invariant: a group comes once, with the aggregates of the rows that are left when the
watermark passes the end of its window. A group of which no row is left does not come. So the rows are only
inserted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.sql.query._aggregated import bound, calls_in, grouping_nodes, is_of_window, sets_in
from penstock.sql.query._parts import From
from penstock.sql.query._window_ends import closed_windows
from penstock.sql.query._windows import COLUMNS, WINDOW, WindowCall, parts_of_window
from penstock.sql.query.piece import quoted
from penstock.sql.query.rows import KIND, Relation, Rows, Selected
from penstock.sql.query.steps import TimedChanges, WindowChanges
from penstock.types import ROW_KIND

if TYPE_CHECKING:
    from penstock.sql.query._relations import Relations
    from penstock.sql.query._select import Select

_ROWS = "__rows"
_NO_SESSION = (
    "SESSION of rows that change is not served, because rows that went again make a session longer. Use "
    "TUMBLE, HOP or CUMULATE."
)


def timed_changes(
    parts: Relations, call: WindowCall, table: Relation, tree: exp.Expr, *, is_grouped: bool
) -> str:
    """Return a table whose rows change, each with a time.

    Args:
        parts: of the SELECT.
        call: the window.
        table: the rows.
        tree: the call, for messages.
        is_grouped: whether the rows are in groups of windows, which are over when the watermark has passed.

    Raises:
        SqlError: the window is not over the column of the watermark, or a SESSION.
    """
    if call.kind == "SESSION":
        parts.inner.refuse(tree, _NO_SESSION)
    time = table.rows.changing_time or table.time
    if time is None or time[0].lower() != call.column.lower():
        parts.inner.refuse(tree, _no_time(call.kind, table.rows))
    query = parts.query.whole(f"SELECT * FROM {table.text}")
    return parts.query.cut(TimedChanges(query, time[0], time[1] if is_grouped else None), tree)


def _no_time(kind: str, rows: Rows) -> str:
    name = rows.changes.name if rows.changes is not None else ""
    return (
        f"{kind} of rows that change ({name}) takes the column of the WATERMARK of a table. Aggregates, "
        "joins and UNION do not keep it: put them behind the window, or leave them out."
    )


def windows_of_rows(rows: str, shown: tuple[str, ...], known: Rows, call: WindowCall) -> tuple[str, Rows]:
    """Return rows that change with the columns of their windows, and what is known of them.

    Args:
        rows: with the window.
        shown: the texts of its columns.
        known: of the rows without it.
        call: the window.
    """
    columns = ", ".join(f"{text} AS {name}" for text, name in zip(shown, COLUMNS, strict=True))
    text = f"(SELECT * EXCEPT (`{WINDOW}`, `{KIND}`), {columns}, `{KIND}` FROM {rows})"
    keys = known.keys
    if keys is not None and call.kind != "TUMBLE":
        keys |= {"window_end"}
    return text, Rows(known.changes, keys)


def windows_of_changes(parts: Select, source: From) -> Selected:
    """Return a SELECT with groups of windows over rows that change.

    Raises:
        SqlError: an aggregate or a column is not served.
    """
    tree, inner = parts.tree, parts.inner
    of_group = _function_of_group(tree)
    if of_group is not None:
        source = _timed(parts, source, of_group)
    calls, replaced = calls_in(parts, None)
    source, where = parts.filtered(source)
    group = parts.group_by()
    columns = sets_in(parts, list(tree.args["group"].expressions)).columns
    items = [each for each in columns if each is not of_group and not is_of_window(parts, each)]
    gathered = [f"'a{place}', {text}" for place, text in enumerate(calls.arguments)]
    kinds = f"'{ROW_KIND}', `{KIND}`"
    texts = [f"{inner.text(each)} AS `g{place}`" for place, each in enumerate(items)]
    sets = grouping_nodes(tree)
    texts += [f"{inner.text(each)} AS `s{place}`" for place, each in enumerate(sets)]
    texts.append(f"collect_list(named_struct({', '.join([*gathered, kinds])})) AS `{_ROWS}`")
    texts.append(f"{parts.window_text} AS `{WINDOW}`")
    query = parts.query.whole(f"SELECT {', '.join(texts)} FROM {source.text}{where}{group}")
    given = tuple(calls.calls) or (("n", "count(*)"),)
    view = parts.query.cut(WindowChanges(query, _ROWS, given), tree)
    replaced |= {id(each): f"`s{place}`" for place, each in enumerate(sets)}
    return _selected(parts, view, bound(parts, items, {**inner.replaced, **replaced}), of_group)


def _function_of_group(tree: exp.Expr) -> exp.Expr | None:
    """Return the window that stands in GROUP BY; None if it stands in FROM."""
    found = [each for each in tree.args["group"].expressions if type(each) is exp.Anonymous]
    return next((each for each in found if str(each.this).upper() in ("TUMBLE", "HOP", "SESSION")), None)


def _timed(parts: Select, source: From, window: exp.Expr) -> From:
    """Return FROM with the watermark, for a window that stands in GROUP BY."""
    kind, column = str(window.this).upper(), window.expressions[0]
    if kind == "SESSION":
        parts.inner.refuse(window, _NO_SESSION)
    time = source.rows.changing_time
    is_time = isinstance(column, exp.Column) and time is not None and column.name.lower() == time[0].lower()
    if time is None or not is_time or not source.is_alone:
        parts.inner.refuse(window, _no_time(kind, source.rows))
    query = parts.query.whole(f"SELECT * FROM {source.text}")
    view = parts.query.cut(TimedChanges(query, *time), window)
    source = replace(source, text=f"{view} AS {quoted(source.aliases[0])}")
    parts.use(source)
    return source


def _selected(parts: Select, view: str, texts: dict[int, str], of_group: exp.Expr | None) -> Selected:
    tree, rows = parts.tree, parts.rows_of_groups()
    columns = parts.inner.window_columns
    parts.use_columns(view, texts, rows)
    if of_group is not None:
        parts.use_window(f"`{WINDOW}`", of_group)
    else:
        parts.inner.window_columns = dict(zip(columns, parts_of_window(f"`{WINDOW}`"), strict=True))
    having = tree.args.get("having")
    outputs = ", ".join(parts.output(each, None) for each in tree.expressions)
    kept = f" WHERE {parts.inner.text(having.this)}" if having is not None else ""
    sql = f"SELECT {outputs} FROM {view}{kept}"
    if tree.args.get("distinct") is not None:
        rows, sql = parts.query.distinct(sql, rows, tree)
    elif tree is not parts.query.last:
        sql = closed_windows(parts, f"SELECT {outputs}, `{WINDOW}` FROM {view}{kept}", sql)
    return parts.query.ended(sql, tree, parts.inner, rows)
