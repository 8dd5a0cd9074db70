"""The nodes of a plan: what a query does, without how it runs.

Runs on the driver. Invariant: each column of a node has an id that no other node of the statement makes, so
an expression means the same wherever it moves. A node that uses a column has it below itself, or is in a
query whose surroundings have it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from enum import Enum

from penstock.sql.plan.expressions import AggregateCall, Column, Expression, OverCall, SortItem, Varies
from penstock.sql.plan.operators import Operator
from penstock.sql.plan.windows import Spans


class Changelog(Enum):
    """How the rows of a node change."""

    APPEND = "append"
    """Rows are append-only."""
    UPSERT = "upsert"
    """A row replaces that of its key, and -D takes it away. The old values are not told."""
    RETRACT = "retract"
    """A row that goes or changes is taken back: -U with its old values and +U, or -D."""


@dataclass(frozen=True)
class Source:
    """A table or view of the session, as a query reads it.

    Attributes:
        key: what the session knows it by, with the options of its hint.
        name: as it was written.
        is_stream: whether its rows have no end.
        changelog: of its rows, after a correct changelog was made of its records.
        changed_by: the name of what changes rows, for messages and EXPLAIN; "" for APPEND.
        keys: the names of the columns of its PRIMARY KEY.
        time: the name of the column of the WATERMARK and its delay in milliseconds.
        has_offsets: whether its rows can have the partition and offset of their record, and these order them.
        has_place: the same of the topic partition or file of a row. Only rows of one have an order.
        is_normalized: whether a correct changelog has to be made of its records first.
        is_read: whether each task has the rows of one table in their order.
        is_divided: whether several tasks may read one topic partition.
        varying: columns in which the record that deletes a row has other values than the row had, each with
            why.
        narrowing: columns with the offset, partition or timestamp of a record, each with which. By their
            values a read can leave out records.
        compared: columns by whose values a read can leave out rows.
    """

    key: Hashable
    name: str
    is_stream: bool
    changelog: Changelog = Changelog.APPEND
    changed_by: str = ""
    keys: tuple[str, ...] = ()
    time: tuple[str, int] | None = None
    has_offsets: bool = False
    has_place: bool = False
    is_normalized: bool = False
    is_read: bool = False
    is_divided: bool = False
    varying: tuple[tuple[str, str], ...] = ()
    narrowing: tuple[tuple[str, str], ...] = ()
    compared: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scan:
    """The columns of a source that are read, each under its stored name.

    `wanted`: which records are, as `scan.filter` says it; "" for all. `kept`: which of their rows are, as
    `scan.row-filter` says it.
    """

    source: Source
    columns: tuple[Column, ...]
    offset: int = field(default=-1, compare=False)
    wanted: str = ""
    kept: str = ""


@dataclass(frozen=True)
class Watermark:
    """Rows of a stream, with the watermark on a column that all of them have.

    Attributes:
        input: the rows.
        time: the time of each row.
        column: the same as Spark has it.
        delay_ms: how far the watermark is behind the newest time; None if nothing waits for it. Then Spark
            has none, and an append-only row without a time is an error all the same.
        is_known: whether a row that changes without a time is an error too: a window is over the time.
    """

    input: Node
    time: Column
    column: Column
    delay_ms: int | None
    is_known: bool = False


@dataclass(frozen=True)
class Values:
    """Rows of constants."""

    rows: tuple[tuple[Expression, ...], ...]
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Assignment:
    """A column and the expression that it is."""

    column: Column
    expression: Expression


def copies(columns: Iterable[Column]) -> tuple[Assignment, ...]:
    """Return columns as they are, for a projection that keeps them."""
    return tuple(Assignment(each, each) for each in columns)


@dataclass(frozen=True)
class Project:
    """Other columns, computed of each row."""

    input: Node
    outputs: tuple[Assignment, ...]


@dataclass(frozen=True)
class Filter:
    """The rows that fulfil all conditions."""

    input: Node
    conditions: tuple[Expression, ...]


class JoinKind(Enum):
    """Which rows without a partner a join keeps; semi and anti joins show the left side only."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"


PADS_LEFT, PADS_RIGHT = (JoinKind.RIGHT, JoinKind.FULL), (JoinKind.LEFT, JoinKind.FULL)
"""The joins in which a row without a partner has NULL in the columns of the left, or the right side."""


