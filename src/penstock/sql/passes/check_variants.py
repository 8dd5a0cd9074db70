"""VARIANT where rows are compared or kept.

Runs on the driver. Invariant: no key, no order and no operator of penstock has a VARIANT. Spark does not
compare it, and the states of operators do not have it.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.sql.language.flink_types import FlinkType
from penstock.sql.passes.context import PassContext
from penstock.sql.plan.expressions import Expression
from penstock.sql.plan.nodes import (
    Aggregate,
    Distinct,
    Node,
    Output,
    Over,
    Rank,
    SetKind,
    SetOperation,
    Sort,
    Stateful,
)
from penstock.sql.plan.rewrite import every_node

_REFUSED = (
    "a VARIANT is compared or kept here, which is not served. Write JSON_STRING(v) before it, and PARSE_JSON "
    "of the text behind it."
)


_COMPARING = ("MIN", "MAX")


def check_variants(plan: Output, context: PassContext) -> Output:
    """Return the plan.

    Raises:
        SqlError: a VARIANT is compared or kept.
    """
    for node in every_node(plan):
        if any(_has_variant(each) for each in _compared(node)):
            context.refuse(getattr(node, "offset", -1), _REFUSED)
    return plan


def _compared(node: Node) -> Iterator[FlinkType]:
    """Yield the types of the values that a node compares or keeps."""
    values: tuple[Expression, ...] = ()
    match node:
        case Stateful():
            values = tuple(column for each in node.inputs for _, column in each.columns)
        case Aggregate():
            calls = [each.call for each in node.calls]
            compared = [each for each in calls if each.is_distinct or each.name in _COMPARING]
            keys = (each.expression for each in node.keys)
            values = (*keys, *(argument for each in compared for argument in each.args))
        case Distinct():
            values = node.columns
        case SetOperation() if not (node.kind is SetKind.UNION and node.is_all):
            values = node.columns
        case Sort():
            values = tuple(each.expression for each in node.items)
        case Rank():
            values = (*node.partition, *(each.expression for each in node.order))
        case Over():
            values = tuple(
                value
                for each in node.calls
                for value in (*each.call.partition, *(item.expression for item in each.call.order))
            )
        case _:
            pass
    yield from (each.type for each in values)


def _has_variant(kind: FlinkType) -> bool:
    inner = (*kind.elements, *(each.type for each in kind.fields))
    return kind.name == "VARIANT" or any(map(_has_variant, inner))
