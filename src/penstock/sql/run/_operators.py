"""Run the operators of a plan by penstock.changelog, and the marks that Spark's watermarks need.

Runs on the driver. Invariant: the column of the row kind is ROW_KIND, as the operators know it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock import changelog
from penstock.changelog.row_kinds import ROW_KIND
from penstock.options.values import parse_duration_ms
from penstock.spark.append_join import append_join, multi_join
from penstock.spark.changelog import joined_versions
from penstock.spark.kept_values import keep_values
from penstock.spark.native import rows_may_come_again
from penstock.spark.slices import slices
from penstock.spark.window_join import window_join, window_totals
from penstock.sql.emit.select import short
from penstock.sql.emit.spark_sql import FrameNode
from penstock.sql.plan.hidden import OFFSET, PARTITION
from penstock.sql.plan.nodes import Changelog, MarkedWindows, PlainTimes, Stateful, Watermark
from penstock.sql.plan.operators import (
    END_OF,
    START_OF,
    STATELESS,
    Aggregation,
    Deduplication,
    KeptValues,
    MultiJoin,
    Normalization,
    Operator,
    OverRows,
    RegularJoin,
    SessionRows,
    Slices,
    TimeSort,
    Top,
    VersionJoin,
    WindowJoin,
    WindowTotals,
)
from penstock.sql.run._windows import with_plain_times, with_window_ends

_OF_INSERTS = (VersionJoin, OverRows, SessionRows, TimeSort)
"""Operators whose rows are append-only. They keep what later rows need, and have no time to live."""


def made(node: FrameNode, frames: Sequence[Any], state: str | None, ttl: str | None) -> Any:
    """Return the rows of a node as a DataFrame.

    `state` is the folder of the state; None for a node that keeps none. `ttl` says how long rows are kept;
    None for ever.

    Raises:
        SchemaError: the operator does not take a column.
    """
    match node:
        case Watermark():
            return frames[0].withWatermark(short(node.column), f"{node.delay_ms} milliseconds")
        case MarkedWindows():
            window, struct = (None if each is None else short(each) for each in (node.window, node.struct))
            ends, times = (list(map(short, each)) for each in (node.ends, node.times))
            return with_window_ends(frames[0], window, ends, times, struct)
        case PlainTimes():
            return with_plain_times(frames[0], None if node.keep is None else short(node.keep))
        case Stateful():
            return _operated(node, frames, state or "", ttl)


def _operated(node: Stateful, frames: Sequence[Any], state: str, ttl: str | None) -> Any:
    operator = node.operator
    if isinstance(operator, Slices):
        lengths = {"length_ms": operator.length_ms, "offset_ms": operator.offset_ms}
        return slices(frames[0], operator.time, operator.keys, dict(operator.calls), **lengths)
    if isinstance(operator, WindowJoin):
        how: Any = operator.how
        return window_join(frames[0], frames[1], dict(operator.on), how=how)
    if isinstance(operator, WindowTotals):
        shown = [label for label, _ in node.columns if label not in dict(operator.calls)]
        return window_totals(frames[0], shown, operator.keys, dict(operator.calls))
    rows = list(map(_kinds_in, frames))
    if isinstance(operator, RegularJoin) and is_append_join(node, ttl):
        return append_join(rows[0], rows[1], dict(operator.on), state=state)
    if isinstance(operator, MultiJoin):
        return multi_join(rows, operator.on, state=state)
    return _run(operator, rows, state, ttl)


def _run(operator: Operator, frames: list[Any], state: str, ttl: str | None) -> Any:  # noqa: PLR0911 - one for each
    rows = frames[0]
    match operator:
        case Aggregation():
            own = times_to_live(operator, ttl)[0]
            return changelog.aggregate(rows, operator.keys, dict(operator.calls), state=state, ttl=own)
        case Deduplication():
            keep: Any = "last" if operator.keep_last else "first"
            return changelog.deduplicate(
                rows, operator.keys, order_by=operator.order_by, keep=keep, state=state, ttl=ttl
            )
        case Top():
            return changelog.top_n(
                rows,
                operator.keys,
                operator.count,
                order_by=_order(operator.order_by),
                rank=operator.rank,
                skip=operator.skipped,
                state=state,
                ttl=ttl,
            )
        case RegularJoin():
            how: Any = operator.how
            ones, others = times_to_live(operator, ttl)
            return changelog.join(
                rows, frames[1], dict(operator.on), how=how, state=state, ttl=(ones, others)
            )
        case VersionJoin():
            versions: Any = operator.how
            return joined_versions(
                rows,
                frames[1],
                dict(operator.on),
                time=operator.time,
                version_time=operator.version_time,
                delay=f"{operator.delay_ms} ms",
                how=versions,
                state=state,
                has_whole_updates=True,
            )
        case Normalization():
            return changelog.normalize(
                rows,
                operator.keys,
                order_by=[OFFSET],
                state=state,
                ttl=ttl,
                deleted_ttl=ttl,
                source=PARTITION,
                emit_equal=ttl is not None,
            )
        case KeptValues():
            return keep_values(rows, operator.keys, operator.values, state=state, ttl=ttl)
        case OverRows() | SessionRows() | TimeSort():
            return _run_in_time(operator, rows, state)
        case MultiJoin() | Slices() | WindowJoin() | WindowTotals():
            raise TypeError("it does not run here.")


def times_to_live(operator: Operator, ttl: str | None) -> list[str | None]:
    """Return how long an operator keeps the rows of each of its inputs; None for ever.

    Its own times come from a hint, and `ttl` from the session.
    """
    if isinstance(operator, (MultiJoin, *_OF_INSERTS, *STATELESS)):
        return [None]
    own: tuple[str | None, ...] = (operator.ttl if isinstance(operator, Aggregation) else None,)
    if isinstance(operator, RegularJoin):
        own = operator.ttls
    given = [ttl if each is None else each for each in own]
    return [None if each is None or not parse_duration_ms(each) else each for each in given]


def is_append_join(node: Stateful, ttl: str | None) -> bool:
    """Return whether a node is an inner join of rows that never go, of which it forgets none."""
    operator, is_append = node.operator, node.changelog is Changelog.APPEND
    if isinstance(operator, MultiJoin):
        return True
    is_inner = isinstance(operator, RegularJoin) and operator.how == "inner"
    return is_inner and is_append and times_to_live(operator, ttl) == [None, None]


def _order(columns: tuple[tuple[str, bool], ...]) -> list[str]:
    return [f"{name} {'desc' if is_down else 'asc'}" for name, is_down in columns]


def _run_in_time(operator: OverRows | SessionRows | TimeSort, rows: Any, state: str) -> Any:
    """Return rows that come out when the watermark has passed them.

    An operator lets a row out when a time has come that is later by more than its delay. In Flink and Spark
    it is enough that one is later by as much. A row that came later could be late for the rest of the query.
    """
    if isinstance(operator, TimeSort):
        delay, order = f"{operator.delay_ms} ms", _order(operator.order_by)
        return changelog.sort_by_time(rows, time=operator.time, delay=delay, order_by=order, state=state)
    delay = f"{max(0, operator.delay_ms - 1)} ms"
    if isinstance(operator, SessionRows):
        return changelog.sessions(
            rows,
            operator.keys,
            time=operator.time,
            gap=f"{operator.gap_ms} ms",
            delay=delay,
            names=(START_OF, END_OF),
            state=state,
        )
    kind: Any = operator.frame
    preceding = operator.preceding
    return changelog.over(
        rows,
        operator.keys,
        dict(operator.calls),
        time=operator.time,
        delay=delay,
        frame=kind,
        preceding=preceding if preceding is None or kind == "rows" else f"{preceding} ms",
        order_by=operator.order_by,
        state=state,
    )


def _kinds_in(frame: Any) -> Any:
    """Return rows with their kinds. Those of Spark's windows have none: each comes once, in append mode."""
    if ROW_KIND not in frame.columns and frame.isStreaming and rows_may_come_again(frame):
        return frame.selectExpr("*", f"'+I' AS `{ROW_KIND}`")
    return frame