@dataclass(frozen=True)
class Join:
    """The pairs of rows that fulfil all conditions.

    `is_as_of`: whether the right side is a static table whose rows of now are wanted. `ttls` are the times of
    a STATE_TTL hint for both sides.
    """

    left: Node
    right: Node
    kind: JoinKind
    conditions: tuple[Expression, ...]
    offset: int = field(default=-1, compare=False)
    is_as_of: bool = False
    ttls: tuple[str | None, str | None] | None = None


@dataclass(frozen=True)
class AsOfJoin:
    """Each row of the left side with the version of the right side at its time (FOR SYSTEM_TIME AS OF).

    `version` is the column with the time of a version, which a pass finds.
    """

    left: Node
    right: Node
    kind: JoinKind
    conditions: tuple[Expression, ...]
    time: Expression
    version: Column | None = None
    offset: int = field(default=-1, compare=False)


@dataclass(frozen=True)
class Apply:
    """Each row with the rows of a query that may take columns of the row (LATERAL)."""

    left: Node
    right: Node
    kind: JoinKind
    offset: int = field(default=-1, compare=False)


@dataclass(frozen=True)
class Unnest:
    """Each row with the elements of its ARRAY or MAP.

    `number` is the column of WITH ORDINALITY. `is_single`: whether no list has more than one element.
    """

    input: Node
    expression: Expression
    columns: tuple[Column, ...]
    number: Column | None = None
    is_outer: bool = False
    is_single: bool = False


@dataclass(frozen=True)
class TableFunction:
    """Each row with the rows that a table function of the user makes of it.

    `name` is the one in Spark, and `said` the one in the script.
    """

    input: Node
    name: str
    args: tuple[Expression, ...]
    columns: tuple[Column, ...]
    is_outer: bool = False
    varies: Varies = Varies.NEVER
    said: str = field(default="", compare=False)
    offset: int = field(default=-1, compare=False)


@dataclass(frozen=True)
class Window:
    """Each row once in every window that it is in. `column` has start and end of the window.

    Attributes:
        input: the rows.
        spans: the kind and the lengths.
        time: what the windows are over.
        partition: of SESSION.
        column: the window, a ROW of two times.
    """

    input: Node
    spans: Spans
    time: Expression
    partition: tuple[Expression, ...]
    column: Column
    offset: int = field(default=-1, compare=False)


@dataclass(frozen=True)
class AggregateOutput:
    """A column and the aggregate that it is."""

    column: Column
    call: AggregateCall


@dataclass(frozen=True)
class Aggregate:
    """Groups of rows with equal keys.

    Attributes:
        input: the rows.
        keys: the columns of GROUP BY. Without any all rows are one group.
        calls: the aggregates.
        sets: the grouping sets, as indices of `keys`; () if all keys are one set.
        groupings: the columns of GROUPING, each with the indices of `keys` that it is about.
    """

    input: Node
    keys: tuple[Assignment, ...]
    calls: tuple[AggregateOutput, ...]
    sets: tuple[tuple[int, ...], ...] = ()
    groupings: tuple[tuple[Column, tuple[int, ...]], ...] = ()
    offset: int = field(default=-1, compare=False)
    ttl: str | None = None


@dataclass(frozen=True)
class OverOutput:
    """A column and the call with OVER that it is."""

    column: Column
    call: OverCall


@dataclass(frozen=True)
class Over:
    """Rows with functions of the rows around them."""

    input: Node
    calls: tuple[OverOutput, ...]
    offset: int = field(default=-1, compare=False)


@dataclass(frozen=True)
class Rank:
    """The first rows of each group in an order.

    Attributes:
        input: the rows.
        partition: what a group has in common. Without any all rows are one group.
        order: which rows are first.
        count: how many rows of each group stay.
        rank: the column with the number of a row in its group, from 1; None if nothing uses it.
        skipped: how many of these rows are left out, the first ones.
    """

    input: Node
    partition: tuple[Expression, ...]
    order: tuple[SortItem, ...]
    count: int
    rank: Column | None
    offset: int = field(default=-1, compare=False)
    skipped: int = 0


class SetKind(Enum):
    """What a set operation keeps."""

    UNION = "UNION"
    INTERSECT = "INTERSECT"
    EXCEPT = "EXCEPT"


