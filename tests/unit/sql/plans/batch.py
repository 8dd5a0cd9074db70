"""A plan over whole tables, as a batch: the oracle of every stream.

Runs in tests only. Invariant: a node means here what Flink says that it means, computed in the slowest and plainest
way. Of a stream a group without keys has no row before a row has come, as in Flink; in a query that takes a column
from outside it has one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from penstock.sql.emit.expressions import Texts
from penstock.sql.emit.select import short
from penstock.sql.functions.served import SUFFIX
from penstock.sql.plan.expressions import (
    AggregateCall,
    Column,
    Expression,
    OverCall,
    QueryCall,
    QueryKind,
    SortItem,
    TypedSql,
    rewritten,
)
from penstock.sql.plan.hidden import KIND
from penstock.sql.plan.nodes import (
    Aggregate,
    Apply,
    Distinct,
    Filter,
    FromChangelog,
    Join,
    JoinKind,
    Limit,
    MarkedWindows,
    Node,
    Output,
    Over,
    PlainTimes,
    Project,
    Rank,
    Scan,
    SetKind,
    SetOperation,
    Sort,
    ToChangelog,
    Unnest,
    Upserts,
    Values,
    Watermark,
    Window,
)
from penstock.sql.plan.rewrite import columns_of, free_columns, inputs_of, plan_of
from penstock.sql.plan.traits import TraitsOf
from penstock.sql.plan.types import spark_text
from penstock.sql.plan.windows import Spans
from tests.unit.sql.plans.spark_texts import GROUP, is_in, value_of

Row = dict[str, Any]
"""The values of a row by the short names of its columns; its kind under KIND, if it changes the table."""
Stored = Mapping[str, Sequence[Row]]
"""The rows of each table by its name, by the names of its columns."""
NOTHING: Row = {}


def frozen(value: Any) -> Any:
    """Return a value that a set can hold."""
    if isinstance(value, dict):
        return tuple((name, frozen(each)) for name, each in value.items())
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def content(row: Row, columns: Iterable[Column]) -> tuple[Any, ...]:
    """Return the values of a row in the order of columns."""
    return tuple(frozen(row[short(each)]) for each in columns)


def plain_kind(row: Row) -> Row:
    """Return a row whose kind is that of a row that comes or goes alone."""
    return row if KIND not in row else {**row, KIND: "+I" if row[KIND] in ("+I", "+U") else "-D"}


def compare(one: Row, other: Row, items: Sequence[tuple[str, bool, bool | None]]) -> int:
    """Return whether a row is before another one. Each item has a name, whether it descends, and nulls_first."""
    for name, is_descending, nulls_first in items:
        mine, theirs = one[name], other[name]
        if mine == theirs:
            continue
        if mine is None or theirs is None:
            is_first = (not is_descending) if nulls_first is None else nulls_first
            return -1 if (mine is None) == is_first else 1
        return -1 if (mine < theirs) != is_descending else 1
    return 0


class Expressions:
    """Computes expressions. `query` gives the rows of a query for a row around it."""

    def __init__(self, query: Callable[[Node, Row], list[Row]]) -> None:
        self._query = query
        self._texts: dict[int, tuple[Expression, str, dict[str, QueryCall]]] = {}

    def value(self, expression: Expression, row: Row) -> Any:
        _, text, queries = self._of(expression)
        found = {name: self._query_value(query, row) for name, query in queries.items()}
        return value_of(text, {**row, **found})

    def holds(self, conditions: Iterable[Expression], row: Row) -> bool:
        return all(self.value(each, row) is True for each in conditions)

    def _of(self, expression: Expression) -> tuple[Expression, str, dict[str, QueryCall]]:
        if id(expression) not in self._texts:
            queries: dict[str, QueryCall] = {}

            def named(part: Expression) -> Expression | None:
                if not isinstance(part, QueryCall):
                    return None
                column = Column(-1 - len(queries), "query", part.type)
                queries[short(column)] = part
                return column

            text = Texts(lambda each: f"`{short(each)}`", _no_query).text(rewritten(expression, named))
            self._texts[id(expression)] = (expression, text, queries)
        return self._texts[id(expression)]

    def _query_value(self, query: QueryCall, row: Row) -> Any:
        rows = self._query(plan_of(query), row)
        if query.kind is QueryKind.EXISTS:
            return bool(rows)
        values = [content(each, query.outputs) for each in rows]
        if query.kind is QueryKind.VALUE:
            assert len(values) <= 1, "a scalar subquery gave more than one row"
            return values[0][0] if values else None
        assert len(query.values) == 1, "IN of several values is not covered"
        return is_in(self.value(query.values[0], row), [each[0] for each in values])

    def aggregate(self, call: AggregateCall, rows: Sequence[Row], env: Row) -> Any:
        """Return an aggregate of a group."""
        kept = rows if call.condition is None else [r for r in rows if self.value(call.condition, r) is True]
        if call.function is not None:
            pieces = [TypedSql(self._of(each)[1], spark_text(each.type)) for each in call.args]
            text = call.function.apply(pieces).replace(SUFFIX, "")
            return value_of(text, {**env, GROUP: kept})
        if not call.args:
            return len(kept)
        values = [each for each in (self.value(call.args[0], row) for row in kept) if each is not None]
        if call.is_distinct:
            values = list(dict.fromkeys(values))
        return AGGREGATES[call.name](values)


def _no_query(*_: object) -> str:
    raise TypeError("a query is a value here.")


AGGREGATES: dict[str, Callable[[list[Any]], Any]] = {
    "COUNT": len,
    "SUM": lambda values: sum(values) if values else None,
    "MIN": lambda values: min(values, default=None),
    "MAX": lambda values: max(values, default=None),
    "AVG": lambda values: int(sum(values) / len(values)) if values else None,
    "ROW_NUMBER": len,
}


class NoTimeError(Exception):
    """A row that changes has no time, and a window is over it."""


class Local:
    """Nodes that look at one row of one input at a time, for a batch and for a stream."""

    def __init__(self, query: Callable[[Node, Row], list[Row]]) -> None:
        self.expressions = Expressions(query)

    def rows(self, node: Node, inputs: Sequence[list[Row]], outer: Row) -> list[Row] | None:  # noqa: C901, PLR0911, PLR0912
        """Return what a node makes of rows; None if it is not such a node."""
        match node:
            case Watermark():
                old, new = short(node.time), short(node.column)
                if node.is_known and any(row[old] is None for row in inputs[0]):
                    raise NoTimeError(f"{node.time.name} is NULL")
                return [{new if name == old else name: v for name, v in r.items()} for r in inputs[0]]
            case Values():
                return [self._named(node.columns, each, outer) for each in node.rows]
            case Project():
                return [self._projected(node, row, outer) for row in inputs[0]]
            case Filter():
                found = (r for r in inputs[0] if self.expressions.holds(node.conditions, {**outer, **r}))
                return list(map(plain_kind, found))
            case Unnest():
                return [made for row in inputs[0] for made in self._unnested(node, row, outer)]
            case Window() if node.spans.kind != "SESSION":
                return [
                    plain_kind({**row, short(node.column): window})
                    for row in inputs[0]
                    for window in windows_of(node.spans, self.expressions.value(node.time, {**outer, **row}))
                ]
            case MarkedWindows() if node.window is not None:
                gone = short(node.window)
                return [{name: v for name, v in row.items() if name != gone} for row in inputs[0]]
            case MarkedWindows() | PlainTimes() | Output():
                return inputs[0]
            case Upserts():
                return [{**row, KIND: "+U"} for row in inputs[0]]
            case ToChangelog():
                return told(node, inputs[0])
            case FromChangelog():
                return changing(node, inputs[0])
            case SetOperation() if node.kind is SetKind.UNION and node.is_all:
                return union(node, inputs)
            case _:
                return None

    def _named(self, columns: Sequence[Column], cells: Sequence[Expression], outer: Row) -> Row:
        values = (self.expressions.value(cell, outer) for cell in cells)
        return dict(zip(map(short, columns), values, strict=True))

    def _projected(self, node: Project, row: Row, outer: Row) -> Row:
        env = {**outer, **row}
        found = {short(each.column): self.expressions.value(each.expression, env) for each in node.outputs}
        return {**found, KIND: row[KIND]} if KIND in row else found

    def _unnested(self, node: Unnest, row: Row, outer: Row) -> list[Row]:
        elements = self.expressions.value(node.expression, {**outer, **row}) or []
        found = []
        for number, each in enumerate(elements, start=1):
            values = list(each.values()) if isinstance(each, dict) else [each]
            own = dict(zip(map(short, node.columns), values, strict=True))
            found.append({**own, **({} if node.number is None else {short(node.number): number})})
        if not found and node.is_outer:
            found = [dict.fromkeys(map(short, (*node.columns, *([node.number] if node.number else []))))]
        return [plain_kind({**row, **own}) for own in found]


def told(node: ToChangelog, rows: Sequence[Row]) -> list[Row]:
    """Return rows with the codes of their kinds. Those of a table that only grows are inserts."""
    codes = dict(node.codes)
    return [
        {name: value for name, value in {**row, short(node.column): codes[kind]}.items() if name != KIND}
        for row in rows
        if (kind := row.get(KIND, "+I")) in codes
    ]


def changing(node: FromChangelog, rows: Sequence[Row]) -> list[Row]:
    """Return rows with the kinds of their codes."""
    kinds, code = dict(node.kinds), short(node.column)
    return [
        {**{name: value for name, value in row.items() if name != code}, KIND: kinds[row[code]]}
        for row in rows
    ]


def union(node: SetOperation, inputs: Sequence[list[Row]]) -> list[Row]:
    """Return the rows of both sides. Those of a side that only inserts are +I if the other side changes."""
    found = []
    names = tuple(map(short, node.columns))
    changes = any(KIND in row for rows in inputs for row in rows)
    for rows, columns in zip(inputs, (node.lefts, node.rights), strict=True):
        for row in rows:
            made = dict(zip(names, (row[short(each)] for each in columns), strict=True))
            found.append({**made, KIND: row.get(KIND, "+I")} if changes else made)
    return found


def windows_of(spans: Spans, time: int | None) -> list[Row]:
    """Return the windows that a time is in."""
    if time is None:
        return []
    size, slide, offset = 1_000 * spans.size, 1_000 * spans.slide, 1_000 * spans.offset
    if spans.kind == "CUMULATE":
        start = time - (time - offset) % size
        ends = range(start + slide, start + size + 1, slide)
        return [{"start": start, "end": end} for end in ends if end > time]
    last = time - (time - offset) % slide
    return [{"start": start, "end": start + size} for start in range(last, time - size, -slide)]


def sessions_of(rows: Sequence[Row], times: Sequence[int], gap_ms: int) -> list[tuple[Row, Row]]:
    """Return each row of one key with its session."""
    order = sorted(range(len(rows)), key=lambda index: times[index])
    groups: list[list[int]] = []
    for index in order:
        if groups and times[index] - times[groups[-1][-1]] <= 1_000 * gap_ms:
            groups[-1].append(index)
        else:
            groups.append([index])
    found = []
    for each in groups:
        window = {"start": times[each[0]], "end": times[each[-1]] + 1_000 * gap_ms}
        found += [(rows[index], window) for index in each]
    return found


class Batch:
    """Plans over tables that do not change. Kinds do not occur.

    Attributes:
        tables: the rows of each table.
        traits: of the nodes. A stream has no group without rows.
    """

    def __init__(self, tables: Stored, traits: TraitsOf) -> None:
        self.tables = tables
        self._traits = traits
        self._local = Local(self.rows)
        self._values = self._local.expressions

    def rows(self, node: Node, outer: Row = NOTHING) -> list[Row]:  # noqa: C901, PLR0911, PLR0912 - a case a kind
        """Return the rows of a node. `outer` has the columns around a query."""
        if isinstance(node, Apply):
            return self._apply(node, outer)
        inputs = [self.rows(each, outer) for each in inputs_of(node)]
        found = self._local.rows(node, inputs, outer)
        if isinstance(node, FromChangelog):  # of the rows of now, all of which were inserted
            return [{name: value for name, value in row.items() if name != KIND} for row in found or []]
        if found is not None:
            return found
        match node:
            case Scan():
                return [
                    {short(each): row[each.name] for each in node.columns}
                    for row in self.tables[node.source.name]
                ]
            case Join():
                return self._join(node, inputs[0], inputs[1], outer)
            case Window():
                return self._sessions(node, inputs[0], outer)
            case Aggregate():
                return self.aggregate(node, inputs[0], outer)
            case Over():
                return self._over(node, inputs[0], outer)
            case Rank():
                return self._rank(node, inputs[0], outer)
            case SetOperation():
                return self._set_operation(node, inputs)
            case Distinct():
                return distinct(inputs[0], node.columns)
            case Sort():
                return self.sorted(inputs[0], node.items, outer)
            case Limit():
                stop = None if node.count is None else node.skipped + node.count
                return inputs[0][node.skipped : stop]
            case _:
                raise NotImplementedError(type(node).__name__)

    def sorted(self, rows: Sequence[Row], items: Sequence[SortItem], outer: Row) -> list[Row]:
        """Return rows in an order."""
        names = [f"o{index}" for index in range(len(items))]
        keyed = [
            {
                **{
                    n: self._values.value(i.expression, {**outer, **r})
                    for n, i in zip(names, items, strict=True)
                },
                "row": r,
            }
            for r in rows
        ]
        by = [(n, i.is_descending, i.nulls_first) for n, i in zip(names, items, strict=True)]
        keyed.sort(key=functools.cmp_to_key(lambda one, other: compare(one, other, by)))
        return [each["row"] for each in keyed]

    def _apply(self, node: Apply, outer: Row) -> list[Row]:
        found = []
        for row in self.rows(node.left, outer):
            others = self.rows(node.right, {**outer, **row})
            if not others and node.kind is JoinKind.LEFT:
                others = [dict.fromkeys(map(short, columns_of(node.right)))]
            found += [{**row, **each} for each in others]
        return found

    def _join(self, node: Join, left: list[Row], right: list[Row], outer: Row) -> list[Row]:
        pairs = [
            (index, at)
            for index, one in enumerate(left)
            for at, other in enumerate(right)
            if self._values.holds(node.conditions, {**outer, **one, **other})
        ]
        ones, others = {index for index, _ in pairs}, {at for _, at in pairs}
        if node.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return [row for index, row in enumerate(left) if (index in ones) == (node.kind is JoinKind.SEMI)]
        found = [{**left[index], **right[at]} for index, at in pairs]
        if node.kind in (JoinKind.LEFT, JoinKind.FULL):
            none = dict.fromkeys(map(short, columns_of(node.right)))
            found += [{**row, **none} for index, row in enumerate(left) if index not in ones]
        if node.kind in (JoinKind.RIGHT, JoinKind.FULL):
            none = dict.fromkeys(map(short, columns_of(node.left)))
            found += [{**none, **row} for index, row in enumerate(right) if index not in others]
        return found

    def _sessions(self, node: Window, rows: list[Row], outer: Row) -> list[Row]:
        found = []
        for group in self.grouped(rows, node.partition, outer).values():
            timed = [(row, self._values.value(node.time, {**outer, **row})) for row in group]
            known = [(row, time) for row, time in timed if time is not None]
            ones = [row for row, _ in known]
            for row, window in sessions_of(ones, [time for _, time in known], node.spans.size):
                found.append({**row, short(node.column): window})
        return found

    def grouped(
        self, rows: Sequence[Row], keys: Sequence[Expression], outer: Row = NOTHING
    ) -> dict[tuple[Any, ...], list[Row]]:
        """Return the rows of each group."""
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in rows:
            key = tuple(frozen(self._values.value(each, {**outer, **row})) for each in keys)
            groups.setdefault(key, []).append(row)
        return groups

    def aggregate(self, node: Aggregate, rows: Sequence[Row], outer: Row = NOTHING) -> list[Row]:
        """Return the groups of rows."""
        found = []
        for key_set in node.sets or (tuple(range(len(node.keys))),):
            keys = [node.keys[index] for index in key_set]
            groups = self.grouped(rows, [each.expression for each in keys], outer)
            if not keys and not groups and not (self._traits(node).is_stream and not free_columns(node)):
                groups = {(): []}
            found += [self._group(node, key_set, group, outer) for group in groups.values()]
        return found

    def _group(self, node: Aggregate, key_set: Sequence[int], group: list[Row], outer: Row) -> Row:
        env = {**outer, **(group[0] if group else {})}
        rows = [{**outer, **row} for row in group]
        made: Row = {
            short(each.column): self._values.value(each.expression, env) if index in key_set else None
            for index, each in enumerate(node.keys)
        }
        made |= {short(each.column): self._values.aggregate(each.call, rows, env) for each in node.calls}
        for column, of in node.groupings:
            bits = [str(int(index not in key_set)) for index in of]
            made[short(column)] = int("".join(bits), 2)
        return made

    def _over(self, node: Over, rows: list[Row], outer: Row) -> list[Row]:
        made = [dict(row) for row in rows]
        for each in node.calls:
            assert each.call.frame is None, "frames are not covered"
            for group in self.grouped(made, each.call.partition, outer).values():
                self._over_group(each.column, each.call, group, outer)
        return made

    def _over_group(self, column: Column, call: OverCall, group: list[Row], outer: Row) -> None:
        ordered = self.sorted(group, call.order, outer)
        keys = [tuple(self._values.value(i.expression, {**outer, **r}) for i in call.order) for r in ordered]
        for index, row in enumerate(ordered):
            # Without a frame, rows with one sort key are in each other's range.
            stop = index + 1 if call.call.name == "ROW_NUMBER" else len(keys) - keys[::-1].index(keys[index])
            row[short(column)] = self._values.aggregate(call.call, ordered[:stop], row)

    def _rank(self, node: Rank, rows: list[Row], outer: Row) -> list[Row]:
        found = []
        for group in self.grouped(rows, node.partition, outer).values():
            ordered = self.sorted(group, node.order, outer)[: node.count]
            for number, row in [*enumerate(ordered, start=1)][node.skipped :]:
                found.append(row if node.rank is None else {**row, short(node.rank): number})
        return found

    def _set_operation(self, node: SetOperation, inputs: list[list[Row]]) -> list[Row]:
        both = union(node, inputs)
        if node.kind is SetKind.UNION:
            return distinct(both, node.columns)
        left, right = both[: len(inputs[0])], both[len(inputs[0]) :]
        others = [content(row, node.columns) for row in right]
        found = []
        for row in left if node.is_all else distinct(left, node.columns):
            is_there = content(row, node.columns) in others
            if is_there and node.is_all:
                others.remove(content(row, node.columns))
            if is_there == (node.kind is SetKind.INTERSECT):
                found.append(row)
        return found


def distinct(rows: Sequence[Row], columns: Sequence[Column]) -> list[Row]:
    """Return the different rows, by these columns."""
    found = {content(row, columns): {short(each): row[short(each)] for each in columns} for row in rows}
    return list(found.values())
