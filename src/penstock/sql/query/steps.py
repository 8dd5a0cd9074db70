"""The operators of penstock that a query is cut at, because Spark cannot stream them.

Runs on the driver. Invariant: the queries of a step name their columns for the step alone; the column of the
row kind is KIND. Nothing here knows Spark.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Aggregation:
    """GROUP BY: the columns `keys` and those of `calls`, each with its aggregate, e.g. `sum(a0)`."""

    query: str
    keys: tuple[str, ...]
    calls: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Deduplication:
    """One row of each group: the first or the last in an order; of rows that are only inserted."""

    query: str
    keys: tuple[str, ...]
    order_by: tuple[str, ...]
    keep_last: bool


@dataclass(frozen=True)
class Top:
    """The first rows of each group, in an order of columns, each with whether it descends."""

    query: str
    count: int
    keys: tuple[str, ...]
    order_by: tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class RegularJoin:
    """The pairs of rows with equal keys. `how` is inner, left, right, full, semi or anti."""

    left: str
    right: str
    on: tuple[tuple[str, str], ...]
    how: str


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


Step = Aggregation | Deduplication | Top | RegularJoin | VersionJoin