@dataclass(frozen=True)
class SetOperation:
    """The rows of two inputs. `lefts` and `rights` are their columns, in the order of `columns`."""

    left: Node
    right: Node
    kind: SetKind
    is_all: bool
    columns: tuple[Column, ...]
    lefts: tuple[Column, ...]
    rights: tuple[Column, ...]
    offset: int = field(default=-1, compare=False)


@dataclass(frozen=True)
class Distinct:
    """The different rows, by these columns, which are all that is left."""

    input: Node
    columns: tuple[Column, ...]
    offset: int = field(default=-1, compare=False)


@dataclass(frozen=True)
class Sort:
    """Rows in an order. `is_result`: whether it is that of the statement, and not of a query in it."""

    input: Node
    items: tuple[SortItem, ...]
    is_result: bool = False
    offset: int = field(default=-1, compare=False)


@dataclass(frozen=True)
class Limit:
    """The first rows: `count` of them behind `skipped` others; all that follow if `count` is None."""

    input: Node
    count: int | None
    skipped: int = 0
    offset: int = field(default=-1, compare=False)


@dataclass(frozen=True)
class Input:
    """Rows for an operator: its columns by their labels."""

    node: Node
    columns: tuple[tuple[str, Column], ...]


@dataclass(frozen=True)
class Stateful:
    """The rows that an operator of penstock makes.

    Attributes:
        operator: what it does.
        inputs: its rows.
        columns: the columns of its rows, by their labels.
        changelog: of its rows.
        is_inserts: whether only its +I rows are wanted, so that the rows are append-only.
        state_id: of its state, which no other node of the statement has.
        offset: of its clause in the script.
    """

    operator: Operator
    inputs: tuple[Input, ...]
    columns: tuple[tuple[str, Column], ...]
    changelog: Changelog
    is_inserts: bool = False
    state_id: str = ""
    offset: int = field(default=-1, compare=False)


@dataclass(frozen=True)
class MarkedWindows:
    """Rows of windows. Their ends tell Spark when a window is complete, as Spark's own window does.

    Attributes:
        input: the rows.
        window: Spark's window, which goes; None if the rows have ends already.
        ends: the columns with the end of the window.
        times: the columns with its last millisecond, which another window may be over.
        struct: a column with a start and an end that becomes a window of Spark's; None without one.
    """

    input: Node
    window: Column | None
    ends: tuple[Column, ...]
    times: tuple[Column, ...]
    struct: Column | None = None


@dataclass(frozen=True)
class Upserts:
    """Append-only rows, each of which is the newest version of its key."""

    input: Node
    keys: tuple[Column, ...]


@dataclass(frozen=True)
class PlainTimes:
    """Rows whose times are plain values for Spark, so that it drops nothing by them.

    `keep` is the column that keeps its watermark; None for none.
    """

    input: Node
    keep: Column | None


@dataclass(frozen=True)
class ToChangelog:
    """Append-only rows, each of which says how it changes the table that the input is (TO_CHANGELOG).

    Attributes:
        input: the rows.
        column: the code of the change.
        codes: the code of each row kind, such as `+I`. Rows of other kinds are left out.
    """

    input: Node
    column: Column
    codes: tuple[tuple[str, str], ...]
    offset: int = field(default=-1, compare=False)


@dataclass(frozen=True)
class FromChangelog:
    """Rows that change as a code in each append-only row says (FROM_CHANGELOG).

    Attributes:
        input: the rows.
        column: the code, which goes. A code that is not known stops the query.
        kinds: the row kind that each code means.
    """

    input: Node
    column: Column
    kinds: tuple[tuple[str, str], ...]
    offset: int = field(default=-1, compare=False)


@dataclass(frozen=True)
class Output:
    """The result of a query: only here columns have names again."""

    input: Node
    columns: tuple[Column, ...]
    names: tuple[str, ...]


Node = (
    Scan
    | Watermark
    | Values
    | Project
    | Filter
    | Join
    | AsOfJoin
    | Apply
    | Unnest
    | TableFunction
    | Window
    | Aggregate
    | Over
    | Rank
    | SetOperation
    | Distinct
    | Sort
    | Limit
    | Stateful
    | MarkedWindows
    | PlainTimes
    | Upserts
    | ToChangelog
    | FromChangelog
    | Output
)
