"""The first rows of groups: one by penstock's `deduplicate`, several by `top_n`, those of windows by Spark.

Runs on the driver. Invariant: the rows are the same ones if Spark computes a batch again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from penstock.sql.language.flink_types import Field, FlinkType
from penstock.sql.passes.context import PassContext
from penstock.sql.passes.engine.groups import marked
from penstock.sql.passes.engine.inputs import ZERO, input_with, labelled, labels_of, ordered, with_offsets
from penstock.sql.plan.expressions import AggregateCall, Column, Expression, Function, Literal, TypedSql
from penstock.sql.plan.hidden import OFFSETS
from penstock.sql.plan.nodes import (
    Aggregate,
    AggregateOutput,
    Assignment,
    Changelog,
    Node,
    Project,
    Rank,
    Stateful,
    Unnest,
    Upserts,
    copies,
)
from penstock.sql.plan.operators import Deduplication, Top
from penstock.sql.plan.rewrite import columns_of
from penstock.sql.plan.types import BIGINT, spark_text


def rank(node: Rank, context: PassContext) -> Node:
    """Return the first rows of each group by their engine."""
    below = context.traits(node.input)
    is_of_window = any(below.part_of_window(each) == "end" for each in node.partition)
    if is_of_window and not below.changes:
        rows = marked(node.input, context)
        if context.traits(rows).times:
            return _of_windows(replace(node, input=rows), context)
    descends = {each.is_descending for each in node.order}
    has_null_order = any(
        each.nulls_first is not None and each.nulls_first is each.is_descending for each in node.order
    )
    if node.count == 1 and node.order and not below.changes and len(descends) == 1 and not has_null_order:
        return _one(node, context)
    return _top(node, context)


def versions(node: Rank, context: PassContext) -> Node:
    """Return the newest rows of keys as versions, for FOR SYSTEM_TIME AS OF.

    Only the newest of each batch would not be enough, so every row is a version.
    """
    below = context.traits(node.input)
    is_newest = (
        node.count == 1
        and len(node.order) == 1
        and node.order[0].is_descending
        and below.delay_of(node.order[0].expression) is not None
    )
    keys = tuple(each for each in node.partition if isinstance(each, Column))
    if not is_newest or below.changes or len(keys) < len(node.partition):
        return rank(node, context)
    made = Upserts(node.input, keys)
    return made if node.rank is None else _with_rank(made, node.rank, 1, columns_of(node.input))


def _one(node: Rank, context: PassContext) -> Node:
    rows, offsets = with_offsets(node.input, context)
    shown = columns_of(node.input)
    outputs, keys = labelled("c", shown), labelled("p", node.partition or (ZERO,))
    order = (*labelled("o", (each.expression for each in node.order)), *zip(OFFSETS, offsets, strict=False))
    operator = Deduplication(labels_of(keys), labels_of(order), node.order[0].is_descending)
    rows_in = input_with(rows, [*outputs, *keys, *order], context)
    made = Stateful(operator, (rows_in,), outputs, Changelog.RETRACT, offset=node.offset)
    return made if node.rank is None else _with_rank(made, node.rank, 1, shown)


def _with_rank(made: Node, rank: Column, value: int, shown: tuple[Column, ...]) -> Node:
    """Return the only row of each group with its rank."""
    return Project(
        made, (*copies(shown), Assignment(rank, Literal(f"CAST({value} AS BIGINT)", BIGINT, value)))
    )


def _top(node: Rank, context: PassContext) -> Node:
    below, rows = context.traits(node.input), node.input
    shown = columns_of(node.input)
    outputs, keys = labelled("c", shown), labelled("p", node.partition or (ZERO,))
    columns, order = ordered(node.order, context)
    if not below.changes:  # of equal rows those that were read first do not change, as in Flink
        rows, offsets = with_offsets(rows, context)
        ties = [*zip(OFFSETS, offsets, strict=False)] if node.order else [*labelled("o", offsets)]
        columns += ties
        order += [(label, False) for label in labels_of(ties)]
    if not order:
        columns, order = [("o0", ZERO)], [("o0", False)]
    is_single = node.count == node.skipped + 1
    ranked = (("n", node.rank),) if node.rank is not None and not is_single else ()
    operator = Top(node.count, labels_of(keys), tuple(order), "n" if ranked else None, node.skipped)
    rows_in = input_with(rows, [*outputs, *keys, *columns], context)
    made = Stateful(operator, (rows_in,), (*outputs, *ranked), Changelog.RETRACT, offset=node.offset)
    return made if node.rank is None or ranked else _with_rank(made, node.rank, node.count, shown)


def _of_windows(node: Rank, context: PassContext) -> Node:
    """Return the first rows of windows.

    Spark gathers the rows of each group until the watermark passes the end of their window, and then sorts
    them.
    """
    shown = columns_of(node.input)
    keys = [
        Assignment(each if isinstance(each, Column) else context.column("key", each.type), each)
        for each in node.partition
    ]
    of_keys = {each.expression: each.column for each in keys}
    carried = [each for each in shown if each not in of_keys]
    order = [each.expression for each in node.order]
    hashed = [each for each in shown if "map<" not in spark_text(each.type)]
    args = (*carried, *order, *hashed)
    fields = tuple(Field(f"c{index}", each.type) for index, each in enumerate(carried))
    row = FlinkType("ROW", fields=fields)
    text = _first_rows(len(carried), node)
    rows = context.column("rows", FlinkType("ARRAY", elements=(row,)))
    call = AggregateCall("first_rows", args, rows.type, function=Function(0, len(args), text))
    groups = Aggregate(node.input, tuple(keys), (AggregateOutput(rows, call),), offset=node.offset)
    element = tuple(context.column(each.name, each.type) for each in carried)
    number = node.rank or context.column("rank", BIGINT)
    each_row = Unnest(groups, rows, element, number, is_single=node.count == node.skipped + 1)
    values: dict[Expression, Expression] = {**of_keys, **dict(zip(carried, element, strict=True))}
    made = [Assignment(each, values[each]) for each in shown]
    if node.rank is not None:
        cast = f"CAST({{0}} + {node.skipped} AS BIGINT)" if node.skipped else "CAST({0} AS BIGINT)"
        made.append(Assignment(number, context.call("CAST BIGINT", cast, (number,), BIGINT)))
    return Project(each_row, tuple(made))


def _first_rows(width: int, node: Rank) -> Callable[[list[TypedSql]], str]:
    """Return the text of a group's first rows. Rows with equal sort keys are compared by content."""
    items, first, count = node.order, node.skipped + 1, node.count - node.skipped

    def text(args: list[TypedSql]) -> str:
        fields = [f"{each.text} AS `c{index}`" for index, each in enumerate(args[:width])]
        fields += [
            f"{each.text} AS `o{index}`" for index, each in enumerate(args[width : width + len(items)])
        ]
        hashed = ", ".join(each.text for each in args[width + len(items) :])
        fields.append(f"xxhash64({hashed}) AS `h`")
        rows = f"array_sort(collect_list(struct({', '.join(fields)})), (l, r) -> {compare})"
        shown = ", ".join(f"x.`c{index}` AS `c{index}`" for index in range(width))
        return f"transform(slice({rows}, {first}, {count}), x -> struct({shown}))"

    compare = "CASE WHEN l.`h` < r.`h` THEN -1 WHEN l.`h` > r.`h` THEN 1 ELSE 0 END"
    for index, each in reversed([*enumerate(items)]):
        said = each.nulls_first
        null = -1 if (not each.is_descending if said is None else said) else 1
        less = 1 if each.is_descending else -1
        one, other = f"l.`o{index}`", f"r.`o{index}`"
        compare = (
            f"CASE WHEN {one} <=> {other} THEN {compare} WHEN {one} IS NULL THEN {null} "
            f"WHEN {other} IS NULL THEN {-null} WHEN {one} < {other} THEN {less} ELSE {-less} END"
        )
    return text
