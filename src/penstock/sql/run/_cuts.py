"""What EXPLAIN says about the cuts of a query: why, which changes go in and come out, and the state.

Runs on the driver. Invariant: nothing here changes how a query runs. The kinds of rows are written as in
Flink's plans: I a new row, UB and UA the old and the new row of an update, D a row that goes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.sql.language.statements import Options
from penstock.sql.query.rows import Rows
from penstock.sql.query.steps import (
    Aggregation,
    Deduplication,
    Operation,
    OverRows,
    RegularJoin,
    SessionRows,
    TimeSort,
    Top,
    VersionJoin,
)

WINDOWS = "windows"
"""The name of the cut of windows of rows that change."""
INSERTS, ALL = "[I]", "[I,UB,UA,D]"
_UPDATES, _NO_PAIRS = "[I,UB,UA]", "[I,D]"
_WHY: dict[type, str] = {
    Aggregation: "Spark streams GROUP BY and DISTINCT without the rows that they replace",
    Deduplication: "Spark does not stream ROW_NUMBER()",
    Top: "Spark streams neither ROW_NUMBER() nor ORDER BY with LIMIT",
    RegularJoin: "Spark streams neither joins of rows that change nor outer joins without times",
    OverRows: "Spark does not stream OVER",
    SessionRows: "Spark streams sessions of groups only",
    TimeSort: "Spark streams ORDER BY only behind an aggregation that gives all of its rows again",
    VersionJoin: "Spark has no join with the version that was valid at a time",
}
_KEEPS: dict[type, str] = {
    Aggregation: "one entry for each group; for MIN, MAX and DISTINCT also each different value. It "
    "grows with the groups that have rows",
    Deduplication: "one row of each key. It grows with the keys",
    Top: "all rows of each group, because a row of the top may go. It grows with the rows that are there",
    RegularJoin: "all rows of both sides. It grows with the rows that are there",
    OverRows: "the rows of each key that later frames need, and rows that wait for the watermark",
    SessionRows: "the rows of sessions that are not over",
    TimeSort: "rows that wait for the watermark",
    VersionJoin: "rows that wait for the watermark, and the versions of each key. It grows with the keys",
}
_KEEPS_OF_INSERTS = "the first rows of each group. It grows with the groups"
_MANY_HOPS = 100
_NORMALIZE = (
    "the last row of each key. It grows with the keys, also deleted ones, until 'table.exec.state.ttl'"
)


@dataclass(frozen=True)
class Cut:
    """An operator of penstock in a query.

    Attributes:
        name: of the operator.
        place: line and column, or the table.
        why: it is there.
        reads: the kinds of rows of each input.
        gives: those of its own rows.
        keeps: its state, and with what it grows.
    """

    name: str
    place: str
    why: str
    reads: tuple[str, ...]
    gives: str
    keeps: str

    @property
    def line(self) -> str:
        """Return what EXPLAIN shows."""
        reads = " and ".join(self.reads)
        return f"{self.place}: {self.name}, because {self.why}. {reads} becomes {self.gives}."


Reads = dict[tuple[tuple[str, ...], Options], Rows]
"""Tables that a query reads, each by its name and the options of its hint, and what is known of its rows."""


@dataclass
class Notes:
    """What was found while a query was bound: the tables that it reads, and its cuts.

    `hops` are warnings of windows, `varying` those of functions that may give other values over rows that
    change. `drops_late_rows`: whether rows that are later than the watermark are left out.
    """

    reads: Reads = field(default_factory=dict)
    cuts: list[Cut] = field(default_factory=list)
    hops: list[str] = field(default_factory=list)
    varying: list[str] = field(default_factory=list)
    drops_late_rows: bool = False

    def add_reads(self, reads: Reads) -> None:
        """Add tables behind those that are known."""
        for each, rows in reads.items():
            self.reads.setdefault(each, rows)

    def add(self, notes: Notes) -> None:
        """Add what was found while a part of the query was bound."""
        self.add_reads(notes.reads)
        self.cuts += notes.cuts
        self.hops += notes.hops
        self.varying += notes.varying
        self.drops_late_rows |= notes.drops_late_rows

    def add_again(self, notes: Notes) -> None:
        """Add what was found in a view that is used again. What is known from its first use stays once."""
        self.add(
            Notes(
                notes.reads,
                [each for each in notes.cuts if each not in self.cuts],
                [each for each in notes.hops if each not in self.hops],
                [each for each in notes.varying if each not in self.varying],
                notes.drops_late_rows,
            )
        )


def many_hops(count: int, place: str) -> list[str]:
    """Return a warning if a HOP puts each row into many windows."""
    if count <= _MANY_HOPS:
        return []
    return [
        f"{place}: HOP puts each row into {count} windows, and computes it in each of them. TUMBLE by the "
        "slide, and then a HOP over the window_time of its groups, computes fewer rows."
    ]


def cut_of(
    name: str, step: Operation, place: str, inputs: list[bool], ttls: list[str | None], *, changes: bool
) -> Cut:
    """Return the cut of a step.

    Args:
        name: of the operator.
        step: what it does.
        place: of its clause.
        inputs: for each input, whether its rows change.
        ttls: how long the rows of each input are kept; None for ever.
        changes: whether the rows of the operator change.
    """
    kind = type(step)
    why = _WHY.get(kind, "Spark does not stream it")
    keeps = _KEEPS.get(kind, "see docs/changelogs.md")
    if kind is Top and not any(inputs):
        keeps = _KEEPS_OF_INSERTS
    keeps += _until(ttls)
    reads = tuple(ALL if each else INSERTS for each in inputs)
    return Cut(name, place, why, reads, _given(step, any(inputs), changes=changes), keeps)


def _given(step: Operation, is_of_changes: bool, *, changes: bool) -> str:
    if not changes or (isinstance(step, RegularJoin) and step.how == "inner" and not is_of_changes):
        return INSERTS
    if isinstance(step, RegularJoin) or (isinstance(step, Top) and step.rank is None):
        return _NO_PAIRS
    return _UPDATES if isinstance(step, (Aggregation, Deduplication, Top)) and not is_of_changes else ALL


def _until(ttls: list[str | None]) -> str:
    """Return when a state forgets, for the end of a sentence."""
    if not any(ttls):
        return ""
    if len(set(ttls)) == 1:
        return f", until it was not written for {ttls[0]}"
    left, right = (f"for {each}" if each else "ever" for each in ttls)
    return f", until it was not written (left {left}, right {right})"


def normalize_of(table: str) -> Cut:
    """Return the cut that makes a correct changelog of the records of a table."""
    why = "the records are upserts or may come twice, so the old row of each change has to be found"
    return Cut("normalize", table, why, ("upserts",), ALL, _NORMALIZE)


def windows_of(place: str) -> Cut:
    """Return the cut of windows of rows that change."""
    why = "Spark's windows take no row back"
    keeps = "all changes of the rows of open windows, in Spark's state, until the watermark has passed"
    return Cut(WINDOWS, place, why, (ALL,), INSERTS, keeps)


def mode_of(rows: Rows) -> str:
    """Return the changelog mode of rows in words."""
    if rows.changes is None:
        return f"{INSERTS} append: rows are only inserted"
    if rows.keys is None:
        return f"{ALL} retract: rows change, and no columns are known by which they differ"
    return f"{ALL} upsert by ({', '.join(sorted(rows.keys))}): rows change"
