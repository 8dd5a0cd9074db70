"""The operators of penstock that a query is cut at, because Spark cannot stream them.

Runs on the driver. Invariant: the queries of a step name their columns for the step alone; the column of the
row kind is KIND. Nothing here knows Spark.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Aggregation:
    """GROUP BY: the columns `keys` and those of `calls`, each with its aggregate, e.g. `sum(a0)`.

    `ttl` is that of a hint, "0" for ever; None for the session's.
    """

    query: str
    keys: tuple[str, ...]
    calls: tuple[tuple[str, str], ...]
    ttl: str | None = None


@dataclass(frozen=True)
class Deduplication:
    """One row of each group: the first or the last in an order; of rows that are only inserted."""

    query: str
    keys: tuple[str, ...]
    order_by: tuple[str, ...]
    keep_last: bool


@dataclass(frozen=True)
class Top:
    """The first rows of each group, in an order of columns, each with whether it descends.

    `rank` is the name of a new column with the rank of a row; None for none.
    """

    query: str
    count: int
    keys: tuple[str, ...]
    order_by: tuple[tuple[str, bool], ...]
    rank: str | None = None


@dataclass(frozen=True)
class RegularJoin:
    """The pairs of rows with equal keys. `how` is inner, left, right, full, semi or anti.

    `ttls` are those of a hint for each side, as for `Aggregation`.
    """

    left: str
    right: str
    on: tuple[tuple[str, str], ...]
    how: str
    ttls: tuple[str | None, str | None] = (None, None)


@dataclass(frozen=True)
class VersionJoin:
    """Rows with the version of their key at their time. `how` is inner or left."""

    left: str
    right: str
    on: tuple[tuple[str, str], ...]
    time: str
    version_time: str
    delay_ms: int
    how: str


@dataclass(frozen=True)
class OverRows:
    """Rows with aggregates of the rows of their key before them.

    Attributes:
        query: the rows.
        keys: the columns of PARTITION BY.
        time: the column of ORDER BY.
        delay_ms: of the watermark.
        order_by: columns that order rows of one time.
        calls: the columns, each with its aggregate.
        frame: rows or range.
        preceding: how far back the frame begins, in rows or milliseconds; None for all.
    """

    query: str
    keys: tuple[str, ...]
    time: str
    delay_ms: int
    order_by: tuple[str, ...]
    calls: tuple[tuple[str, str], ...]
    frame: str
    preceding: int | None


@dataclass(frozen=True)
class SessionRows:
    """Rows with the session that they are in: the columns START_OF and END_OF.

    Attributes:
        query: the rows.
        keys: the columns of PARTITION BY.
        time: the column of the watermark.
        delay_ms: of the watermark.
        gap_ms: a session ends so long after its last row.
    """

    query: str
    keys: tuple[str, ...]
    time: str
    delay_ms: int
    gap_ms: int


@dataclass(frozen=True)
class TimeSort:
    """Rows in the order of their times.

    Attributes:
        query: the rows.
        time: the column of the watermark.
        delay_ms: of the watermark.
        order_by: columns that order rows of one time, each with whether it descends.
    """

    query: str
    time: str
    delay_ms: int
    order_by: tuple[tuple[str, bool], ...]


START_OF, END_OF = "__start", "__end"


@dataclass(frozen=True)
class WindowEnds:
    """Rows of windows. Their ends tell Spark when a window is complete, as Spark's own window does.

    Attributes:
        query: the rows, with Spark's window in the column `window`, which goes.
        window: the name of that column; None if the rows have ends already.
        ends: the columns with the end of the window.
        times: the columns with its last millisecond, which another window may be over.
        struct: a column with a start and an end that becomes a window of Spark's; None without one.
        hops: of a HOP with many windows, the number of windows that each row is in; else 0.
    """

    query: str
    window: str | None
    ends: tuple[str, ...]
    times: tuple[str, ...]
    struct: str | None = None
    hops: int = 0


@dataclass(frozen=True)
class PlainTimes:
    """Rows whose times are plain values for Spark, so that it drops nothing by them.

    Attributes:
        query: the rows.
        keep: the column that keeps its watermark; None for none.
    """

    query: str
    keep: str | None


@dataclass(frozen=True)
class TimedChanges:
    """Rows that change, with a watermark on their time, so that Spark knows when their windows are over.

    Attributes:
        query: the rows.
        time: the column of the watermark.
        delay_ms: of the watermark; None if the rows need none, because no window is awaited.
    """

    query: str
    time: str
    delay_ms: int | None


@dataclass(frozen=True)
class WindowChanges:
    """Aggregates of windows of rows that change. A window without a row has none.

    Attributes:
        query: the groups of windows that are over.
        rows: the column with the list of the changes of each group, which goes.
        calls: the columns, each with its aggregate.
    """

    query: str
    rows: str
    calls: tuple[tuple[str, str], ...]


Operation = Aggregation | Deduplication | Top | RegularJoin | VersionJoin | OverRows | SessionRows | TimeSort
"""The steps that keep a state."""
Step = Operation | WindowEnds | PlainTimes | TimedChanges | WindowChanges
