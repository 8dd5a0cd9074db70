"""What EXPLAIN says about the cuts of a query: why, which changes go in and come out, and the state.

Runs on the driver. Invariant: nothing here changes how a query runs. The kinds of rows are written as in
Flink's plans: I a new row, UB and UA the old and the new row of an update, D a row that goes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from penstock.sql.emit.select import short
from penstock.sql.language.source import Source as ScriptSource
from penstock.sql.language.source import script_of
from penstock.sql.language.statements import Options
from penstock.sql.passes.assign_state_ids import NAMES, has_slices
from penstock.sql.plan.nodes import Aggregate, Join, Node, Output, Scan, Source, Stateful, ToChangelog, Window
from penstock.sql.plan.operators import (
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
    TimeSort,
    Top,
    VersionJoin,
)
from penstock.sql.plan.rewrite import columns_of, every_node, nodes_in
from penstock.sql.plan.traits import OF_WINDOWS, TraitsOf
from penstock.sql.run._operators import is_append_join, times_to_live

INSERTS, ALL = "[I]", "[I,UB,UA,D]"
_UPDATES, _NO_PAIRS = "[I,UB,UA]", "[I,D]"
_TOLD: dict[type, tuple[str, str]] = {
    Aggregation: (
        "Spark streams GROUP BY and DISTINCT without the rows that they replace",
        "one entry for each group; for MIN, MAX and DISTINCT also each different value. It grows with the "
        "groups that have rows",
    ),
    Deduplication: ("Spark does not stream ROW_NUMBER()", "one row of each key. It grows with the keys"),
    Top: (
        "Spark streams neither ROW_NUMBER() nor ORDER BY with LIMIT",
        "all rows of each group, because a row of the top may go. It grows with the rows that are there",
    ),
    RegularJoin: (
        "Spark streams neither joins of changelogs nor outer joins without times, and its state of inner "
        "joins costs more",
        "all rows of both sides. It grows with the rows that are there",
    ),
    MultiJoin: (
        "these joins compare the same values, so one operator keeps no pairs between them",
        "all rows of all inputs. It grows with the rows that are there",
    ),
    KeptValues: (
        "a row that goes has to go with the time with which it came",
        "all rows with their times. It grows with the rows that are there",
    ),
    OverRows: (
        "Spark does not stream OVER",
        "the rows of each key that later frames need, and rows that wait for the watermark",
    ),
    SessionRows: ("Spark streams sessions of groups only", "the rows of sessions that are not over"),
    TimeSort: (
        "Spark streams ORDER BY only behind an aggregation that gives all of its rows again",
        "rows that wait for the watermark",
    ),
    VersionJoin: (
        "Spark has no join with the version that was valid at a time",
        "rows that wait for the watermark, and the versions of each key. It grows with the keys",
    ),
}
"""Why an operator is there, and what it keeps."""
_OF_WINDOWS = "a row of a window may change when the window is over, and then its group changes"
_KEEPS_OF_INSERTS = "the first rows of each group. It grows with the groups"
_IN_TIME = (OverRows, SessionRows, TimeSort, VersionJoin)
"""Operators that leave out rows that are later than the watermark, or join them with other versions."""
_MANY_HOPS = 100
_NORMALIZE = (
    "the last row of each key. It grows with the keys, also deleted ones, until 'table.exec.state.ttl'"
)


@dataclass(frozen=True)
class Cut:
    """An operator of penstock in a query.

    Attributes:
        name: of the operator.
        where: line and column, or the table.
        why: it is there.
        reads: the kinds of rows of each input.
        gives: those of its own rows.
        keeps: its state, and with what it grows.
    """

    name: str
    where: str
    why: str
    reads: tuple[str, ...]
    gives: str
    keeps: str

    @property
    def line(self) -> str:
        """Return what EXPLAIN shows."""
        reads = " and ".join(self.reads)
        return f"{self.where}: {self.name}, because {self.why}. {reads} becomes {self.gives}."


Reads = dict[tuple[tuple[str, ...], Options], Source]
"""Tables that a query reads, each by its name and the options of its hint, and what its plan knows of it."""


@dataclass
class Notes:
    """What was found while a query was bound: the tables that it reads, and its cuts.

    `hops` are warnings of windows, `told` those of TO_CHANGELOG, `varying` those of functions that may give
    other values over a changelog. `drops_late_rows`: whether rows that are later than the watermark
    are left out. `has_endless_join`: whether a join keeps all append-only rows. `columns` has the columns of
    the plan by their names in Spark's SQL.
    """

    reads: Reads = field(default_factory=dict)
    cuts: list[Cut] = field(default_factory=list)
    hops: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    varying: list[str] = field(default_factory=list)
    drops_late_rows: bool = False
    has_endless_join: bool = False
    columns: dict[str, str] = field(default_factory=dict)


def note_plan(
    notes: Notes, plan: Output, reads: Reads, traits: TraitsOf, script: ScriptSource, ttl: str | None
) -> None:
    """Add what a plan reads, and its operators. `ttl`: how long states keep rows; None for ever."""
    notes.reads.update({key: each for key, each in reads.items() if key not in notes.reads})
    notes.columns.update(
        {short(column): column.name for node in every_node(plan) for column in columns_of(node)}
    )
    for node in reversed([*nodes_in(plan)]):
        if isinstance(node, Stateful) and not isinstance(node.operator, STATELESS):
            notes.cuts.append(_cut(node, traits, script, ttl))
            notes.drops_late_rows |= isinstance(node.operator, _IN_TIME)
            notes.has_endless_join |= is_append_join(node, ttl)
        elif isinstance(node, Window) and traits(node).is_stream and not has_slices(node):
            notes.hops += overlapping_windows_warning(node.spans.hops, _where(node.offset, script))
        elif isinstance(node, ToChangelog):
            notes.told += told_changes(node, traits, script)
        elif isinstance(node, Aggregate):
            below = traits(node.input)
            notes.drops_late_rows |= below.is_stream and not below.changes
        elif isinstance(node, Join) and traits(node.left).times and traits(node.right).times:
            notes.drops_late_rows = True


def _cut(node: Stateful, traits: TraitsOf, script: ScriptSource, ttl: str | None) -> Cut:
    operator, where = node.operator, _where(node.offset, script)
    if isinstance(operator, Normalization):
        return normalize_of(f"table {_table_of(node)}")
    inputs = [traits(each.node).changes for each in node.inputs]
    name, ttls = NAMES[type(operator).__name__], times_to_live(operator, ttl)
    found = cut_of(name, operator, where, inputs, ttls, changes=traits(node).changes)
    return replace(found, why=_OF_WINDOWS) if traits(node).changed == OF_WINDOWS else found


def _table_of(node: Node) -> str:
    return next(each.source.name for each in nodes_in(node) if isinstance(each, Scan))


def _where(offset: int, script: ScriptSource) -> str:
    line, column = script_of(offset, script).line_and_column(max(offset, 0))
    return f"line {line}, column {column}"


def overlapping_windows_warning(count: int, where: str) -> list[str]:
    """Return a warning if a HOP puts each row into many windows."""
    if count <= _MANY_HOPS:
        return []
    return [
        f"{where}: HOP puts each row into {count} windows, and computes it in each of them. TUMBLE by the "
        "slide, and then a HOP over the window_time of its groups, computes fewer rows."
    ]


def told_changes(node: ToChangelog, traits: TraitsOf, script: ScriptSource) -> list[str]:
    """Return a warning if the rows of TO_CHANGELOG depend on how the input is cut into micro-batches."""
    made = [
        each
        for each in nodes_in(node.input)
        if isinstance(each, Stateful)
        and traits(each).changes
        and not isinstance(each.operator, Normalization)
    ]
    if not made or not traits(node.input).changes:
        return []
    name = traits(made[0]).changed
    return [
        f"{_where(node.offset, script)}: TO_CHANGELOG gives the changes of {name}, which are the difference "
        "that each micro-batch makes. Its rows depend on the size of the micro-batches. The table that they "
        "leave does not."
    ]


def cut_of(
    name: str, step: Operator, where: str, inputs: list[bool], ttls: list[str | None], *, changes: bool
) -> Cut:
    """Return the cut of a step.

    `inputs` says for each input whether its rows change, and `ttls` how long they are kept; None for ever.
    """
    why, keeps = _TOLD[type(step)]
    if isinstance(step, Top) and not any(inputs):
        keeps = _KEEPS_OF_INSERTS
    keeps += _until(ttls)
    reads = tuple(ALL if each else INSERTS for each in inputs)
    return Cut(name, where, why, reads, _emitted_kinds(step, any(inputs), changes=changes), keeps)


def _emitted_kinds(step: Operator, is_of_changes: bool, *, changes: bool) -> str:
    if not changes or (isinstance(step, RegularJoin) and step.how == "inner" and not is_of_changes):
        return INSERTS
    if isinstance(step, (RegularJoin, KeptValues)) or (isinstance(step, Top) and step.rank is None):
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


def mode_of(*, changes: bool, keys: Collection[str] | None) -> str:
    """Return the changelog mode of rows in words."""
    if not changes:
        return f"{INSERTS} append: rows are append-only"
    if keys is None:
        return f"{ALL} retract: rows change, and no columns are known by which they differ"
    return f"{ALL} upsert by ({', '.join(sorted(keys))}): rows change"
