"""SESSION as a table function without GROUP BY: each row with the session that it is in.

Runs on the driver. Invariant: a session has the rows of its PARTITION BY of which no two that follow one
another are apart by more than the gap. In a stream they come out when the watermark has passed its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.sql.query._windows import WINDOW, WindowCall
from penstock.sql.query.piece import quoted
from penstock.sql.query.rows import Relation
from penstock.sql.query.steps import END_OF, START_OF, SessionRows

if TYPE_CHECKING:
    from penstock.sql.query._relations import Relations

_NEW, _NUMBER, _KEY = "__new", "__session", "__key"


def session_rows(parts: Relations, call: WindowCall, table: Relation, star: str, tree: exp.Expr) -> str:
    """Return the rows of a table with their sessions in the column WINDOW, as FROM has it.

    Raises:
        SqlError: the time of a stream is not the column of its watermark.
    """
    if not parts.query.is_streaming(table.text):
        return _of_batch(call, table.text, star)
    if table.time is None or table.time[0].lower() != call.column.lower():
        parts.inner.refuse(
            tree,
            "SESSION without GROUP BY takes the column of the WATERMARK of a table in a stream. Write the "
            "conditions in a query around it.",
        )
    keys = [f"{text} AS `{_KEY}{place}`" for place, text in enumerate(_keys(call) or ["0"])]
    names = tuple(f"{_KEY}{place}" for place in range(len(keys)))
    query = parts.query.whole(f"SELECT {star}, {', '.join(keys)} FROM {table.text}")
    step = SessionRows(query, names, call.column, table.time[1], call.spans.size)
    view = parts.query.cut(step, tree)
    parts.query.drops_late_rows = True
    own = ", ".join(f"`{name}`" for name in (*names, START_OF, END_OF))
    return f"(SELECT * EXCEPT ({own}), {_window(f'`{START_OF}`', f'`{END_OF}`')} FROM {view})"


def _of_batch(call: WindowCall, table: str, star: str) -> str:
    """Return the rows of a batch. Rows without a time are in no window, as those of other windows."""
    column = quoted(call.column)
    time = f"unix_micros(CAST({column} AS TIMESTAMP))"
    keys = ", ".join(_keys(call))
    by = f"PARTITION BY {keys} " if keys else ""
    gap = f"{time} - lag({time}) OVER ({by}ORDER BY {time}) <= {1_000 * call.spans.size}"
    is_new = f"CASE WHEN {gap} THEN 0 ELSE 1 END AS `{_NEW}`"
    found = f"SELECT {star}, {is_new} FROM {table} WHERE {column} IS NOT NULL"
    found = f"SELECT *, sum(`{_NEW}`) OVER ({by}ORDER BY {time}) AS `{_NUMBER}` FROM ({found})"
    of_session = f"OVER (PARTITION BY {', '.join([*_keys(call), f'`{_NUMBER}`'])})"
    seconds = f"{call.spans.size // 1_000}.{call.spans.size % 1_000:03}"
    stop = f"max({column}) {of_session} + INTERVAL '{seconds}' SECOND"
    window = _window(f"min({column}) {of_session}", stop)
    return f"(SELECT * EXCEPT (`{_NEW}`, `{_NUMBER}`), {window} FROM ({found}))"


def _keys(call: WindowCall) -> list[str]:
    return [quoted(name) for name in call.partition]


def _window(start: str, stop: str) -> str:
    return f"named_struct('start', {start}, 'end', {stop}) AS `{WINDOW}`"
