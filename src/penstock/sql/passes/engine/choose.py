"""The pass that chooses an engine for each node of a stream.

Runs on the driver. Invariant: the inputs of a node are chosen before the node, so its traits are those of
what runs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from penstock.sql.passes.context import PassContext
from penstock.sql.passes.engine import groups, joins, ranks, times
from penstock.sql.passes.engine.inputs import defined, input_with, labelled, with_offsets
from penstock.sql.plan import nodes
from penstock.sql.plan.expressions import Call, Column, Expression, walk
from penstock.sql.plan.hidden import OFFSETS
from penstock.sql.plan.nodes import Changelog, Node, SetKind
from penstock.sql.plan.operators import Normalization
from penstock.sql.plan.rewrite import inputs_of, nodes_in, with_inputs
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
    "aggregates, joins that are not interval joins (so also FOR SYSTEM_TIME AS OF a stream), and OVER behind "
    "a WHERE on it do not keep it. Or write these rows into a topic, and read it as a table with a WATERMARK."
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


OF_SEVERAL_TOPICS = (
    "the last row of a PRIMARY KEY is found by the offsets of the records, and offsets of different topics "
    "cannot be compared. Make a table for each topic."
)


def _said(time: Expression) -> str:
    return f"'{time.name}'" if isinstance(time, Column) else "this expression"


def _offset_of_time(node: nodes.Window) -> int:
    offset: int = getattr(node.time, "offset", -1)
    return offset if offset >= 0 else node.offset


def _offset_of(node: nodes.Filter) -> int:
    parts = (each for condition in node.conditions for each in walk(condition))
    return max((each.offset for each in parts if isinstance(each, (Call, Column))), default=-1)


def choose_engine(plan: nodes.Output, context: PassContext) -> nodes.Output:
    """Return a plan in which each node of a stream has its engine."""
    return replace(plan, input=_EngineChoice(context).of(plan.input))


class _EngineChoice:
    def __init__(self, context: PassContext) -> None:
        self._context = context

    def of(self, node: Node, *, as_versions: bool = False, session: Column | None = None) -> Node:
        """Return a node with its engine.

        Args:
            node: as it was bound.
            as_versions: whether the rows are a versioned table, for FOR SYSTEM_TIME AS OF.
            session: the window of SESSION that the groups above are of.
        """
        if isinstance(node, nodes.Aggregate):
            session = groups.grouped_window(node)
        goes_on = isinstance(node, (nodes.Project, nodes.Filter, nodes.Watermark)) or (
            as_versions and isinstance(node, nodes.Rank)
        )
        inputs = tuple(
            self.of(
                each,
                as_versions=(as_versions and goes_on) or (isinstance(node, nodes.AsOfJoin) and index == 1),
                session=session if isinstance(node, (nodes.Aggregate, nodes.Project, nodes.Filter)) else None,
            )
            for index, each in enumerate(inputs_of(node))
        )
        node = with_inputs(node, inputs)
        if not self._context.traits(node).is_stream and not isinstance(node, nodes.AsOfJoin):
            if isinstance(node, nodes.FromChangelog):
                self._context.refuse(node.offset, _STATIC_CHANGES)
            return node
        if isinstance(node, nodes.Window):
            return self._window(node, is_grouped=node.column == session)
        return self._chosen(node, as_versions=as_versions)

    def _chosen(self, node: Node, *, as_versions: bool) -> Node:  # noqa: RET503 - assert_never does not return
        context = self._context
        match node:
            case nodes.Scan():
                return node if as_versions else self._normalized(node)
            case nodes.Join():
                return joins.join(node, context)
            case nodes.AsOfJoin():
                return times.as_of(node, context)
            case nodes.Aggregate():
                return groups.aggregate(node, context)
            case nodes.Over():
                return times.over(node, context)
            case nodes.Rank():
                return ranks.versions(node, context) if as_versions else ranks.rank(node, context)
            case nodes.Filter() if as_versions and context.traits(node.input).changes:
                context.refuse(_offset_of(node), _NO_CONDITION)
            case nodes.Sort():
                return times.sort(node, context)
            case nodes.Limit() if context.traits(node.input).changes and node.count is not None:
                # Spark would count changes, and cut the later ones off.
                return ranks.rank(nodes.Rank(node.input, (), (), node.count, None, node.offset), context)
            case nodes.SetOperation():
                return self._union(node)
            case nodes.FromChangelog():
                return self._changing(node)
            case nodes.Distinct() | nodes.Apply():
                raise TypeError(f"an earlier pass has to replace {type(node).__name__} of a stream.")
            case (
                nodes.Values()
                | nodes.Watermark()
                | nodes.Window()
                | nodes.Project()
                | nodes.Filter()
                | nodes.Unnest()
                | nodes.TableFunction()
                | nodes.Limit()
                | nodes.ToChangelog()
                | nodes.Output()
                | nodes.Stateful()
                | nodes.MarkedWindows()
                | nodes.PlainTimes()
                | nodes.Upserts()
            ):
                return node
            case _:
                assert_never(node)

    def _changing(self, node: nodes.FromChangelog) -> Node:
        """Return rows that change. Spark's own watermark ends before them."""
        below = self._context.traits(node.input)
        if below.changes:
            self._context.refuse(node.offset, _CHANGES_TWICE.format(name=below.changed))
        if any(joins.reads_again(each, self._context) for each in nodes_in(node.input)):
            self._context.refuse(node.offset, joins.READ_AGAIN)
        rows = nodes.PlainTimes(node.input, None) if below.times or below.windows else node.input
        return replace(node, input=rows)

    def _normalized(self, node: nodes.Scan) -> Node:
        """Return a correct changelog of the records of a table."""
        if not node.source.is_normalized:
            return node
        if not node.source.has_offsets:
            self._context.refuse(node.offset, OF_SEVERAL_TOPICS)
        rows, offsets = with_offsets(node, self._context, is_for_operator=True)
        labels = labelled("c", node.columns)
        by_name = {column.name: label for label, column in labels}
        operator = Normalization(tuple(by_name[name] for name in node.source.keys))
        rows_in = input_with(rows, [*labels, *zip(OFFSETS, offsets, strict=True)], self._context)
        return nodes.Stateful(operator, (rows_in,), labels, Changelog.RETRACT, offset=node.offset)

    def _window(self, node: nodes.Window, *, is_grouped: bool) -> Node:
        context = self._context
        below = context.traits(node.input)
        if below.changes:
            self._refuse_proctime(node)
            return groups.over_changes(node, context)
        is_timed = node.time in below.times
        if isinstance(node.time, Column) and below.part_of_window(node.time) == "time":
            node = replace(node, input=groups.marked(node.input, context, node.time))
            is_timed = is_timed or node.time in context.traits(node.input).times
        if not is_timed:
            self._refuse_time(node)
        if node.spans.kind == "SESSION":
            return node if is_grouped else times.sessions(node, context)
        if is_made(node.spans):
            return nodes.MarkedWindows(node, None, (), (), node.column)
        return node

    def _refuse_time(self, node: nodes.Window) -> None:
        self._refuse_proctime(node)
        column = node.time.name if isinstance(node.time, Column) else "ts"
        self._context.refuse(
            _offset_of_time(node), _NO_WATERMARK.format(name=_said(node.time), column=column)
        )

    def _refuse_proctime(self, node: nodes.Window) -> None:
        time = node.time
        found = defined(node.input, time) if isinstance(time, Column) else time
        if isinstance(found, Call) and found.name == "PROCTIME":
            self._context.refuse(_offset_of_time(node), _PROCTIME.format(name=_said(time)))

    def _union(self, node: nodes.SetOperation) -> Node:
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
        return replace(node, left=self._plain(node.left), right=self._plain(node.right))

    def _plain(self, side: Node) -> Node:
        known = self._context.traits(side)
        return nodes.PlainTimes(side, None) if known.times or known.windows else side


def _known_to_spark(column: Column, traits: Traits) -> tuple[bool, bool, str | None]:
    """Return what Spark knows of a column: whether it has a watermark, and its part of a window."""
    mark = traits.times.get(column)
    return mark is not None, mark is not None and mark.waits, traits.windows.get(column)
