"""Compute the tables of `penstock demo cdc` from the flights alone, and compare what the queries have kept.

Runs on the driver. Invariant: it shares no code with the history and the queries, and knows no changes: the
expected tables are expressions over the columns of the flights.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_COLUMNS = ("flight", "scheduled", "carrier", "origin", "dest", "status", "dep_delay", "arr_delay")
_MINUTES_OF_DAY = 1440

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Verdict:
    """The result of comparing a table with the true one."""

    table: str
    row_count: int
    missing: tuple[Any, ...]
    unexpected: tuple[Any, ...]

    @property
    def is_right(self) -> bool:
        """Return True if the table has each expected row once, and no other row."""
        return not (self.missing or self.unexpected)

    def __str__(self) -> str:
        return (
            f"{self.table}: {len(self.missing)} rows missing (such as {self.missing[:1]}), "
            f"{len(self.unexpected)} unexpected (such as {self.unexpected[:1]})"
        )


def expected_departures(flights: pa.Table) -> pa.Table:
    """Return the table `departures` after the last change: all flights that were not cancelled."""
    flown = flights.filter(pc.is_valid(flights["dep_delay"]))
    planned = pc.add(pc.multiply(flown["hour"], 60), flown["minute"])
    is_next_day = pc.greater_equal(pc.add(planned, flown["dep_delay"]), _MINUTES_OF_DAY)
    number = flown["flight"].cast(pa.string())
    name = pc.binary_join_element_wise(flown["carrier"], number, pc.if_else(is_next_day, "D", ""), "")
    scheduled = pc.strftime(flown["event_time"].cast(pa.timestamp("s", "UTC")), "%Y-%m-%dT%H:%M:%S+00:00")
    status = pc.if_else(pc.is_valid(flown["arr_delay"]), "arrived", "departed")
    same = (flown[column] for column in ("carrier", "origin", "dest"))
    delays = (flown[column] for column in ("dep_delay", "arr_delay"))
    return pa.table([name, scheduled, *same, status, *delays], names=_COLUMNS)


def expected_carriers(flights: pa.Table) -> pa.Table:
    """Return the statistics of each carrier after the last change."""
    flown = flights.filter(pc.is_valid(flights["dep_delay"]))
    found = flown.group_by("carrier").aggregate(
        [
            ([], "count_all"),
            ("dep_delay", "count"),
            ("dep_delay", "sum"),
            ("dep_delay", "max"),
            ("dest", "count_distinct"),
        ]
    )
    names = ("count_all", "dep_delay_count", "dep_delay_sum", "dep_delay_max", "dest_count_distinct")
    return found.select(["carrier", *names])


def check_departures(database: Path, flights: pa.Table) -> Verdict:
    with closing(sqlite3.connect(database)) as connection:
        found = connection.execute(f"SELECT {', '.join(_COLUMNS)} FROM departures").fetchall()  # noqa: S608 - our own names
    return compare("departures", found, _rows(expected_departures(flights)))


def check_carriers(files: Sequence[str], flights: pa.Table) -> Verdict:
    return compare("carriers", carriers_of(files), _rows(expected_carriers(flights)))


def carriers_of(files: Sequence[str]) -> Rows:
    """Return the rows of the table in Parquet, those with the most flights first."""
    rows = [row for file in files for row in _rows(pq.read_table(file))]
    return sorted(rows, key=lambda row: -row[1])


def compare(table: str, found: Rows, expected: Rows) -> Verdict:
    """Compare two tables, in any order."""
    missing, unexpected = Counter(expected), Counter(found)
    missing.subtract(found)
    unexpected.subtract(expected)
    return Verdict(table, len(expected), tuple((+missing).elements()), tuple((+unexpected).elements()))


def _rows(table: pa.Table) -> Rows:
    return [tuple(row.values()) for row in table.to_pylist()]
