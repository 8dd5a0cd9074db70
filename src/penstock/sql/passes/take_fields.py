"""Fields of ROWs are taken below a join or a Top-N, so that these keep plain columns.

Runs on the driver. Invariant: the rows stay the same. A ROW stays whole where the plan takes more of it than
plain fields, e.g. where it is written, compared or tested for NULL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.sql.passes.context import PassContext
from penstock.sql.passes.prune_fields import Path, base_of, taken_by
from penstock.sql.plan.expressions import Column, Expression, QueryCall, rewritten, walk
from penstock.sql.plan.nodes import Apply, Assignment, Join, Node, Output, Project, Rank, copies
from penstock.sql.plan.rewrite import (
    columns_of,
    every_node,
    expressions_of,
    inputs_of,
    with_expressions,
    with_inputs,
)

Fields = dict[Column, dict[Path, Expression]]
"""The ROWs of which only plain fields are taken, and these fields."""
Taken = dict[Column, dict[Path, Column]]
"""The ROWs that are gone, and the columns that have their fields."""
_KEEPING = (Join, Rank)
_NESTED = ("ROW", "ARRAY", "MAP", "MULTISET", "VARIANT")


def take_fields(plan: Output, context: PassContext) -> Output:
    """Return a plan whose joins and ranks keep fields of ROWs in place of the ROWs."""
    nodes = list(every_node(plan))
    if not any(isinstance(each, _KEEPING) for each in nodes) or any(map(_has_query, nodes)):
        return plan
    found, _ = _taken(plan.input, _fields(plan), context)
    return replace(plan, input=found)


def _has_query(node: Node) -> bool:
    """Return whether rows of a node are those around a query."""
    parts = (part for each in expressions_of(node) for part in walk(each))
    return isinstance(node, Apply) or any(isinstance(part, QueryCall) for part in parts)


def _fields(plan: Output) -> Fields:
    """Return the ROWs of which all nodes take plain fields."""
    fields: Fields = {}
    whole: set[Column] = set()
    for node in every_node(plan):
        for column, path, expression in taken_by(node):
            if column.type.name != "ROW":
                continue
            if not path or expression.type.name in _NESTED:
                whole.add(column)
            fields.setdefault(column, {})[path] = expression
    return {column: paths for column, paths in fields.items() if column not in whole}


def _taken(node: Node, fields: Fields, context: PassContext) -> tuple[Node, Taken]:
    """Return a node that takes fields early, and the ROWs that it does not have any more."""
    taken: Taken = {}
    inputs = []
    for each in inputs_of(node):
        made, gone = _taken(each, fields, context)
        taken |= gone
        if isinstance(node, _KEEPING):
            made, gone = _projected(made, fields, context)
            taken |= gone
        inputs.append(made)
    node = with_inputs(node, tuple(inputs))
    if not taken:
        return node, taken
    if isinstance(node, Project):
        node = replace(node, outputs=tuple(one for each in node.outputs for one in _passed(each, taken)))
    return with_expressions(node, lambda each: _with_columns(each, taken)), taken


def _projected(node: Node, fields: Fields, context: PassContext) -> tuple[Node, Taken]:
    """Return rows with the fields of their ROWs, and these columns."""
    columns = columns_of(node)
    taken: Taken = {
        row: {path: context.column(path[-1], each.type) for path, each in fields[row].items()}
        for row in columns
        if row in fields
    }
    if not taken:
        return node, taken
    made = [
        Assignment(column, fields[row][path])
        for row, of_row in taken.items()
        for path, column in of_row.items()
    ]
    return Project(node, (*copies(each for each in columns if each not in taken), *made)), taken


def _passed(output: Assignment, taken: Mapping[Column, Mapping[Path, Column]]) -> tuple[Assignment, ...]:
    """Return the columns of a projection that has passed a ROW on."""
    if output.column != output.expression or output.column not in taken:
        return (output,)
    return copies(taken[output.column].values())


def _with_columns(expression: Expression, taken: Mapping[Column, Mapping[Path, Column]]) -> Expression:
    """Return an expression that takes columns in place of fields."""

    def change(part: Expression) -> Expression | None:
        base, path = base_of(part)
        return taken[base].get(path) if isinstance(base, Column) and base in taken else None

    return rewritten(expression, change)
