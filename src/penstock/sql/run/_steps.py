"""Run the steps that a query is cut at, by the operators of penstock.changelog.

Runs on the driver. Invariant: the column of the row kind is KIND outside of this file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock import changelog
from penstock.changelog.row_kinds import ROW_KIND
from penstock.options.values import parse_duration_ms
from penstock.spark.gathered import aggregate_gathered
from penstock.spark.native import rows_may_come_again
from penstock.sql.query.piece import quoted
from penstock.sql.query.rows import KIND, OFFSET, PARTITION, PLACE
from penstock.sql.query.steps import (
    END_OF,
    START_OF,
    Aggregation,
    Deduplication,
    Operation,
    OverRows,
    PlainTimes,
    RegularJoin,
    SessionRows,
    Step,
    TimedChanges,
    TimeSort,
    Top,
    VersionJoin,
    WindowChanges,
    WindowEnds,
)
from penstock.sql.run._windows import with_plain_times, with_times, with_window_ends

_NAMES: dict[type, str] = {
    Aggregation: "aggregate",
    Deduplication: "deduplicate",
    Top: "top-n",
    RegularJoin: "join",
    VersionJoin: "temporal-join",
    OverRows: "over",
    SessionRows: "sessions",
    TimeSort: "sort-by-time",
}
_OF_INSERTS = (VersionJoin, OverRows, SessionRows, TimeSort)
"""Operators whose rows are only inserted. They keep what later rows need, and have no time to live."""


def name_of(step: Operation) -> str:
    """Return the name of an operator, which is also that of its folder."""
    return _NAMES[type(step)]


def run_step(
    step: Step, frame_of: Callable[[str], Any], folder: Callable[[str], str], ttl: str | None
) -> Any:
    """Return the rows of a step as a DataFrame.

    Args:
        step: the operator and its queries.
        frame_of: gives the DataFrame of a query.
        folder: gives the folder of the state, by the operator's name.
        ttl: how long rows are kept; None for ever.

    Raises:
        SchemaError: the operator does not take a column.
    """
    if isinstance(step, WindowEnds):
        return with_window_ends(frame_of(step.query), step)
    if isinstance(step, PlainTimes):
        return with_plain_times(frame_of(step.query), step)
    if isinstance(step, TimedChanges):
        return with_times(frame_of(step.query), step)
    if isinstance(step, WindowChanges):
        return aggregate_gathered(frame_of(step.query), step.rows, dict(step.calls))
    name = _NAMES[type(step)]
    frame = _run(step, lambda query: _kinds_in(frame_of(query)), folder(name), ttl)
    return frame.drop(ROW_KIND) if isinstance(step, _OF_INSERTS) else _kinds_out(frame)


def _run(step: Operation, frame_of: Callable[[str], Any], state: str, ttl: str | None) -> Any:
    if isinstance(step, Aggregation):
        own = times_to_live(step, ttl)[0]
        return changelog.aggregate(frame_of(step.query), step.keys, dict(step.calls), state=state, ttl=own)
    if isinstance(step, Deduplication):
        keep: Any = "last" if step.keep_last else "first"
        rows = frame_of(step.query)
        return changelog.deduplicate(rows, step.keys, order_by=step.order_by, keep=keep, state=state, ttl=ttl)
    if isinstance(step, Top):
        rows = frame_of(step.query)
        count, rank = step.count, step.rank
        order = _order(step.order_by)
        return changelog.top_n(rows, step.keys, count, order_by=order, rank=rank, state=state, ttl=ttl)
    if isinstance(step, (OverRows, SessionRows, TimeSort)):
        return _run_in_time(step, frame_of(step.query), state)
    left, right = frame_of(step.left), frame_of(step.right)
    if isinstance(step, RegularJoin):
        how: Any = step.how
        ones, others = times_to_live(step, ttl)
        return changelog.join(left, right, dict(step.on), how=how, state=state, ttl=(ones, others))
    versions: Any = step.how
    return changelog.temporal_join(
        left,
        right,
        dict(step.on),
        time=step.time,
        version_time=step.version_time,
        delay=f"{step.delay_ms} ms",
        how=versions,
        state=state,
    )


def times_to_live(step: Step, ttl: str | None) -> list[str | None]:
    """Return how long a step keeps the rows of each of its inputs; None for ever.

    Args:
        step: the operator. Its own times come from a hint.
        ttl: that of the session.
    """
    if isinstance(step, _OF_INSERTS) or not isinstance(step, Operation):
        return [None]
    own: tuple[str | None, ...] = (step.ttl if isinstance(step, Aggregation) else None,)
    if isinstance(step, RegularJoin):
        own = step.ttls
    given = [ttl if each is None else each for each in own]
    return [None if each is None or not parse_duration_ms(each) else each for each in given]


def _order(columns: tuple[tuple[str, bool], ...]) -> list[str]:
    return [f"{name} {'desc' if is_down else 'asc'}" for name, is_down in columns]


def _run_in_time(step: OverRows | SessionRows | TimeSort, rows: Any, state: str) -> Any:
    """Return rows that come out when the watermark has passed them.

    An operator lets a row out when a time has come that is later by more than its delay. In Flink and Spark
    it is enough that one is later by as much. A row that came later could be late for the rest of the query.
    """
    if isinstance(step, TimeSort):
        delay = f"{step.delay_ms} ms"
        order = _order(step.order_by)
        return changelog.sort_by_time(rows, time=step.time, delay=delay, order_by=order, state=state)
    delay = f"{max(0, step.delay_ms - 1)} ms"
    if isinstance(step, SessionRows):
        return changelog.sessions(
            rows,
            step.keys,
            time=step.time,
            gap=f"{step.gap_ms} ms",
            delay=delay,
            names=(START_OF, END_OF),
            state=state,
        )
    kind: Any = step.frame
    preceding = step.preceding
    return changelog.over(
        rows,
        step.keys,
        dict(step.calls),
        time=step.time,
        delay=delay,
        frame=kind,
        preceding=preceding if preceding is None or kind == "rows" else f"{preceding} ms",
        order_by=step.order_by,
        state=state,
    )


def normalized(frame: Any, keys: tuple[str, ...], state: str | None, ttl: str | None) -> Any:
    """Return a correct changelog of the rows of a table with places; without a state the rows of now.

    Args:
        frame: its columns, KIND and the columns of PLACE.
        keys: the primary key.
        state: the folder; None for a batch.
        ttl: how long a key is kept.
    """
    names = [name for name in frame.columns if name not in (KIND, *PLACE)]
    short = {name: f"c{place}" for place, name in enumerate(names)}
    texts = [f"{quoted(name)} AS `{column}`" for name, column in short.items()]
    rows = frame.selectExpr(*texts, *PLACE, f"`{KIND}` AS `{ROW_KIND}`")
    found = changelog.normalize(
        rows,
        [short[key] for key in keys],
        order_by=[OFFSET],
        state=state,
        ttl=ttl,
        deleted_ttl=ttl,
        collapse=state is None,
        source=PARTITION,
        emit_equal=ttl is not None,
    )
    back = [f"`{column}` AS {quoted(name)}" for name, column in short.items()]
    if state is None:
        return found.selectExpr(*back)
    return found.selectExpr(*back, f"`{ROW_KIND}` AS `{KIND}`")


def _kinds_in(frame: Any) -> Any:
    """Return rows with their kinds. Those of Spark's windows have none: each comes once, in append mode."""
    if KIND not in frame.columns and frame.isStreaming and rows_may_come_again(frame):
        return frame.selectExpr("*", f"'+I' AS `{ROW_KIND}`")
    return frame.withColumnRenamed(KIND, ROW_KIND)


def _kinds_out(frame: Any) -> Any:
    return frame.withColumnRenamed(ROW_KIND, KIND)
