"""Fields of ROWs: a table is read with those fields of a ROW that the query uses.

Runs on the driver. Invariant: a ROW is narrowed only where the plan takes nothing but fields of it. A ROW
that is written, compared, kept by an operator or given to a function is read whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from dataclasses import replace

from penstock.sql.language.flink_types import FlinkType
from penstock.sql.plan.expressions import Call, Column, Expression, FieldOf, children_of
from penstock.sql.plan.nodes import Node, Output, Project, Scan
from penstock.sql.plan.rewrite import every_node, expressions_of, kept_by, transformed_below

Path = tuple[str, ...]
"""The names of a field, of a field of that field and so on, in small letters; () is the whole value."""


def prune_fields(plan: Output) -> Output:
    """Return a plan whose scans name, in the types of their columns, the fields that the query uses."""
    paths: dict[Column, set[Path]] = defaultdict(set)
    for node in every_node(plan):
        for column, path, _ in taken_by(node):
            paths[column].add(path)
    return transformed_below(
        plan, lambda node: _narrowed_scan(node, paths) if isinstance(node, Scan) else node
    )


def taken_by(node: Node) -> Iterator[tuple[Column, Path, Expression]]:
    """Yield what a node takes of each column: a path, and its value. A ROW that is passed on is not taken."""
    for column in kept_by(node):
        yield column, (), column
    if isinstance(node, Project):
        for each in node.outputs:
            if each.expression != each.column:
                yield from _paths_in(each.expression)
        return
    for expression in expressions_of(node):
        yield from _paths_in(expression)


def _paths_in(expression: Expression) -> Iterator[tuple[Column, Path, Expression]]:
    """Yield what an expression takes of each column."""
    base, path = base_of(expression)
    if isinstance(base, Column):
        yield base, path, expression
    for each in children_of(base):
        yield from _paths_in(each)


def base_of(expression: Expression) -> tuple[Expression, Path]:
    """Return what a field is taken of, and the path to the field; () for another expression."""
    if isinstance(expression, Call) and isinstance(expression.function, FieldOf):
        base, path = base_of(expression.args[0])
        return base, (*path, expression.function.field.lower())
    return expression, ()


def _narrowed_scan(node: Scan, paths: Mapping[Column, Set[Path]]) -> Scan:
    columns = tuple(
        replace(each, type=_narrowed(each.type, paths[each])) if paths.get(each) else each
        for each in node.columns
    )
    # Types do not count where columns are compared.
    return replace(node, columns=columns)


def _narrowed(kind: FlinkType, paths: Set[Path]) -> FlinkType:
    """Return a type with the fields at these paths."""
    if kind.name != "ROW" or () in paths:
        return kind
    fields = []
    for each in kind.fields:
        inner = {path[1:] for path in paths if path[0] == each.name.lower()}
        if inner:
            fields.append(replace(each, type=_narrowed(each.type, inner)))
    return replace(kind, fields=tuple(fields))
