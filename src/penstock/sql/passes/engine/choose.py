"""The pass that chooses an engine for each node of a stream.

Runs on the driver. Invariant: the inputs of a node are chosen before the node, so its traits are those of
what runs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from penstock.sql.passes.context import PassContext
from penstock.sql.passes.engine import groups, joins, ranks, times
from penstock.sql.passes.engine.inputs import input_with, labelled, with_offsets
from penstock.sql.plan.expressions import Call, Column, Expression, walk
from penstock.sql.plan.nodes import (
    Aggregate,
    Apply,
    AsOfJoin,
    Changelog,
    Distinct,
    Filter,
    FromChangelog,
    Join,
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
    Stateful,
    TableFunction,
    TimedChanges,
    ToChangelog,
    Unnest,
    Upserts,
    Values,
    Watermark,
    Window,
)
from penstock.sql.plan.operators import Normalization
from penstock.sql.plan.rewrite import inputs_of, with_inputs
from penstock.sql.plan.traits import Traits
from penstock.sql.plan.windows import is_made

_PROCTIME = (
    "windows over PROCTIME() are not served in a stream, and {name} is PROCTIME(). Use the time of the Kafka "
    "record: declare ts TIMESTAMP(3) METADATA FROM 'timestamp' and WATERMARK FOR ts AS ts, and write ts "
    "here. Or use GROUP BY without a window."
)
_NO_WATERMARK = (
    "a window of a stream needs the column of a WATERMARK, and {name} has none here. Declare WATERMARK FOR "
    "{column} AS {column} - INTERVAL '5' SECOND in CREATE TABLE, and take the column as it is: functions, "
    "aggregates, joins that are not interval joins, and OVER behind a WHERE on it do not keep it."
)


_NO_CONDITION = (
    "a condition on versions is not served, because Flink loses versions by it. Write it behind the JOIN in "
    "WHERE, or inside of the query with ROW_NUMBER()."
)


_STATIC_CHANGES = (
    "FROM_CHANGELOG takes a stream, and its input is a static table here. Use the table itself, with "
    "ROW_NUMBER() for the last row of each key."
)
_CHANGES_TWICE = (
    "FROM_CHANGELOG takes append-only rows, and those of its input change already ({name}). Use the input "
    "itself, or make append-only rows of it by TO_CHANGELOG."
)


def _place(node: Filter) -> int:
    parts = (each for condition in node.conditions for each in walk(condition))
    return max((each.offset for each in parts if isinstance(each, (Call, Column))), default=-1)


def choose_engine(plan: Output, context: PassContext) -> Output:
    """Return a plan in which each node of a stream has its engine."""
    return replace(plan, input=_Chosen(context).of(plan.input))


class _Chosen:
    def __init__(self, context: PassContext) -> None:
        self._context = context

    def of(self, node: Node, *, is_raw: bool = False, session: Column | None = None) -> Node:
        """Return a node with its engine.

        Args:
            node: as it was bound.
            is_raw: whether the rows are wanted as versions of their keys, for FOR SYSTEM_TIME AS OF.
            session: the window of SESSION that the groups above are of.
        """
        if isinstance(node, Aggregate):
            session = groups.grouped_window(node)
        goes_on = isinstance(node, (Project, Filter, Watermark)) or (is_raw and isinstance(node, Rank))
        inputs = tuple(
            self.of(
                each,
                is_raw=(is_raw and goes_on) or (isinstance(node, AsOfJoin) and place == 1),
                session=session if isinstance(node, (Aggregate, Project, Filter)) else None,
            )
            for place, each in enumerate(inputs_of(node))
        )
        node = with_inputs(node, inputs)
        if not self._context.traits(node).is_stream:
            if isinstance(node, FromChangelog):
                self._context.refuse(node.offset, _STATIC_CHANGES)
            return node
        if isinstance(node, Window):
            return self._window(node, is_grouped=node.column == session)
        return self._chosen(node, is_raw=is_raw)

    def _chosen(self, node: Node, *, is_raw: bool) -> Node:  # noqa: RET503 - assert_never does not return
        context = self._context
        match node:
            case Scan():
                return node if is_raw else self._normalized(node)
            case Join():
                return joins.join(node, context)
            case AsOfJoin():
                return times.as_of(node, context)
            case Aggregate():
                return groups.aggregate(node, context)
            case Over():
                return times.over(node, context)
            case Rank():
                return ranks.versions(node, context) if is_raw else ranks.rank(node, context)
            case Filter() if is_raw and context.traits(node.input).changes:
                context.refuse(_place(node), _NO_CONDITION)
            case Sort():
                return times.sort(node, context)
            case Limit() if context.traits(node.input).changes and node.count is not None:
                # Spark would count changes, and cut the later ones off.
                return ranks.rank(Rank(node.input, (), (), node.count, None, node.offset), context)
            case SetOperation():
                return self._union(node)
            case FromChangelog():
                return self._changing(node)
            case Distinct() | Apply():
                raise TypeError(f"an earlier pass has to replace {type(node).__name__} of a stream.")
            case (
                Values()
                | Watermark()
                | Window()
                | Project()
                | Filter()
                | Unnest()
                | TableFunction()
                | Limit()
                | ToChangelog()
                | Output()
            ):
                return node
            case Stateful() | MarkedWindows() | PlainTimes() | Upserts() | TimedChanges():
                return node
            case _:
                assert_never(node)

    def _changing(self, node: FromChangelog) -> Node:
        """Return rows that change. Spark's own watermark ends before them. Windows set it again."""
        below = self._context.traits(node.input)
        if below.changed is not None:
            self._context.refuse(node.offset, _CHANGES_TWICE.format(name=below.changed.name))
        rows = PlainTimes(node.input, None) if below.times or below.windows else node.input
        return replace(node, input=rows, time=below.time)

    def _normalized(self, node: Scan) -> Node:
        """Return a correct changelog of the records of a table."""
        if not node.source.is_normalized:
            return node
        if not node.source.has_offsets:
            self._context.refuse(
                node.offset,
                "the last row of a PRIMARY KEY is found by the offsets of the records, and offsets of "
                "different topics cannot be compared. Make a table for each topic.",
            )
        context, shown = self._context, node.columns
        rows, places = with_offsets(node, context, is_for_operator=True)
        labels = labelled("c", shown)
        columns: list[tuple[str, Expression]] = [
            *labels,
            *zip(("__partition", "__offset"), places, strict=True),
        ]
        by_name = {column.name: label for label, column in labels}
        operator = Normalization(tuple(by_name[name] for name in node.source.keys))
        return Stateful(
            operator, (input_with(rows, columns, context),), labels, Changelog.RETRACT, offset=node.offset
        )

    def _window(self, node: Window, *, is_grouped: bool) -> Node:
        context = self._context
        below = context.traits(node.input)
        if below.changes:
            node = groups.timed(node, context)
            return MarkedWindows(node, None, (), (), node.column) if is_made(node.spans) else node
        is_of_window = isinstance(node.time, Column) and below.windows.get(node.time) == "time"
        if is_of_window:
            node = replace(node, input=groups.marked(node.input, context))
            is_of_window = bool(context.traits(node.input).times)
        if is_of_window:
            pass  # Spark knows when the windows below are over
        elif not (isinstance(node.time, Column) and node.time in below.times):
            self._refuse_time(node)
        if node.spans.kind == "SESSION":
            return node if is_grouped else times.sessions(node, context)
        if is_made(node.spans):
            return MarkedWindows(node, None, (), (), node.column)
        return node

    def _refuse_time(self, node: Window) -> None:
        time = node.time
        offset = max(getattr(time, "offset", -1), -1)
        offset = offset if offset >= 0 else node.offset
        column = time.name if isinstance(time, Column) else ""
        name = f"'{column}'" if column else "this expression"
        from penstock.sql.passes.engine.inputs import defined  # noqa: PLC0415

        found = defined(node.input, time) if isinstance(time, Column) else time
        if isinstance(found, Call) and found.name == "PROCTIME":
            self._context.refuse(offset, _PROCTIME.format(name=name))
        self._context.refuse(offset, _NO_WATERMARK.format(name=name, column=column or "ts"))

    def _union(self, node: SetOperation) -> Node:
        """Return UNION ALL. Spark takes a column for a time with a watermark only if both sides have one.

        It asks the first side alone what a column means, and would drop rows of the second one as late.
        """
        if not (node.kind is SetKind.UNION and node.is_all):
            raise TypeError("an earlier pass has to replace the set operations of a stream.")
        context = self._context
        left, right = context.traits(node.left), context.traits(node.right)
        if not (left.is_stream and right.is_stream):
            context.refuse(node.offset, "UNION ALL of a stream and a static table is not served.")
        if any(
            left.windows.get(one) and right.windows.get(other)
            for one, other in zip(node.lefts, node.rights, strict=True)
        ):
            node = replace(
                node, left=groups.marked(node.left, context), right=groups.marked(node.right, context)
            )
            left, right = context.traits(node.left), context.traits(node.right)
        same = all(
            _known_to_spark(one, left) == _known_to_spark(other, right)
            for one, other in zip(node.lefts, node.rights, strict=True)
        )
        shown = {*left.times} <= {*node.lefts} and {*right.times} <= {*node.rights}
        if same and shown:
            return node
        sides = [
            PlainTimes(side, None) if context.traits(side).times or context.traits(side).windows else side
            for side in (node.left, node.right)
        ]
        return replace(node, left=sides[0], right=sides[1])


def _known_to_spark(column: Column, traits: Traits) -> tuple[bool, bool, str | None]:
    """Return what Spark knows of a column: whether it has a watermark, and its part of a window."""
    mark = traits.times.get(column)
    return mark is not None, mark is not None and mark.waits, traits.windows.get(column)
