"""Random plans, in the form in which queries are bound.

Runs in tests only. Invariant: an order has all columns of the rows, so only equal rows have one sort key. So the
result of a plan is known, whatever the micro-batches are.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from hypothesis import strategies as st

from penstock.sql.language.flink_types import FlinkType
from penstock.sql.language.source import Source as Script
from penstock.sql.passes.context import PassContext
from penstock.sql.plan.expressions import (
    COUNT_ALL,
    AggregateCall,
    Call,
    Column,
    Expression,
    Function,
    Literal,
    OverCall,
    QueryCall,
    QueryKind,
    SortItem,
)
from penstock.sql.plan.nodes import (
    Aggregate,
    AggregateOutput,
    Apply,
    Assignment,
    Distinct,
    Filter,
    FromChangelog,
    Join,
    JoinKind,
    Limit,
    Node,
    Output,
    Over,
    OverOutput,
    Project,
    Scan,
    SetKind,
    SetOperation,
    Sort,
    Source,
    ToChangelog,
    Unnest,
    Values,
    Watermark,
    Window,
)
from penstock.sql.plan.rewrite import columns_of, with_new_columns
from penstock.sql.plan.traits import TraitsOf
from penstock.sql.plan.types import BIGINT, BOOLEAN, INT, INTEGERS, STRING, from_spark
from penstock.sql.plan.windows import COLUMNS as WINDOW_COLUMNS
from penstock.sql.plan.windows import Spans, parts_of_window, window_type
from tests.unit.sql.plans.histories import (
    ACCOUNTS,
    CLICKS,
    COLUMNS,
    EVENTS,
    RATES,
    SECOND_US,
    START_US,
    TIME,
    USERS,
)

SPANS = (
    Spans("TUMBLE", 5_000, 5_000),
    Spans("HOP", 4_000, 2_000),
    Spans("CUMULATE", 6_000, 2_000),
    Spans("SESSION", 2_000, 2_000),
    Spans("TUMBLE", 10_000, 10_000, 1_000),
    Spans("HOP", 8_000, 2_000, 1_000),
    Spans("CUMULATE", 8_000, 2_000),
)
KINDS = ("+I", "-U", "+U", "-D")
T = TypeVar("T")
_SIGNS = ("=", "<>", "<", "<=", ">", ">=")


def call(name: str, text: str, args: tuple[Expression, ...], kind: FlinkType) -> Call:
    """Return a call of a function of Spark."""
    return Call(name, Function(len(args), len(args), text), args, kind)


def number(value: int, kind: FlinkType = INT) -> Literal:
    """Return a constant."""
    return Literal(str(value), kind, value)


def interval(seconds: int) -> Literal:
    """Return an interval, as the binder makes it."""
    return Literal(f"INTERVAL '{seconds}' SECOND", FlinkType("INTERVAL", unit="SECOND"), 1_000_000 * seconds)


def compared(sign: str, one: Expression, other: Expression) -> Call:
    """Return a comparison."""
    return call(sign, f"({{0}} {sign} {{1}})", (one, other), BOOLEAN)


def same(columns: tuple[Column, ...]) -> tuple[Assignment, ...]:
    """Return columns as outputs of a projection."""
    return tuple(Assignment(each, each) for each in columns)


def pass_context() -> PassContext:
    """Return a context in which a pass may change a plan. The ids of new columns are the same each time."""
    ids = itertools.count(1_000)

    def type_of(function: Function, args: tuple[Expression, ...]) -> FlinkType:
        assert function.type, f"Spark would be asked for the type of {function.text}"
        return args[0].type if function.type == "{0}" else from_spark(function.type)

    return PassContext(Script(" "), lambda name, kind: Column(next(ids), name, kind), type_of, is_insert=True)


class Parts:
    """Makes parts of one plan as the binder does. `names` are those of the sources."""

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self.names: set[str] = set()

    def column(self, name: str, kind: FlinkType) -> Column:
        return Column(next(self._ids), name, kind)

    def scan(self, source: Source) -> Node:
        self.names.add(source.name)
        columns = tuple(self.column(name, kind) for name, kind in COLUMNS[source.name])
        rows: Node = Scan(source, columns)
        if source.time is None:
            return rows
        time = columns[-1]
        return Watermark(rows, time, self.column("ts", time.type), source.time[1])

    def windowed(
        self, node: Node, spans: Spans, time: Column, partition: tuple[Column, ...] = ()
    ) -> tuple[Node, dict[str, Column]]:
        """Return rows with their windows, and the columns that are the parts of a window."""
        window = self.column("window", window_type(time))
        parts = parts_of_window(window)
        bounds = {name: self.column(name, parts[name].type) for name in WINDOW_COLUMNS}
        made = Window(node, spans, time, partition, window)
        outputs = tuple(Assignment(bounds[name], parts[name]) for name in WINDOW_COLUMNS)
        return Project(made, (*same(columns_of(node)), *outputs)), bounds

    def keys(self, *columns: Column) -> tuple[Assignment, ...]:
        """Return columns as keys of groups."""
        return tuple(Assignment(self.column(each.name, each.type), each) for each in columns)

    def count(self) -> AggregateOutput:
        return AggregateOutput(self.column("n", BIGINT), COUNT_ALL)


def output(node: Node) -> Output:
    """Return a query with all columns of a node."""
    columns = columns_of(node)
    return Output(node, columns, tuple(f"o{index}" for index in range(len(columns))))


class Builder(Parts):
    """Draws one plan. A relation is a node, of which all columns are shown."""

    def __init__(self, draw: st.DrawFn) -> None:
        super().__init__()
        self._draw = draw
        self.traits = TraitsOf()
        self._is_timed = self.is_so()

    # ---- parts

    def one_of(self, *values: T) -> T:
        return self._draw(st.sampled_from(values))

    def is_so(self) -> bool:
        return self._draw(st.booleans())

    def numbers(self, node: Node) -> tuple[Column, ...]:
        return tuple(each for each in columns_of(node) if each.type.name in INTEGERS)

    def some(self, columns: tuple[Column, ...], least: int = 0, most: int = 2) -> tuple[Column, ...]:
        most = min(most, len(columns))
        picked = self._draw(
            st.lists(st.sampled_from(columns), min_size=min(least, most), max_size=most, unique=True)
            if columns
            else st.just([])
        )
        return tuple(each for each in columns if each in picked)

    def value(self, node: Node, depth: int = 1) -> Expression:
        """Return a number, with its type."""
        columns = self.numbers(node)
        kinds = [
            "literal",
            *(["column"] * 3 if columns else []),
            *(["+", "case", "coalesce", "cast"] if depth else []),
        ]
        kind = self.one_of(*kinds)
        if kind == "literal":
            return number(self.one_of(0, 1, 2))
        if kind == "column":
            return self.one_of(*columns)
        one = self.value(node, depth - 1)
        if kind == "cast":
            return call("CAST", "CAST({0} AS BIGINT)", (one,), BIGINT)
        other = self.value(node, depth - 1)
        wider = max((one.type, other.type), key=lambda each: INTEGERS.index(each.name))
        if kind == "+":
            return call("+", "({0} + {1})", (one, other), wider)
        if kind == "coalesce":
            return call("COALESCE", "coalesce({0}, {1})", (one, other), wider)
        test = self.condition(node, depth - 1)
        return call("CASE", "CASE WHEN {0} THEN {1} ELSE {2} END", (test, one, other), wider)

    def condition(self, node: Node, depth: int = 1) -> Expression:
        kind = self.one_of("compare", "compare", "null", *(["AND", "OR", "NOT"] if depth else []))
        if kind == "compare":
            return compared(self.one_of(*_SIGNS), self.value(node, 0), self.value(node, depth))
        if kind == "null":
            return call("IS NULL", "({0} IS NULL)", (self.value(node, 0),), BOOLEAN)
        if kind == "NOT":
            return call("NOT", "(NOT {0})", (self.condition(node, depth - 1),), BOOLEAN)
        both = (self.condition(node, depth - 1), self.condition(node, depth - 1))
        return call(kind, f"({{0}} {kind} {{1}})", both, BOOLEAN)

    def calls(self, node: Node) -> tuple[AggregateOutput, ...]:
        return tuple(self._aggregate(node) for _ in range(self.one_of(0, 1, 1, 2)))

    def _aggregate(self, node: Node) -> AggregateOutput:
        name = self.one_of("COUNT", "COUNT", "SUM", "MIN", "MAX", "AVG")
        columns = self.numbers(node)
        condition = self.condition(node, 0) if self.one_of(0, 0, 0, 1) else None
        if name == "COUNT" and (not columns or self.is_so()):
            return AggregateOutput(self.column("n", BIGINT), replace(COUNT_ALL, condition=condition))
        argument = self.value(node, 1)
        kind = BIGINT if name == "COUNT" else argument.type
        made = AggregateCall(name, (argument,), kind, self.one_of(False, False, True), condition)
        return AggregateOutput(self.column(name.lower(), kind), made)

    # ---- sources

    def relation(self, depth: int) -> Node:
        """Return a relation of a stream, with so many operations at most."""
        if depth <= 0:
            return self.scan(self.one_of(EVENTS, EVENTS, CLICKS, ACCOUNTS, ACCOUNTS, USERS))
        node = self.relation(depth - 1)
        known = self.traits(node)
        names = [*(() if known.times and self._is_timed else _ALWAYS), *(_OF_TIMES if known.times else ())]
        names += ("window",) * 5 if self._times(node) and not known.times else ()
        names += _OF_WINDOWS if known.windows else ()
        name = self.one_of(*names)
        found: Node = self.ended(node) if name == "ended" else getattr(self, f"_{name}")(node)
        return found

    def other(self) -> Node:
        return self.relation(self.one_of(0, 0, 1))

    # ---- operations

    def _project(self, node: Node) -> Node:
        kept = tuple(self.column(each.name, each.type) for each in columns_of(node))
        pairs = [
            Assignment(new, old)
            for new, old in zip(kept, columns_of(node), strict=True)
            if self._draw(st.integers(0, 4)) or old in self.traits(node).times
        ]
        value = self.value(node)
        pairs.append(Assignment(self.column("x", value.type), value))
        return Project(node, tuple(pairs))

    def _filter(self, node: Node) -> Node:
        return Filter(node, tuple(self.condition(node) for _ in range(self.one_of(1, 1, 2))))

    def _keys(self, left: Node, right: Node) -> tuple[Call, ...]:
        ones, others = self.numbers(left), self.numbers(right)
        if not ones or not others:
            return ()
        count = self.one_of(1, 1, 2)
        return tuple(self._equal(self.one_of(*ones), self.one_of(*others)) for _ in range(count))

    def _equal(self, one: Column, other: Column) -> Call:
        """Return a comparison that a join may have as a key. In some of them NULL is equal to NULL."""
        how = self.one_of("=", "=", "=", "IS NOT DISTINCT FROM", "OR")
        if how == "=":
            return compared("=", one, other)
        if how != "OR":
            return call(how, "({0} <=> {1})", (one, other), BOOLEAN)
        tests = [call("IS NULL", "({0} IS NULL)", (each,), BOOLEAN) for each in (one, other)]
        both = call("AND", "({0} AND {1})", (*tests,), BOOLEAN)
        return call("OR", "({0} OR {1})", (compared("=", one, other), both), BOOLEAN)

    def _join(self, node: Node) -> Node:
        other = self.other()
        kind = self.one_of(*JoinKind)
        conditions: tuple[Expression, ...] = self._keys(node, other)
        if kind is JoinKind.INNER and (not conditions or self.is_so()):
            both = Join(node, other, JoinKind.INNER, ())
            conditions = (*conditions, self.condition(both))
        elif self.one_of(0, 0, 1):
            conditions = (*conditions, self.condition(self.one_of(node, other), 0))
        return Join(node, other, kind, conditions)

    def _static(self, node: Node) -> Node:
        other = self.scan(RATES) if self.is_so() else self._constants()
        kind = self.one_of(JoinKind.INNER, JoinKind.LEFT)
        return Join(node, other, kind, self._keys(node, other), is_as_of=self.traits(node).changes)

    def _constants(self) -> Node:
        rows = tuple((number(each), number(2 * each)) for each in range(self.one_of(1, 3)))
        return Values(rows, (self.column("a", INT), self.column("b", INT)))

    def _group(self, node: Node) -> Node:
        keys = self.keys(*self.some(self.numbers(node)))
        calls = self.calls(node)
        if not keys and not calls:
            calls = (self.count(),)
        sets: tuple[tuple[int, ...], ...] = ()
        groupings: tuple[tuple[Column, tuple[int, ...]], ...] = ()
        if len(keys) == 2 and self.one_of(0, 0, 1):
            sets = self.one_of(((0,), (1,)), ((0, 1), (0,), ()), ((0, 1), (1,)))
            groupings = ((self.column("g", BIGINT), (0, 1)),)
        return Aggregate(node, keys, calls, sets, groupings)

    def _order(self, node: Node) -> tuple[SortItem, ...]:
        columns = self._draw(st.permutations(columns_of(node)))
        nulls = (None, None, True, False)
        if self.is_so():
            is_descending = self.is_so()
            return tuple(SortItem(each, is_descending) for each in columns)
        return tuple(SortItem(each, self.is_so(), self.one_of(*nulls)) for each in columns)

    def _rank(self, node: Node) -> Node:
        partition: tuple[Expression, ...] = self.some(self.numbers(node), most=1)
        return self._ranked(node, partition)

    def _ranked(self, node: Node, partition: tuple[Expression, ...]) -> Node:
        shown = columns_of(node)
        rank = self.column("rn", BIGINT)
        made = OverCall(AggregateCall("ROW_NUMBER", (), BIGINT), partition, self._order(node), None)
        over = Over(node, (OverOutput(rank, made),))
        kept = Filter(over, self._ranks(rank))
        return Project(kept, same((*shown, rank) if self.is_so() else shown))

    def _ranks(self, rank: Column) -> tuple[Expression, ...]:
        """Return conditions that keep the first rows of each group, or some of these."""
        first, last = self.one_of((1, 1), (1, 2), (2, 2), (2, 3))
        below = self.one_of(compared("<=", rank, number(last)), compared(">", number(last + 1), rank))
        if first == 1:
            return (below,)
        if first == last and self.is_so():
            return (compared("=", rank, number(last)),)
        both = call("BETWEEN", "({0} BETWEEN {1} AND {2})", (rank, number(first), number(last)), BOOLEAN)
        return self.one_of((both,), (compared(">=", rank, number(first)), below))

    def _limit(self, node: Node) -> Node:
        return Limit(Sort(node, self._order(node)), self.one_of(1, 3), self.one_of(0, 0, 1))

    def _all(self, node: Node) -> Node:
        """Return a LIMIT without an order, above what there are rows, because it is known which ones it keeps."""
        return Limit(node, 1_000, 0)

    def _unread(self, node: Node) -> Node:
        """Return a value that does not read the groups below it, which are one row even of no rows."""
        keys = self.keys(*self.some(self.numbers(node), most=1)) if self.is_so() else ()
        groups = Aggregate(node, keys, (self._aggregate(node),))
        return Project(groups, (Assignment(self.column("one", INT), number(1)),))

    def _nested(self, node: Node) -> Node:
        """Return a join with a join at its right."""
        inner = self._join(self.other()) if self.is_so() else self._padded(self.other())
        kind = self.one_of(JoinKind.INNER, JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL)
        keys = self._keys(node, inner)
        return Join(node, inner, kind, keys) if keys else node

    def _padded(self, node: Node) -> Node:
        """Return an outer join with rows that have a constant, which is NULL where there are none."""
        right = self.other()
        one = self.column("one", INT)
        rows = Project(right, (*same(columns_of(right)), Assignment(one, number(1))))
        kind = self.one_of(JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL)
        keys = self._keys(node, right)
        if not keys:
            return node
        made = Join(node, rows, kind, keys)
        shown = self.column("found", INT)
        value = call("COALESCE", "coalesce({0}, {1})", (one, number(0)), INT)
        return Project(made, (*same(columns_of(node)), Assignment(shown, value)))

    def _distinct(self, node: Node) -> Node:
        columns = self.some(columns_of(node), least=1, most=3)
        return Distinct(node, columns) if columns else node

    def _same_shape(self, node: Node, count: int) -> tuple[Node, tuple[Column, ...]]:
        """Return a relation with columns of fixed types, and these columns."""
        values = [self.value(node, 0) for _ in range(count)]
        cast = [call("CAST", "CAST({0} AS BIGINT)", (each,), BIGINT) for each in values]
        made = tuple(Assignment(self.column(f"u{index}", BIGINT), each) for index, each in enumerate(cast))
        return Project(node, made), tuple(each.column for each in made)

    def _set(self, node: Node) -> Node:
        count = self.one_of(1, 2)
        left, lefts = self._same_shape(node, count)
        right, rights = self._same_shape(self.other(), count)
        columns = tuple(self.column(f"w{index}", BIGINT) for index in range(count))
        return SetOperation(left, right, self.one_of(*SetKind), self.is_so(), columns, lefts, rights)

    def _union(self, node: Node) -> Node:
        """Return UNION ALL with a relation of the same columns, so that times may be kept."""
        other = self.relation(1) if self.is_so() else self.scan(self.one_of(EVENTS, CLICKS, ACCOUNTS))
        shapes = []
        for each in (node, other):
            numbers, times = (
                self.numbers(each),
                [c for c in columns_of(each) if c.type.name == "TIMESTAMP_LTZ"],
            )
            if not numbers or not times:
                return node
            shapes.append((self.one_of(*numbers), self.one_of(*times)))
        kind = max((shape[0].type for shape in shapes), key=lambda found: INTEGERS.index(found.name))
        columns = (self.column("x", kind), self.column("ts", shapes[0][1].type))
        if shapes[0][0].type != shapes[1][0].type:
            return node
        lefts, rights = shapes
        return SetOperation(node, other, SetKind.UNION, True, columns, lefts, rights)

    def _query(self, node: Node) -> Node:
        """Return rows that a query in WHERE keeps, or with a scalar subquery."""
        kind = self.one_of("in", "not in", "exists", "not exists", "value", "correlated")
        inner, numbers = self.other(), self.numbers(node)
        theirs = self.numbers(inner)
        if not numbers or not theirs:
            return node
        mine, key, value = self.one_of(*numbers), self.one_of(*theirs), self.one_of(*theirs)
        if kind in ("value", "correlated"):
            # With the outer column alone, no key is left for groups: each outer row has a value, also of no rows.
            test = compared("=", mine, key) if self.one_of(0, 0, 1) else compared("=", mine, number(1))
            rows = Filter(inner, (test,)) if kind == "correlated" else inner
            return self._with_value(node, rows)
        if kind in ("in", "not in"):
            rows = Filter(inner, (self._equal(mine, key),)) if self.one_of(0, 0, 1) else inner
            query = QueryCall(QueryKind.IN, Project(rows, same((value,))), (value,), (mine,))
        else:
            equal = (self._equal(mine, key),) if self.one_of(1, 1, 1, 0) else ()
            rows = Filter(inner, (*equal, self.condition(inner, 0)))
            query = QueryCall(QueryKind.EXISTS, rows, columns_of(rows)[:1])
        found: Expression = query
        if kind.startswith("not"):
            found = call("NOT", "(NOT {0})", (query,), BOOLEAN)
        return self._where(node, found)

    def _where(self, node: Node, found: Expression) -> Node:
        """Return the rows of which a condition is true, alone or beside OR, or all of them with its value."""
        place = self.one_of("alone", "alone", "beside OR", "a case", "a column")
        if place == "beside OR":
            other = self.condition(node, 0)
            both = self.one_of((found, other), (other, found))
            found = call("OR", "({0} OR {1})", both, BOOLEAN)
        if place in ("a case", "a column"):
            text = "CASE WHEN {0} THEN 1 WHEN NOT {0} THEN 0 END"
            value = call("CASE", text, (found,), INT)
            if place == "a column":
                return Project(node, (*same(columns_of(node)), Assignment(self.column("c", INT), value)))
            found = compared("<", value, self.value(node, 0))
        return Filter(node, (found,))

    def _with_value(self, node: Node, rows: Node) -> Node:
        made = self._aggregate(rows)
        shown = self.column("value", made.column.type)
        top = Project(Aggregate(rows, (), (made,)), (Assignment(shown, made.column),))
        query = QueryCall(QueryKind.VALUE, top, (shown,))
        return Project(node, (*same(columns_of(node)), Assignment(self.column("q", shown.type), query)))

    def _apply(self, node: Node) -> Node:
        inner, numbers = self.other(), self.numbers(node)
        theirs = self.numbers(inner)
        if not numbers or not theirs:
            return node
        rows: Node = Filter(inner, (compared("=", self.one_of(*numbers), self.one_of(*theirs)),))
        if self.is_so():
            rows = Project(rows, same(columns_of(rows)))
        if self.is_so():
            rows = Limit(Sort(rows, self._order(rows)), self.one_of(1, 2))
        return Apply(node, rows, self.one_of(JoinKind.INNER, JoinKind.LEFT))

    def _unnest(self, node: Node) -> Node:
        values = tuple(call("CAST", "CAST({0} AS INT)", (self.value(node, 0),), INT) for _ in (1, 2))
        array = call("ARRAY", "array({0}, {1})", values, FlinkType("ARRAY", elements=(INT,)))
        return Unnest(node, array, (self.column("e", INT),), self.one_of(None, self.column("ordinal", INT)))

    def _told(self, node: Node) -> Node:
        """Return rows that change as the changes of the rows say: the same table, of append-only rows."""
        code = self.column("op", STRING)
        made: Node = ToChangelog(node, code, tuple(zip(KINDS, KINDS, strict=True)))
        made = self._filter(made) if self.is_so() else made
        return FromChangelog(made, code, tuple(zip(KINDS, KINDS, strict=True)))

    # ---- times

    def _times(self, node: Node) -> tuple[Column, ...]:
        """Return the columns that windows may be over. Those of rows that change need no watermark."""
        known = self.traits(node)
        return tuple(known.times) or tuple(each for each in columns_of(node) if each.type.name == TIME.name)

    def _window(self, node: Node) -> Node:
        spans, time = self.one_of(*SPANS), self.one_of(*self._times(node))
        keys: tuple[Column, ...] = self.some(self.numbers(node), most=1)
        rows, bounds = self.windowed(node, spans, time, keys if spans.kind == "SESSION" else ())
        if self.one_of(0, 0, 0, 1):
            rows = Filter(rows, (self._condition_on_window(rows, bounds, spans),))
        kind = self.one_of("group", "group", "group", "rank", "rows")
        shown = ("window_start", "window_end", *(("window_time",) if self.is_so() else ()))
        if kind == "group":
            by = (*(bounds[name] for name in shown), *keys)
            return Aggregate(rows, self.keys(*by), self.calls(rows))
        if kind == "rank":
            return self._ranked(rows, (bounds["window_start"], bounds["window_end"], *keys))
        return rows

    def _condition_on_window(self, rows: Node, bounds: dict[str, Column], spans: Spans) -> Expression:
        """Return a condition behind a window. As Flink does, that on rows of a SESSION acts before the window."""
        if spans.kind != "SESSION" and self.is_so():
            return self.condition(rows)
        time = START_US + SECOND_US * self._draw(st.integers(0, 12))
        literal = Literal(f"timestamp_micros({time})", TIME, time)
        return compared(self.one_of("<", ">="), bounds[self.one_of("window_start", "window_end")], literal)

    def ended(self, node: Node) -> Node:
        """Return a join of groups of windows of rows with a time and of others, by the ends of the windows."""
        known = self.traits(node)
        spans, span = self.one_of(*SPANS), self.one_of(*SPANS)
        other = self.scan(self.one_of(EVENTS, CLICKS))
        if known.changes:
            node = self.scan(self.one_of(EVENTS, CLICKS))
        sides = [self._groups_of(node, spans), self._groups_of(other, self.one_of(spans, spans, span))]
        (left, lefts), (right, rights) = sides
        is_again = self.one_of(False, False, True)
        if is_again:
            right, rights = self._totals_of(left, lefts)
        conditions: tuple[Expression, ...] = (compared("=", lefts[1], rights[1]),)
        conditions += (compared("=", lefts[0], rights[0]),) if is_again or self.is_so() else ()
        conditions += self._keys(left, right)[:1] if self.one_of(False, not is_again) else ()
        outer = (JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL)
        kind = self.one_of(JoinKind.INNER, JoinKind.INNER, *(() if is_again else outer))
        if kind is JoinKind.INNER and self.is_so():
            conditions = (*conditions, self.condition(Join(left, right, kind, ())))
        made: Node = Join(left, right, kind, conditions)
        above = self.one_of("join", "filter", "project")
        return made if above == "join" else self._filter(made) if above == "filter" else self._project(made)

    def _groups_of(self, node: Node, spans: Spans) -> tuple[Node, tuple[Column, Column]]:
        """Return groups of windows, or groups of these, and the start and the end of the windows."""
        time = self.one_of(*self._times(node))
        keys: tuple[Column, ...] = self.some(self.numbers(node), most=1)
        rows, bounds = self.windowed(node, spans, time, keys if spans.kind == "SESSION" else ())
        names = ("window_start", "window_end")
        by = self.keys(*(bounds[name] for name in names), *keys)
        groups: Node = Aggregate(rows, by, self.calls(rows))
        if self.one_of(0, 0, 1):
            by = self.keys(*(each.column for each in by[:2]))
            groups = Aggregate(groups, by, self.calls(groups))
        groups = self._filter(groups) if self.one_of(0, 0, 1) and self.numbers(groups) else groups
        return groups, (by[0].column, by[1].column)

    def _totals_of(self, groups: Node, bounds: tuple[Column, Column]) -> tuple[Node, tuple[Column, Column]]:
        """Return aggregates of the same groups of windows, read once more."""
        names: dict[Column, Column] = {}

        def of(column: Column) -> Column:
            return names.setdefault(column, self.column(column.name, column.type))

        again = with_new_columns(groups, of)
        by = self.keys(*map(of, bounds))
        calls = [self.count()] if self.one_of(True, True, False) else list(self.calls(again))
        for each in self.numbers(again) if self.is_so() else self.some(self.numbers(again)):
            made = AggregateCall(self.one_of("MIN", "MAX"), (each,), each.type)
            calls.append(AggregateOutput(self.column("m", each.type), made))
        return Aggregate(again, by, tuple(calls)), (by[0].column, by[1].column)

    def _over(self, node: Node) -> Node:
        partition: tuple[Expression, ...] = self.some(self.numbers(node), most=1)
        order = (SortItem(self.one_of(*self._times(node))),)
        calls = []
        for _ in range(self.one_of(1, 2)):
            made = self._aggregate(node)
            calls.append(
                OverOutput(
                    made.column, OverCall(replace(made.call, is_distinct=False), partition, order, None)
                )
            )
        return Over(node, tuple(calls))

    def _interval(self, node: Node) -> Node:
        other = self.scan(self.one_of(EVENTS, CLICKS))
        mine, theirs = self.one_of(*self._times(node)), self.one_of(*self._times(other))
        before, after = self.one_of(0, 2, 5), self.one_of(0, 2, 5)
        low = call("-", "({0} - {1})", (mine, interval(before)), mine.type) if before else mine
        high = call("+", "({0} + {1})", (mine, interval(after)), mine.type) if after else mine
        bounds: tuple[Expression, ...] = (
            (compared(self.one_of(">=", ">"), theirs, low), compared("<=", theirs, high))
            if self.is_so()
            else (call("BETWEEN", "({0} BETWEEN {1} AND {2})", (theirs, low, high), BOOLEAN),)
        )
        keys = self._keys(node, other)[:1] if self.is_so() else ()
        kind = self.one_of(JoinKind.INNER, JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL)
        return Join(node, other, kind, (*keys, *bounds))

    def many(self, inputs: tuple[str, ...], depth: int = 1) -> Node:
        """Return inner joins one behind the other by equal values, with or without conditions between them."""
        node = self._one_of_many(inputs, 0)
        equal = [[each] for each in self.some(self.numbers(node), least=self.one_of(1, 2), most=2)]
        for _ in range(self.one_of(2, 2, 3)):
            other = self._one_of_many(inputs, depth)
            conditions = []
            if self.one_of(0, 0, 0, 1):
                equal.reverse()
            for each in equal if self.one_of(True, True, False) else equal[:1]:
                theirs = self.one_of(*self.numbers(other))
                conditions.append(compared("=", self.one_of(*each), theirs))
                each.append(theirs)
            node = Join(node, other, JoinKind.INNER, tuple(conditions))
            node = self._filter(node) if self.one_of(0, 0, 0, 1) else node
        return node

    def _one_of_many(self, inputs: tuple[str, ...], depth: int) -> Node:
        """Return an input by the name of one of them: rows that only come, some of which have a key."""
        node = self.scan(self.one_of(EVENTS, CLICKS))
        node = self._filter(node) if self.is_so() else node
        name = self.one_of(*inputs)
        if name == "many" and depth:
            return self.many(inputs, depth - 1)
        found: Node = getattr(self, f"_{name}")(node) if name in ("distinct", "set") else node
        return found if self.numbers(found) else node

    def above(self, node: Node) -> Node:
        """Return what reads joins: it may need their key, or the kinds of their rows."""
        name = self.one_of("", "project", "project", "group", "rank", "distinct", "join")
        found: Node = getattr(self, f"_{name}")(node) if name else node
        return found

    def _regroup(self, node: Node) -> Node:
        """Return groups of rows of windows by parts of the windows that they have kept."""
        parts = tuple(self.traits(node).windows)
        by = (*self.some(parts, least=1, most=3), *self.some(self.numbers(node), most=1))
        return Aggregate(node, self.keys(*dict.fromkeys(by)), self.calls(node))

    def _rerank(self, node: Node) -> Node:
        return self._ranked(node, self.some(tuple(self.traits(node).windows), least=1, most=2))


_ALWAYS = (
    *("project", "filter", "join", "static", "group", "group", "rank", "limit", "distinct", "set", "union"),
    *("query", "apply", "unnest", "all", "unread", "nested", "padded", "told"),
)
_OF_TIMES = (*("window",) * 5, *("over", "interval", "ended") * 2)
_OF_WINDOWS = (*("regroup",) * 4, *("rerank",) * 2)
COVERED = (
    *(Aggregate, Apply, Distinct, Filter, FromChangelog, Join, Limit, Output, Over, Project, Scan),
    *(SetOperation, Sort, ToChangelog, Unnest, Values, Watermark, Window),
)
"""The kinds of nodes that random plans have, as they are bound."""


@st.composite
def plans(draw: st.DrawFn, most: int = 4) -> tuple[Output, frozenset[str]]:
    """Return a plan over streams, and the names of its sources."""
    builder = Builder(draw)
    node = builder.relation(builder.one_of(*range(1, most + 1)))
    return output(node), frozenset(builder.names)


@st.composite
def joins_of_ended_windows(draw: st.DrawFn) -> tuple[Output, frozenset[str]]:
    """Return a plan whose uppermost join is one of groups of windows, and the names of its sources."""
    builder = Builder(draw)
    node = builder.ended(builder.scan(builder.one_of(EVENTS, CLICKS)))
    return output(node), frozenset(builder.names)


@st.composite
def joins_of_many(draw: st.DrawFn) -> tuple[Output, frozenset[str]]:
    """Return a plan with inner joins one behind the other by equal values, and the names of its sources."""
    builder = Builder(draw)
    inputs = builder.one_of(
        ("scan", "scan", "scan", "distinct", "set", "many"), ("distinct", "distinct", "many")
    )
    node = builder.many(inputs)
    return output(builder.above(node)), frozenset(builder.names)


Change = Callable[[Output, PassContext], Output]
