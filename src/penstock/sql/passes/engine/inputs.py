"""Rows for operators, and hidden columns that they need.

Runs on the driver. Invariant: a label of an operator's column depends on the operator's arguments alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from penstock.sql.language.flink_types import FlinkType
from penstock.sql.passes.context import PassContext
from penstock.sql.plan.expressions import Call, Column, Expression, Literal, SortItem
from penstock.sql.plan.hidden import OFFSETS, PLACE
from penstock.sql.plan.nodes import (
    Assignment,
    Filter,
    Input,
    Join,
    JoinKind,
    MarkedWindows,
    Node,
    PlainTimes,
    Project,
    Scan,
    TableFunction,
    Unnest,
    Watermark,
    Window,
    copies,
)
from penstock.sql.plan.rewrite import columns_of, has_queries
from penstock.sql.plan.types import BIGINT, INT, STRING

_NULL_ORDER = "CASE WHEN {{0}} IS NULL THEN {} ELSE {} END"


E = TypeVar("E", bound=Expression)
Labelled = Sequence[tuple[str, Expression]]
"""Values with their labels."""
ZERO = Literal("0", INT, 0)
"""The key of rows that are one group."""


def labelled(prefix: str, values: Iterable[E]) -> tuple[tuple[str, E], ...]:
    """Return values with the labels `c0`, `c1` and so on."""
    return tuple((f"{prefix}{index}", each) for index, each in enumerate(values))


def labels_of(values: Labelled) -> tuple[str, ...]:
    return tuple(label for label, _ in values)


def exposing(node: Node, column: Column) -> Node | None:  # noqa: PLR0911 - a case a kind of node
    """Return rows that also have a column of a node below; None if it is not there any more."""
    if column in columns_of(node):
        return node
    match node:
        case Project():
            below = exposing(node.input, column)
            if below is None:
                return None
            return replace(node, input=below, outputs=(*node.outputs, Assignment(column, column)))
        case Filter() | PlainTimes() | Unnest() | TableFunction() | Window() | MarkedWindows():
            below = exposing(node.input, column)
            return None if below is None else replace(node, input=below)
        case Join() if node.kind in (JoinKind.INNER, JoinKind.LEFT):
            left = exposing(node.left, column)
            if left is not None:
                return replace(node, left=left)
            right = exposing(node.right, column) if node.kind is JoinKind.INNER else None
            return None if right is None else replace(node, right=right)
        case _:
            return None


def with_offsets(
    node: Node, context: PassContext, *, is_for_operator: bool = False
) -> tuple[Node, tuple[Column, ...]]:
    """Return rows with the topic partition and the offset of their record; no columns if they have none.

    A row of a stream beside a query in an expression comes when the query has its partners. So offsets do
    not order such rows.

    `is_for_operator`: whether they are for the operator that makes a correct changelog of the records.
    """
    if context.traits(node).is_stream and has_queries(node):
        return node, ()
    match node:
        case Scan() if node.source.has_offsets and (is_for_operator or not node.source.is_normalized):
            known = {each.name: each for each in node.columns}
            kinds: tuple[FlinkType, ...] = (INT, BIGINT)
            pair = tuple(
                known.get(name) or context.column(name, kind)
                for name, kind in zip(OFFSETS, kinds, strict=True)
            )
            more = tuple(each for each in pair if each.name not in known)
            return replace(node, columns=(*node.columns, *more)), pair
        case _:
            return _passed_on(node, lambda below: with_offsets(below, context))


def with_place(node: Node, context: PassContext) -> tuple[Node, tuple[Column, ...]]:
    """Return the rows of one table with the place that they were read from; no columns if they have none."""
    if has_queries(node):
        return node, ()
    if isinstance(node, Scan) and node.source.has_place:
        place = context.column(PLACE, STRING)
        return replace(node, columns=(*node.columns, place)), (place,)
    return _passed_on(node, lambda below: with_place(below, context))


def _passed_on(
    node: Node, added: Callable[[Node], tuple[Node, tuple[Column, ...]]]
) -> tuple[Node, tuple[Column, ...]]:
    """Return a projection or condition that passes on what its input was given; any other node as it is."""
    match node:
        case Filter() | Watermark():
            below, found = added(node.input)
            return replace(node, input=below), found
        case Project():
            below, found = added(node.input)
            kept = copies(each for each in found if each not in columns_of(node))
            return replace(node, input=below, outputs=(*node.outputs, *kept)), found
        case _:
            return node, ()


def defined(node: Node, column: Column) -> Expression:
    """Return what a column was computed of, below projections and conditions; itself if nothing tells."""
    match node:
        case Project():
            for each in node.outputs:
                if each.column == column:
                    value = each.expression
                    return defined(node.input, value) if isinstance(value, Column) else value
            return column
        case Filter() | PlainTimes() | Unnest() | TableFunction():
            return defined(node.input, column)
        case Join():
            return defined(node.left if column in columns_of(node.left) else node.right, column)
        case _:
            return column


def window_of(node: Node, column: Column) -> tuple[Column, str] | None:
    """Return the window that a column is a part of, and the part; None for another column."""
    found = defined(node, column)
    if isinstance(found, Call) and found.name in ("window_start", "window_end", "window_time"):
        window = found.args[0]
        return (window, found.name) if isinstance(window, Column) else None
    return None


def ordered(
    items: Sequence[SortItem], context: PassContext, prefix: str = "o"
) -> tuple[list[tuple[str, Expression]], list[tuple[str, bool]]]:
    """Return the columns of an order, labelled `o0`, `o0n` and so on, and the order by them.

    `o0n` puts nulls to where the order wants them, if they are not there anyway: null is the lowest value.
    """
    columns: list[tuple[str, Expression]] = []
    order: list[tuple[str, bool]] = []
    for index, each in enumerate(items):
        name = f"{prefix}{index}"
        if each.nulls_first is not None and each.nulls_first is each.is_descending:
            first = (0, 1) if each.nulls_first else (1, 0)
            columns.append(
                (f"{name}n", context.call("nulls", _NULL_ORDER.format(*first), (each.expression,), INT))
            )
            order.append((f"{name}n", False))
        columns.append((name, each.expression))
        order.append((name, each.is_descending))
    return columns, order


def input_with(node: Node, values: Labelled, context: PassContext) -> Input:
    """Return rows with these values under their labels."""
    node, columns = context.with_expressions(node, tuple(value for _, value in values), "value")
    return Input(node, tuple(zip(labels_of(values), columns, strict=True)))
