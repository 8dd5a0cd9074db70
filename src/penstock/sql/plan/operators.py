"""The operators of penstock that stand in a plan where Spark cannot stream a node.

Runs on the driver. Invariant: an operator names columns by labels of its own (`g0`, `a0`, `l0` ...), which
depend on its arguments alone. So a change elsewhere in the statement leaves its state as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

START_OF, END_OF = "__start", "__end"


@dataclass(frozen=True)
class Aggregation:
    """GROUP BY: the columns `keys`, and those of `calls`, each with its aggregate, e.g. `sum(a0)`.

    `ttl` is that of a hint, "0" for ever; None for the session's.
    """

    keys: tuple[str, ...]
    calls: tuple[tuple[str, str], ...]
    ttl: str | None = None


@dataclass(frozen=True)
class Deduplication:
    """One row of each group: the first or the last in an order; of append-only rows."""

    keys: tuple[str, ...]
    order_by: tuple[str, ...]
    keep_last: bool


@dataclass(frozen=True)
class Top:
    """The first rows of each group, in an order of columns, each with whether it descends.

    `rank` is the label of a new column with the rank of a row; None for none. `skipped` rows of each group,
    the first ones, are left out.
    """

    count: int
    keys: tuple[str, ...]
    order_by: tuple[tuple[str, bool], ...]
    rank: str | None = None
    skipped: int = field(default=0, repr=False)


@dataclass(frozen=True)
class RegularJoin:
    """The pairs of rows with equal keys. `how` is inner, left, right, full, semi or anti.

    `ttls` are those of a hint for each side, as for `Aggregation`.
    """

    on: tuple[tuple[str, str], ...]
    how: str
    ttls: tuple[str | None, str | None] = (None, None)


@dataclass(frozen=True)
class MultiJoin:
    """The combinations of append-only rows with equal keys, one row of each input.

    `on` has for each key its column in each input.
    """

    on: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class VersionJoin:
    """Rows with the version of their key at their time. `how` is inner or left."""

    on: tuple[tuple[str, str], ...]
    time: str
    version_time: str
    delay_ms: int
    how: str


@dataclass(frozen=True)
class OverRows:
    """Rows with aggregates of the rows of their key before them.

    Attributes:
        keys: the columns of PARTITION BY.
        time: the column of ORDER BY.
        delay_ms: of the watermark.
        order_by: columns that order rows of one time.
        calls: the columns, each with its aggregate.
        frame: rows or range.
        preceding: how far back the frame begins, in rows or milliseconds; None for all.
    """

    keys: tuple[str, ...]
    time: str
    delay_ms: int
    order_by: tuple[str, ...]
    calls: tuple[tuple[str, str], ...]
    frame: str
    preceding: int | None


@dataclass(frozen=True)
class SessionRows:
    """Rows with the session that they are in: the columns START_OF and END_OF."""

    keys: tuple[str, ...]
    time: str
    delay_ms: int
    gap_ms: int


@dataclass(frozen=True)
class TimeSort:
    """Rows in the order of their times. `order_by` orders rows of one time."""

    time: str
    delay_ms: int
    order_by: tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class Normalization:
    """A correct changelog of records that are upserts or may come twice, by the primary key."""

    keys: tuple[str, ...]


@dataclass(frozen=True)
class KeptValues:
    """Rows that change, each of which goes with the `values` with which it came.

    Rows that may be equal have equal `keys`.
    """

    keys: tuple[str, ...]
    values: tuple[str, ...]


@dataclass(frozen=True)
class Slices:
    """Rows of a micro-batch with equal keys put together, one for each slice of time. It keeps no state.

    Attributes:
        time: the column with the watermark. It gets the start of the slice.
        length_ms: of a slice.
        offset_ms: by which slices begin later.
        keys: other columns.
        calls: the columns, each with its partial aggregate.
    """

    time: str
    length_ms: int
    offset_ms: int
    keys: tuple[str, ...]
    calls: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class WindowJoin:
    """The pairs of rows of windows that are over, with equal keys. It keeps no state.

    `how` is inner, left, right or full.
    """

    on: tuple[tuple[str, str], ...]
    how: str


@dataclass(frozen=True)
class WindowTotals:
    """Rows of windows that are over, with aggregates of all rows with equal `keys`. It keeps no state."""

    keys: tuple[str, ...]
    calls: tuple[tuple[str, str], ...]


Operator = (
    Aggregation
    | Deduplication
    | Top
    | RegularJoin
    | MultiJoin
    | VersionJoin
    | OverRows
    | SessionRows
    | TimeSort
    | Normalization
    | KeptValues
    | Slices
    | WindowJoin
    | WindowTotals
)
STATELESS = (Slices, WindowJoin, WindowTotals)
"""Operators over the rows of one micro-batch, whose rows are append-only. They keep nothing."""


def described(operator: Operator) -> str:
    """Return an operator with its arguments. One without `repr` is left out where it has its default."""
    given = ((each, getattr(operator, each.name)) for each in fields(operator))
    shown = (f"{each.name}={value!r}" for each, value in given if each.repr or value != each.default)
    return f"{type(operator).__name__}({', '.join(shown)})"
